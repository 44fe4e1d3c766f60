//! Tests the requests that the console admits, and their conditions.

use reqwest::Method;
use reqwest::header::{COOKIE, SET_COOKIE};

use super::tenant::{PAGES, key};
use super::visitor::{Seen, Visitor, form, http, post_sign_in};
use crate::server::{Folder, Server, block_on};

#[test]
fn unauthenticated_visitors_are_redirected_to_sign_in() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    block_on(async {
        let http = http();
        for path in PAGES {
            let seen = Seen::of(http.get(format!("{}{path}", server.api))).await;
            assert!(
                seen.location().starts_with("/console/sign-in"),
                "{path}: {seen:?}"
            );
            let junk = http
                .get(format!("{}{path}", server.api))
                .header(COOKIE, "porchlight-console=AAAA");
            assert!(
                Seen::of(junk).await.location().contains("why=ended"),
                "{path}"
            );
        }
        let client = key(&folder, "it", "sandbox", "client");
        let unknown = key(&Folder::new(), "it", "sandbox", "secret");
        let cut = &unknown[..unknown.len() - 1];
        for (key, words) in [
            (client.as_str(), "client key"),
            (&unknown, "Unknown, expired or revoked key"),
            (cut, "The key is incomplete"),
            ("", "The key is incomplete"),
        ] {
            let seen = post_sign_in(&http, &server.api, key).await;
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
            let seen = post_sign_in(&http, &server.api, cut).await;
            if seen.status == 429 {
                refused = Some(seen);
                break;
            }
        }
        let refused = refused.expect("sign-in is throttled");
        assert!(refused.headers.contains_key("retry-after"));
        // A well-formed key has a limit of its own: guesses from its address do not lock it out.
        assert_eq!(post_sign_in(&http, &server.api, &good).await.status, 303);
    });
}

#[test]
fn a_ticket_contains_no_key_and_ends_with_it() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let secret = server.key("secret");
    block_on(async {
        let http = http();
        let entered = post_sign_in(&http, &server.api, &secret).await;
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

        let long = http
            .post(format!("{}/console/sign-in", server.api))
            .header("Sec-Fetch-Site", "same-origin");
        let long = form(long, &[("key", &secret), ("next", &"x".repeat(9_000))]);
        assert_eq!(Seen::of(long).await.status, 413);

        // A sign-out also invalidates a kept copy of the cookie.
        let visitor = Visitor::sign_in(&server, &secret).await;
        let left = visitor.post("/console/sign-out", &[]).await;
        assert!(
            left.location().ends_with("why=out") && left.header(SET_COOKIE).contains("Max-Age=0")
        );
        assert!(visitor.get("/console").await.location().contains("sign-in"));

        // A new key is shown once; its revocation ends the sessions begun with it.
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
        assert!(revoked.location().contains("revoked="));
        assert!(other.get("/console").await.location().contains("why=ended"));
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
    });
}

#[test]
fn errors_are_pages_for_people_and_problems_for_programs() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let secret = key(&folder, "it", "sandbox", "secret");
    block_on(async {
        let visitor = Visitor::sign_in(&server, &secret).await;
        for (path, status) in [
            ("/console/nothing", 404),
            ("/console/sessions/ses_1", 404),
            ("/console/deliveries/dlv_1", 404),
            ("/console/assets/x.js", 404),
        ] {
            assert_eq!(visitor.get(path).await.status, status, "{path}");
        }
        for (method, path, allow) in [
            (Method::PUT, "/console/webhook", "GET, HEAD"),
            (Method::DELETE, "/console/keys/create", "POST"),
        ] {
            let wrong = Seen::of(visitor.request(method, path)).await;
            assert_eq!((wrong.status, wrong.header("allow")), (405, allow));
            let media = wrong.header("content-type");
            assert_eq!(
                media, "application/problem+json",
                "a program gets a problem document"
            );
        }
        let unknown = visitor.request(Method::POST, "/console/nothing");
        assert_eq!(Seen::of(unknown).await.status, 404);
        let program = visitor.request(Method::GET, "/console/nothing");
        let program = Seen::of(program.header("Accept", "application/json")).await;
        let media = program.header("content-type");
        assert_eq!((program.status, media), (404, "application/problem+json"));
    });
}

#[test]
fn requests_from_another_site_are_refused() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let secret = server.key("secret");
    block_on(async {
        let visitor = Visitor::sign_in(&server, &secret).await;
        let csrf_token = visitor.csrf_token().await;
        let host = server.address().to_owned();
        let own = format!("http://{host}");
        let path = "/console/keys/create";
        let send = async |headers: &[(&str, &str)], csrf_token: &str| {
            let mut request = form(
                visitor.request(Method::POST, path),
                &[("kind", "client"), ("word", csrf_token)],
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
            assert_eq!(send(headers, &csrf_token).await, 403, "{headers:?}");
        }
        let other = Visitor::sign_in(&server, &secret).await.csrf_token().await;
        for wrong in ["", "AAAA", &other] {
            assert_eq!(send(&[("Sec-Fetch-Site", "same-origin")], wrong).await, 403);
        }
        let keys = visitor.page("/console/keys").await;
        assert_eq!(
            keys.text.matches("pk_sandbox_").count(),
            0,
            "a refused request changes nothing"
        );
        assert_eq!(send(&[("Origin", &own)], &csrf_token).await, 200);
        let cross = http()
            .post(format!("{}/console/sign-in", server.api))
            .header("Sec-Fetch-Site", "cross-site");
        assert_eq!(Seen::of(form(cross, &[("key", &secret)])).await.status, 403);
    });
}
