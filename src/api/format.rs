//! Formats of batches. A batch is acknowledged in the format in which it was sent, unless `Accept`
//! excludes it.

use actix_web::http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use actix_web::{HttpResponse, HttpResponseBuilder};
use porchlight_schema::ids::SessionId;
use porchlight_schema::sample::json::{self, DecodeError, DecodedBatch};
use porchlight_schema::sample::proto;

use porchlight_http::body::{self, Announced, Limits};
use porchlight_http::problem::{Code, Problem};
use porchlight_http::request_context::accepts;

/// The format of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON, `application/json`.
    Json,
    /// Protocol Buffers, `application/x-protobuf`, with the schema `schema/porchlight.proto`.
    Protobuf,
}

/// The formats for decoding a batch and encoding its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Negotiated {
    /// The format of the body.
    pub(super) sent: Format,
    /// The format of the answer.
    pub(super) answer: Format,
    /// The announced size and coding of the body.
    pub(super) announced: Announced,
}

impl Format {
    fn media_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/x-protobuf",
        })
    }

    fn of(headers: &HeaderMap) -> Option<Self> {
        if body::is_json(headers) {
            Some(Self::Json)
        } else {
            body::is_media(headers, "application/x-protobuf").then_some(Self::Protobuf)
        }
    }

    fn is_accepted(self, headers: &HeaderMap) -> bool {
        match self {
            Self::Json => accepts(headers, "application", "json"),
            Self::Protobuf => accepts(headers, "application", "x-protobuf"),
        }
    }

    /// Checks the head of a request with one batch: `Accept`, media type, coding, announced length.
    ///
    /// # Errors
    ///
    /// Returns 406, 415, 413.
    pub(super) fn negotiate(headers: &HeaderMap) -> Result<Negotiated, Problem> {
        let sent = Self::of(headers);
        let preferred = sent.unwrap_or(Self::Json);
        let other = match preferred {
            Self::Json => Self::Protobuf,
            Self::Protobuf => Self::Json,
        };
        let answer = [preferred, other]
            .into_iter()
            .find(|format| format.is_accepted(headers));
        let answer = answer.ok_or_else(|| {
            Problem::new(
                Code::NotAcceptable,
                "Only application/json and application/x-protobuf are available at this path.",
            )
        })?;
        let sent = sent.ok_or_else(unsupported)?;
        Ok(Negotiated {
            sent,
            answer,
            announced: body::announced(headers, Limits::BATCH)?,
        })
    }

    /// Decodes a batch.
    pub(super) fn decode(self, body: &[u8]) -> Result<DecodedBatch, DecodeError> {
        match self {
            Self::Json => json::decode_batch(body),
            Self::Protobuf => proto::decode_batch(body),
        }
    }

    /// Returns the problem for a body in another format.
    pub(super) fn malformed(self, detail: &str) -> Problem {
        match self {
            Self::Json => Problem::new(
                Code::MalformedJson,
                format!("The body is not JSON: {detail}."),
            ),
            Self::Protobuf => {
                Problem::new(Code::MalformedProtobuf, format!("The body is {detail}."))
            }
        }
    }

    /// Returns an answer in this format.
    pub(super) fn respond(
        self,
        mut response: HttpResponseBuilder,
        body: impl Into<Vec<u8>>,
    ) -> HttpResponse {
        response
            .insert_header((CONTENT_TYPE, self.media_type()))
            .body(body.into())
    }

    /// Returns the acknowledgement of a durable batch.
    pub(super) fn acknowledge(self, session_id: SessionId, seq: u32) -> Vec<u8> {
        match self {
            Self::Json => format!(r#"{{"sessionId":"{session_id}","ackSeq":{seq}}}"#).into_bytes(),
            Self::Protobuf => proto::encode_ack(Some(session_id), seq),
        }
    }
}

/// `GET /porchlight.proto`: the protobuf schema, without a credential.
pub(super) async fn schema() -> HttpResponse {
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, text))
        .body(proto::SCHEMA)
}

fn unsupported() -> Problem {
    let problem = Problem::new(
        Code::UnsupportedMediaType,
        "The body must be application/json in UTF-8, or application/x-protobuf.",
    );
    problem.with_header(
        ACCEPT,
        HeaderValue::from_static("application/json, application/x-protobuf"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn negotiated(content_type: &str, accept: Option<&str>) -> Result<(Format, Format), u16> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, content_type.parse().unwrap());
        if let Some(accept) = accept {
            headers.insert(ACCEPT, accept.parse().unwrap());
        }
        Format::negotiate(&headers)
            .map(|negotiated| (negotiated.sent, negotiated.answer))
            .map_err(|problem| problem.code().status().as_u16())
    }

    #[test]
    fn the_response_format_follows_the_batch_if_accepted() {
        use Format::{Json, Protobuf};
        let (json, protobuf) = ("application/json", "application/x-protobuf");
        for (sent, accept, expected) in [
            (json, None, Ok((Json, Json))),
            (protobuf, None, Ok((Protobuf, Protobuf))),
            (
                "Application/X-Protobuf; messageType=\"porchlight.v1.Batch\"",
                None,
                Ok((Protobuf, Protobuf)),
            ),
            (
                "application/json; charset=UTF-8",
                Some("*/*"),
                Ok((Json, Json)),
            ),
            (protobuf, Some(json), Ok((Protobuf, Json))),
            (json, Some(protobuf), Ok((Json, Protobuf))),
            (protobuf, Some("application/*"), Ok((Protobuf, Protobuf))),
            (protobuf, Some("text/html"), Err(406)),
            ("text/plain", Some("text/html"), Err(406)),
            ("text/plain", None, Err(415)),
            ("application/json; charset=latin1", None, Err(415)),
            ("application/x-protobufs", None, Err(415)),
        ] {
            assert_eq!(negotiated(sent, accept), expected, "{sent} {accept:?}");
        }
    }
}
