//! A customer's receiver that keeps its requests, and the checks of its messages.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::AsyncWriteExt as _;

use crate::fixed::assert_webhook_request;
use crate::receiver::{Authority, OK, Receiver, Shown, read_request};

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReceivedMessage {
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

impl ReceivedMessage {
    fn read(request: &str) -> (String, Self) {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let message = Self {
            number: header(head, "x-service-sequence").parse().unwrap(),
            id: header(head, "x-service-delivery-id").to_owned(),
            event: header(head, "x-service-event").to_owned(),
            body: body.to_owned(),
        };
        (header(head, "x-service-delivery").to_owned(), message)
    }
}

/// The results of the check of a customer's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct MessageCounts {
    /// The number of messages.
    pub(super) messages: usize,
    /// The number of messages that arrived again, with the same id and the same body.
    pub(super) repeated: usize,
    /// The number of repeated messages that arrived after a later one of their session.
    pub(super) out_of_order: usize,
}

/// A running receiver.
pub(super) struct Inbox {
    receiver: Receiver,
    /// The messages of all checked sessions.
    checked: RefCell<BTreeMap<String, Vec<ReceivedMessage>>>,
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
            checked: RefCell::default(),
            _runtime: runtime,
        }
    }

    pub(super) fn url(&self) -> String {
        self.receiver.local_url()
    }

    /// Returns the number of different messages received.
    pub(super) fn distinct_count(&self) -> usize {
        let requests = self.receiver.requests.lock().unwrap();
        let ids = requests
            .iter()
            .map(|request| ReceivedMessage::read(request).1.id);
        ids.collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Checks the messages of these sessions, and clears all received ones: each session's messages
    /// are there, in order, and duplicates are identical. A message of a session that was checked
    /// before is a duplicate: its sender has lost the answer.
    pub(super) fn check(&self, sessions: &[String]) -> MessageCounts {
        let requests = std::mem::take(&mut *self.receiver.requests.lock().unwrap());
        let mut of_sessions: BTreeMap<String, Vec<ReceivedMessage>> = BTreeMap::new();
        for request in &requests {
            assert_webhook_request(request);
            let (session_id, message) = ReceivedMessage::read(request);
            of_sessions.entry(session_id).or_default().push(message);
        }
        let mut found = MessageCounts::default();
        for session_id in sessions {
            let received = of_sessions.remove(session_id).unwrap_or_default();
            let mut first: Vec<&ReceivedMessage> = Vec::new();
            for message in &received {
                match first.iter().find(|first| first.number == message.number) {
                    None => first.push(message),
                    Some(before) => {
                        assert_eq!(**before, *message, "two messages have the same number");
                        found.repeated += 1;
                        let last = first.last().map(|last| last.number);
                        found.out_of_order += usize::from(last > Some(message.number));
                    }
                }
            }
            let events: Vec<_> = first
                .iter()
                .map(|message| (message.number, message.event.as_str()))
                .collect();
            let expected = [
                (0, "session.started"),
                (1, "session.stopped"),
                (2, "insight.updated"),
            ];
            assert_eq!(events, expected, "messages of {session_id}");
            found.messages += events.len();
            let first = first.into_iter().cloned().collect();
            self.checked.borrow_mut().insert(session_id.clone(), first);
        }
        let checked = self.checked.borrow();
        for (session_id, again) in of_sessions {
            let first = checked.get(&session_id);
            for message in again {
                assert!(
                    first.is_some_and(|first| first.contains(&message)),
                    "{session_id} is unknown, or its message has changed: {message:?}"
                );
                found.repeated += 1;
            }
        }
        found
    }
}
