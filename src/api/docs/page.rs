//! Generates the pages from the document.

use maud::{DOCTYPE, Markup, html};
use serde_json::{Map, Value};

use crate::openapi::SOURCE;
use porchlight_http::problem::Code;

/// The maximum depth to which a schema is expanded: the metadata of an insight's events.
const DEPTH_MAX: usize = 5;

/// Returns the string under `name`.
fn words<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// Returns the target of a reference; any other value is returned as is.
fn resolved<'v>(document: &'v Value, value: &'v Value) -> &'v Value {
    let target = value["$ref"]
        .as_str()
        .and_then(|text| text.strip_prefix('#'));
    target
        .and_then(|pointer| document.pointer(pointer))
        .unwrap_or(value)
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// Converts backticks to code, blank lines to paragraphs, and double asterisks to bold.
fn prose(text: &str) -> Markup {
    html! {
        @for paragraph in text.split("\n\n") {
            p {
                @for (number, part) in paragraph.split('`').enumerate() {
                    @if number % 2 == 1 { code { (part) } } @else {
                        @for (number, part) in part.split("**").enumerate() {
                            @if number % 2 == 1 { strong { (part) } } @else { (part) }
                        }
                    }
                }
            }
        }
    }
}

fn frame(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/docs/docs.css";
                script src="/docs/docs.js" defer {}
            }
            body { (body) }
        }
    }
}

/// Renders the reference page.
pub(super) fn reference(document: &Value) -> Markup {
    let info = &document["info"];
    let tags = document["tags"].as_array().into_iter().flatten();
    // The tag of the webhook events has no operation of its own.
    let tags = tags.filter(|tag| !operations(document, words(tag, "name")).is_empty());
    let body = html! {
        a.skip href="#content" { "Skip to content" }
        nav aria-label="Operations" {
            p.brand { a href="/docs" { (words(info, "title")) " " span { (words(info, "version")) } } }
            input #search type="search" aria-label="Search operations" placeholder="Search" autocomplete="off" spellcheck="false";
            @for tag in tags.clone() {
                h2 { (words(tag, "name")) }
                ul {
                    @for (_, method, operation) in operations(document, words(tag, "name")) {
                        li { a href={ "#" (words(operation, "operationId")) } {
                            span.method.(method) { (method) } " " (words(operation, "summary"))
                        } }
                    }
                }
            }
            h2 { "Webhook events" }
            ul { @for (event, item) in fields(&document["webhooks"]) {
                li { a href={ "#" (words(&item["post"], "operationId")) } { (event) } }
            } }
            h2 { "More" }
            ul {
                li { a href="/docs/errors" { "Errors" } }
                li { a href="/openapi.json" { "openapi.json" } }
                li { a href="/porchlight.proto" { "porchlight.proto" } }
            }
        }
        main #content {
            h1 { (words(info, "title")) " API" }
            (prose(words(info, "description")))
            section.key aria-labelledby="key-title" {
                h2 #key-title { "Your key" }
                p { "Used for the requests that you send from this page. It is kept in memory until you leave the page." }
                label for="key" { "Secret key, client key or session token" }
                input #key type="password" autocomplete="off" spellcheck="false";
            }
            @for tag in tags {
                section {
                    h2 { (words(tag, "name")) }
                    (prose(words(tag, "description")))
                    @for (path, method, operation) in operations(document, words(tag, "name")) {
                        (self::operation(document, path, method, operation))
                    }
                }
            }
            section {
                h2 { "Webhook events" }
                @for (event, item) in fields(&document["webhooks"]) {
                    (received(document, event, &item["post"]))
                }
            }
        }
    };
    frame("Porchlight API", &body)
}

/// Returns the operations under a tag in the order of the source: path, method, operation.
fn operations<'v>(document: &'v Value, tag: &str) -> Vec<(&'v String, &'v String, &'v Value)> {
    let all = fields(&document["paths"]).flat_map(|(path, methods)| {
        fields(methods).map(move |(method, operation)| (path, method, operation))
    });
    let mut of_tag: Vec<_> = all
        .filter(|(_, _, operation)| operation["tags"][0] == tag)
        .collect();
    of_tag.sort_by_key(|(_, _, operation)| {
        SOURCE.find(&format!(
            "operationId: {}\n",
            words(operation, "operationId")
        ))
    });
    of_tag
}

