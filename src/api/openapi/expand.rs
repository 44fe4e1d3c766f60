//! The short forms of the source, expanded into plain OpenAPI.

use actix_web::http::Method;
use porchlight_http::permission;
use porchlight_http::problem::Code;
use porchlight_observe::http::Route;
use porchlight_schema::key::Permission;
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::limits::substituted;
use super::problems::{Codes, Credentials, Problems, code};

/// The reason why the source of the document cannot be expanded.
#[derive(Debug, Error)]
pub enum SourceError {
    /// The source is not YAML.
    #[error("the source is not YAML: {0}")]
    Yaml(#[from] yaml_serde::Error),
    /// A `$NAME` has no value.
    #[error("unknown limit: {0}")]
    UnknownLimit(String),
    /// `x-problems` names a code that does not exist.
    #[error("unknown problem code: {0}")]
    UnknownCode(String),
    /// `x-credentials` names anything other than `secret`, `client` or `sessionToken`.
    #[error("unknown kind of credential: {0}")]
    UnknownCredential(String),
    /// An operation lacks a part.
    #[error("{0} is missing or has the wrong type")]
    Missing(String),
}

/// Expands the source.
///
/// # Errors
///
/// See [`SourceError`].
pub(super) fn document(source: &str) -> Result<Value, SourceError> {
    let mut yaml: yaml_serde::Value = yaml_serde::from_str(source)?;
    yaml.apply_merge()?;
    let mut document: Value = yaml_serde::from_value(yaml)?;
    substitute(&mut document)?;
    let top = fields(&mut document, "the document")?;
    top.remove("x-examples");
    let groups = top.remove("x-problem-groups").unwrap_or_default();
    let base = document["components"]["schemas"]["Problem"].clone();
    let mut problems = Problems::new(&groups, base);
    for (path, methods) in fields(&mut document["paths"], "paths")? {
        for (method, operation) in fields(methods, path)? {
            let permission = permission(path, method);
            self::operation(
                &format!("{method} {path}"),
                permission,
                operation,
                &mut problems,
            )?;
        }
    }
    let (mut responses, schemas) = problems.into_components();
    responses.values_mut().for_each(headers);
    let components = &mut document["components"];
    components["responses"] = responses.into();
    fields(&mut components["schemas"], "components.schemas")?.extend(schemas);
    Ok(document)
}

/// Returns the fields of an object.
fn fields<'v>(value: &'v mut Value, name: &str) -> Result<&'v mut Map<String, Value>, SourceError> {
    let fields = value.as_object_mut();
    fields.ok_or_else(|| SourceError::Missing(name.to_owned()))
}

/// Replaces each `$NAME`.
fn substitute(value: &mut Value) -> Result<(), SourceError> {
    match value {
        Value::String(text) if text.contains('$') => {
            *value = substituted(text).map_err(SourceError::UnknownLimit)?;
        }
        Value::Object(fields) => fields.values_mut().try_for_each(substitute)?,
        Value::Array(values) => values.iter_mut().try_for_each(substitute)?,
        _ => {}
    }
    Ok(())
}

/// Returns the permission that an operation needs of a secret key.
fn permission(path: &str, method: &str) -> Permission {
    let route = Route::ALL.iter().find(|route| route.as_str() == path);
    let method: Method = method.to_ascii_uppercase().parse().unwrap_or_default();
    permission::needed(route.copied(), &method)
}

/// Expands one operation.
fn operation(
    name: &str,
    permission: Permission,
    operation: &mut Value,
    problems: &mut Problems,
) -> Result<(), SourceError> {
    let missing = |part: &str| SourceError::Missing(format!("{part} of {name}"));
    let words = |part: &str| -> Result<Vec<String>, SourceError> {
        let words = operation[part].as_array().ok_or_else(|| missing(part))?;
        let words = words.iter().filter_map(Value::as_str).map(str::to_owned);
        Ok(words.collect())
    };
    let credentials = credentials(&words("x-credentials")?)?;
    let mut codes = Codes::default();
    codes.add(&credentials.problems());
    if !credentials.is_none() && !name.starts_with("get ") {
        codes.add(&[Code::StoreFull]);
    }
    if credentials.secret && permission != Permission::Read {
        codes.add(&[Code::RoleForbidden]);
    }
    for word in words("x-problems")? {
        let code = code(&word).ok_or(SourceError::UnknownCode(word))?;
        codes.add(&[code]);
    }
    // A push of an app has a body of any media type. Its problems are listed in `x-problems`.
    if !credentials.is_none() && operation["requestBody"].is_object() {
        codes.add_body();
    }
    let description = operation["description"].as_str();
    let description = description.ok_or_else(|| missing("description"))?;
    let description = format!(
        "{}\n\n{}",
        description.trim_end(),
        credentials.sentence(permission)
    );
    operation["description"] = description.into();
    if credentials.is_none() {
        operation["security"] = json!([]);
    }
    let responses = fields(&mut operation["responses"], name)?;
    let is_json = |response: &Value| response["content"]["application/json"].is_object();
    if !credentials.is_none() && responses.values().any(is_json) {
        codes.add(&[Code::NotAcceptable]);
    }
    for response in responses.values_mut() {
        headers(response);
        if !credentials.is_none() {
            for name in ["RateLimit", "RateLimit-Policy"] {
                let target = format!("#/components/headers/{name}");
                response["headers"][name] = json!({ "$ref": target });
            }
        }
    }
    responses.extend(problems.responses_of(&codes));
    fields(operation, name)?.remove("x-problems");
    Ok(())
}

fn credentials(words: &[String]) -> Result<Credentials, SourceError> {
    let mut credentials = Credentials {
        secret: false,
        client: false,
        token: false,
    };
    for word in words {
        match word.as_str() {
            "secret" => credentials.secret = true,
            "client" => credentials.client = true,
            "sessionToken" => credentials.token = true,
            _ => return Err(SourceError::UnknownCredential(word.clone())),
        }
    }
    Ok(credentials)
}

/// Expands `x-headers` of a response and adds the header that every response carries.
fn headers(response: &mut Value) {
    let Some(response) = response.as_object_mut() else {
        return;
    };
    let named = response.remove("x-headers").unwrap_or_default();
    let named = named.as_array().into_iter().flatten();
    let names = named.filter_map(Value::as_str).chain(["X-Request-Id"]);
    let headers: Map<String, Value> = names
        .map(|name| {
            let target = format!("#/components/headers/{name}");
            (name.to_owned(), json!({ "$ref": target }))
        })
        .collect();
    response.insert("headers".into(), headers.into());
}
