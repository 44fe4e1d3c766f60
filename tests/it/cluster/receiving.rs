//! A customer's receiver that keeps what came, and what its messages must look like.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::AsyncWriteExt as _;

use crate::fixed::assert_webhook_request;
use crate::receiver::{Authority, OK, Receiver, Shown, read_request};

/// A message as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Came {
    number: u32,
    id: String,
    event: String,
    body: String,
}

fn header<'r>(head: &'r str, name: &str) -> &'r str {
    let line = head.lines().find_map(|line| {
        let (key, value) = line.split_once(": ")?;
        key.eq_ignore_ascii_case(name).then_some(value)
    });
    line.unwrap()
}

impl Came {
    fn read(request: &str) -> (String, Self) {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let came = Self {
            number: header(head, "x-service-sequence").parse().unwrap(),
            id: header(head, "x-service-delivery-id").to_owned(),
            event: header(head, "x-service-event").to_owned(),
            body: body.to_owned(),
        };
        (header(head, "x-service-delivery").to_owned(), came)
    }
}

/// What was found in a customer's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Found {
    /// Messages.
    pub(super) messages: usize,
    /// Those that came once more, under the same id and with the same body.
    pub(super) repeated: usize,
    /// Of these: those that came when a later one of their session had come.
    pub(super) went_back: usize,
}

/// A receiver that runs.
pub(super) struct Inbox {
    receiver: Receiver,
    _runtime: tokio::runtime::Runtime,
}

impl Inbox {
    pub(super) fn open(authority: &Authority) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let behave = |mut stream, log: Arc<Mutex<Vec<String>>>| async move {
            while let Some(request) = read_request(&mut stream).await {
                log.lock().unwrap().push(request);
                if stream.write_all(OK.as_bytes()).await.is_err() {
                    return;
                }
            }
        };
        let receiver = runtime.block_on(Receiver::start(authority, Shown::Good, behave));
        Self {
            receiver,
            _runtime: runtime,
        }
    }

    pub(super) fn url(&self) -> String {
        self.receiver.local_url()
    }

    /// How many different messages came.
    pub(super) fn different(&self) -> usize {
        let requests = self.receiver.requests.lock().unwrap();
        let ids = requests.iter().map(|request| Came::read(request).1.id);
        ids.collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Checks what came for these sessions, and forgets all that came: each session's messages are there, in order, and
    /// what came twice is the same.
    pub(super) fn check(&self, sessions: &[String]) -> Found {
        let requests = std::mem::take(&mut *self.receiver.requests.lock().unwrap());
        let mut of_sessions: BTreeMap<String, Vec<Came>> = BTreeMap::new();
        for request in &requests {
            assert_webhook_request(request);
            let (session_id, came) = Came::read(request);
            of_sessions.entry(session_id).or_default().push(came);
        }
        let mut found = Found::default();
        for session_id in sessions {
            let came = of_sessions.remove(session_id).unwrap_or_default();
            let mut first: Vec<&Came> = Vec::new();
            for message in &came {
                match first.iter().find(|first| first.number == message.number) {
                    None => first.push(message),
                    Some(before) => {
                        assert_eq!(**before, *message, "a number was given twice");
                        found.repeated += 1;
                        let last = first.last().map(|last| last.number);
                        found.went_back += usize::from(last > Some(message.number));
                    }
                }
            }
            let told: Vec<_> = first
                .iter()
                .map(|came| (came.number, came.event.as_str()))
                .collect();
            let expected = [
                (0, "session.started"),
                (1, "session.stopped"),
                (2, "insight.updated"),
            ];
            assert_eq!(told, expected, "messages of {session_id}");
            found.messages += told.len();
        }
        assert!(of_sessions.is_empty(), "messages of unknown sessions");
        found
    }
}
