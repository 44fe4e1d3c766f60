//! Tests the OpenAPI document against the code.

use porchlight_core::audit::Action;
use porchlight_core::webhook::Cause;
use porchlight_http::problem::Code;
use porchlight_ports::DeliveryStatus;
use porchlight_schema::event::EventType;
use porchlight_schema::ids::{EndpointId, MessageId, OrganizationId, SessionId};
use porchlight_schema::insight::{InsightStatus, ReasonCode};
use porchlight_schema::message::MessageEvent;
use porchlight_schema::review::ReviewState;
use porchlight_schema::sample::{ActivityType, Kind, Provider, SystemName};
use porchlight_schema::session::{Env, PodType, SessionStatus, SessionType};
use serde::Serialize;
use serde_json::{Value, json};

use super::expand::SourceError;
use super::*;

fn schema(name: &str) -> &'static Value {
    let schema = &document()["components"]["schemas"][name];
    assert!(schema.is_object(), "{name}");
    schema
}

#[test]
fn the_document_states_its_versions() {
    assert_eq!(
        (&document()["openapi"], &document()["info"]["version"]),
        (&json!("3.1.0"), &json!("1.0.0"))
    );
}

/// Calls `visit` with each value below `value`, and the path to it.
fn walk<'v>(value: &'v Value, path: &str, visit: &mut impl FnMut(&str, &'v Value)) {
    visit(path, value);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                walk(value, &format!("{path}/{name}"), visit);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                walk(value, &format!("{path}/{index}"), visit);
            }
        }
        _ => {}
    }
}

#[test]
fn references_resolve_and_all_components_are_used() {
    let mut found = Vec::new();
    walk(document(), "", &mut |_, value| {
        found.extend(value.get("$ref").and_then(Value::as_str));
    });
    for target in &found {
        let pointer = target.strip_prefix('#').unwrap();
        assert!(document().pointer(pointer).is_some(), "{target}");
    }
    for (kind, named) in document()["components"].as_object().unwrap() {
        if kind != "securitySchemes" {
            for name in named.as_object().unwrap().keys() {
                let target = format!("#/components/{kind}/{name}");
                assert!(found.contains(&target.as_str()), "{target} is not used");
            }
        }
    }
}

/// Returns the name of a value as JSON writes it.
fn written(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap();
    value.as_str().unwrap().to_owned()
}

#[test]
fn the_enums_match_the_code() {
    fn names<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str) -> Vec<String> {
        all.iter().map(|one| name(*one).to_owned()).collect()
    }
    let enums = [
        ("EventType", names(&EventType::ALL, EventType::as_str)),
        ("ReasonCode", names(&ReasonCode::ALL, ReasonCode::as_str)),
        (
            "ActivityType",
            names(ActivityType::ALL, ActivityType::as_str),
        ),
        ("LocationProvider", names(Provider::ALL, Provider::as_str)),
        ("SystemEvent", names(SystemName::ALL, SystemName::as_str)),
        (
            "WebhookEventType",
            names(&MessageEvent::ALL, MessageEvent::as_str),
        ),
        (
            "WebhookDeliveryStatus",
            names(&DeliveryStatus::ALL, DeliveryStatus::as_str),
        ),
        ("AuditAction", names(Action::ALL, Action::as_str)),
        ("ReviewState", names(&ReviewState::ALL, ReviewState::as_str)),
        ("WebhookFailureCause", names(&Cause::ALL, Cause::as_str)),
        ("Environment", Env::ALL.iter().map(written).collect()),
        (
            "InsightStatus",
            [
                InsightStatus::Processing,
                InsightStatus::Ready,
                InsightStatus::Failed,
            ]
            .iter()
            .map(written)
            .collect(),
        ),
        (
            "SessionStatus",
            [SessionStatus::Recording, SessionStatus::Completed]
                .iter()
                .map(written)
                .collect(),
        ),
        (
            "SessionType",
            [
                SessionType::Delivery,
                SessionType::Pickup,
                SessionType::Return,
            ]
            .iter()
            .map(written)
            .collect(),
        ),
        (
            "PodType",
            [PodType::Photo, PodType::Signature, PodType::Note]
                .iter()
                .map(written)
                .collect(),
        ),
    ];
    for (name, expected) in enums {
        assert_eq!(schema(name)["enum"], json!(expected), "{name}");
    }
}

#[test]
fn every_value_of_an_extensible_enum_is_explained() {
    for name in [
        "EventType",
        "ReasonCode",
        "WebhookDeliveryStatus",
        "WebhookFailureCause",
    ] {
        let description = schema(name)["description"].as_str().unwrap();
        assert!(description.contains("New values may be added."), "{name}");
        for value in schema(name)["enum"].as_array().unwrap() {
            let explained = format!("`{}`: ", value.as_str().unwrap());
            assert!(description.contains(&explained), "{name}: {value}");
        }
    }
}

