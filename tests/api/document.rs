//! Checks the OpenAPI document against the running service: every route is documented, every
//! documented path is a route, and each answer that a test receives matches the document.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use porchlight_api::openapi;
use porchlight_http::problem::Code;
use porchlight_observe::http::Route;
use porchlight_schema::sample::json::decode_batch;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::server::Server;

static DOCUMENT: LazyLock<&Value> = LazyLock::new(openapi::document);

/// Returns a validator of the schema at `pointer`, with everything it refers to. Each is compiled
/// once for all tests.
fn validator(pointer: &str) -> Arc<jsonschema::Validator> {
    static MADE: Mutex<BTreeMap<String, Arc<jsonschema::Validator>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || {
        let mut schema = json!({ "$ref": format!("#{pointer}") });
        for part in ["components", "paths", "webhooks"] {
            schema[part] = DOCUMENT[part].clone();
        }
        let options = jsonschema::options().should_validate_formats(true);
        Arc::new(options.build(&schema).unwrap())
    };
    Arc::clone(made.entry(pointer.to_owned()).or_insert_with(make))
}

/// Escapes a word as a part of a JSON pointer, and of a reference.
fn escaped(word: &str) -> String {
    let word = word.replace('~', "~0").replace('/', "~1");
    word.replace('{', "%7B").replace('}', "%7D")
}

/// Asserts that `value` matches the schema at `pointer`.
#[track_caller]
fn assert_valid(pointer: &str, value: &Value) {
    let validator = validator(pointer);
    let errors: Vec<_> = validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{pointer}: {errors:#?}\n{value:#}");
}

#[actix::test]
async fn the_service_serves_the_document() {
    let server = Server::start().await;
    let answer = Answer::of(server.request(Method::GET, "/openapi.json")).await;
    assert_eq!(
        (answer.status, answer.text.as_str()),
        (200, openapi::text())
    );
    let tag = answer.header("etag");
    for (known, status) in [
        (tag.to_owned(), 304),
        (format!("\"x\", W/{tag}"), 304),
        ("*".to_owned(), 304),
        ("\"x\"".to_owned(), 200),
    ] {
        let again = server.request(Method::GET, "/openapi.json");
        let again = again.header("If-None-Match", &known);
        assert_eq!(Answer::of(again).await.status, status, "{known}");
    }
    server.stop().await;
}

/// Returns whether an app pushes its data to this path.
fn is_push(path: &str) -> bool {
    path.starts_with("/r/{token}/") && !path.ends_with("/status")
}

/// Returns the documented paths with their methods, as `Allow` would list them.
fn documented() -> BTreeMap<&'static str, String> {
    let paths = DOCUMENT["paths"].as_object().unwrap().iter();
    let allowed = paths.map(|(path, methods)| {
        let mut methods: Vec<_> = methods
            .as_object()
            .unwrap()
            .keys()
            .map(|method| method.to_uppercase())
            .collect();
        // The path of the WebSocket has no HEAD, and a push by HEAD would record.
        let has_head = !path.ends_with("/telemetry") && !is_push(path);
        if methods.contains(&"GET".to_owned()) && has_head {
            methods.push("HEAD".to_owned());
        }
        methods.sort();
        (path.as_str(), methods.join(", "))
    });
    allowed.collect()
}

#[actix::test]
async fn every_route_is_documented_and_every_documented_path_is_a_route() {
    let server = Server::start().await;
    let patterns = Route::ALL.iter().map(|route| route.as_str());
    let routed = patterns.filter(|pattern| {
        is_push(pattern)
            || pattern.starts_with("/v1/")
            || matches!(*pattern, "/openapi.json" | "/porchlight.proto" | "/docs")
    });
    let documented = documented();
    let paths: BTreeSet<&str> = routed.chain(documented.keys().copied()).collect();
    for path in paths {
        let id = if path.contains("deliveries") {
            "dlv_00000000000000000000000000"
        } else {
            "ses_00000000000000000000000000"
        };
        let refused = Answer::of(server.request(Method::PATCH, &path.replace("{id}", id))).await;
        let allow = documented
            .get(path)
            .map_or("not documented", String::as_str);
        let routed = match refused.status {
            405 => refused.header("allow"),
            _ => "not routed",
        };
        assert_eq!(routed, allow, "{path}: {refused:?}");
    }
    server.stop().await;
}

