//! A receiver may close a connection that it has kept open while the next request is on its way.
//! Such a request is repeated within its attempt; a failure on a new connection is a failure.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use porchlight_core::webhook::Cause;
use porchlight_ports::{Answer, Transport};
use porchlight_schema::limits::ATTEMPT_MS_MAX;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::receiver::{
    Authority, HOST, OK, Receiver, Shown, Stream, read_request, request, transport,
};

/// The number of deliveries to a receiver that closes after each answer.
const DELIVERIES: usize = 200;

fn outcome(answer: &Answer) -> (Option<Cause>, Option<u16>) {
    (answer.cause, answer.status_code)
}

/// The way in which a receiver ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    HalfClosed,
    Reset,
    NotHttp,
}

impl End {
    async fn apply(self, mut stream: Stream) {
        match self {
            Self::Closed => drop(stream),
            Self::HalfClosed => {
                let _gone = stream.shutdown().await;
                while read_request(&mut stream).await.is_some() {}
            }
            Self::Reset => {
                let (stream, _) = stream.into_inner();
                let _set = stream.set_zero_linger();
            }
            Self::NotHttp => {
                let _gone = stream.write_all(b"garbage\r\n\r\n").await;
                while read_request(&mut stream).await.is_some() {}
            }
        }
    }
}

/// Starts a receiver that answers the first request of the connections with a number below
/// `healthy`, and ends a connection without an answer at each other request.
async fn receiver(authority: &Authority, end: End, healthy: usize) -> Receiver {
    let count = Arc::new(AtomicUsize::new(0));
    Receiver::start(authority, Shown::Good, move |mut stream, log| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        async move {
            for place in 0.. {
                let Some(request) = read_request(&mut stream).await else {
                    return;
                };
                log.lock().unwrap().push(request);
                if place > 0 || number >= healthy {
                    return end.apply(stream).await;
                }
                let _gone = stream.write_all(OK.as_bytes()).await;
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_closes_after_each_answer_gets_every_request_at_the_first_attempt() {
    let authority = Authority::new();
    let receiver = Receiver::start(&authority, Shown::Good, |mut stream, log| async move {
        if let Some(request) = read_request(&mut stream).await {
            log.lock().unwrap().push(request);
            let _gone = stream.write_all(OK.as_bytes()).await;
        }
    })
    .await;
    let transport = transport(&authority);
    for _ in 0..DELIVERIES {
        let answer = transport.send(request(&receiver.url())).await;
        assert_eq!(outcome(&answer), (None, Some(200)), "{answer:?}");
    }
    assert_eq!(receiver.seen(), DELIVERIES);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_lost_on_a_reused_connection_is_repeated_on_a_new_one() {
    let authority = Authority::new();
    for end in [End::Closed, End::HalfClosed, End::Reset] {
        let receiver = receiver(&authority, end, usize::MAX).await;
        let transport = transport(&authority);
        for _ in 0..4 {
            let answer = transport.send(request(&receiver.url())).await;
            assert_eq!(outcome(&answer), (None, Some(200)), "{end:?}: {answer:?}");
        }
        // Every second request is lost once.
        assert_eq!(receiver.seen(), 6, "{end:?}");
        assert_eq!(receiver.connections.load(Ordering::SeqCst), 4, "{end:?}");
        let requests = receiver.requests.lock().unwrap();
        assert!(requests.iter().all(|request| *request == requests[0]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_repeated_once_and_not_after_a_failure_on_a_new_connection() {
    let authority = Authority::new();
    for end in [End::Closed, End::HalfClosed, End::Reset] {
        let receiver = receiver(&authority, end, 1).await;
        let transport = transport(&authority);
        let answer = transport.send(request(&receiver.url())).await;
        assert_eq!(outcome(&answer), (None, Some(200)), "{end:?}");
        for seen in [3, 4] {
            let answer = transport.send(request(&receiver.url())).await;
            assert_eq!(outcome(&answer), (Some(Cause::Protocol), None), "{end:?}");
            assert!(u64::from(answer.duration_ms) < ATTEMPT_MS_MAX, "{end:?}");
            assert_eq!(receiver.seen(), seen, "{end:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_http_is_not_repeated_on_a_new_connection() {
    let authority = Authority::new();
    let receiver = receiver(&authority, End::NotHttp, usize::MAX).await;
    let transport = transport(&authority);
    let answer = transport.send(request(&receiver.url())).await;
    assert_eq!(outcome(&answer), (None, Some(200)));
    let answer = transport.send(request(&receiver.url())).await;
    assert_eq!(outcome(&answer), (Some(Cause::Protocol), None));
    assert_eq!(receiver.seen(), 2);
}

/// The way in which an HTTP/2 receiver refuses a request.
#[derive(Debug, Clone, Copy)]
enum Refusal {
    Dropped,
    StreamReset(h2::Reason),
    ConnectionEnded,
}

/// Starts an HTTP/2 receiver that answers the first request of each connection and refuses the
/// second. Returns its port and the number of requests.
async fn http2_receiver(authority: &Authority, refusal: Refusal) -> (u16, Arc<AtomicUsize>) {
    let acceptor = authority.offering(&["h2"]);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, count) = (acceptor.clone(), Arc::clone(&count));
            tokio::spawn(async move {
                let stream = acceptor.accept(stream).await.unwrap();
                let mut connection = h2::server::handshake(stream).await.unwrap();
                let mut is_first = true;
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    count.fetch_add(1, Ordering::SeqCst);
                    if std::mem::take(&mut is_first) {
                        let answer = http::Response::builder().status(202).body(()).unwrap();
                        respond.send_response(answer, true).unwrap();
                        continue;
                    }
                    match refusal {
                        Refusal::Dropped => return,
                        Refusal::StreamReset(reason) => respond.send_reset(reason),
                        Refusal::ConnectionEnded => {
                            connection.abrupt_shutdown(h2::Reason::NO_ERROR)
                        }
                    }
                }
            });
        }
    });
    (port, requests)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http2_request_is_repeated_unless_the_receiver_failed_it() {
    let authority = Authority::new();
    let failed = (Some(Cause::Protocol), None);
    for (refusal, expected, seen) in [
        (Refusal::Dropped, (None, Some(202)), 3),
        (Refusal::ConnectionEnded, (None, Some(202)), 3),
        (
            Refusal::StreamReset(h2::Reason::REFUSED_STREAM),
            (None, Some(202)),
            3,
        ),
        (Refusal::StreamReset(h2::Reason::INTERNAL_ERROR), failed, 2),
    ] {
        let (port, requests) = http2_receiver(&authority, refusal).await;
        let transport = transport(&authority);
        let url = format!("https://{HOST}:{port}/hook");
        let answer = transport.send(request(&url)).await;
        assert_eq!(outcome(&answer), (None, Some(202)), "{refusal:?}");
        let answer = transport.send(request(&url)).await;
        assert_eq!(outcome(&answer), expected, "{refusal:?}: {answer:?}");
        assert_eq!(requests.load(Ordering::SeqCst), seen, "{refusal:?}");
    }
}
