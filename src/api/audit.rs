//! `GET /v1/audit`.

use actix_web::HttpResponse;
use porchlight_core::audit::{Action, Filter, HashedLine, LinePosition};
use porchlight_http::problem::Problem;
use porchlight_http::query::{Query, cursor_bytes, cursor_of};
use porchlight_http::request_context::{self, RequestContext};
use porchlight_schema::ids::SessionId;
use serde::Serialize;

/// A page of the log.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuditView {
    data: Vec<HashedLine>,
    next_cursor: Option<String>,
}

/// Lists the lines of the audit log, newest first. 200 `{data, nextCursor}`.
///
/// # Errors
///
/// See the module [`super`].
pub(super) async fn list(call: RequestContext) -> Result<HttpResponse, Problem> {
    let tenant = call.require_secret_key().await?;
    call.check_accept_json()?;
    let mut query = Query::of(call.http.query_string());
    let session_id: Option<SessionId> =
        query.read("sessionId", "must be the id of a session", |text| {
            text.parse().ok()
        });
    let filter = Filter {
        from: query.time("from"),
        to: query.time("to"),
        action: query.read("action", "must be the name of an action", Action::of_name),
        object: session_id.map(|id| id.to_string()),
    };
    let limit = query.limit();
    let after = query.read("cursor", "must be a nextCursor of this list", read_cursor);
    query.finish()?;
    let _share = call.begin_list(tenant)?;
    let log = call.state.service.audit();
    let log = log.ok_or_else(|| Problem::internal("the service has no audit log"))?;
    let page = log.page(tenant, &filter, limit, after).await?;
    request_context::json(
        HttpResponse::Ok(),
        &AuditView {
            data: page.lines,
            next_cursor: page.next.map(cursor),
        },
    )
}

/// Returns the cursor after this line.
fn cursor(after: LinePosition) -> String {
    let mut bytes = after.group.to_be_bytes().to_vec();
    bytes.extend(after.line.to_be_bytes());
    cursor_of(&bytes)
}

fn read_cursor(text: &str) -> Option<LinePosition> {
    let bytes = cursor_bytes(text)?;
    let (group, line) = bytes.split_first_chunk::<8>()?;
    Some(LinePosition {
        group: u64::from_be_bytes(*group),
        line: u32::from_be_bytes(line.try_into().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_and_another_text_does_not() {
        let position = LinePosition { group: 7, line: 9 };
        assert_eq!(read_cursor(&cursor(position)), Some(position));
        let forged = "A".repeat(cursor(position).len());
        let of_another_list = cursor_of(&[0; 16]);
        for text in [
            "",
            "x",
            &cursor(position)[1..],
            &"A".repeat(300),
            &forged,
            &of_another_list,
        ] {
            assert_eq!(read_cursor(text), None, "{text}");
        }
    }
}
