//! A keep-alive HTTP/1.1 client that supports only the features used by the service's responses.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The maximum size of a response in bytes, head and body.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// An HTTP response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Whether the response had a `Retry-After` header.
    pub has_retry_after: bool,
    /// The response body.
    pub body: Vec<u8>,
}

/// A connection that opens on demand and reopens if the server closed it.
#[derive(Debug)]
pub struct Connection {
    address: SocketAddr,
    stream: Option<TcpStream>,
    received: Vec<u8>,
    request: Vec<u8>,
}

/// Parses the address of a URL of the form `http://127.0.0.1:8080`.
///
/// # Errors
///
/// Returns an error if the URL is invalid or the address is not on the loopback interface.
pub fn loopback_address(url: &str) -> anyhow::Result<SocketAddr> {
    let host = url
        .strip_prefix("http://")
        .context("the URL must begin with http://")?
        .trim_end_matches('/');
    let address: SocketAddr = host
        .parse()
        .with_context(|| format!("{host} is no address and port"))?;
    ensure!(
        address.ip().is_loopback(),
        "{address} is not of the loopback interface"
    );
    Ok(address)
}

impl Connection {
    /// Creates a connection to an address without opening it.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            stream: None,
            received: Vec::new(),
            request: Vec::new(),
        }
    }

    /// Returns the server's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a request and waits for the response. `headers` are complete lines with line endings;
    /// without a `content-type` among them, the body is JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection fails or the response is malformed; the next request
    /// opens a new connection.
    pub async fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> anyhow::Result<Answer> {
        let result = self.exchange(method, path, headers, body).await;
        if result.is_err() {
            self.stream = None;
        }
        result
    }

    async fn exchange(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> anyhow::Result<Answer> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(self.address).await?;
                stream.set_nodelay(true)?;
                stream
            }
        };
        let media_type = if headers.starts_with("content-type:") {
            ""
        } else {
            "content-type: application/json\r\n"
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\n{media_type}content-length: {}\r\n{headers}\r\n",
            self.address,
            body.len(),
        );
        self.request.clear();
        self.request.extend_from_slice(head.as_bytes());
        self.request.extend_from_slice(body);
        stream.write_all(&self.request).await?;
        let (answer, is_last) = read_answer(&mut stream, &mut self.received).await?;
        if !is_last {
            self.stream = Some(stream);
        }
        Ok(answer)
    }
}

/// The parsed head of a response.
struct Head {
    status: u16,
    has_retry_after: bool,
    content_bytes: usize,
    is_chunked: bool,
    /// Whether the server closes the connection after this response.
    is_last: bool,
}

async fn read_answer(
    stream: &mut TcpStream,
    received: &mut Vec<u8>,
) -> anyhow::Result<(Answer, bool)> {
    received.clear();
    let head_bytes = loop {
        if let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        read_more(stream, received).await?;
    };
    let head = parse_head(received.get(..head_bytes).unwrap_or_default())?;
    ensure!(
        head.content_bytes <= ANSWER_BYTES_MAX,
        "an answer of {} bytes",
        head.content_bytes
    );
    if head.is_chunked {
        let body = read_chunks(stream, received, head_bytes).await?;
        return Ok((answer_of(&head, body), head.is_last));
    }
    while received.len() < head_bytes + head.content_bytes {
        read_more(stream, received).await?;
    }
    let body = received
        .get(head_bytes..head_bytes + head.content_bytes)
        .unwrap_or_default()
        .to_vec();
    Ok((answer_of(&head, body), head.is_last))
}

fn answer_of(head: &Head, body: Vec<u8>) -> Answer {
    Answer {
        status: head.status,
        has_retry_after: head.has_retry_after,
        body,
    }
}

/// Reads a chunked body (RFC 9112, section 7.1), starting at an offset in the received bytes.
async fn read_chunks(
    stream: &mut TcpStream,
    received: &mut Vec<u8>,
    mut from: usize,
) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let rest = received.get(from..).unwrap_or_default();
        let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else {
            read_more(stream, received).await?;
            continue;
        };
        let size = std::str::from_utf8(rest.get(..end).unwrap_or_default())?;
        let size = usize::from_str_radix(size, 16).context("no size of a piece")?;
        let (begins, ends) = (from + end + 2, from + end + 2 + size);
        ensure!(ends <= ANSWER_BYTES_MAX, "an answer of {ends} bytes");
        while received.len() < ends + 2 {
            read_more(stream, received).await?;
        }
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(received.get(begins..ends).unwrap_or_default());
        from = ends + 2;
    }
}

async fn read_more(stream: &mut TcpStream, received: &mut Vec<u8>) -> anyhow::Result<()> {
    ensure!(
        received.len() < 2 * ANSWER_BYTES_MAX,
        "the answer has no end"
    );
    if stream.read_buf(received).await? == 0 {
        bail!("closed before the answer was whole");
    }
    Ok(())
}

fn parse_head(head: &[u8]) -> anyhow::Result<Head> {
    let text = std::str::from_utf8(head).context("the head is not text")?;
    let mut lines = text.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .context("no status line")?
        .parse()?;
    let mut parsed = Head {
        status,
        has_retry_after: false,
        content_bytes: 0,
        is_chunked: false,
        is_last: false,
    };
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            parsed.content_bytes = value.parse()?;
        } else if name.eq_ignore_ascii_case("retry-after") {
            parsed.has_retry_after = true;
        } else if name.eq_ignore_ascii_case("connection") {
            parsed.is_last = value.eq_ignore_ascii_case("close");
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            parsed.is_chunked = true;
        }
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_head_is_parsed() {
        let head = parse_head(b"HTTP/1.1 503 Busy\r\nRetry-After: 2\r\nContent-Length: 17\r\nConnection: close\r\n\r\n");
        let head = head.unwrap();
        assert_eq!(
            (
                head.status,
                head.has_retry_after,
                head.content_bytes,
                head.is_last
            ),
            (503, true, 17, true)
        );
        let pieces = parse_head(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert!(!head.is_chunked && pieces.unwrap().is_chunked);
        assert!(parse_head(b"\r\n\r\n").is_err());
    }

    #[test]
    fn only_the_loopback_interface_is_dialled() {
        assert!(loopback_address("http://127.0.0.1:8080").is_ok());
        assert!(loopback_address("http://[::1]:8080/").is_ok());
        for refused in [
            "http://192.0.2.1:80",
            "https://127.0.0.1:1",
            "http://localhost:1",
            "127.0.0.1:1",
        ] {
            assert!(loopback_address(refused).is_err(), "{refused}");
        }
    }
}
