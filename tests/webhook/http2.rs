//! A receiver that offers HTTP/2 gets it: attempts share one connection, and an unanswered attempt
//! does not block the others.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use porchlight_core::webhook::Cause;
use porchlight_ports::Transport;
use tokio::net::TcpListener;

use crate::receiver::{Authority, HOST, request, transport};

/// Answers each request immediately, except those to `/hang`, which it never answers. Returns its
/// port and the count of its connections.
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
                let mut connection = h2::server::handshake(stream).await.unwrap();
                let mut unanswered = Vec::new();
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    if request.uri().path() == "/hang" {
                        unanswered.push(respond);
                        continue;
                    }
                    let answer = http::Response::builder().status(202).body(()).unwrap();
                    let mut body = respond.send_response(answer, false).unwrap();
                    body.send_data("ok".into(), true).unwrap();
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
