//! Tests misbehaving receivers. Each attempt ends by itself, with its cause.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use porchlight_core::webhook::Cause;
use porchlight_ports::{Transport, UrlRefused};
use porchlight_schema::limits::{ANSWER_KEPT_BYTES_MAX, ATTEMPT_MS_MAX};
use porchlight_support::free_address::free_address;
use rustls::HandshakeKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::receiver::{
    Authority, BODY, HOST, OK, Receiver, Script, Shown, Stream, read_request, request, tenant,
    transport, transport_with,
};

async fn cause_of<F, D>(behave: F) -> (Option<Cause>, Option<u16>)
where
    F: Fn(Stream) -> D + Send + Sync + 'static,
    D: Future<Output = ()> + Send + 'static,
{
    let authority = Authority::new();
    let behave = Arc::new(behave);
    let receiver = Receiver::start(&authority, Shown::Good, move |mut stream, _| {
        let behave = Arc::clone(&behave);
        async move {
            read_request(&mut stream).await;
            behave(stream).await;
        }
    })
    .await;
    let answer = transport(&authority).send(request(&receiver.url())).await;
    assert!(
        u64::from(answer.duration_ms) <= ATTEMPT_MS_MAX + 1_000,
        "{answer:?}"
    );
    (answer.cause, answer.status_code)
}

