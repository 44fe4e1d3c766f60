//! Tests the path image behind `pathImageUrl`.

use futures_util::future::join_all;
use porchlight_schema::limits::LINK_REQUESTS_BURST;
use reqwest::Method;
use serde_json::json;

use crate::answer::Answer;
use crate::server::{Server, insights, telemetry};

/// Returns the link in a session's insight, from the path on.
pub(crate) async fn link(server: &Server, id: &str) -> String {
    let insight = server.get(&insights(id), &server.keys.secret).await;
    let url = insight.json["pathImageUrl"].as_str().unwrap();
    let base = format!("http://{}", server.address);
    url.strip_prefix(&base).unwrap().to_owned()
}

async fn get_image(server: &Server, path: &str) -> Answer {
    Answer::of(server.request(Method::GET, path)).await
}

#[actix::test]
async fn the_image_is_served_in_both_formats_and_reproducible() {
    let server = Server::start().await;
    let session = server.scored_session().await;
    let png = link(&server, &session.id).await;
    let svg = png.replace(".png", ".svg");
    let one = server.request(Method::GET, &png).send().await.unwrap();
    assert_eq!(
        (
            one.status().as_u16(),
            one.headers()["content-type"].as_bytes()
        ),
        (200, &b"image/png"[..])
    );
    let bytes = one.bytes().await.unwrap();
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
    let again = server.request(Method::GET, &png).send().await.unwrap();
    assert_eq!(again.bytes().await.unwrap(), bytes);
    let drawn = get_image(&server, &svg).await;
    assert_eq!(
        (drawn.status, drawn.header("content-type")),
        (200, "image/svg+xml")
    );
    assert!(drawn.text.starts_with("<svg ") && drawn.text.contains("prefers-color-scheme:dark"));
    for elsewhere in ["href", "url(", "<script", "http://www.w3.org/1999"] {
        assert!(!drawn.text.contains(elsewhere), "{elsewhere}");
    }
    let known = server
        .request(Method::GET, &svg)
        .header("If-None-Match", drawn.header("etag"));
    assert_eq!(Answer::of(known).await.status, 304);
    for (path, accept, status) in [
        (&png, "image/png", 200),
        (&png, "image/avif, image/*;q=0.8", 200),
        (&svg, "text/html, */*;q=0.8", 200),
        (&svg, "image/svg+xml", 200),
        (&png, "image/svg+xml", 406),
        (&png, "text/html", 406),
        (&svg, "image/png, image/svg+xml;q=0", 406),
    ] {
        let request = server.request(Method::GET, path).header("Accept", accept);
        let status_now = request.send().await.unwrap().status().as_u16();
        assert_eq!(status_now, status, "{path} as {accept}");
    }
    let head = Answer::of(server.request(Method::HEAD, &png)).await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
    server.stop().await;
}

#[actix::test]
async fn a_wrong_signature_is_refused_for_any_session() {
    let server = Server::start().await;
    let (session, other) = (server.scored_session().await, server.scored_session().await);
    let good = link(&server, &session.id).await;
    let (path, signature) = good.split_once("?signature=").unwrap();
    let stranger = link(&server, &other.id).await;
    let wrong = [
        path.to_owned(),
        format!("{path}?signature="),
        format!("{path}?signature={}", &signature[1..]),
        format!(
            "{path}?signature={}",
            signature.chars().rev().collect::<String>()
        ),
        good.replace(&session.id, &other.id),
        stranger.replace(&other.id, &session.id),
        good.replace(&session.id, "ses_00000000000000000000000000"),
        good.replace(&session.id, "x"),
    ];
    for wrong in wrong {
        get_image(&server, &wrong)
            .await
            .assert_problem(403, "forbidden");
    }
    // A key is not a signature.
    server
        .get(path, &server.keys.secret)
        .await
        .assert_problem(403, "forbidden");
    assert_eq!(get_image(&server, &good).await.status, 200);
    server.stop().await;
}

#[actix::test]
async fn a_link_writes_a_bounded_number_of_lines_into_the_audit_log() {
    let server = Server::start().await;
    let (session, other) = (server.scored_session().await, server.scored_session().await);
    let (path, of_other) = (
        link(&server, &session.id).await,
        link(&server, &other.id).await,
    );
    // The image is drawn once, so that no request waits for its turn to draw.
    assert_eq!(get_image(&server, &path).await.status, 200);
    let flood = (0..5 * LINK_REQUESTS_BURST).map(|_| get_image(&server, &path));
    let mut shown = 1;
    for answer in join_all(flood).await {
        if answer.status == 200 {
            shown += 1;
            continue;
        }
        assert_eq!(answer.header("retry-after"), "1");
        answer.assert_problem(429, "rate_limited");
    }
    assert!((2..5 * LINK_REQUESTS_BURST as usize).contains(&shown));
    assert_eq!(get_image(&server, &of_other).await.status, 200);
    server.service.audit().unwrap().flush().await;
    let query = format!(
        "/v1/audit?action=image.read&limit=200&sessionId={}",
        session.id
    );
    let log = server.get(&query, &server.keys.secret).await;
    assert_eq!(log.json["data"].as_array().unwrap().len(), shown);
    server.stop().await;
}

#[actix::test]
async fn fewer_than_two_usable_fixes_give_no_image() {
    let server = Server::start().await;
    let session = server.start_session().await;
    let fix = |t: u32, accuracy_m: u32| json!({ "kind": "location", "t": t, "lat": 51.38, "lng": -2.36, "accuracyM": accuracy_m });
    let batch = json!({ "seq": 0, "samples": [fix(1, 5), fix(2, 900)] });
    let sent = server
        .post(&telemetry(&session.id), &session.token, &batch)
        .await;
    assert_eq!(sent.status, 202);
    let order = json!({ "sessionId": session.id });
    server
        .post("/v1/sessions/stop", &session.token, &order)
        .await;
    let insight = server.wait_until_ready(&session.id).await;
    assert_eq!(
        (&insight.json["status"], &insight.json["pathImageUrl"]),
        (&json!("ready"), &json!(null))
    );
    server.stop().await;
}
