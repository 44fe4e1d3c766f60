//! One operation of the document: who may, what goes in, what comes out, and every problem that it can end in.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use porchlight_http::problem::{self, Code};

/// Who may call an operation (contract section 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// Who has a secret key.
    Secret,
    /// Who has a secret or a client key.
    Key,
    /// Who has a key, or the session's token.
    Session,
    /// Everybody.
    Anyone,
}

impl Who {
    /// What ends a request before anything is looked at but its head.
    fn problems(self) -> &'static [Code] {
        use Code::{
            CredentialInvalid, CredentialMissing, Internal, KeyRequired, MethodNotAllowed,
            OtherSession, Overloaded, RateLimited, SecretKeyRequired, StoreUnavailable,
        };
        match self {
            Self::Anyone => &[MethodNotAllowed, Internal],
            Self::Secret => &[
                CredentialMissing,
                CredentialInvalid,
                SecretKeyRequired,
                MethodNotAllowed,
                RateLimited,
                Internal,
                Overloaded,
                StoreUnavailable,
            ],
            Self::Key => &[
                CredentialMissing,
                CredentialInvalid,
                KeyRequired,
                MethodNotAllowed,
                RateLimited,
                Internal,
                Overloaded,
                StoreUnavailable,
            ],
            Self::Session => &[
                CredentialMissing,
                CredentialInvalid,
                OtherSession,
                MethodNotAllowed,
                RateLimited,
                Internal,
                Overloaded,
                StoreUnavailable,
            ],
        }
    }

    fn security(self) -> Value {
        match self {
            Self::Anyone => json!([]),
            _ => json!([{ "serviceKey": [] }, { "bearer": [] }]),
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::Secret => "Takes a secret key.",
            Self::Key => "Takes a secret or a client key.",
            Self::Session => "Takes a secret or a client key, or the session's own token.",
            Self::Anyone => "Takes no credential.",
        }
    }
}

/// What any body in JSON can end in.
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

/// A reference to a component: `reference("schemas", "Session")`.
pub(super) fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}

/// A reference to a schema.
pub(super) fn schema(name: &str) -> Value {
    reference("schemas", name)
}

/// An operation being described.
#[derive(Debug)]
pub(super) struct Operation {
    who: Who,
    fields: Map<String, Value>,
    parameters: Vec<Value>,
    answers: Map<String, Value>,
    codes: BTreeMap<u16, BTreeSet<&'static str>>,
}

impl Operation {
    /// An operation by its id, under a tag, with a title and a text in full sentences.
    pub(super) fn new(id: &str, tag: &str, who: Who, summary: &str, description: &str) -> Self {
        let mut fields = Map::new();
        fields.insert("operationId".into(), id.into());
        fields.insert("tags".into(), json!([tag]));
        fields.insert("summary".into(), summary.into());
        let description = format!("{description}\n\n{}", who.sentence());
        fields.insert("description".into(), description.into());
        fields.insert("security".into(), who.security());
        let operation = Self {
            who,
            fields,
            parameters: Vec::new(),
            answers: Map::new(),
            codes: BTreeMap::new(),
        };
        operation.problems(who.problems())
    }

    /// The same with a parameter of `components.parameters`.
    pub(super) fn parameter(mut self, name: &str) -> Self {
        self.parameters.push(reference("parameters", name));
        self
    }

    /// The same with a parameter in the query.
    pub(super) fn query(mut self, name: &str, description: &str, schema: Value) -> Self {
        self.parameters.push(
            json!({ "name": name, "in": "query", "description": description, "schema": schema }),
        );
        self
    }

    /// The same with bodies by media type.
    pub(super) fn body(mut self, description: &str, required: bool, content: Value) -> Self {
        let body = json!({ "description": description, "required": required, "content": content });
        self.fields.insert("requestBody".into(), body);
        self.problems(&BODY_PROBLEMS)
    }

    /// The same with a body in JSON.
    pub(super) fn json_body(self, name: &str, required: bool, examples: Value) -> Self {
        let content =
            json!({ "application/json": { "schema": schema(name), "examples": examples } });
        self.body("At most 64 KiB, as sent and unpacked.", required, content)
    }

