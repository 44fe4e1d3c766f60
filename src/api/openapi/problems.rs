//! The problems that operations can answer with: a schema for each code, and a shared response for
//! each set of codes.

use std::collections::{BTreeMap, BTreeSet};

use porchlight_http::problem::{self, Code};
use porchlight_schema::key::Permission;
use serde_json::{Map, Value, json};

/// The problems that any request with a JSON body, or a batch, can end in.
const BODY_PROBLEMS: [Code; 9] = [
    Code::BadRequest,
    Code::MalformedBody,
    Code::MalformedJson,
    Code::NotAcceptable,
    Code::BodyTimeout,
    Code::BodyTooLarge,
    Code::UnsupportedMediaType,
    Code::UnsupportedEncoding,
    Code::InvalidBody,
];

/// The kinds of credential that an operation accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) secret: bool,
    pub(super) client: bool,
    pub(super) token: bool,
}

impl Credentials {
    /// Returns whether the operation needs no credential.
    pub(super) fn is_none(self) -> bool {
        !(self.secret || self.client || self.token)
    }

    /// Returns the sentences for the description of an operation that needs this permission of a
    /// secret key.
    pub(super) fn sentence(self, permission: Permission) -> String {
        let kinds = match (self.secret, self.client, self.token) {
            (false, false, false) => "No credential is needed.",
            (true, false, false) => "Requires a secret key.",
            (true, true, false) => "Requires a secret key or a client key.",
            (true, false, true) => "Requires a secret key or the session's own token.",
            _ => "Requires a secret key, a client key, or the session's own token.",
        };
        let role = match permission {
            _ if !self.secret => "",
            Permission::Read => "",
            Permission::RetryDelivery => " The secret key needs the role `support` or `admin`.",
            Permission::Change => " The secret key needs the role `admin`.",
        };
        format!("{kinds}{role}")
    }

    /// Returns the problems that end a request before its content is read.
    pub(super) fn problems(self) -> Vec<Code> {
        let mut codes = vec![Code::MethodNotAllowed, Code::Internal];
        if self.is_none() {
            return codes;
        }
        codes.extend([
            Code::CredentialMissing,
            Code::CredentialInvalid,
            Code::InvalidParameter,
            Code::RateLimited,
            Code::TenantRequests,
            Code::Overloaded,
            Code::StoreUnavailable,
        ]);
        codes.extend(match (self.client, self.token) {
            (true, true) => vec![Code::OtherSession],
            (true, false) => vec![Code::KeyRequired],
            (false, true) => vec![Code::OtherSession, Code::SecretKeyRequired],
            (false, false) => vec![Code::SecretKeyRequired],
        });
        codes
    }
}