/// Returns the target of a reference; any other value is returned unchanged.
fn resolved(value: &'static Value) -> &'static Value {
    let pointer = value["$ref"]
        .as_str()
        .and_then(|text| text.strip_prefix('#'));
    pointer.map_or(value, |pointer| DOCUMENT.pointer(pointer).unwrap())
}

/// Returns the problem codes that an answer documents.
fn codes(answer: &'static Value) -> Vec<&'static str> {
    let schema = &resolved(answer)["content"]["application/problem+json"]["schema"];
    let schema = resolved(schema);
    let either = schema["oneOf"]
        .as_array()
        .map_or(vec![schema], |either| either.iter().map(resolved).collect());
    let codes = either
        .into_iter()
        .map(|one| &one["properties"]["code"]["const"]);
    codes.filter_map(Value::as_str).collect()
}

#[test]
fn every_code_is_documented() {
    let mut documented = BTreeSet::new();
    each_answer(|_, answer| documented.extend(codes(answer)));
    // This code answers unknown paths, which no document lists.
    let known = Code::ALL.iter().filter(|code| **code != Code::NotFound);
    for code in known {
        assert!(documented.contains(code.as_str()), "{code:?}");
    }
}

/// Passes every answer of every operation to `one`, with its pointer.
fn each_answer(mut one: impl FnMut(String, &'static Value)) {
    for (path, methods) in DOCUMENT["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let path = escaped(path);
                one(format!("/paths/{path}/{method}/responses/{status}"), answer);
            }
        }
    }
}

/// Finds every place of the document that has a schema and examples of it.
fn with_examples(pointer: String, value: &Value, found: &mut Vec<(String, Value)>) {
    let Some(fields) = value.as_object() else {
        return;
    };
    if fields.contains_key("schema") {
        let examples = fields.get("examples").and_then(Value::as_object);
        let examples = examples.into_iter().flatten().map(|(_, one)| &one["value"]);
        for example in examples.chain(fields.get("example")) {
            found.push((format!("{pointer}/schema"), example.clone()));
        }
    }
    for (name, value) in fields {
        if name != "examples" && name != "example" {
            with_examples(format!("{pointer}/{}", escaped(name)), value, found);
        }
    }
}

#[test]
fn examples_match_their_schemas() {
    let mut found = Vec::new();
    for part in ["paths", "webhooks", "components"] {
        with_examples(format!("/{part}"), &DOCUMENT[part], &mut found);
    }
    assert!(found.len() > 80, "{} examples", found.len());
    for (pointer, example) in found {
        assert_valid(&pointer, &example);
    }
}

/// Returns a sample of each kind, with each field at the value that `edge` selects from its schema.
fn edges(edge: &str) -> Vec<(Value, String)> {
    let schemas = DOCUMENT["components"]["schemas"].as_object().unwrap();
    let mut samples = Vec::new();
    for (name, schema) in schemas
        .iter()
        .filter(|(name, _)| name.ends_with("Sample") && *name != "Sample")
    {
        let fields = schema["properties"].as_object().unwrap();
        let plain: serde_json::Map<_, _> = fields
            .iter()
            .filter(|(field, _)| {
                schema["required"]
                    .as_array()
                    .unwrap()
                    .contains(&json!(field))
            })
            .map(|(field, schema)| (field.clone(), within(schema)))
            .collect();
        for (field, schema) in fields {
            if let Some(limit) = schema[edge].as_f64() {
                let mut sample = plain.clone();
                sample.insert(field.clone(), json!(limit));
                samples.push((Value::Object(sample), format!("{name}/{field}")));
            }
        }
    }
    samples
}

/// Returns a value that the schema of a sample's field allows.
fn within(schema: &'static Value) -> Value {
    let schema = resolved(schema);
    if let Some(word) = schema.get("const") {
        return word.clone();
    }
    if let Some(words) = schema["enum"].as_array() {
        return words[0].clone();
    }
    match schema["type"].as_str() {
        Some("array") => json!([0.5]),
        Some("string") => json!("x"),
        _ => schema["minimum"].clone(),
    }
}

#[test]
fn documented_sample_ranges_match_the_accepted_ranges() {
    let decode = |sample: &Value| {
        let batch = json!({ "seq": 0, "samples": [sample] }).to_string();
        decode_batch(batch.as_bytes()).map(|_| ())
    };
    for (edge, beyond) in [("minimum", -1.0), ("maximum", 1.0)] {
        let edges = edges(edge);
        assert!(edges.len() > 20, "{edge}: {} fields", edges.len());
        for (mut sample, name) in edges {
            assert_valid("/components/schemas/Sample", &sample);
            // A count is an integer, and is written as one.
            let field = name.split('/').nth(1).unwrap();
            let limit = sample[field].as_f64().unwrap();
            assert!(decode(&sample).is_ok(), "{name}: {sample}");
            sample[field] = json!(limit + beyond);
            assert!(decode(&sample).is_err(), "{name}: {sample}");
            assert!(
                !validator("/components/schemas/Sample").is_valid(&sample),
                "{name}: {sample}"
            );
        }
    }
}

/// Returns the documented path template of a request's path.
fn template(path: &str) -> Option<&'static str> {
    let matches = |template: &str| {
        let (parts, wanted): (Vec<_>, Vec<_>) =
            (path.split('/').collect(), template.split('/').collect());
        parts.len() == wanted.len()
            && parts.iter().zip(&wanted).all(|(part, wanted)| {
                (wanted.starts_with('{') && !part.is_empty()) || part == wanted
            })
    };
    let paths = DOCUMENT["paths"].as_object().unwrap().keys();
    // Literal segments take precedence over ids, as in the router.
    paths
        .filter(|path| matches(path))
        .min_by_key(|path| path.matches('{').count())
        .map(String::as_str)
}

