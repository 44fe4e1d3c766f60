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

/// Answers each request immediately, with these exceptions: it never answers those to `/hang`, it
/// answers those to `/slow` after a while, and after one to `/busy` it does nothing for a while,
/// not even answer pings. Returns its port and the count of its connections.
async fn receiver(authority: &Authority) -> (u16, Arc<AtomicUsize>) {
    let acceptor = authority.offering(&["h2", "http/1.1"]);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let acceptor = acceptor.clone();
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
                    let is_slow = request.uri().path() == "/slow";
                    if request.uri().path() == "/busy" {
                        tokio::time::sleep(BUSY).await;
                    }
                    tokio::spawn(async move {
                        if is_slow {
                            tokio::time::sleep(SLOW).await;
                        }
                        let answer = http::Response::builder().status(202).body(()).unwrap();
                        let mut body = respond.send_response(answer, false).unwrap();
                        body.send_data("ok".into(), true).unwrap();
                    });
                }
            });
        }
    });
    (port, connections)
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_share_a_connection_and_do_not_wait_for_each_other() {
    let authority = Authority::new();
    let (port, connections) = receiver(&authority).await;
    let transport = Arc::new(transport(&authority));
    let url = format!("https://{HOST}:{port}/hook");
    assert_eq!(transport.send(request(&url)).await.status_code, Some(202));
    let hang = format!("https://{HOST}:{port}/hang");
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
    assert_eq!(connections.load(Ordering::SeqCst), 1);
    assert_eq!(hanging.await.unwrap().cause, Some(Cause::Timeout));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_answers_no_pings_has_the_whole_time_of_an_attempt() {
    let authority = Authority::new();
    let (port, _) = receiver(&authority).await;
    let url = format!("https://{HOST}:{port}/busy");
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

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_begins_after_the_wait_for_a_permit() {
    let authority = Authority::new();
    let (port, _) = receiver(&authority).await;
    let transport = Arc::new(transport(&authority));
    let url = format!("https://{HOST}:{port}/slow");
    let mut sending = tokio::task::JoinSet::new();
    for _ in 0..=TENANT_ATTEMPTS_IN_FLIGHT_MAX {
        let (transport, url) = (Arc::clone(&transport), url.clone());
        sending.spawn(async move { transport.send(request(&url)).await });
    }
    let (mut answered, mut waited) = (0, 0);
    while let Some(answer) = sending.join_next().await {
        let answer = answer.unwrap();
        // On a busy machine the receiver answers some attempts too late.
        let is_answered = answer.status_code == Some(202);
        assert!(is_answered || has_timed_out(&answer), "{answer:?}");
        answered += usize::from(is_answered);
        waited += u32::from(u128::from(answer.waited_ms) >= SLOW.as_millis() / 2);
        assert!(u128::from(answer.duration_ms) >= SLOW.as_millis());
    }
    assert_eq!(waited, 1);
    assert!(
        answered > TENANT_ATTEMPTS_IN_FLIGHT_MAX / 2,
        "{answered} answers"
    );
}