fn operation(document: &Value, path: &str, method: &str, operation: &Value) -> Markup {
    let id = words(operation, "operationId");
    html! {
        article #(id) {
            h3 { span.method.(method) { (method) } " " code { (path) } }
            p.summary { (words(operation, "summary")) }
            (prose(words(operation, "description")))
            (parameters(document, operation))
            (body(document, &operation["requestBody"]))
            @let (problems, good) = answers(document, operation);
            h4 { "Responses" }
            dl.answers { @for (status, answer) in good { (self::answer(document, status, answer)) } }
            details {
                summary { "Errors: " (problems.iter().map(|(status, _)| status.as_str()).collect::<Vec<_>>().join(", ")) }
                dl.answers { @for (status, answer) in problems { (self::answer(document, status, answer)) } }
            }
            @if !operation["responses"].as_object().is_some_and(|answers| answers.contains_key("101")) {
                (try_it(document, path, method, operation))
            }
        }
    }
}

type Answers<'v> = Vec<(&'v String, &'v Value)>;

/// Returns the answers of an operation by status: the problems, and the others.
fn answers<'v>(document: &'v Value, operation: &'v Value) -> (Answers<'v>, Answers<'v>) {
    let answers = fields(&operation["responses"]);
    let answers = answers.map(|(status, answer)| (status, resolved(document, answer)));
    answers.partition(|(_, answer)| is_problem(answer))
}

fn is_problem(answer: &Value) -> bool {
    answer["content"]["application/problem+json"].is_object()
}

fn parameters(document: &Value, operation: &Value) -> Markup {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let parameters: Vec<_> = parameters.map(|one| resolved(document, one)).collect();
    html! {
        @if !parameters.is_empty() {
            h4 { "Parameters" }
            dl.fields { @for parameter in parameters {
                dt {
                    code { (words(parameter, "name")) } " "
                    span.kind { (words(parameter, "in")) ", " (kind(document, &parameter["schema"])) }
                    @if parameter["required"] == true { " " span.needed { "required" } }
                }
                dd { (prose(words(parameter, "description"))) }
            } }
        }
    }
}

/// Renders a body: its schema and examples.
fn body(document: &Value, body: &Value) -> Markup {
    html! {
        @if body.is_object() {
            h4 { "Body" @if body["required"] != true { span.kind { " optional" } } }
            (prose(words(body, "description")))
            (content(document, &body["content"]))
        }
    }
}

fn content(document: &Value, content: &Value) -> Markup {
    html! {
        @for (media, one) in fields(content) {
            p.media { code { (media) } }
            @if !words(&one["schema"], "description").is_empty() && one["schema"]["properties"].is_null() {
                (prose(words(&one["schema"], "description")))
            }
            (folded(document, &one["schema"]))
            @if one["x-line"].is_object() { p.kind { "Each line:" } (schema(document, &one["x-line"], 0)) }
            @for (name, example) in fields(&one["examples"]) {
                details { summary { "Example: " (name) } pre { code { (shown(&example["value"])) } } }
            }
        }
    }
}

/// Renders the fields of a body, folded under the name of its schema.
fn folded(document: &Value, value: &Value) -> Markup {
    let name = value["$ref"]
        .as_str()
        .and_then(|target| target.rsplit('/').next());
    html! {
        @if let Some(name) = name {
            details { summary { "Fields of " code { (name) } } (schema(document, value, 0)) }
        } @else { (schema(document, value, 0)) }
    }
}

/// Returns an example as sent: text as it is, anything else as JSON.
fn shown(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| format!("{value:#}"), str::to_owned)
}

fn answer(document: &Value, status: &str, answer: &Value) -> Markup {
    let is_problem = is_problem(answer);
    html! {
        dt { span.status.problem[is_problem] { (status) } }
        dd {
            (prose(words(answer, "description")))
            @if !is_problem { (content(document, &answer["content"])) }
            @let own = fields(&answer["headers"]).filter(|(name, _)| *name != "X-Request-Id");
            @for (name, header) in own {
                p.header { code { (name) } " " (words(resolved(document, header), "description")) }
            }
        }
    }
}

/// Returns a short description of a schema's type.
fn kind(document: &Value, schema: &Value) -> String {
    let schema = resolved(document, schema);
    if let Some(word) = schema.get("const") {
        return word.to_string();
    }
    if let Some(all) = schema["anyOf"].as_array() {
        let kinds: Vec<_> = all.iter().map(|one| kind(document, one)).collect();
        return kinds.join(" or ");
    }
    let mut text = match &schema["type"] {
        Value::Array(types) => types
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" or "),
        one => one.as_str().unwrap_or("object").to_owned(),
    };
    if let Some(items) = schema.get("items") {
        text = format!("{text} of {}", kind(document, items));
    }
    for (name, before) in [
        ("format", ""),
        ("minimum", "from "),
        ("maximum", "to "),
        ("minLength", "at least "),
        ("maxLength", "at most "),
        ("maxItems", "at most "),
        ("default", "by default "),
    ] {
        match &schema[name] {
            Value::Null => {}
            Value::String(word) => text.push_str(&format!(", {before}{word}")),
            value => text.push_str(&format!(", {before}{value}")),
        }
    }
    if let Some(all) = schema["enum"].as_array() {
        let all: Vec<_> = all.iter().map(shown).collect();
        text.push_str(&format!(": {}", all.join(", ")));
    }
    text
}

