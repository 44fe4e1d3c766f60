//! A visitor of the console without a browser: a cookie, and forms that are filled as a browser
//! fills them.

use reqwest::header::{COOKIE, HeaderMap, LOCATION, SET_COOKIE};
use reqwest::{Client, Method, RequestBuilder};

use crate::server::Server;

/// A response of the console.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Seen {
    pub(crate) async fn of(request: RequestBuilder) -> Self {
        let answer = request.send().await.unwrap();
        Self {
            status: answer.status().as_u16(),
            headers: answer.headers().clone(),
            text: answer.text().await.unwrap(),
        }
    }

    pub(crate) fn header(&self, name: impl reqwest::header::AsHeaderName) -> &str {
        let value = self.headers.get(name);
        value.map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the target of a redirect.
    pub(crate) fn location(&self) -> &str {
        assert_eq!(self.status, 303, "{self:?}");
        self.header(LOCATION)
    }

    /// Returns the first text between two others.
    pub(crate) fn between(&self, before: &str, after: &str) -> &str {
        let (_, rest) = self.text.split_once(before).unwrap();
        rest.split_once(after).unwrap().0
    }

    /// Returns the code block of a value that is shown once.
    pub(crate) fn shown_once(&self) -> &str {
        let (_, rest) = self.text.split_once("id=\"once\"").unwrap();
        rest.split_once("<code>")
            .unwrap()
            .1
            .split_once("</code>")
            .unwrap()
            .0
    }
}

/// Returns a client that follows no redirects.
pub(crate) fn http() -> Client {
    Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(std::time::Duration::from_secs(30))
        .build()
        .unwrap()
}

/// A signed-in visitor.
pub(crate) struct Visitor {
    http: Client,
    api: String,
    pub(crate) cookie: String,
}

impl Visitor {
    pub(crate) async fn sign_in(server: &Server, key: &str) -> Self {
        let http = http();
        let entered = post_sign_in(&http, &server.api, key).await;
        assert_eq!(entered.location(), "/console");
        let cookie = entered
            .header(SET_COOKIE)
            .split(';')
            .next()
            .unwrap()
            .to_owned();
        Self {
            http,
            api: server.api.clone(),
            cookie,
        }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.api));
        request.header(COOKIE, &self.cookie)
    }

    pub(crate) async fn get(&self, path: &str) -> Seen {
        Seen::of(self.request(Method::GET, path)).await
    }

    /// Returns the page, and asserts that it is one.
    pub(crate) async fn page(&self, path: &str) -> Seen {
        let seen = self.get(path).await;
        assert_eq!(seen.status, 200, "{path}: {seen:?}");
        assert_eq!(seen.header("content-type"), "text/html; charset=utf-8");
        seen
    }

    /// Returns the token that this session's forms carry.
    pub(crate) async fn csrf_token(&self) -> String {
        let page = self.page("/console/keys").await;
        page.between("name=\"word\" value=\"", "\"").to_owned()
    }

    /// Sends a form of this session.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Seen {
        let word = self.csrf_token().await;
        let mut fields = fields.to_vec();
        fields.push(("word", &word));
        Seen::of(
            form(self.request(Method::POST, path), &fields).header("Sec-Fetch-Site", "same-origin"),
        )
        .await
    }
}

/// Attempts to sign in.
pub(crate) async fn post_sign_in(http: &Client, api: &str, key: &str) -> Seen {
    let request = http.post(format!("{api}/console/sign-in"));
    Seen::of(form(request, &[("key", key)]).header("Sec-Fetch-Site", "same-origin")).await
}

/// Adds a form's body to the request.
pub(crate) fn form(request: RequestBuilder, fields: &[(&str, &str)]) -> RequestBuilder {
    let mut body = String::new();
    for (name, value) in fields {
        if !body.is_empty() {
            body.push('&');
        }
        body.push_str(&format!("{name}={}", percent(value)));
    }
    request
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(body)
}

fn percent(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}
