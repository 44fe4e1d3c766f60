//! Runs the examples of docs/clients.md verbatim against the running service and a webhook that it
//! really sent.
//!
//! A language that is not installed is skipped with a printed line. If `PORCHLIGHT_EXAMPLES` is
//! `required`, that is a failure.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::receiver::{Authority, OK, Receiver};
use crate::server::{Folder, Server};
use crate::service::{Customer, customer, serve};

/// The folder for temporary files. `tsx` opens a socket in it, whose path must be short.
const SHORT_FOLDER: &str = "/tmp";

const PAGE: &str = include_str!("../../docs/clients.md");

/// Returns the examples on the page under this name (`send`, `verify`), by language.
fn examples(name: &str) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    for block in PAGE.split("\n```").skip(1) {
        let Some((info, code)) = block.split_once('\n') else {
            continue;
        };
        if let Some((language, what)) = info.split_once(' ')
            && what == name
        {
            found.push((language, code));
        }
    }
    let languages: Vec<_> = found.iter().map(|(language, _)| *language).collect();
    assert_eq!(languages, ["bash", "python", "ts"], "{name}");
    found
}

/// Returns the command that runs a language, or `None` if it is not installed.
fn interpreter(language: &str) -> Option<Vec<String>> {
    let tsx =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/checks/node/node_modules/.bin/tsx");
    let command: Vec<String> = match language {
        "bash" => vec!["bash".into(), "-eu".into()],
        "python" => vec!["python3".into()],
        _ if tsx.exists() => vec![tsx.to_string_lossy().into_owned()],
        _ => vec!["node".into(), "--experimental-strip-types".into()],
    };
    let mut version_command = Command::new(&command[0]);
    let version = version_command
        .arg("--version")
        .args(&command[1..])
        .env("TMPDIR", SHORT_FOLDER)
        .output();
    if version.is_ok_and(|output| output.status.success()) {
        return Some(command);
    }
    let is_required =
        std::env::var_os("PORCHLIGHT_EXAMPLES").is_some_and(|value| value == "required");
    assert!(!is_required, "{language} is not installed");
    eprintln!("skipped: {language} is not installed");
    None
}

/// Runs a script with these variables and returns its output.
fn run(
    folder: &Folder,
    language: &str,
    script: &str,
    variables: &[(&str, &str)],
) -> Option<String> {
    let command = interpreter(language)?;
    let ending = match language {
        "bash" => "sh",
        "python" => "py",
        _ => "mts",
    };
    let file = folder.path().join(format!("example.{ending}"));
    std::fs::write(&file, script).unwrap();
    let output = Command::new(&command[0])
        .args(&command[1..])
        .arg(&file)
        .envs(variables.iter().copied())
        // No proxy of this machine reaches the service.
        .envs(["NO_PROXY", "no_proxy"].map(|name| (name, "127.0.0.1")))
        .env("TMPDIR", SHORT_FOLDER)
        .output()
        .unwrap();
    let (printed, failed) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(
        output.status.success(),
        "{language}: {printed}{failed}\n{script}"
    );
    Some(printed)
}

#[tokio::test(flavor = "multi_thread")]
async fn data_sent_by_the_examples_is_in_the_insight() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority);
    let customer = customer(&server);
    for (number, (language, script)) in examples("send").into_iter().enumerate() {
        let variables = [
            ("PORCHLIGHT_URL", server.api.as_str()),
            ("PORCHLIGHT_KEY", customer.key.as_str()),
        ];
        let Some(printed) = run(&folder, language, script, &variables) else {
            continue;
        };
        assert!(
            printed.contains("ackSeq") && printed.contains("completed"),
            "{language}: {printed}"
        );
        let sessions = customer.get("/v1/sessions").await.1;
        let newest = &sessions["data"][0];
        assert_eq!(newest["status"], "completed", "{language}, {number}");
        ready(&customer, newest["sessionId"].as_str().unwrap()).await;
    }
    server.stop();
}

/// Waits for a session's insight.
async fn ready(customer: &Customer, session_id: &str) {
    for _ in 0..2_400 {
        let insight = customer
            .get(&format!("/v1/sessions/{session_id}/insights"))
            .await;
        if insight.1["status"] == "ready" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{session_id} was not scored");
}

/// Returns a request that the service sent during an overlap: the previous and the current secret,
/// its headers in lower case, and its body.
async fn sent(server: &Server, authority: &Authority) -> (String, String, Value, String) {
    let customer = customer(server);
    let receiver = Receiver::answering(authority, vec![OK.to_owned()]).await;
    let made = customer
        .post("/v1/webhooks", json!({ "url": receiver.local_url() }))
        .await;
    let old_secret = made.1["secret"].as_str().unwrap().to_owned();
    let rotated = customer.post("/v1/webhooks/rotate", json!({})).await;
    let secret = rotated.1["secret"].as_str().unwrap().to_owned();
    customer.start().await.unwrap();
    customer.row("/v1/webhooks/deliveries", "delivered").await;
    let request = receiver.requests.lock().unwrap()[0].clone();
    let (headers, body) = split(&request);
    (old_secret, secret, headers, body)
}

/// Splits a request into its headers, with lowercase names, and its body.
pub(crate) fn split(request: &str) -> (Value, String) {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let headers = head.lines().skip(1);
    let headers = headers.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.into()));
    (Value::Object(headers.collect()), body.to_owned())
}

