//! What the console lets in, and what it shows to whom.

use reqwest::Method;
use reqwest::header::{COOKIE, SET_COOKIE};
use serde_json::{Value, json};

use super::visitor::{Seen, Visitor, enter, form, http};
use crate::server::{Folder, Server, block_on, porchlight, successful};

/// Every page that is one for every organization.
const PAGES: [&str; 9] = [
    "/console",
    "/console/sessions",
    "/console/sessions?status=recording&reason=FULL_ATTEMPT",
    "/console/deliveries",
    "/console/deliveries?status=failed",
    "/console/deliveries/retry?status=failed",
    "/console/deliveries/retry/progress?status=failed&count=0",
    "/console/webhook",
    "/console/keys",
];

fn key(folder: &Folder, organization: &str, env: &str, kind: &str) -> String {
    let arguments = [
        "keys",
        "create",
        "--org",
        organization,
        "--env",
        env,
        "--kind",
        kind,
    ];
    let made = porchlight()
        .args(arguments)
        .env("PORCHLIGHT__STORE__PATH", folder.store())
        .output();
    successful(made.unwrap()).trim().to_owned()
}

async fn api(
    server: &Server,
    method: Method,
    path: &str,
    key: &str,
    body: Option<&Value>,
) -> Value {
    let request = http()
        .request(method, format!("{}{path}", server.api))
        .header("Service-Key", key);
    let request = match body {
        Some(body) => request
            .header("Content-Type", "application/json")
            .body(body.to_string()),
        None => request,
    };
    let seen = Seen::of(request).await;
    assert!(seen.status < 300, "{path}: {seen:?}");
    serde_json::from_str(&seen.text).unwrap_or_default()
}

