//! Tests the limits, codings and deadlines of a request body.

use std::io::Write;

use futures_util::stream;

use super::*;

const SOON: Deadlines = Deadlines {
    silence: Duration::from_secs(10),
    whole: Duration::from_secs(30),
};
const SMALL: Limits = Limits {
    sent_bytes: 1_000,
    unpacked_bytes: 5_000,
};

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(name.parse().unwrap(), value.parse().unwrap());
    }
    headers
}

async fn read(head: &[(&'static str, &str)], chunks: Vec<Bytes>) -> Result<Bytes, Code> {
    let announced = announced(&headers(head), SMALL).map_err(|problem| problem.code())?;
    let payload = stream::iter(chunks.into_iter().map(Ok));
    announced
        .read(payload, SOON, |_| Ok(()))
        .await
        .map(|body| body.to_bytes())
        .map_err(|problem| problem.code())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

#[tokio::test]
async fn any_division_gives_the_same_body() {
    let text: Vec<u8> = (0..900_u32).map(|n| (n % 251) as u8).collect();
    let codings: [(&str, Vec<u8>); 3] = [
        ("identity", text.clone()),
        ("GZIP", gzip(&text)),
        ("zstd", zstd(&text)),
    ];
    for (coding, sent) in codings {
        for size in [1, 7, 300, 5_000] {
            let chunks: Vec<_> = sent.chunks(size).map(Bytes::copy_from_slice).collect();
            let length = sent.len().to_string();
            let head = [("content-encoding", coding), ("content-length", &length)];
            assert_eq!(
                read(&head, chunks.clone()).await,
                Ok(text.clone().into()),
                "{coding} by {size}"
            );
            assert_eq!(
                read(&head[..1], chunks).await,
                Ok(text.clone().into()),
                "{coding} by {size}, length unknown"
            );
        }
    }
}

#[tokio::test]
async fn a_body_too_large_as_sent_or_decompressed_is_refused() {
    let too_large = Err(Code::BodyTooLarge);
    assert_eq!(read(&[("content-length", "1001")], vec![]).await, too_large);
    let chunk = Bytes::from_static(&[b' '; 501]);
    assert_eq!(
        read(&[], vec![chunk.clone(), chunk.clone()]).await,
        too_large
    );
    let just = vec![b' '; 5_000];
    assert_eq!(
        read(&[("content-encoding", "gzip")], vec![gzip(&just).into()]).await,
        Ok(just.clone().into())
    );
    for length in [5_001, 200_000, 600_000] {
        let bomb = vec![b' '; length];
        assert_eq!(
            read(&[("content-encoding", "gzip")], vec![gzip(&bomb).into()]).await,
            too_large
        );
        assert_eq!(
            read(&[("content-encoding", "zstd")], vec![zstd(&bomb).into()]).await,
            too_large
        );
    }
}

/// Returns the number of times that another task runs until `read` ends.
async fn others_run<T>(read: impl Future<Output = T>) -> (usize, T) {
    let mut times = 0;
    let others = async {
        loop {
            times += 1;
            tokio::task::yield_now().await;
        }
    };
    let output = tokio::select! {
        output = read => output,
        () = others => unreachable!("the other task never ends"),
    };
    (times, output)
}

#[tokio::test]
async fn a_body_that_unpacks_to_nothing_is_refused_and_lets_others_run() {
    // An empty block of deflate has ten bits, and one of zstd three bytes.
    let deflate = [
        &gzip(b"")[..10],
        &[0x02, 0x08, 0x20, 0x80, 0x00].repeat(200_000),
    ]
    .concat();
    let blocks = [&zstd(b"")[..6], &[0; 3].repeat(300_000)].concat();
    for (coding, sent) in [
        ("gzip", gzip(b"").repeat(50_000)),
        ("zstd", zstd(b"").repeat(100_000)),
        ("gzip", deflate),
        ("zstd", blocks),
    ] {
        let announced = announced(&headers(&[("content-encoding", coding)]), Limits::BATCH);
        let announced = announced.unwrap();
        let sent = Bytes::from(sent);
        let payload = || stream::iter([Ok(sent.clone())]);
        let (times, read) = others_run(announced.read(payload(), SOON, |_| Ok(()))).await;
        assert_eq!(read.unwrap_err().code(), Code::MalformedBody, "{coding}");
        assert!(times >= 4, "{coding}: {times}");
        let mut body = announced.stream(payload(), SOON).unwrap();
        let (times, read) = others_run(async {
            let mut out = Vec::new();
            while body.read(&mut out).await? {}
            Ok::<_, Problem>(out)
        })
        .await;
        assert_eq!(read.unwrap_err().code(), Code::MalformedBody, "{coding}");
        assert!(times >= 4, "{coding}: {times}");
    }
}

#[tokio::test]
async fn a_body_of_many_small_frames_is_unpacked() {
    let line = b"{\"seq\":0,\"samples\":[]}\n";
    for (coding, sent) in [("gzip", gzip(line)), ("zstd", zstd(line))] {
        let announced = announced(&headers(&[("content-encoding", coding)]), Limits::BATCH);
        let payload = stream::iter([Ok(Bytes::from(sent.repeat(20_000)))]);
        let read = announced.unwrap().read(payload, SOON, |_| Ok(())).await;
        assert_eq!(read.unwrap().to_bytes(), line.repeat(20_000), "{coding}");
    }
}

#[tokio::test]
async fn a_body_with_a_wrong_content_coding_is_refused() {
    let text = vec![b'x'; 600];
    let (gzipped, zstded) = (gzip(&text), zstd(&text));
    let malformed = Err(Code::MalformedBody);
    for (coding, sent) in [
        ("gzip", &text),
        ("zstd", &text),
        ("gzip", &zstded),
        ("zstd", &gzipped),
    ] {
        assert_eq!(
            read(&[("content-encoding", coding)], vec![sent.clone().into()]).await,
            malformed,
            "{coding}"
        );
    }
    for (coding, sent) in [("gzip", gzipped), ("zstd", zstded)] {
        let torn = Bytes::copy_from_slice(&sent[..sent.len() - 3]);
        assert_eq!(
            read(&[("content-encoding", coding)], vec![torn]).await,
            malformed,
            "{coding}"
        );
    }
}

#[tokio::test]
async fn a_slow_body_is_cut_off() {
    let long = Duration::from_secs(3_600);
    let short = Duration::from_millis(20);
    let announced = announced(&headers(&[("content-length", "900")]), SMALL).unwrap();
    let silent = Deadlines {
        silence: short,
        whole: long,
    };
    let nothing = stream::pending();
    let problem = announced
        .read(nothing, silent, |_| Ok(()))
        .await
        .unwrap_err();
    assert_eq!(problem.code(), Code::BodyTimeout);
    let dripping = Deadlines {
        silence: long,
        whole: short,
    };
    let drip = Box::pin(stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Some((Ok(Bytes::from_static(b" ")), ()))
    }));
    let problem = announced
        .read(drip, dripping, |_| Ok(()))
        .await
        .unwrap_err();
    assert_eq!(problem.code(), Code::BodyTimeout);
}

/// Returns a payload of `count` spaces, of which each but the first is sent `gap` after the one
/// before was read.
fn spaces(count: usize, gap: Duration) -> impl Stream<Item = Result<Bytes, PayloadError>> + Unpin {
    Box::pin(stream::unfold(0, move |sent| async move {
        if sent > 0 {
            tokio::time::sleep(gap).await;
        }
        (sent < count).then(|| (Ok(Bytes::from_static(b" ")), sent + 1))
    }))
}

#[tokio::test(start_paused = true)]
async fn time_in_which_the_service_does_not_read_does_not_count() {
    let announced = announced(&headers(&[]), SMALL).unwrap();
    let gap = Duration::from_millis(1);
    let mut body = announced.stream(spaces(20, gap), SOON).unwrap();
    let mut read = Vec::new();
    while body.read(&mut read).await.unwrap() {
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(read.len(), 20);
}

#[tokio::test(start_paused = true)]
async fn time_in_interrupted_reads_counts() {
    let announced = announced(&headers(&[]), SMALL).unwrap();
    let gap = Duration::from_secs(4);
    let mut body = announced.stream(spaces(20, gap), SOON).unwrap();
    let (begun, mut read) = (Instant::now(), Vec::new());
    let problem = loop {
        let interval = Duration::from_secs(1);
        if let Ok(Err(problem)) = tokio::time::timeout(interval, body.read(&mut read)).await {
            break problem;
        }
    };
    assert_eq!(problem.code(), Code::BodyTimeout);
    let elapsed = begun.elapsed();
    assert!(
        elapsed >= SOON.whole && elapsed < SOON.whole + gap,
        "{elapsed:?}"
    );
}

#[tokio::test]
async fn only_received_and_decompressed_bytes_are_counted() {
    let text = vec![b' '; 300_000];
    let packed = gzip(&text);
    let head = [("content-encoding", "gzip"), ("content-length", "1000000")];
    for pieces in [&[][..], &[&packed[..]], &[&packed[..100], &packed[100..]]] {
        let announced = announced(&headers(&head), Limits::BATCH).unwrap();
        let mut grown = 0;
        let payload = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece)));
        let read = announced.read(stream::iter(payload), SOON, |bytes| {
            grown += bytes;
            Ok(())
        });
        // An incomplete body is refused, and the received part was counted.
        let unpacked = read.await.map_or(0, |body| body.len());
        let sent: usize = pieces.iter().map(|piece| piece.len()).sum();
        assert_eq!(grown, sent + unpacked);
    }
    let announced = announced(&headers(&head[..1]), Limits::BATCH).unwrap();
    let refuse = |_| Err(Problem::new(Code::Overloaded, ""));
    let payload = stream::iter([Ok(Bytes::from(gzip(&text)))]);
    assert_eq!(
        announced
            .read(payload, SOON, refuse)
            .await
            .unwrap_err()
            .code(),
        Code::Overloaded
    );
}

#[test]
fn json_is_recognised_by_its_media_type() {
    for value in [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=\"UTF-8\"",
        "application/json; v=1",
    ] {
        assert!(is_json(&headers(&[("content-type", value)])), "{value}");
    }
    for value in [
        "",
        "text/plain",
        "application/jsonp",
        "application/x-ndjson",
        "application/json; charset=latin1",
    ] {
        assert!(!is_json(&headers(&[("content-type", value)])), "{value}");
    }
    assert!(!is_json(&HeaderMap::new()));
    for value in ["br", "deflate", "gzip, gzip", "zstd,gzip"] {
        assert_eq!(
            announced(&headers(&[("content-encoding", value)]), SMALL)
                .unwrap_err()
                .code(),
            Code::UnsupportedEncoding,
            "{value}"
        );
    }
}
