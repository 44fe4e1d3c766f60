//! A minimal WebSocket client for the load generator. It sends whole messages with a mask of zeros,
//! which leaves the payload unchanged (the server still unmasks it).

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::http::Answer;

/// The handshake with the example key of RFC 6455, so that the run is deterministic.
const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const BINARY: u8 = 0x82;
const PING: u8 = 0x89;

/// An open WebSocket.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    received: Vec<u8>,
    out: Vec<u8>,
}

impl Socket {
    /// Opens a WebSocket. `headers` are complete lines with line endings.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not switch protocols.
    pub async fn open(address: SocketAddr, path: &str, headers: &str) -> anyhow::Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n{UPGRADE}{headers}\r\n");
        stream.write_all(head.as_bytes()).await?;
        let mut received = Vec::new();
        let end = loop {
            ensure!(stream.read_buf(&mut received).await? > 0, "closed");
            if let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let is_open = received.starts_with(b"HTTP/1.1 101 ");
        ensure!(
            is_open,
            "no WebSocket: {}",
            String::from_utf8_lossy(&received)
        );
        received.drain(..end);
        Ok(Self {
            stream,
            received,
            out: Vec::new(),
        })
    }

    /// Sends a binary message and waits for the response: status 202 for a binary one, the
    /// problem's status for a text one.
    ///
    /// # Errors
    ///
    /// Returns an error if no response arrives.
    pub async fn exchange(mut self, message: &[u8]) -> anyhow::Result<(Answer, Self)> {
        self.out.clear();
        self.out.extend_from_slice(&[BINARY, 0x80 | 126]);
        let length = u16::try_from(message.len()).context("a long message")?;
        self.out.extend_from_slice(&length.to_be_bytes());
        self.out.extend_from_slice(&[0; 4]);
        self.out.extend_from_slice(message);
        self.stream.write_all(&self.out).await?;
        loop {
            let (kind, body) = self.frame().await?;
            let status = match kind {
                PING => continue,
                BINARY => 202,
                _ => {
                    let problem: serde_json::Value = serde_json::from_slice(&body)?;
                    let status = problem.get("status").and_then(serde_json::Value::as_u64);
                    u16::try_from(status.context("no status")?)?
                }
            };
            let answer = Answer {
                status,
                has_retry_after: true,
                body,
            };
            return Ok((answer, self));
        }
    }

    /// Announces a binary message of `bytes` bytes without sending it.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection fails.
    pub async fn announce(&mut self, bytes: u16) -> anyhow::Result<()> {
        let [high, low] = bytes.to_be_bytes();
        let head = [BINARY, 0x80 | 126, high, low, 0, 0, 0, 0];
        Ok(self.stream.write_all(&head).await?)
    }

    /// Waits until the server closes the connection, without answering its pings.
    pub async fn until_closed(&mut self) {
        while matches!(self.stream.read_buf(&mut self.received).await, Ok(1..)) {
            self.received.clear();
        }
    }

    async fn frame(&mut self) -> anyhow::Result<(u8, Vec<u8>)> {
        loop {
            let (from, length) = match self.received.get(..4) {
                Some(&[_, 126, high, low]) => (4, usize::from(u16::from_be_bytes([high, low]))),
                Some(&[_, 127, ..]) => bail!("a long answer"),
                _ => (2, self.received.get(1).map_or(0, |&length| length.into())),
            };
            if self.received.len() >= 2 && self.received.len() >= from + length {
                let rest = self.received.split_off(from + length);
                let frame = std::mem::replace(&mut self.received, rest);
                let kind = frame.first().copied().unwrap_or_default();
                return Ok((kind, frame.get(from..).unwrap_or_default().to_vec()));
            }
            let read = self.stream.read_buf(&mut self.received).await?;
            ensure!(read > 0, "closed");
        }
    }
}