/// A session of which nearly all is `text`, ended and scored.
async fn session(server: &Server, key: &str, text: &str) -> String {
    let start = json!({
        "deliveryId": text, "externalRiderId": text,
        "address": { "line1": text, "city": text, "country": text, "unit": text, "lat": 51.38, "lng": -2.36 },
        "device": { "platform": text, "model": text, "osVersion": text, "sdkVersion": text },
    });
    let started = api(
        server,
        Method::POST,
        "/v1/sessions/start",
        key,
        Some(&start),
    )
    .await;
    let id = started["sessionId"].as_str().unwrap().to_owned();
    let fix = |t: u32| json!({ "kind": "location", "t": t, "lat": 51.38 + f64::from(t) * 1e-6, "lng": -2.36, "accuracyM": 5 });
    let mut samples: Vec<Value> = (0..60).map(fix).collect();
    let mark: String = text.chars().take(64).collect();
    samples.push(json!({ "kind": "mark", "t": 30, "name": mark }));
    let batch = json!({ "seq": 0, "samples": samples });
    api(
        server,
        Method::POST,
        &format!("/v1/sessions/{id}/telemetry"),
        key,
        Some(&batch),
    )
    .await;
    let stop = json!({ "sessionId": id, "pod": { "type": "photo", "url": "https://pod.example/\"><script>alert(1)</script>" } });
    let stop = if text.contains('<') {
        stop
    } else {
        json!({ "sessionId": id })
    };
    api(server, Method::POST, "/v1/sessions/stop", key, Some(&stop)).await;
    for _ in 0..600 {
        let insight = api(
            server,
            Method::GET,
            &format!("/v1/sessions/{id}/insights"),
            key,
            None,
        )
        .await;
        if insight["status"] != "processing" {
            return id;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("session {id} was not scored");
}

#[test]
fn who_is_not_signed_in_is_sent_to_sign_in() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    block_on(async {
        let http = http();
        for path in PAGES {
            let seen = Seen::of(http.get(format!("{}{path}", server.api))).await;
            assert!(
                seen.to().starts_with("/console/sign-in"),
                "{path}: {seen:?}"
            );
            let junk = http
                .get(format!("{}{path}", server.api))
                .header(COOKIE, "porchlight-console=AAAA");
            assert!(Seen::of(junk).await.to().contains("why=ended"), "{path}");
        }
        let client = key(&folder, "it", "sandbox", "client");
        let unknown = key(&Folder::new(), "it", "sandbox", "secret");
        let cut = &unknown[..unknown.len() - 1];
        for (key, words) in [
            (client.as_str(), "client key"),
            (&unknown, "No key like that"),
            (cut, "not a whole key"),
            ("", "not a whole key"),
        ] {
            let seen = enter(&http, &server.api, key).await;
            assert_eq!(
                (seen.status, seen.text.contains(words)),
                (422, true),
                "{key}: {seen:?}"
            );
            assert!(!seen.headers.contains_key(SET_COOKIE));
            assert!(
                key.is_empty() || !seen.text.contains(key),
                "the key is on the page"
            );
        }
        let good = server.key("secret");
        let mut refused = None;
        for _ in 0..40 {
            let seen = enter(&http, &server.api, cut).await;
            if seen.status == 429 {
                refused = Some(seen);
                break;
            }
        }
        let refused = refused.expect("sign-in is throttled");
        assert!(refused.headers.contains_key("retry-after"));
        assert_eq!(enter(&http, &server.api, &good).await.status, 429);
    });
}

#[test]
fn a_ticket_holds_no_key_and_ends_with_it() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let secret = server.key("secret");
    block_on(async {
        let http = http();
        let entered = enter(&http, &server.api, &secret).await;
        let cookie = entered.header(SET_COOKIE);
        for attribute in [
            "porchlight-console=",
            "; Path=/console",
            "; HttpOnly",
            "; SameSite=Strict",
        ] {
            assert!(cookie.contains(attribute), "{cookie}");
        }
        assert!(
            !cookie.contains("Secure") && !cookie.contains(&secret[12..]),
            "{cookie}"
        );
        let secure = http
            .post(format!("{}/console/sign-in", server.api))
            .header("X-Forwarded-Proto", "https");
        let secure = form(secure, &[("key", &secret)]).header("Sec-Fetch-Site", "same-origin");
        let secure = Seen::of(secure).await;
        assert!(
            secure
                .header(SET_COOKIE)
                .starts_with("__Secure-porchlight-console=")
                && secure.header(SET_COOKIE).contains("; Secure")
        );

        // Signed out is signed out, for whoever kept the cookie too.
        let visitor = Visitor::sign_in(&server, &secret).await;
        let left = visitor.post("/console/sign-out", &[]).await;
        assert!(left.to().ends_with("why=out") && left.header(SET_COOKIE).contains("Max-Age=0"));
        assert!(visitor.get("/console").await.to().contains("sign-in"));

        // A new key, shown once; revoked, it ends what was begun with it.
        let visitor = Visitor::sign_in(&server, &secret).await;
        let made = visitor
            .post(
                "/console/keys/create",
                &[("kind", "secret"), ("days", "30")],
            )
            .await;
        let second = made.shown_once().to_owned();
        assert!(second.starts_with("sk_sandbox_"), "{second}");
        let other = Visitor::sign_in(&server, &second).await;
        let keys = visitor.page("/console/keys").await;
        assert!(!keys.text.contains(&second) && keys.text.contains(&second[second.len() - 4..]));
        let id = keys
            .between("action=\"/console/keys/key_", "/revoke")
            .to_owned();
        let revoked = visitor
            .post(&format!("/console/keys/key_{id}/revoke"), &[])
            .await;
        assert!(revoked.to().contains("revoked="));
        assert!(other.get("/console").await.to().contains("why=ended"));
        visitor.page("/console").await;
    });
}

#[test]
fn every_answer_has_its_security_headers() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let secret = server.key("secret");
    block_on(async {
        let visitor = Visitor::sign_in(&server, &secret).await;
        let page = visitor.page("/console").await;
        let style = page.between("rel=\"stylesheet\" href=\"", "\"").to_owned();
        let script = page.between("type=\"module\" src=\"", "\"").to_owned();
        let others = [
            "/console/sign-in",
            "/console/nothing",
            "/console/sessions/ses_1",
            "/console/deliveries/dlv_1",
            "/console/sessions?status=x",
            style.as_str(),
            &script,
        ];
        for path in PAGES.into_iter().chain(others) {
            let seen = visitor.get(path).await;
            let policy = seen.header("content-security-policy");
            assert!(
                policy.starts_with("default-src 'none'")
                    && policy.contains("frame-ancestors 'none'")
                    && !policy.contains("unsafe"),
                "{path}: {policy}"
            );
            for (name, value) in [
                ("x-content-type-options", "nosniff"),
                ("referrer-policy", "same-origin"),
                ("cross-origin-opener-policy", "same-origin"),
            ] {
                assert_eq!(seen.header(name), value, "{path}");
            }
            let is_asset = path.contains("/assets/");
            assert_eq!(
                seen.header("cache-control") == "no-store",
                !is_asset,
                "{path}"
            );
            assert!(seen.headers.contains_key("x-request-id"), "{path}");
            if !is_asset {
                assert_eq!(
                    seen.header("content-type"),
                    "text/html; charset=utf-8",
                    "{path}"
                );
                assert!(
                    !seen.text.contains(" style=") && !seen.text.contains(" onclick="),
                    "{path}"
                );
            }
        }
        for (path, status) in [
            ("/console/nothing", 404),
            ("/console/sessions/ses_1", 404),
            ("/console/deliveries/dlv_1", 404),
            ("/console/assets/x.js", 404),
        ] {
            assert_eq!(visitor.get(path).await.status, status, "{path}");
        }
        let wrong = Seen::of(
            visitor
                .ask(Method::PUT, "/console/webhook")
                .header("Sec-Fetch-Site", "same-origin"),
        )
        .await;
        assert_eq!((wrong.status, wrong.header("allow")), (405, "GET, HEAD"));
    });
}

