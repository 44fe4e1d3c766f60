//! A receiver that offers HTTP/2 gets it: attempts share one connection, and an unanswered attempt
//! does not block the others.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use porchlight_core::webhook::Cause;
use porchlight_ports::{Answer, Transport};
use porchlight_schema::limits::{ATTEMPT_MS_MAX, TENANT_ATTEMPTS_IN_FLIGHT_MAX};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::receiver::{Authority, HOST, request, transport};

/// The time after which the receiver answers a request to `/busy`.
const BUSY: Duration = Duration::from_millis(4_200);
/// The time after which the receiver answers a request to `/slow`.
const SLOW: Duration = Duration::from_millis(1_000);
/// The maximum number of attempts until one is answered in time on a busy machine.
const ATTEMPTS_MAX: usize = 10;

/// The HTTP/2 window per connection, as of Go's server. With the protocol's 64 KiB, the concurrent
/// requests of one test exhaust the window and arrive in tiny frames, which the `h2` crate takes
/// for an attack.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// A receiver that offers HTTP/2.
struct Receiver {
    port: u16,
    /// The number of connections.
    connections: Arc<AtomicUsize>,
    /// The number of requests to `/held`.
    held: Arc<AtomicUsize>,
    /// Whether the receiver answers the requests to `/held`.
    release: watch::Sender<bool>,
}

impl Receiver {
    fn url(&self, path: &str) -> String {
        format!("https://{HOST}:{}{path}", self.port)
    }
}

/// Starts a receiver that answers each request immediately, except on four paths. It never answers
/// requests to `/hang`, it answers those to `/held` once they are released, and those to `/slow`
/// after [`SLOW`]. After a request to `/busy` it does nothing for [`BUSY`], and answers not even
/// pings.
async fn receiver(authority: &Authority) -> Receiver {
    let acceptor = authority.offering(&["h2", "http/1.1"]);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let held = Arc::<AtomicUsize>::default();
    let count_held = Arc::clone(&held);
    let (release, released) = watch::channel(false);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let acceptor = acceptor.clone();
            let (count_held, released) = (Arc::clone(&count_held), released.clone());
            tokio::spawn(async move {
                let stream = acceptor.accept(stream).await.unwrap();
                let mut receiver = h2::server::Builder::new();
                receiver.initial_connection_window_size(CONNECTION_WINDOW_BYTES);
                let handshake = receiver.handshake::<_, bytes::Bytes>(stream).await;
                let Ok(mut connection) = handshake else {
                    // The client opened several connections and keeps the first.
                    return;
                };
                let mut unanswered = Vec::new();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    if request.uri().path() == "/hang" {
                        unanswered.push(respond);
                        continue;
                    }
                    let path = request.uri().path().to_owned();
                    if path == "/busy" {
                        tokio::time::sleep(BUSY).await;
                    }
                    if path == "/held" {
                        count_held.fetch_add(1, Ordering::SeqCst);
                    }
                    let mut released = released.clone();
                    tokio::spawn(async move {
                        match &*path {
                            "/slow" => tokio::time::sleep(SLOW).await,
                            "/held" => drop(released.wait_for(|&is| is).await),
                            _ => {}
                        }
                        let answer = http::Response::builder().status(202).body(()).unwrap();
                        let mut body = respond.send_response(answer, false).unwrap();
                        body.send_data("ok".into(), true).unwrap();
                    });
                }
            });
        }
    });
    Receiver {
        port,
        connections,
        held,
        release,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_share_a_connection_and_do_not_wait_for_each_other() {
    let authority = Authority::new();
    let receiver = receiver(&authority).await;
    let transport = Arc::new(transport(&authority));
    let url = receiver.url("/hook");
    assert_eq!(transport.send(request(&url)).await.status_code, Some(202));
    let hang = receiver.url("/hang");
    let hanging = {
        let transport = Arc::clone(&transport);
        tokio::spawn(async move { transport.send(request(&hang)).await })
    };
    for _ in 0..20 {
        let answer = transport.send(request(&url)).await;
        assert_eq!((answer.status_code, answer.cause), (Some(202), None));
        assert_eq!(answer.response.as_deref(), Some("ok"));
    }
    assert!(!hanging.is_finished());
    assert_eq!(receiver.connections.load(Ordering::SeqCst), 1);
    assert_eq!(hanging.await.unwrap().cause, Some(Cause::Timeout));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_answers_no_pings_has_the_whole_time_of_an_attempt() {
    let authority = Authority::new();
    let url = receiver(&authority).await.url("/busy");
    for _ in 0..ATTEMPTS_MAX {
        let answer = transport(&authority).send(request(&url)).await;
        // On a busy machine the answer may come after the whole time.
        if !has_timed_out(&answer) {
            assert_eq!((answer.status_code, answer.cause), (Some(202), None));
            return;
        }
    }
    panic!("no attempt was answered");
}

/// Returns whether an attempt had its whole time and got no answer.
fn has_timed_out(answer: &Answer) -> bool {
    answer.cause == Some(Cause::Timeout) && u64::from(answer.duration_ms) >= ATTEMPT_MS_MAX
}

/// Sends one attempt more than may be in flight, while the receiver holds all others. Returns the
/// answers, that of the additional attempt last, or `None` if the receiver did not get the others in
/// time.
async fn answers_with_one_waiting(authority: &Authority) -> Option<Vec<Answer>> {
    let receiver = receiver(authority).await;
    let transport = Arc::new(transport(authority));
    let send = |path: &str| {
        let (transport, url) = (Arc::clone(&transport), receiver.url(path));
        tokio::spawn(async move { transport.send(request(&url)).await })
    };
    let mut sending: Vec<_> = (0..TENANT_ATTEMPTS_IN_FLIGHT_MAX)
        .map(|_| send("/held"))
        .collect();
    while receiver.held.load(Ordering::SeqCst) < sending.len() {
        if sending.iter().any(tokio::task::JoinHandle::is_finished) {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    sending.push(send("/slow"));
    tokio::time::sleep(SLOW).await;
    receiver.release.send_replace(true);
    let mut answers = Vec::new();
    for answer in sending {
        answers.push(answer.await.unwrap());
    }
    // On a busy machine the receiver answers some attempts too late.
    (!answers.iter().any(has_timed_out)).then_some(answers)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_begins_after_the_wait_for_a_permit() {
    let authority = Authority::new();
    for _ in 0..ATTEMPTS_MAX {
        let Some(answers) = answers_with_one_waiting(&authority).await else {
            continue;
        };
        let has_waited = |answer: &Answer| u128::from(answer.waited_ms) >= SLOW.as_millis() / 2;
        for answer in &answers {
            assert_eq!((answer.status_code, answer.cause), (Some(202), None));
            assert!(u128::from(answer.duration_ms) >= SLOW.as_millis());
        }
        assert_eq!(
            answers.iter().filter(|answer| has_waited(answer)).count(),
            1
        );
        assert!(has_waited(&answers[TENANT_ATTEMPTS_IN_FLIGHT_MAX]));
        return;
    }
    panic!("the receiver never got all attempts in time");
}
