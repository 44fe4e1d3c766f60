//! The ways in which the second tenant uses its connections.
//!
//! Each connection has a session of its own. If a conduct has two halves, the connections with an
//! even number hold something back, and the others send.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::http::Connection;
use super::super::socket::Socket;
use super::super::target::{Stream, Target};
use crate::body::BatchWriter;
use crate::names;

/// The silence of a connection that has announced a body, slightly shorter than the service's
/// limit.
pub(super) const SILENT: Duration = Duration::from_secs(9);
/// The interval between the requests of a sending connection.
const BATCH_INTERVAL: Duration = Duration::from_secs(1);
/// The size of an announced body in bytes: the largest that the service takes.
const ANNOUNCED_BYTES: usize = 1024 * 1024;
/// The unpacked size of a compressed batch in bytes: the largest that the service takes.
const UNPACKED_BYTES: usize = 8 * 1024 * 1024;
/// More bytes than a batch of this load has.
const BATCH_BYTES_MAX: usize = 64 * 1024;
/// A second frame of the same body: the spaces after a batch.
static PACKED_SPACES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let spaces = vec![b' '; UNPACKED_BYTES - BATCH_BYTES_MAX];
    compressed(&spaces)
});
/// Bytes of a line that never ends, per chunk.
const CHUNK_BYTES: usize = 32 * 1024;
/// The number of lines in an NDJSON request.
const LINES: u32 = 2;

/// Returns a zstd frame of these bytes.
#[expect(
    clippy::expect_used,
    reason = "without a frame, a run would measure something else"
)]
fn compressed(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("zstd can write to memory")
}

/// A conduct of the second tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conduct {
    /// Half of the connections announce a body of 1 MiB and never send it; half send a batch per
    /// second.
    Announce,
    /// Like [`Conduct::Announce`], with the token of each session in place of the key.
    Tokens,
    /// Like [`Conduct::Announce`], with sessions that have ended.
    Ended,
    /// Half of the connections send NDJSON lines that never end, in chunks of 32 KiB; half send
    /// two lines per second.
    Ndjson,
    /// Every connection sends a batch per second that zstd unpacks to 8 MiB.
    Zstd,
    /// Half of the connections open a WebSocket and never complete a message; half send a message
    /// per second.
    Websocket,
}

const NAMES: [(&str, Conduct); 6] = [
    ("announce", Conduct::Announce),
    ("tokens", Conduct::Tokens),
    ("ended", Conduct::Ended),
    ("ndjson", Conduct::Ndjson),
    ("zstd", Conduct::Zstd),
    ("websocket", Conduct::Websocket),
];

impl Conduct {
    /// Returns every conduct.
    #[must_use]
    pub fn all() -> Vec<Self> {
        NAMES.map(|(_, conduct)| conduct).to_vec()
    }
}

impl FromStr for Conduct {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        names::find(&NAMES, text)
    }
}

impl fmt::Display for Conduct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(names::name_of(&NAMES, self))
    }
}

/// The number of responses to the second tenant, by whether the service accepted its request.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) accepted: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
}