#[test]
fn nothing_is_done_for_another_site() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let secret = server.key("secret");
    block_on(async {
        let visitor = Visitor::sign_in(&server, &secret).await;
        let word = visitor.word().await;
        let host = server.address().to_owned();
        let own = format!("http://{host}");
        let path = "/console/keys/create";
        let send = async |headers: &[(&str, &str)], word: &str| {
            let mut request = form(
                visitor.ask(Method::POST, path),
                &[("kind", "client"), ("word", word)],
            );
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            Seen::of(request).await.status
        };
        for headers in [
            &[("Sec-Fetch-Site", "cross-site")][..],
            &[("Sec-Fetch-Site", "same-site"), ("Origin", &own)],
            &[("Origin", "https://evil.example")],
            &[("Origin", "null")],
            &[],
        ] {
            assert_eq!(send(headers, &word).await, 403, "{headers:?}");
        }
        let other = Visitor::sign_in(&server, &secret).await.word().await;
        for wrong in ["", "AAAA", &other] {
            assert_eq!(send(&[("Sec-Fetch-Site", "same-origin")], wrong).await, 403);
        }
        let keys = visitor.page("/console/keys").await;
        assert_eq!(
            keys.text.matches("pk_sandbox_").count(),
            0,
            "nothing was done"
        );
        assert_eq!(send(&[("Origin", &own)], &word).await, 200);
        let cross = http()
            .post(format!("{}/console/sign-in", server.api))
            .header("Sec-Fetch-Site", "cross-site");
        assert_eq!(Seen::of(form(cross, &[("key", &secret)])).await.status, 403);
    });
}

#[test]
fn one_tenant_never_opens_anothers_page() {
    let folder = Folder::new();
    let server = Server::start(
        &folder,
        &[("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", "192.0.2.1/32")],
    );
    let secret = server.key("secret");
    block_on(async {
        let webhook = json!({ "url": "https://192.0.2.1/hook" });
        api(
            &server,
            Method::POST,
            "/v1/webhooks",
            &secret,
            Some(&webhook),
        )
        .await;
        let id = session(&server, &secret, "ours-alone").await;
        let list = api(
            &server,
            Method::GET,
            "/v1/webhooks/deliveries",
            &secret,
            None,
        )
        .await;
        let delivery = list["data"][0]["id"].as_str().unwrap().to_owned();
        let own = Visitor::sign_in(&server, &secret).await;
        let keys = own.page("/console/keys").await;
        let key_id = keys
            .between("action=\"/console/keys/key_", "/revoke")
            .to_owned();
        let paths = [
            format!("/console/sessions/{id}"),
            format!("/console/sessions/{id}/live"),
            format!("/console/deliveries/{delivery}"),
        ];
        for path in &paths {
            assert_eq!(own.get(path).await.status, 200, "{path}");
        }
        for other in [
            key(&folder, "it", "live", "secret"),
            key(&folder, "other", "sandbox", "secret"),
        ] {
            let visitor = Visitor::sign_in(&server, &other).await;
            for path in &paths {
                let seen = visitor.get(path).await;
                assert_eq!(seen.status, 404, "{path}");
                assert!(!seen.text.contains("ours-alone"));
            }
            for path in PAGES {
                let seen = visitor.page(path).await;
                assert!(
                    !seen.text.contains("ours-alone") && !seen.text.contains("192.0.2.1"),
                    "{path}"
                );
            }
            let retried = visitor
                .post(&format!("/console/deliveries/{delivery}/retry"), &[])
                .await;
            let revoked = visitor
                .post(&format!("/console/keys/key_{key_id}/revoke"), &[])
                .await;
            assert_eq!((retried.status, revoked.status), (404, 404));
        }
        let live = Visitor::sign_in(&server, &key(&folder, "it", "live", "secret")).await;
        assert!(
            live.page("/console")
                .await
                .text
                .contains("<strong>Live</strong>")
        );
        assert!(
            own.page("/console")
                .await
                .text
                .contains("<strong>Sandbox</strong>")
        );
    });
}