    /// The same with an answer; `headers` are names in `components.headers`, beside `X-Request-Id`.
    pub(super) fn answer(
        mut self,
        status: u16,
        description: &str,
        headers: &[&str],
        content: Value,
    ) -> Self {
        let mut answer =
            json!({ "description": description, "headers": header_references(headers) });
        if !content.is_null() {
            answer["content"] = content;
        }
        self.answers.insert(status.to_string(), answer);
        self
    }

    /// The same with an answer in JSON.
    pub(super) fn json_answer(
        self,
        status: u16,
        description: &str,
        name: &str,
        examples: Value,
    ) -> Self {
        let content =
            json!({ "application/json": { "schema": schema(name), "examples": examples } });
        let operation = self.answer(status, description, &["Cache-Control"], content);
        operation.problems(&[Code::NotAcceptable])
    }

    /// The same with links from the answer of `status`.
    pub(super) fn links(mut self, status: u16, links: Value) -> Self {
        if let Some(answer) = self.answers.get_mut(&status.to_string()) {
            answer["links"] = links;
        }
        self
    }

    /// The same, which may end in these problems too.
    pub(super) fn problems(mut self, codes: &[Code]) -> Self {
        for code in codes {
            let words = self.codes.entry(code.status().as_u16()).or_default();
            words.insert(code.as_str());
        }
        self
    }

    /// The operation as the document has it.
    pub(super) fn done(mut self) -> Value {
        for (status, words) in &self.codes {
            let answer = problem_answer(*status, words);
            self.answers.insert(status.to_string(), answer);
        }
        if !self.parameters.is_empty() {
            self.fields
                .insert("parameters".into(), self.parameters.into());
        }
        self.fields.insert("responses".into(), self.answers.into());
        // Who may is part of the contract, and no standard field says it of keys.
        let credential = match self.who {
            Who::Secret => json!(["secret"]),
            Who::Key => json!(["secret", "client"]),
            Who::Session => json!(["secret", "client", "sessionToken"]),
            Who::Anyone => json!([]),
        };
        self.fields.insert("x-credentials".into(), credential);
        self.fields.into()
    }
}

fn header_references(names: &[&str]) -> Value {
    let own = |name: &&str| ((*name).to_owned(), reference("headers", name));
    let headers = names.iter().chain(&["X-Request-Id"]).map(own);
    Value::Object(headers.collect())
}

/// The answer for all problems of one status.
fn problem_answer(status: u16, words: &BTreeSet<&'static str>) -> Value {
    let codes: Vec<_> = Code::ALL
        .iter()
        .filter(|code| words.contains(code.as_str()))
        .collect();
    let meanings: Vec<_> = codes
        .iter()
        .map(|code| format!("`{}`: {}", code.as_str(), code.meaning()))
        .collect();
    let headers: &[&str] = match status {
        401 => &["WWW-Authenticate"],
        405 => &["Allow"],
        415 => &["Accept", "Accept-Encoding"],
        426 => &["Upgrade"],
        429 | 503 => &["Retry-After"],
        _ => &[],
    };
    let examples: Map<String, Value> = codes
        .iter()
        .map(|code| (code.as_str().to_owned(), problem_example(**code)))
        .collect();
    json!({
        "description": meanings.join("\n\n"),
        "headers": header_references(headers),
        "content": { problem::MEDIA_TYPE: {
            "schema": {
                "allOf": [schema("Problem")],
                "properties": {
                    "status": { "const": status },
                    "code": { "enum": words.iter().collect::<Vec<_>>() },
                },
            },
            "examples": examples,
        } },
    })
}

/// A problem as it is answered. Faults stand in the two that have them.
fn problem_example(code: Code) -> Value {
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
            value["detail"] = "The body is JSON, but not what is asked for; see errors.".into();
            value["errors"] =
                json!([{ "pointer": "/samples/3/lat", "detail": "must be between -90 and 90" }]);
        }
        Code::InvalidParameter => {
            value["detail"] = "A parameter is not what is asked for; see errors.".into();
            value["errors"] =
                json!([{ "parameter": "limit", "detail": "must be a whole number from 1 to 200" }]);
        }
        _ => {}
    }
    json!({ "value": value })
}