/// The codes that an operation can answer with, by status.
#[derive(Debug, Default)]
pub(super) struct Codes(BTreeMap<u16, BTreeSet<&'static str>>);

impl Codes {
    /// Adds codes to the list.
    pub(super) fn add(&mut self, codes: &[Code]) {
        for code in codes {
            let words = self.0.entry(code.status().as_u16()).or_default();
            words.insert(code.as_str());
        }
    }

    /// Adds the codes of a request body.
    pub(super) fn add_body(&mut self) {
        self.add(&BODY_PROBLEMS);
    }
}

/// Returns the code with this name, or `None` if there is no such code.
pub(super) fn code(name: &str) -> Option<Code> {
    let found = Code::ALL.iter().find(|code| code.as_str() == name);
    found.copied()
}

/// Returns a name such as `session_not_found` in Pascal case, `SessionNotFound`.
fn pascal_case(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    words.collect()
}

/// The shared responses and schemas that the operations use.
#[derive(Debug)]
pub(super) struct Problems {
    /// Names of sets of codes, as in the source.
    groups: BTreeMap<BTreeSet<String>, String>,
    responses: Map<String, Value>,
    schemas: Map<String, Value>,
    /// The schema that fits every code.
    base: Value,
}

impl Problems {
    /// Creates the builder without responses; `groups` names sets of codes, and `base` is the
    /// schema that fits every code.
    pub(super) fn new(groups: &Value, base: Value) -> Self {
        let groups = groups.as_object().into_iter().flatten();
        let groups = groups.map(|(name, codes)| {
            let codes = codes.as_array().into_iter().flatten();
            let codes = codes.filter_map(Value::as_str).map(str::to_owned);
            (codes.collect(), name.clone())
        });
        Self {
            groups: groups.collect(),
            responses: Map::new(),
            schemas: Map::new(),
            base,
        }
    }

    /// Returns the responses of an operation for these codes, by status, as references.
    pub(super) fn responses_of(&mut self, codes: &Codes) -> Vec<(String, Value)> {
        let statuses = codes.0.iter();
        let responses = statuses.map(|(status, words)| {
            let codes: Vec<Code> = Code::ALL
                .iter()
                .filter(|code| words.contains(code.as_str()))
                .copied()
                .collect();
            let name = self.response(*status, &codes);
            let target = format!("#/components/responses/{name}");
            (status.to_string(), json!({ "$ref": target }))
        });
        responses.collect()
    }

    /// Returns the shared responses and the schemas, by name.
    pub(super) fn into_components(self) -> (Map<String, Value>, Map<String, Value>) {
        (self.responses, self.schemas)
    }

    /// Returns the name of the response for these codes of one status, which it creates on the
    /// first call.
    fn response(&mut self, status: u16, codes: &[Code]) -> String {
        let words: BTreeSet<String> = codes.iter().map(|code| code.as_str().to_owned()).collect();
        let joined = || {
            let names: Vec<_> = codes
                .iter()
                .map(|code| pascal_case(code.as_str()))
                .collect();
            names.join("Or")
        };
        let name = self.groups.get(&words).cloned().unwrap_or_else(joined);
        if !self.responses.contains_key(&name) {
            let schema = self.schema(&name, codes);
            let response = response(status, codes, &schema);
            self.responses.insert(name.clone(), response);
        }
        name
    }

    /// Returns a reference to the schema for these codes: the schema of the code, or a schema that
    /// allows any of several codes.
    fn schema(&mut self, name: &str, codes: &[Code]) -> Value {
        let references: Vec<Value> = codes.iter().map(|code| self.code_schema(*code)).collect();
        if let [only] = references.as_slice() {
            return only.clone();
        }
        let mapping: Map<String, Value> = codes
            .iter()
            .zip(&references)
            .map(|(code, reference)| (code.as_str().to_owned(), reference["$ref"].clone()))
            .collect();
        let union = format!("{name}Problem");
        let words: Vec<_> = codes
            .iter()
            .map(|code| format!("`{}`", code.as_str()))
            .collect();
        self.schemas.insert(
            union.clone(),
            json!({
                "description": format!("One of {}.", words.join(", ")),
                "oneOf": references,
                "discriminator": { "propertyName": "code", "mapping": mapping },
            }),
        );
        reference(&union)
    }

    /// Returns a reference to the schema of one code: the fields of every problem, with its status
    /// and its code.
    fn code_schema(&mut self, code: Code) -> Value {
        let name = format!("{}Problem", pascal_case(code.as_str()));
        if !self.schemas.contains_key(&name) {
            let mut schema = self.base.clone();
            schema["description"] = code.meaning().into();
            let properties = &mut schema["properties"];
            properties["status"] = json!({
                "type": "integer", "format": "int32", "const": code.status().as_u16(), "description": "The HTTP status.",
            });
            properties["code"] = json!({
                "type": "string", "const": code.as_str(), "description": "The stable code of the problem.",
            });
            if !matches!(code, Code::InvalidBody | Code::InvalidParameter)
                && let Some(properties) = properties.as_object_mut()
            {
                properties.remove("errors");
            }
            self.schemas.insert(name.clone(), schema);
        }
        reference(&name)
    }
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// Returns the response for the problems of one status.
fn response(status: u16, codes: &[Code], schema: &Value) -> Value {
    let meanings: Vec<_> = codes
        .iter()
        .map(|code| format!("`{}`: {}", code.as_str(), code.meaning()))
        .collect();
    let headers: &[&str] = match status {
        401 => &["WWW-Authenticate"],
        405 => &["Allow"],
        409 if codes.contains(&Code::Conflict) => &["Retry-After"],
        415 => &["Accept", "Accept-Encoding"],
        426 => &["Upgrade"],
        429 | 503 => &["Retry-After"],
        _ => &[],
    };
    // The service cannot report a rate without a valid credential.
    let rate: &[&str] = match status {
        401 => &[],
        _ => &["RateLimit", "RateLimit-Policy"],
    };
    let headers: Vec<&str> = headers.iter().chain(rate).copied().collect();
    let examples: Map<String, Value> = codes
        .iter()
        .map(|code| (code.as_str().to_owned(), example(*code)))
        .collect();
    json!({
        "description": meanings.join("\n\n"),
        "x-headers": headers,
        "content": { problem::MEDIA_TYPE: { "schema": schema, "examples": examples } },
    })
}

/// Returns an example of a problem. Two codes list the invalid fields.
fn example(code: Code) -> Value {
    let mut value = json!({
        "type": code.about(),
        "title": code.title(),
        "status": code.status().as_u16(),
        "detail": format!("{}.", code.title()),
        "code": code.as_str(),
        "requestId": "req-9f3c2a7d51e84b06-1f",
    });
    match code {
        Code::InvalidBody => {
            value["detail"] = "The request body is invalid; see `errors`.".into();
            value["errors"] =
                json!([{ "pointer": "/samples/3/lat", "detail": "must be between -90 and 90" }]);
        }
        Code::InvalidParameter => {
            value["detail"] = "A parameter or header is invalid; see `errors`.".into();
            value["errors"] =
                json!([{ "parameter": "limit", "detail": "must be a whole number from 1 to 200" }]);
        }
        _ => {}
    }
    json!({ "value": value })
}