#[test]
fn what_was_stored_comes_out_as_text() {
    const HOSTILE: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>";
    let folder = Folder::new();
    let server = Server::start(
        &folder,
        &[("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", "192.0.2.1/32")],
    );
    let secret = key(&folder, HOSTILE, "sandbox", "secret");
    block_on(async {
        let webhook = json!({ "url": "https://192.0.2.1/hook?'><script>alert(1)</script>" });
        api(
            &server,
            Method::POST,
            "/v1/webhooks",
            &secret,
            Some(&webhook),
        )
        .await;
        let id = session(&server, &secret, HOSTILE).await;
        let list = api(
            &server,
            Method::GET,
            "/v1/webhooks/deliveries",
            &secret,
            None,
        )
        .await;
        let delivery = list["data"][0]["id"].as_str().unwrap().to_owned();
        let visitor = Visitor::sign_in(&server, &secret).await;
        let reflected = [
            "/console/sessions?deliveryId=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&from=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
            "/console/deliveries?status=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&sessionId=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
            "/console/keys?revoked=%3Cscript",
            "/console/sign-in?next=/console/%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
        ];
        let stored = [
            format!("/console/sessions/{id}"),
            format!("/console/deliveries/{delivery}"),
        ];
        let all = PAGES
            .into_iter()
            .chain(stored.iter().map(String::as_str))
            .chain(reflected);
        for path in all {
            let seen = visitor.page(path).await;
            assert_eq!(
                seen.text.matches("<script").count(),
                1,
                "{path}: only our own"
            );
            assert!(
                !seen.text.contains("<img") && !seen.text.contains("alert(1)</script>"),
                "{path}"
            );
        }
        let page = visitor.page(&stored[0]).await;
        assert!(
            page.text.contains("&lt;script&gt;alert(1)"),
            "it is shown, as text"
        );
    });
}

#[test]
fn a_secret_is_shown_once() {
    let folder = Folder::new();
    let server = Server::start(
        &folder,
        &[("PORCHLIGHT__WEBHOOK__ALLOW_ADDRESSES", "192.0.2.1/32")],
    );
    let secret = server.key("secret");
    block_on(async {
        let visitor = Visitor::sign_in(&server, &secret).await;
        assert!(
            visitor
                .page("/console/webhook")
                .await
                .text
                .contains("No webhook yet")
        );
        let bad = visitor
            .post(
                "/console/webhook/register",
                &[("url", "http://192.0.2.1/hook")],
            )
            .await;
        assert!(
            bad.text.contains("the scheme must be https")
                && bad.text.contains("value=\"http://192.0.2.1/hook\"")
        );
        let url = [("url", "https://192.0.2.1/hook")];
        let made = visitor.post("/console/webhook/register", &url).await;
        assert!(made.shown_once().starts_with("whsec_"));
        let again = visitor.post("/console/webhook/register", &url).await;
        assert!(
            again.text.contains("There is a webhook already") && !again.text.contains("whsec_")
        );
        assert!(
            !visitor
                .page("/console/webhook")
                .await
                .text
                .contains("whsec_")
        );

        let rotated = visitor
            .post("/console/webhook/rotate", &[("overlapSec", "3600")])
            .await;
        assert_ne!(rotated.shown_once(), made.shown_once());
        let refused = visitor
            .post("/console/webhook/rotate", &[("overlapSec", "3600")])
            .await;
        assert!(
            refused.text.contains("The previous secret still signs")
                && !refused.text.contains("whsec_")
        );
        assert!(
            visitor
                .page("/console/webhook")
                .await
                .text
                .contains("The one before signs too")
        );

        for (act, said) in [
            ("pause", "is paused"),
            ("resume", "is on again"),
            ("delete", "was deleted"),
        ] {
            let done = visitor.post(&format!("/console/webhook/{act}"), &[]).await;
            assert!(visitor.page(done.to()).await.text.contains(said), "{act}");
        }
        assert!(visitor.post("/console/webhook/test", &[]).await.status == 404);
    });
}
