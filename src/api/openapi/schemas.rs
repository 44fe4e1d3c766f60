//! The schemas. What they allow the service takes: ranges stand here as numbers of `limits`, and a test sends what lies
//! at and beyond each edge.

mod answers;
mod requests;
mod samples;

use serde_json::{Map, Value, json};

/// All of them, by name.
pub(super) fn all() -> Value {
    let mut schemas = Map::new();
    for part in [requests::all(), samples::all(), answers::all()] {
        if let Value::Object(part) = part {
            schemas.extend(part);
        }
    }
    schemas.into()
}

/// The same schema, or null.
fn or_null(mut schema: Value) -> Value {
    if let Some(name) = schema.get("type").and_then(Value::as_str) {
        schema["type"] = json!([name, "null"]);
        if let Some(Value::Array(words)) = schema.get_mut("enum") {
            words.push(Value::Null);
        }
        return schema;
    }
    json!({ "anyOf": [schema, { "type": "null" }] })
}

/// A text of `min` to `max` characters.
fn text(min: usize, max: usize, description: &str) -> Value {
    json!({ "type": "string", "minLength": min, "maxLength": max, "description": description })
}

/// A number in a closed range.
fn number(min: f64, max: f64, description: &str) -> Value {
    json!({ "type": "number", "minimum": min, "maximum": max, "description": description })
}

/// A whole number in a closed range.
fn whole(min: i64, max: i64, description: &str) -> Value {
    json!({ "type": "integer", "minimum": min, "maximum": max, "description": description })
}

/// One of a closed list of words.
fn words<'a>(words: impl IntoIterator<Item = &'a str>, description: &str) -> Value {
    let words: Vec<_> = words.into_iter().collect();
    json!({ "type": "string", "enum": words, "description": description })
}

/// An object; `required` are names among `properties`.
fn object(description: &str, required: &[&str], properties: Value) -> Value {
    let mut schema =
        json!({ "type": "object", "description": description, "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// An object in which everything is always there.
fn whole_object(description: &str, properties: Value) -> Value {
    let names: Vec<String> = properties
        .as_object()
        .into_iter()
        .flat_map(|properties| properties.keys().cloned())
        .collect();
    json!({ "type": "object", "description": description, "required": names, "properties": properties })
}
