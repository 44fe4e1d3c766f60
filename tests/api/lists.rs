//! Tests `GET /v1/sessions`: filters, pages, cursors.

use serde_json::json;

use crate::server::{Server, start_body};

#[actix::test]
async fn pages_concatenate_to_the_whole_list() {
    let server = Server::start().await;
    let mut made = Vec::new();
    for _ in 0..7 {
        made.push(server.start_session().await.id);
    }
    made.reverse();
    for limit in [1, 2, 3, 6, 7, 8, 200] {
        let (mut listed, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let page = server
                .get(
                    &format!("/v1/sessions?limit={limit}{cursor}"),
                    &server.keys.secret,
                )
                .await;
            assert_eq!(page.status, 200, "{page:?}");
            let data = page.json["data"].as_array().unwrap();
            assert!(data.len() <= limit);
            listed.extend(
                data.iter()
                    .map(|session| session["sessionId"].as_str().unwrap().to_owned()),
            );
            pages += 1;
            match page.json["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
            assert!(pages < 10);
        }
        // Sessions of one millisecond are ordered by their random part.
        let mut sorted = listed.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(listed, sorted, "newest first");
        sorted.sort_unstable();
        let mut all = made.clone();
        all.sort_unstable();
        assert_eq!(sorted, all, "by {limit}");
    }
    server.stop().await;
}

#[actix::test]
async fn filters_select_matching_rows() {
    let server = Server::start().await;
    let mut ids = Vec::new();
    for (delivery, rider) in [("d1", "r1"), ("d1", "r2"), ("d 2&ü", "r1")] {
        let mut body = start_body();
        body["deliveryId"] = json!(delivery);
        body["externalRiderId"] = json!(rider);
        let answer = server
            .post("/v1/sessions/start", &server.keys.client, &body)
            .await;
        ids.push((
            answer.json["sessionId"].as_str().unwrap().to_owned(),
            answer.json["createdAt"].as_str().unwrap().to_owned(),
        ));
        tokio::time::sleep(std::time::Duration::from_millis(3)).await;
    }
    server
        .post(
            "/v1/sessions/stop",
            &server.keys.secret,
            &json!({ "sessionId": ids[0].0 }),
        )
        .await;
    let second = &ids[1].1;
    for (query, expected) in [
        (String::new(), vec![2, 1, 0]),
        ("?deliveryId=d1".into(), vec![1, 0]),
        ("?deliveryId=d+2%26%C3%BC".into(), vec![2]),
        ("?externalRiderId=r1".into(), vec![2, 0]),
        ("?externalRiderId=r1&deliveryId=d1".into(), vec![0]),
        ("?status=recording".into(), vec![2, 1]),
        ("?status=completed".into(), vec![0]),
        (format!("?from={second}"), vec![2, 1]),
        (format!("?to={second}"), vec![0]),
        (format!("?from={second}&to={second}"), vec![]),
        // Further decimals count, although stored times have three.
        (format!("?from={}", second.replace('Z', "9Z")), vec![2]),
        (format!("?to={}", second.replace('Z', "9Z")), vec![1, 0]),
        (format!("?to={}", second.replace('Z', "000Z")), vec![0]),
        ("?deliveryId=nothing".into(), vec![]),
    ] {
        let page = server
            .get(&format!("/v1/sessions{query}"), &server.keys.secret)
            .await;
        let data = page.json["data"].as_array().unwrap();
        let listed: Vec<_> = data
            .iter()
            .map(|session| session["sessionId"].as_str().unwrap())
            .collect();
        let expected: Vec<_> = expected
            .into_iter()
            .map(|place: usize| ids[place].0.as_str())
            .collect();
        assert_eq!(listed, expected, "{query}");
        assert!(page.json["nextCursor"].is_null());
    }
    server.stop().await;
}

#[actix::test]
async fn a_bad_parameter_is_named() {
    let server = Server::start().await;
    for (query, faults) in [
        ("limit=0", vec!["limit"]),
        ("limit=201", vec!["limit"]),
        ("limit=x", vec!["limit"]),
        ("limit=", vec!["limit"]),
        ("limit=1&limit=2", vec!["limit"]),
        ("status=open", vec!["status"]),
        ("from=today", vec!["from"]),
        ("to=2026-11-20", vec!["to"]),
        ("cursor=x", vec!["cursor"]),
        ("cursor=", vec!["cursor"]),
        ("deliveryId=", vec!["deliveryId"]),
        (
            "externalRiderId=&cursor=!&limit=-1",
            vec!["externalRiderId", "limit", "cursor"],
        ),
    ] {
        let answer = server
            .get(&format!("/v1/sessions?{query}"), &server.keys.secret)
            .await;
        assert_eq!(
            answer.assert_problem(422, "invalid_parameter").faults(),
            faults,
            "{query}"
        );
    }
    server.stop().await;
}
