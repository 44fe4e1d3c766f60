//! Wire formats of the batches: JSON, compressed, protobuf, many batches per request, or over a
//! WebSocket.

use std::fmt;
use std::io::Write;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::http::{Answer, Connection};
use super::socket::Socket;
use super::target::{Stream, Target};
use crate::body::{BatchWriter, Mix};
use crate::names;

/// The number of lines in an NDJSON request.
pub(super) const LINES: usize = 32;

/// A wire format for batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// One batch per request, as JSON.
    #[default]
    Json,
    /// One batch per request, as compressed JSON.
    Gzip,
    /// One batch per request, as protobuf.
    Protobuf,
    /// 32 batches of different sessions per request, as JSON lines.
    Ndjson,
    /// One batch per message, as protobuf, over one connection per session.
    Websocket,
}

const NAMES: [(&str, Format); 5] = [
    ("json", Format::Json),
    ("gzip", Format::Gzip),
    ("protobuf", Format::Protobuf),
    ("ndjson", Format::Ndjson),
    ("websocket", Format::Websocket),
];

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        names::find(&NAMES, text)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(names::name_of(&NAMES, self))
    }
}

/// Sends the batches of one connection's sessions.
#[derive(Debug)]
pub struct Sender {
    format: Format,
    headers: String,
    writer: BatchWriter,
    body: Vec<u8>,
    /// The WebSocket of each session, by index, opened on demand.
    sockets: Vec<Option<Socket>>,
    turn: usize,
}

impl Sender {
    /// Creates the sender of a connection with `sessions` sessions.
    #[must_use]
    pub fn new(format: Format, mix: Mix, target: &Target, sessions: usize) -> Self {
        let media_type = match format {
            Format::Json | Format::Gzip => "application/json",
            Format::Protobuf | Format::Websocket => "application/x-protobuf",
            Format::Ndjson => "application/x-ndjson",
        };
        let coding = if format == Format::Gzip {
            "content-encoding: gzip\r\n"
        } else {
            ""
        };
        Self {
            format,
            headers: format!("content-type: {media_type}\r\n{coding}{}", target.headers()),
            writer: BatchWriter::of(mix),
            body: Vec::new(),
            sockets: (0..sessions).map(|_| None).collect(),
            turn: 0,
        }
    }

    /// Returns the number of batches in the next exchange.
    #[must_use]
    pub fn batches(&self) -> u32 {
        if self.format == Format::Ndjson {
            LINES as u32
        } else {
            1
        }
    }

    /// Sends the next batch or NDJSON request and waits for the responses. Each accepted batch
    /// advances its session by one.
    ///
    /// # Errors
    ///
    /// Returns an error if a response is incomplete.
    pub async fn exchange(
        &mut self,
        connection: &mut Connection,
        streams: &mut [Stream],
    ) -> anyhow::Result<Vec<Answer>> {
        if self.format == Format::Ndjson {
            return self.lines(connection, streams).await;
        }
        let index = self.turn % streams.len().max(1);
        self.turn += 1;
        let stream = streams.get_mut(index).context("no session")?;
        let answer = match self.format {
            Format::Websocket => self.message(index, connection, stream).await?,
            _ => {
                self.write_body(stream.seq)?;
                connection
                    .request("POST", &stream.path, &self.headers, &self.body)
                    .await?
            }
        };
        stream.seq += u32::from(answer.status == 202);
        Ok(vec![answer])
    }

    fn write_body(&mut self, seq: u32) -> anyhow::Result<()> {
        self.body.clear();
        match self.format {
            Format::Protobuf | Format::Websocket => {
                self.body.extend_from_slice(self.writer.write_protobuf(seq));
            }
            Format::Gzip => {
                let mut coder = GzEncoder::new(&mut self.body, Compression::fast());
                coder.write_all(self.writer.write(seq))?;
                coder.finish()?;
            }
            Format::Json | Format::Ndjson => self.body.extend_from_slice(self.writer.write(seq)),
        }
        Ok(())
    }

    async fn message(
        &mut self,
        index: usize,
        connection: &Connection,
        stream: &Stream,
    ) -> anyhow::Result<Answer> {
        self.write_body(stream.seq)?;
        let socket = self.sockets.get_mut(index).context("no session")?;
        let open = match socket.take() {
            Some(open) => open,
            None => Socket::open(connection.address(), &stream.path, &self.headers).await?,
        };
        let (answer, open) = open.exchange(&self.body).await?;
        *socket = Some(open);
        Ok(answer)
    }

    async fn lines(
        &mut self,
        connection: &mut Connection,
        streams: &mut [Stream],
    ) -> anyhow::Result<Vec<Answer>> {
        ensure!(
            streams.len() >= LINES,
            "NDJSON takes {LINES} sessions for each connection"
        );
        let indices: Vec<_> = (0..LINES)
            .map(|line| (self.turn + line) % streams.len())
            .collect();
        self.turn += LINES;
        self.body.clear();
        for &index in &indices {
            let stream = streams.get(index).context("no session")?;
            let session = stream.session()?;
            let batch = self.writer.write(stream.seq);
            let rest = batch.strip_prefix(b"{").context("no object")?;
            write!(self.body, "{{\"sessionId\":\"{session}\",")?;
            self.body.extend_from_slice(rest);
            self.body.push(b'\n');
        }
        let answer = connection
            .request("POST", "/v1/telemetry", &self.headers, &self.body)
            .await?;
        if answer.status != 200 {
            bail!("NDJSON: {}", answer.status);
        }
        let mut answers = Vec::new();
        for (line, index) in answer.body.split(|&byte| byte == b'\n').zip(indices) {
            let line: serde_json::Value = serde_json::from_slice(line)?;
            let status = line.get("status").and_then(serde_json::Value::as_u64);
            let status = u16::try_from(status.context("no status")?)?;
            if let Some(stream) = streams.get_mut(index) {
                stream.seq += u32::from(status == 202);
            }
            answers.push(Answer {
                status,
                has_retry_after: false,
                body: Vec::new(),
            });
        }
        ensure!(answers.len() == LINES, "{} answers", answers.len());
        Ok(answers)
    }
}
