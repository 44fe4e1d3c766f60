//! Writes the answer to one line.

use std::io::Write;

use porchlight_observe::streams::{MessageOutcome, StreamKind, StreamMetrics};

use porchlight_http::problem::Problem;

/// The session and the `seq` by which an answer names its line.
#[derive(Debug)]
pub(super) struct LineId {
    session: Option<String>,
    seq: Option<u32>,
}

impl LineId {
    pub(super) fn new(session: Option<String>, seq: Option<u32>) -> Self {
        Self { session, seq }
    }

    /// Returns the identification of a line whose session is unknown, because the service did not
    /// decode the line.
    pub(super) fn unknown() -> Self {
        Self::new(None, None)
    }

    /// Returns the session as written in the line.
    pub(super) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// Appends an acknowledgement.
    pub(super) fn accept(&self, out: &mut Vec<u8>) {
        StreamMetrics::get().on_message(StreamKind::Ndjson, MessageOutcome::Accepted);
        self.begin(out);
        out.extend_from_slice(b"202}\n");
    }

    /// Appends a refusal.
    pub(super) fn refuse(&self, problem: &Problem, out: &mut Vec<u8>) {
        StreamMetrics::get().on_message(StreamKind::Ndjson, MessageOutcome::Refused);
        self.begin(out);
        let code = problem.code();
        let (status, code) = (code.status().as_u16(), code.as_str());
        // Writing to a vector cannot fail.
        let _written = writeln!(out, r#"{status},"code":"{code}"}}"#);
    }

    fn begin(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"sessionId":"#);
        // Text always becomes JSON.
        let _written = serde_json::to_writer(&mut *out, &self.session);
        let _written = match self.seq {
            Some(seq) => write!(out, r#","seq":{seq},"status":"#),
            None => write!(out, r#","seq":null,"status":"#),
        };
    }
}

#[cfg(test)]
mod tests {
    use porchlight_http::problem::Code;

    use super::*;

    #[test]
    fn a_response_is_one_line_of_json_for_any_input_line() {
        let mut out = Vec::new();
        LineId::new(Some("ses_1".into()), Some(7)).accept(&mut out);
        let problem = Problem::new(Code::SessionNotFound, "");
        LineId::new(Some("a\"\n\\".into()), None).refuse(&problem, &mut out);
        LineId::unknown().refuse(&Problem::new(Code::MalformedJson, ""), &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            concat!(
                "{\"sessionId\":\"ses_1\",\"seq\":7,\"status\":202}\n",
                "{\"sessionId\":\"a\\\"\\n\\\\\",\"seq\":null,\"status\":404,\"code\":\"session_not_found\"}\n",
                "{\"sessionId\":null,\"seq\":null,\"status\":400,\"code\":\"malformed_json\"}\n",
            )
        );
    }
}