async fn write_all(stream: &mut Stream, text: &str) {
    let _gone = stream.write_all(text.as_bytes()).await;
    let _gone = stream.flush().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_receiver_gets_the_request_once_over_one_connection() {
    let authority = Authority::new();
    let receiver = Receiver::answering(&authority, vec![OK.to_owned()]).await;
    let transport = transport(&authority);
    for _ in 0..3 {
        let answer = transport.send(request(&receiver.url())).await;
        assert_eq!((answer.cause, answer.status_code), (None, Some(200)));
        assert_eq!(answer.response.as_deref(), Some("ok"));
        assert!(answer.certificate_ends_at.is_some());
    }
    assert_eq!(receiver.connections.load(Ordering::SeqCst), 1);
    let requests = receiver.requests.lock().unwrap();
    assert_eq!(requests.len(), 3);
    let request = requests[0].to_lowercase();
    assert!(request.starts_with("post /hook http/1.1\r\n"), "{request}");
    for header in [
        "content-type: application/json",
        "x-service-event: session.started",
        "user-agent: porchlight/",
        "host: receiver.example:",
    ] {
        assert!(request.contains(header), "{header} in {request}");
    }
    assert!(request.ends_with(&BODY.to_lowercase()), "{request}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_may_not_begin_opens_no_connection() {
    let authority = Authority::new();
    let receiver = Receiver::answering(&authority, vec![OK.to_owned()]).await;
    let (transport, request) = (transport(&authority), request(&receiver.url()));
    let answer = transport.send_if(request, Box::new(|| false)).await;
    assert_eq!(
        (answer.cause, answer.status_code),
        (Some(Cause::Internal), None)
    );
    assert_eq!(receiver.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_ends_when_its_caller_stops_waiting() {
    let (authority, (state, mut seen)) = (Authority::new(), watch::channel("nothing"));
    let receiver = Receiver::start(&authority, Shown::Good, move |mut stream, _| {
        let state = state.clone();
        async move {
            read_request(&mut stream).await;
            state.send_replace("a request");
            let _ended = stream.read(&mut [0]).await;
            state.send_replace("an end");
        }
    })
    .await;
    let (transport, request) = (transport(&authority), request(&receiver.url()));
    tokio::select! {
        answer = transport.send(request) => panic!("{answer:?}"),
        state = seen.wait_for(|state| *state == "a request") => drop(state.unwrap()),
    }
    // Long before the attempt would time out.
    let within = Duration::from_millis(ATTEMPT_MS_MAX / 2);
    let end = tokio::time::timeout(within, seen.wait_for(|state| *state == "an end"));
    drop(end.await.unwrap().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_never_responds_times_out() {
    let cause = cause_of(|stream| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop(stream);
    });
    assert_eq!(cause.await, (Some(Cause::Timeout), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_sent_byte_by_byte_times_out() {
    let cause = cause_of(|mut stream| async move {
        for byte in "HTTP/1.1 200 OK\r\nx-slow: "
            .bytes()
            .chain(std::iter::repeat(b'a'))
        {
            if stream.write_all(&[byte]).await.is_err() || stream.flush().await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    assert_eq!(cause.await, (Some(Cause::Timeout), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_end_is_a_success_and_is_not_read() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let authority = Authority::new();
    let receiver = Receiver::start(&authority, Shown::Good, move |mut stream, _| {
        let counted = Arc::clone(&counted);
        async move {
            read_request(&mut stream).await;
            write_all(
                &mut stream,
                "HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n",
            )
            .await;
            while stream.write_all(&[b'x'; 16 * 1024]).await.is_ok() {
                counted.fetch_add(16 * 1024, Ordering::SeqCst);
            }
        }
    })
    .await;
    let answer = transport(&authority).send(request(&receiver.url())).await;
    assert_eq!((answer.cause, answer.status_code), (None, Some(200)));
    assert_eq!(answer.response.unwrap(), "x".repeat(ANSWER_KEPT_BYTES_MAX));
    // At most the contents of the socket buffers were sent, out of a gibibyte.
    assert!(sent.load(Ordering::SeqCst) < 16 * 1024 * 1024);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_bytes_of_a_binary_answer_are_kept() {
    let authority = Authority::new();
    let receiver = Receiver::start(&authority, Shown::Good, |mut stream, _| async move {
        read_request(&mut stream).await;
        write_all(
            &mut stream,
            "HTTP/1.1 500 X\r\ncontent-length: 2048\r\n\r\n",
        )
        .await;
        let _gone = stream.write_all(&[b'a', 0xff].repeat(1024)).await;
        let _gone = stream.flush().await;
    })
    .await;
    let answer = transport(&authority).send(request(&receiver.url())).await;
    let kept = "a\u{fffd}".repeat(ANSWER_KEPT_BYTES_MAX / 2);
    assert_eq!(answer.response, Some(kept));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_sent_byte_by_byte_is_a_success() {
    let answer = cause_of(|mut stream| async move {
        write_all(&mut stream, "HTTP/1.1 204 No Content\r\n\r\n").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
    assert_eq!(answer.await, (None, Some(204)));
    let answer = cause_of(|mut stream| async move {
        write_all(
            &mut stream,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .await;
        while stream.write_all(b"1\r\nx\r\n").await.is_ok() && stream.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    assert_eq!(answer.await, (None, Some(200)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_response_body_is_ignored() {
    let answer = cause_of(|mut stream| async move {
        write_all(
            &mut stream,
            "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nfew",
        )
        .await;
    });
    assert_eq!(answer.await, (None, Some(200)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_with_many_headers_is_a_success() {
    let head = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x-more: y\r\n".repeat(500));
    let answer = cause_of(move |mut stream| {
        let head = head.clone();
        async move { write_all(&mut stream, &head).await }
    });
    assert_eq!(answer.await, (None, Some(200)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_or_non_http_response_is_a_protocol_fault() {
    // The receiver closes the connection after the request.
    assert_eq!(
        cause_of(|stream| async move { drop(stream) }).await,
        (Some(Cause::Protocol), None)
    );
    // Half closed: the receiver sends nothing more, but still reads.
    let half_closed = cause_of(|mut stream| async move {
        let _gone = stream.shutdown().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
    assert_eq!(half_closed.await, (Some(Cause::Protocol), None));
    let reset = cause_of(|stream| async move {
        let (stream, _) = stream.into_inner();
        let _set = stream.set_zero_linger();
        drop(stream);
    });
    assert_eq!(reset.await, (Some(Cause::Protocol), None));
    let flood = format!(
        "HTTP/1.1 200 OK\r\n{}\r\n",
        "x-flood: y\r\n".repeat(100_000)
    );
    for text in [
        "garbage\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 two hundred\r\n\r\n",
        &flood,
    ] {
        let text = text.to_owned();
        let cause = cause_of(move |mut stream| {
            let text = text.clone();
            async move {
                write_all(&mut stream, &text).await;
                let mut rest = [0; 1024];
                while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
            }
        });
        assert_eq!(cause.await, (Some(Cause::Protocol), None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_decides_and_redirects_are_not_followed() {
    let authority = Authority::new();
    let target = Receiver::answering(&authority, vec![OK.to_owned()]).await;
    let transport = transport(&authority);
    for (status, cause) in [
        (200, None),
        (202, None),
        (299, None),
        (301, Some(Cause::Redirect)),
        (302, Some(Cause::Redirect)),
        (304, Some(Cause::Redirect)),
        (307, Some(Cause::Redirect)),
        (308, Some(Cause::Redirect)),
        (400, Some(Cause::Status)),
        (404, Some(Cause::Status)),
        (410, Some(Cause::Status)),
        (429, Some(Cause::Status)),
        (500, Some(Cause::Status)),
        (503, Some(Cause::Status)),
    ] {
        let answer = format!(
            "HTTP/1.1 {status} X\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n",
            target.url()
        );
        let receiver = Receiver::answering(&authority, vec![answer]).await;
        let answer = transport.send(request(&receiver.url())).await;
        assert_eq!((answer.status_code, answer.cause), (Some(status), cause));
        assert_eq!(receiver.seen(), 1);
    }
    assert_eq!(target.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_does_not_verify_fails_the_attempt_and_the_probe() {
    let authority = Authority::new();
    let transport = transport(&authority);
    for (shown, reason) in [
        (Shown::Expired, "the certificate has expired"),
        (Shown::SelfSigned, "the certificate is self-signed"),
        (Shown::SelfSignedAuthority, "the certificate is self-signed"),
        (Shown::OtherHost, "the certificate is for another host name"),
    ] {
        let receiver = Receiver::start(&authority, shown, |_, _| async {}).await;
        let answer = transport.send(request(&receiver.url())).await;
        assert_eq!(
            (answer.cause, answer.status_code),
            (Some(Cause::Tls), None),
            "{shown:?}"
        );
        assert_eq!(answer.details.reason.as_deref(), Some(reason));
        let refused = transport.probe(tenant(), &receiver.url()).await;
        assert_eq!(refused, Err(UrlRefused::Certificate(Some(reason))));
        assert_eq!(refused.unwrap_err().to_string(), reason);
    }
    let receiver = Receiver::start(&authority, Shown::Good, |mut stream, log| async move {
        if let Some(request) = read_request(&mut stream).await {
            log.lock().unwrap().push(request);
        }
    })
    .await;
    assert_eq!(transport.probe(tenant(), &receiver.url()).await, Ok(()));
    assert_eq!(receiver.seen(), 0, "a probe sends no request");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_connection_makes_a_full_tls_handshake() {
    let authority = Authority::new();
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&kinds);
    let receiver = Receiver::start(&authority, Shown::Good, move |mut stream, _| {
        let seen = Arc::clone(&seen);
        async move {
            seen.lock()
                .unwrap()
                .push(stream.get_ref().1.handshake_kind());
            read_request(&mut stream).await;
            let last = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            write_all(&mut stream, last).await;
        }
    })
    .await;
    let transport = transport(&authority);
    assert_eq!(transport.probe(tenant(), &receiver.url()).await, Ok(()));
    for _ in 0..3 {
        let answer = transport.send(request(&receiver.url())).await;
        assert_eq!((answer.cause, answer.status_code), (None, Some(200)));
    }
    let kinds = kinds.lock().unwrap();
    assert_eq!(kinds.len(), 4, "each request has a connection of its own");
    assert!(
        kinds
            .iter()
            .all(|kind| *kind != Some(HandshakeKind::Resumed)),
        "{kinds:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn receivers_without_tls_or_a_listener_fail() {
    let authority = Authority::new();
    let transport = transport(&authority);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = format!("https://{HOST}:{}/", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _gone = stream.write_all(OK.as_bytes()).await;
        }
    });
    assert_eq!(
        transport.send(request(&plain)).await.cause,
        Some(Cause::Tls)
    );
    assert_eq!(transport.probe(tenant(), &plain).await, Ok(()));

    let closed = format!("https://{HOST}:{}/", free_address().port());
    assert_eq!(
        transport.send(request(&closed)).await.cause,
        Some(Cause::Connect)
    );
    assert_eq!(
        transport.probe(tenant(), &closed).await,
        Ok(()),
        "an endpoint that does not answer is accepted"
    );

    let unknown = "https://unknown.example/";
    assert_eq!(
        transport.send(request(unknown)).await.cause,
        Some(Cause::Dns)
    );
    assert_eq!(
        transport.probe(tenant(), unknown).await,
        Err(UrlRefused::Unresolved)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_changes_to_a_private_address_is_blocked() {
    let authority = Authority::new();
    let receiver = Receiver::answering(
        &authority,
        vec![format!(
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )],
    )
    .await;
    // The first attempt resolves the name twice, to check and to dial it. Then the name resolves to
    // another address.
    let script = Script::new(vec![vec!["127.0.0.1"], vec!["127.0.0.1"], vec!["10.0.0.1"]]);
    let transport = transport_with(&authority, script);
    assert_eq!(transport.send(request(&receiver.url())).await.cause, None);
    for _ in 0..2 {
        let answer = transport.send(request(&receiver.url())).await;
        assert_eq!(
            (answer.cause, answer.status_code),
            (Some(Cause::BlockedAddress), None)
        );
    }
    // The name has a permitted address at the check, and a forbidden one besides when it is
    // dialled: the addresses of the second lookup are checked too.
    let script = Script::new(vec![
        vec!["127.0.0.1"],
        vec!["127.0.0.1", "169.254.169.254"],
    ]);
    let transport = transport_with(&authority, script);
    assert_eq!(
        transport.send(request(&receiver.url())).await.cause,
        Some(Cause::BlockedAddress)
    );
    assert_eq!(
        transport.probe(tenant(), &receiver.url()).await,
        Err(UrlRefused::Address)
    );
    assert_eq!(receiver.seen(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_in_every_spelling_are_refused() {
    let authority = Authority::new();
    let transport = transport(&authority);
    for host in [
        "10.0.0.1",
        "0x0a.1",
        "167772161",
        "012.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "169.254.169.254",
        "0",
        "[fd00::1]",
        "8.8.8.8",
    ] {
        let url = format!("https://{host}/");
        assert_eq!(
            transport.send(request(&url)).await.cause,
            Some(Cause::BlockedAddress),
            "{host}"
        );
        assert_eq!(
            transport.probe(tenant(), &url).await,
            Err(UrlRefused::Address),
            "{host}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowed_literal_is_reached_in_any_spelling() {
    let authority = Authority::new();
    let receiver = Receiver::answering(&authority, vec![OK.to_owned()]).await;
    let transport = transport(&authority);
    for host in ["127.0.0.1", "2130706433", "0x7f.1"] {
        let url = format!("https://{host}:{}/", receiver.address.port());
        // The certificate is for the name: the connection was made, and the handshake fails.
        assert_eq!(
            transport.send(request(&url)).await.cause,
            Some(Cause::Tls),
            "{host}"
        );
    }
}
