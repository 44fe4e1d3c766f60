use serde_json::{Value, json};

use super::*;

#[test]
fn it_says_which_version_it_is_of() {
    let document = document();
    assert_eq!(
        (&document["openapi"], &document["info"]["version"]),
        (&json!("3.1.0"), &json!("1.0.0"))
    );
}

/// Every reference in it, by its path from the root.
fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(target) if name == "$ref" => found.push(target),
                    _ => references(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn references_lead_somewhere_and_all_components_are_used() {
    let document = document();
    let mut found = Vec::new();
    references(&document, &mut found);
    for target in &found {
        let pointer = target.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{target}");
    }
    for (kind, named) in document["components"].as_object().unwrap() {
        if kind != "securitySchemes" {
            for name in named.as_object().unwrap().keys() {
                let target = format!("#/components/{kind}/{name}");
                assert!(found.contains(&target.as_str()), "{target} is not used");
            }
        }
    }
}