/// Asserts that the document has this answer for this request: its status, code, headers and body.
#[track_caller]
pub(crate) fn assert_documented(
    method: &Method,
    path: &str,
    status: u16,
    headers: &HeaderMap,
    text: &str,
) {
    let Some(template) = template(path) else {
        return;
    };
    // A preflight request is the browser's own; the document describes it in words.
    if method == Method::OPTIONS && status == 204 {
        return;
    }
    let method = if method == Method::HEAD {
        "get".to_owned()
    } else {
        method.as_str().to_lowercase()
    };
    let pointer = format!("/paths/{}/{method}", template.replace('/', "~1"));
    let Some(operation) = DOCUMENT.pointer(&pointer) else {
        assert!(matches!(status, 404 | 405), "{method} {path}: {status}");
        return;
    };
    let answer = operation["responses"].get(status.to_string());
    let answer =
        answer.unwrap_or_else(|| panic!("{method} {template}: {status} is not documented: {text}"));
    let answer = resolved(answer);
    let is_to_document = |name: &str| match name {
        "x-content-type-options" => false,
        "content-disposition" | "location" | "referrer-policy" => true,
        _ => name.starts_with("x-"),
    };
    for name in headers.keys().filter(|name| is_to_document(name.as_str())) {
        let known = answer["headers"].as_object().unwrap().keys();
        let mut known = known.map(|known| known.to_lowercase());
        assert!(
            known.any(|known| known == name.as_str()),
            "{method} {template} {status}: {name}"
        );
    }
    let media = headers
        .get("content-type")
        .map_or("", |value| value.to_str().unwrap());
    let media = media.split(';').next().unwrap_or_default();
    if media.is_empty() {
        return;
    }
    let content = answer["content"].get(media);
    assert!(
        content.is_some(),
        "{method} {template} {status}: {media} is not documented"
    );
    if media == "application/x-ndjson" {
        for line in text.lines() {
            let line = serde_json::from_str(line).unwrap();
            assert_valid("/components/schemas/TelemetryLineResult", &line);
        }
    } else if media.ends_with("json") && !text.is_empty() {
        let given = &operation["responses"][status.to_string()]["$ref"];
        let place = given.as_str().map_or_else(
            || format!("/paths/{}/{method}/responses/{status}", escaped(template)),
            |target| target.trim_start_matches('#').to_owned(),
        );
        assert_valid(
            &format!("{place}/content/{}/schema", escaped(media)),
            &serde_json::from_str(text).unwrap(),
        );
    }
}