impl Tally {
    /// Counts a response by its status; `None` if none arrived.
    fn count(&self, status: Option<u16>) {
        let counter = match status {
            Some(200 | 202) => &self.accepted,
            Some(_) => &self.refused,
            None => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection of the second tenant with its session.
pub(super) struct Hostile {
    connection: Connection,
    address: SocketAddr,
    stream: Stream,
    /// The header lines that authenticate its requests.
    headers: String,
    /// Whether the connection holds something back instead of sending.
    withholds: bool,
    /// The time from the start of the run to the first request.
    begins_after: Duration,
    tally: Arc<Tally>,
}

impl Hostile {
    /// Starts the session of connection `number` and prepares it for the conduct. The connections
    /// begin one after the other, spread over [`BATCH_INTERVAL`].
    pub(super) async fn begin(
        conduct: Conduct,
        target: &Target,
        (number, connections): (u32, u32),
        tally: &Arc<Tally>,
    ) -> anyhow::Result<Self> {
        let mut connection = Connection::new(target.address);
        let (stream, token) = target.begin_with_token(&mut connection).await?;
        if conduct == Conduct::Ended {
            target.stop(&mut connection, &stream).await?;
        }
        let headers = match conduct {
            Conduct::Tokens => format!("service-key: {token}\r\n"),
            _ => target.headers(),
        };
        Ok(Self {
            connection,
            address: target.address,
            stream,
            headers,
            withholds: number.is_multiple_of(2),
            begins_after: BATCH_INTERVAL * number / connections.max(1),
            tally: Arc::clone(tally),
        })
    }

    /// Follows the conduct in an endless loop.
    pub(super) async fn run(self, conduct: Conduct) {
        tokio::time::sleep(self.begins_after).await;
        match (conduct, self.withholds) {
            (Conduct::Announce | Conduct::Tokens | Conduct::Ended, true) => self.announce().await,
            (Conduct::Ndjson, true) => self.unfinished_lines().await,
            (Conduct::Websocket, true) => self.unfinished_message().await,
            (Conduct::Ndjson, false) => self.lines().await,
            (Conduct::Websocket, false) => self.messages().await,
            (Conduct::Zstd, _) => self.zstd().await,
            (Conduct::Ended | Conduct::Announce | Conduct::Tokens, false) => self.batches().await,
        }
    }

    /// Opens a connection, writes `head`, and returns it. Waits and returns `None` if that fails.
    async fn open(&self, head: &str) -> Option<TcpStream> {
        let opened = async {
            let mut opened = TcpStream::connect(self.address).await?;
            opened.write_all(head.as_bytes()).await?;
            std::io::Result::Ok(opened)
        };
        let opened = opened.await.ok();
        if opened.is_none() {
            tokio::time::sleep(BATCH_INTERVAL).await;
        }
        opened
    }

    /// Opens a WebSocket. Counts a refusal, waits and returns `None` if that fails.
    async fn open_socket(&self, headers: &str) -> Option<Socket> {
        let opened = Socket::open(self.address, &self.stream.path, headers).await;
        let opened = opened.ok();
        if opened.is_none() {
            self.tally.count(Some(429));
            tokio::time::sleep(BATCH_INTERVAL).await;
        }
        opened
    }

    /// Waits for a response on a connection that sends nothing more, and counts it.
    async fn await_refusal(&self, opened: &mut TcpStream) {
        let mut answer = [0; 12];
        let read = tokio::time::timeout(SILENT, opened.read_exact(&mut answer)).await;
        if !matches!(read, Ok(Ok(_))) {
            return;
        }
        let text = answer
            .get(9..)
            .and_then(|code| std::str::from_utf8(code).ok());
        self.tally.count(text.and_then(|code| code.parse().ok()));
        tokio::time::sleep(BATCH_INTERVAL).await;
    }

    async fn announce(self) {
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: load\r\n{}content-type: application/json\r\ncontent-length: {ANNOUNCED_BYTES}\r\n\r\n",
            self.stream.path, self.headers
        );
        loop {
            if let Some(mut opened) = self.open(&head).await {
                self.await_refusal(&mut opened).await;
            }
        }
    }

    async fn unfinished_lines(self) {
        let head = format!(
            "POST /v1/telemetry HTTP/1.1\r\nhost: load\r\n{}content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n",
            self.headers
        );
        let mut chunk = format!("{CHUNK_BYTES:x}\r\n").into_bytes();
        chunk.resize(chunk.len() + CHUNK_BYTES, b' ');
        chunk.extend_from_slice(b"\r\n");
        loop {
            let Some(mut opened) = self.open(&head).await else {
                continue;
            };
            while opened.write_all(&chunk).await.is_ok() {
                let mut answer = [0; 12];
                let read = tokio::time::timeout(BATCH_INTERVAL, opened.read(&mut answer)).await;
                if let Ok(read) = read {
                    let refused = matches!(read, Ok(1..));
                    self.tally.count(refused.then_some(429));
                    tokio::time::sleep(BATCH_INTERVAL).await;
                    break;
                }
            }
        }
    }

    async fn unfinished_message(self) {
        loop {
            let Some(mut opened) = self.open_socket(&self.headers).await else {
                continue;
            };
            self.tally.count(Some(200));
            let announced = opened.announce(u16::MAX).await;
            if announced.is_ok() {
                opened.until_closed().await;
            }
            tokio::time::sleep(BATCH_INTERVAL).await;
        }
    }

    async fn batches(mut self) {
        let mut writer = BatchWriter::default();
        loop {
            let body = writer.write(self.stream.seq).to_vec();
            self.request("", &body).await;
        }
    }

    async fn zstd(mut self) {
        let mut writer = BatchWriter::default();
        loop {
            let batch = writer.write(self.stream.seq);
            let mut body = compressed(batch);
            body.extend_from_slice(&PACKED_SPACES);
            self.request("content-encoding: zstd\r\n", &body).await;
        }
    }

    /// Sends one batch, counts the response, and waits until the next one is due.
    async fn request(&mut self, coding: &str, body: &[u8]) {
        let headers = format!("{coding}{}", self.headers);
        let path = self.stream.path.clone();
        let answer = self.connection.request("POST", &path, &headers, body).await;
        let status = answer.ok().map(|answer| answer.status);
        self.stream.seq += u32::from(status == Some(202));
        self.tally.count(status);
        tokio::time::sleep(BATCH_INTERVAL).await;
    }

    async fn lines(mut self) {
        let mut writer = BatchWriter::default();
        let headers = format!("content-type: application/x-ndjson\r\n{}", self.headers);
        loop {
            let mut body = Vec::new();
            let session = self.stream.session().unwrap_or_default();
            for line in 0..LINES {
                body.extend_from_slice(format!("{{\"sessionId\":\"{session}\",").as_bytes());
                let batch = writer.write(self.stream.seq + line);
                body.extend_from_slice(batch.get(1..).unwrap_or_default());
                body.push(b'\n');
            }
            let answer = self
                .connection
                .request("POST", "/v1/telemetry", &headers, &body);
            let status = answer.await.ok().map(|answer| answer.status);
            self.stream.seq += if status == Some(200) { LINES } else { 0 };
            self.tally.count(status);
            tokio::time::sleep(BATCH_INTERVAL).await;
        }
    }

    async fn messages(mut self) {
        let mut writer = BatchWriter::default();
        let headers = format!("content-type: application/x-protobuf\r\n{}", self.headers);
        loop {
            let Some(mut opened) = self.open_socket(&headers).await else {
                continue;
            };
            while let Ok((answer, again)) = opened
                .exchange(writer.write_protobuf(self.stream.seq))
                .await
            {
                self.tally.count(Some(answer.status));
                self.stream.seq += u32::from(answer.status == 202);
                opened = again;
                tokio::time::sleep(BATCH_INTERVAL).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_conduct_has_a_name() {
        for conduct in Conduct::all() {
            assert_eq!(conduct.to_string().parse(), Ok(conduct));
        }
        assert!("".parse::<Conduct>().is_err());
    }
}
