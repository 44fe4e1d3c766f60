//! A DNS server that a test controls: a function decides its answers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::UdpSocket;

/// The way in which a name server responds to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The server never answers.
    Never,
    /// The server answers with an IPv4 address and a time to live in seconds.
    Address(Ipv4Addr, u32),
    /// The server answers with an IPv4 address after a delay.
    Late(Ipv4Addr, Duration),
    /// The name does not exist.
    NoSuchName,
    /// The name exists and has no address.
    NoAddress,
    /// The server answers that it failed (SERVFAIL).
    Failure,
}

type Behave = dyn Fn(&str) -> Reply + Send + Sync;

/// A name server that runs as long as the test's runtime.
pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    /// The number of questions for addresses so far.
    pub(crate) question_count: Arc<AtomicUsize>,
    behave: Arc<Mutex<Arc<Behave>>>,
}

/// Returns the name in the question that stands at byte 12 of a packet, its type, and the position
/// after it.
fn question(packet: &[u8]) -> Option<(String, u16, usize)> {
    let (mut name, mut at) = (String::new(), 12);
    loop {
        let length = usize::from(*packet.get(at)?);
        let label = packet.get(at + 1..at + 1 + length)?;
        at += 1 + length;
        if length == 0 {
            break;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(&String::from_utf8_lossy(label).to_lowercase());
    }
    let kind = u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]);
    Some((name, kind, at + 4))
}

fn answer(packet: &[u8], end: usize, code: u8, address: Option<(Ipv4Addr, u32)>) -> Vec<u8> {
    let mut answer = packet[..end].to_vec();
    // The flags of an answer with recursion and its code, one question, and no record in the other
    // sections.
    answer[2..12].copy_from_slice(&[0x81, 0x80 | code, 0, 1, 0, 0, 0, 0, 0, 0]);
    if let Some((address, ttl)) = address {
        answer[7] = 1;
        answer.extend([0xC0, 12, 0, 1, 0, 1]);
        answer.extend(ttl.to_be_bytes());
        answer.extend([0, 4]);
        answer.extend(address.octets());
    }
    answer
}

impl NameServer {
    pub(crate) async fn start(behave: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (socket, address) = (Arc::new(socket), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let address = SocketAddr::new(address, socket.local_addr().unwrap().port());
        let question_count = Arc::new(AtomicUsize::new(0));
        let behave: Arc<Mutex<Arc<Behave>>> = Arc::new(Mutex::new(Arc::new(behave)));
        let (count, how) = (Arc::clone(&question_count), Arc::clone(&behave));
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            while let Ok((read, from)) = socket.recv_from(&mut buffer).await {
                let packet = buffer[..read].to_vec();
                let Some((name, kind, end)) = question(&packet) else {
                    continue;
                };
                let is_for_addresses = kind == 1;
                count.fetch_add(usize::from(is_for_addresses), Ordering::SeqCst);
                let behave = Arc::clone(&how.lock().unwrap());
                let reply = behave(&name);
                let (code, address, wait) = match reply {
                    Reply::Never => continue,
                    Reply::Address(address, ttl) => (0, Some((address, ttl)), Duration::ZERO),
                    Reply::Late(address, wait) => (0, Some((address, 0)), wait),
                    Reply::NoSuchName => (3, None, Duration::ZERO),
                    Reply::NoAddress => (0, None, Duration::ZERO),
                    Reply::Failure => (2, None, Duration::ZERO),
                };
                let address = address.filter(|_| is_for_addresses);
                let answer = answer(&packet, end, code, address);
                let socket = Arc::clone(&socket);
                tokio::spawn(async move {
                    tokio::time::sleep(wait).await;
                    socket.send_to(&answer, from).await.unwrap();
                });
            }
        });
        Self {
            address,
            question_count,
            behave,
        }
    }

    /// Replaces the function that computes the replies.
    pub(crate) fn behave(&self, behave: impl Fn(&str) -> Reply + Send + Sync + 'static) {
        *self.behave.lock().unwrap() = Arc::new(behave);
    }

    pub(crate) fn question_count(&self) -> usize {
        self.question_count.load(Ordering::SeqCst)
    }
}