#[test]
fn samples_are_discriminated_by_kind() {
    let sample = schema("Sample");
    let mapping = sample["discriminator"]["mapping"].as_object().unwrap();
    assert_eq!(mapping.len(), Kind::ALL.len());
    for kind in Kind::ALL {
        let target = mapping[kind.as_str()].as_str().unwrap();
        assert!(
            sample["oneOf"]
                .as_array()
                .unwrap()
                .contains(&json!({ "$ref": target }))
        );
        let name = target.rsplit('/').next().unwrap();
        assert_eq!(schema(name)["properties"]["kind"]["const"], kind.as_str());
    }
}

#[test]
fn id_prefixes_match_the_code() {
    for (name, prefix) in [
        ("SessionId", SessionId::PREFIX),
        ("OrganizationId", OrganizationId::PREFIX),
        ("WebhookId", EndpointId::PREFIX),
        ("WebhookDeliveryId", MessageId::PREFIX),
    ] {
        let pattern = schema(name)["pattern"].as_str().unwrap();
        assert!(
            pattern.starts_with(&format!("^{prefix}")),
            "{name}: {pattern}"
        );
    }
}

/// Generators require a type next to each enum and constant and a format next to each number, and
/// treat a field with a default as required.
#[test]
fn schemas_are_compatible_with_code_generators() {
    let mut found = Vec::new();
    walk(&document()["components"], "", &mut |path, value| {
        let is = |kind: &str| {
            value["type"] == kind
                || value["type"]
                    .as_array()
                    .is_some_and(|kinds| kinds.contains(&json!(kind)))
        };
        let is_schema =
            value.is_object() && !path.ends_with("/properties") && !path.contains("/examples");
        if !is_schema {
            return;
        }
        if (value.get("const").is_some() || value.get("enum").is_some())
            && value.get("type").is_none()
        {
            found.push(format!("{path}: no type"));
        }
        if (is("number") || is("integer")) && value.get("format").is_none() {
            found.push(format!("{path}: no format"));
        }
        if value.get("default").is_some() {
            found.push(format!("{path}: a default"));
        }
    });
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn each_problem_code_has_a_model_of_its_own() {
    for code in Code::ALL {
        // This code answers unknown paths, which no document lists.
        if code.as_str() == "not_found" {
            continue;
        }
        let schemas = document()["components"]["schemas"].as_object().unwrap();
        let of_code = schemas.values().filter(|schema| {
            let properties = &schema["properties"];
            properties["code"]["const"] == code.as_str()
                && properties["status"]["const"] == code.status().as_u16()
        });
        assert_eq!(of_code.count(), 1, "{}", code.as_str());
    }
}

#[test]
fn a_mistake_in_the_source_is_found() {
    let with = |from: &str, to: &str| {
        assert!(SOURCE.contains(from), "{from}");
        expand::document(&SOURCE.replace(from, to)).unwrap_err()
    };
    assert!(matches!(
        with("$BATCH_SEQ_MAX", "$BATCH_SEQ_MOST"),
        SourceError::UnknownLimit(name) if name == "BATCH_SEQ_MOST"
    ));
    assert!(matches!(
        with("[webhook_not_found]", "[no_such]"),
        SourceError::UnknownCode(_)
    ));
    assert!(matches!(
        with("x-credentials: [secret]", "x-credentials: [everybody]"),
        SourceError::UnknownCredential(_)
    ));
    assert!(matches!(
        with("x-problems: []", "x-problem: []"),
        SourceError::Missing(_)
    ));
    assert!(matches!(
        with("openapi: 3.1.0", "openapi: [3.1.0"),
        SourceError::Yaml(_)
    ));
}

#[test]
fn every_named_limit_is_used() {
    for (name, _) in limits::NAMED {
        assert!(SOURCE.contains(&format!("${name}")), "{name}");
    }
}

/// In a flow mapping, a comma ends a text that is not quoted, and the rest of it becomes a keyword.
#[test]
fn no_keyword_contains_a_space() {
    let mut found = Vec::new();
    walk(document(), "", &mut |path, value| {
        if path.contains("/example") {
            return;
        }
        let names = value
            .as_object()
            .into_iter()
            .flat_map(|fields| fields.keys());
        let spaced = names.filter(|name| name.contains(' '));
        found.extend(spaced.map(|name| format!("{path}: {name}")));
    });
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_conflict_may_say_when_to_retry() {
    let mut conflicts = 0;
    for (name, response) in document()["components"]["responses"].as_object().unwrap() {
        let content = &response["content"]["application/problem+json"];
        let has_conflict = content["examples"]["conflict"].is_object();
        let status = content["examples"].as_object().unwrap();
        let status = &status.values().next().unwrap()["value"]["status"];
        let must_wait = matches!(status.as_u64(), Some(429 | 503));
        assert_eq!(
            response["headers"]["Retry-After"].is_object(),
            has_conflict || must_wait,
            "{name}"
        );
        conflicts += usize::from(has_conflict);
    }
    assert!(conflicts > 0);
}