/// Asserts that a request matches the document's description of its event: each header that the
/// service adds, and the body.
pub(crate) fn assert_documented(headers: &Value, body: &str) {
    let document = porchlight_api::openapi::document();
    let body: Value = serde_json::from_str(body).unwrap();
    let operation = &document["webhooks"][body["event"].as_str().unwrap()]["post"];
    let parameters = operation["parameters"].as_array().unwrap();
    let resolved = |one: &Value| document.pointer(&one["$ref"].as_str().unwrap()[1..]);
    let parameters: Vec<&Value> = parameters
        .iter()
        .map(|one| resolved(one).unwrap())
        .collect();
    for parameter in &parameters {
        let name = parameter["name"].as_str().unwrap().to_lowercase();
        let is_there = headers[&name].is_string();
        assert!(is_there || parameter["required"] == false, "{name}");
    }
    let ours = headers.as_object().unwrap().keys();
    for name in ours.filter(|name| name.starts_with("x-") || name.starts_with("webhook-")) {
        let mut names = parameters.iter().map(|one| one["name"].as_str().unwrap());
        assert!(names.any(|known| known.to_lowercase() == *name), "{name}");
    }
    let mut schema = operation["requestBody"]["content"]["application/json"]["schema"].clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> = validator
        .iter_errors(&body)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// Returns the end of a script that prints `true` or `false` for each case: the secret, the
/// headers, the body.
fn verify_calls(language: &str, cases: &[(String, Value, String)]) -> String {
    let mut script = String::new();
    for (secret, headers, body) in cases {
        let (headers_text, text) = (headers.to_string(), Value::from(body.as_str()).to_string());
        let header = |name: &str| quoted(headers[name].as_str().unwrap_or_default());
        let signature = header("x-service-signature");
        let previous = header("x-service-signature-previous");
        // Writing to a string cannot fail.
        let _ = match language {
            "bash" => write!(
                script,
                "printf '%s' {} > body\nif verify '{secret}' 'body' {signature} {previous}; then echo true; else echo false; fi\n",
                quoted(body)
            ),
            "python" => write!(
                script,
                "\nimport email.message, json\nm = email.message.Message()\nfor pair in json.loads({}).items(): m.add_header(*pair)\n\
                 body = json.loads({}).encode()\nprint(str(verify('{secret}', m, body)).lower())\n\
                 print(str(verify_standard('{secret}', m, body)).lower())\n",
                Value::from(headers_text),
                Value::from(text),
            ),
            _ => write!(
                script,
                "\n{{ const headers = {headers_text}, body = Buffer.from({text});\n\
                 console.log(verify('{secret}', headers, body)); console.log(verifyStandard('{secret}', headers, body)); }}\n"
            ),
        };
    }
    script
}

/// Quotes a text as one word of a shell command.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_verify_webhook_signatures() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let server = serve(&folder, &authority);
    let (old_secret, secret, headers, body) = sent(&server, &authority).await;
    let other = porchlight_core::webhook::signature::secret_text(&[3; 32]);
    let cases = [
        (secret.clone(), headers.clone(), body.clone()),
        (other, headers.clone(), body.clone()),
        (
            secret.clone(),
            headers.clone(),
            body.replacen("session", "sessiom", 1),
        ),
        // During an overlap a receiver may have either secret.
        (old_secret, headers, body.clone()),
        // With a missing or malformed header the signature is not valid, and the script does not
        // fail.
        (secret.clone(), json!({}), body.clone()),
        (
            secret.clone(),
            json!({ "x-service-signature": "é", "webhook-signature": "é v1,", "webhook-timestamp": "soon" }),
            body.clone(),
        ),
        (
            secret,
            json!({ "x-service-signature": "sha256=", "webhook-timestamp": "-1" }),
            body,
        ),
    ];
    assert_documented(&cases[0].1, &cases[0].2);
    for (language, script) in examples("verify") {
        let script = format!("{script}\n{}", verify_calls(language, &cases));
        let script = script.replace("> body", &format!("> '{}/body'", folder.path().display()));
        let script = script.replace("'body' ", &format!("'{}/body' ", folder.path().display()));
        let Some(printed) = run(&folder, language, &script, &[]) else {
            continue;
        };
        let printed: Vec<_> = printed.lines().collect();
        let of_each = if language == "bash" { 1 } else { 2 };
        let expected = ["true", "false", "false", "true", "false", "false", "false"]
            .map(|word| vec![word; of_each])
            .concat();
        assert_eq!(printed, expected, "{language}");
    }
    server.stop();
}