/// Renders the fields of an object, expanded.
fn schema(document: &Value, value: &Value, depth: usize) -> Markup {
    let value = resolved(document, value);
    let inner = value.get("items").unwrap_or(value);
    let inner = resolved(document, inner);
    let mut parts: Vec<&Value> = inner["allOf"].as_array().into_iter().flatten().collect();
    parts.push(inner);
    let choices = inner["oneOf"].as_array().or(inner["anyOf"].as_array());
    html! {
        @if depth < DEPTH_MAX {
            @for part in parts {
                @let part = resolved(document, part);
                @if part["properties"].is_object() {
                    dl.fields { @for (name, field) in fields(&part["properties"]) {
                        @let needed = part["required"].as_array().is_some_and(|all| all.contains(&Value::from(name.as_str())));
                        dt {
                            code { (name) } " " span.kind { (kind(document, field)) }
                            @if needed { " " span.needed { "required" } }
                        }
                        dd {
                            (prose(described(document, field)))
                            (schema(document, field, depth + 1))
                        }
                    } }
                }
            }
            @if let Some(choices) = choices {
                @for choice in choices.iter().filter(|choice| resolved(document, choice)["properties"].is_object()) {
                    @let named = resolved(document, choice);
                    details {
                        summary {
                            @match named["properties"]["kind"]["const"].as_str() {
                                Some(word) => { code { (word) } }
                                None => { "fields" }
                            }
                            " " (words(named, "description"))
                        }
                        (schema(document, choice, depth + 1))
                    }
                }
            }
        }
    }
}

/// Returns the description of a field: its own, or that of the schema that it refers to.
fn described<'v>(document: &'v Value, field: &'v Value) -> &'v str {
    let own = words(field, "description");
    if own.is_empty() {
        words(resolved(document, field), "description")
    } else {
        own
    }
}

/// Renders a form that makes the call.
fn try_it(document: &Value, path: &str, method: &str, operation: &Value) -> Markup {
    let id = words(operation, "operationId");
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let content = fields(&operation["requestBody"]["content"]).next();
    let example = content
        .and_then(|(_, one)| fields(&one["examples"]).next())
        .map(|(_, example)| shown(&example["value"]));
    let media = content.map_or("", |(media, _)| media.as_str());
    html! {
        details.try {
            summary { "Try it" }
            form data-method=(method) data-path=(path) data-media=(media) {
                @for parameter in parameters.map(|one| resolved(document, one)) {
                    @let input = format!("{id}-{}", words(parameter, "name"));
                    label for=(input) { (words(parameter, "name")) }
                    input #(input) name=(words(parameter, "name")) data-in=(words(parameter, "in")) autocomplete="off"
                        required[parameter["required"] == true];
                }
                @if let Some(example) = example {
                    label for={ (id) "-body" } { "Body" }
                    textarea #{ (id) "-body" } name="body" rows="10" spellcheck="false" { (example) }
                }
                button type="submit" { "Send" }
                div.result role="status" aria-live="polite" hidden { p {} pre { code {} } }
            }
        }
    }
}

/// Renders a webhook event.
fn received(document: &Value, event: &str, operation: &Value) -> Markup {
    html! {
        article #(words(operation, "operationId")) {
            h3 { span.method.hook { "event" } " " code { (event) } }
            p.summary { (words(operation, "summary")) }
            (prose(words(operation, "description")))
            (parameters(document, operation))
            (body(document, &operation["requestBody"]))
        }
    }
}

/// Renders the page of problem codes.
pub(super) fn errors() -> Markup {
    let body = html! {
        a.skip href="#content" { "Skip to content" }
        nav aria-label="Pages" {
            p.brand { a href="/docs" { "Porchlight" } }
            ul { li { a href="/docs" { "The API" } } }
        }
        main #content {
            h1 { "Errors" }
            (prose("Every error is `application/problem+json` (RFC 9457) with a stable `code`. A request that ends in an error \
                has changed nothing. After 429 and 503, wait for `Retry-After` seconds and send the same request again."))
            dl.answers { @for code in Code::ALL {
                dt id=(code.as_str()) { span.status.problem { (code.status().as_u16()) } " " code { (code.as_str()) } }
                dd { (prose(&format!("**{}.** {}", code.title(), code.meaning()))) }
            } }
        }
    };
    frame("Porchlight: errors", &body)
}
