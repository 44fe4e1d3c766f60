//! The form for a privacy request.

use maud::{Markup, html};
use porchlight_actors::service::NewRequest;
use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{
    PRIVACY_REASON_CHARS_MAX, PRIVACY_REQUEST_ID_CHARS_MAX, TEXT_CHARS_MAX,
};
use porchlight_schema::privacy::{RequestType, Subject, is_request_id};

use super::super::form::Form;
use super::super::layout::Frame;
use super::super::route::ROOT;

/// The kinds of subjects by the fields of the API, and their labels.
const SUBJECTS: [(&str, &str); 3] = [
    ("externalRiderId", "courier"),
    ("deliveryId", "delivery"),
    ("sessionId", "session"),
];

/// Returns the label of a kind of subjects.
pub(super) fn subject_label(field: &str) -> &str {
    let named = SUBJECTS.iter().find(|(name, _)| *name == field);
    named.map_or(field, |(_, label)| label)
}

/// Returns the name of a type on the pages.
pub(super) fn type_name(request_type: RequestType) -> &'static str {
    match request_type {
        RequestType::Erasure => "Erasure",
        RequestType::Access => "Access",
        RequestType::Restriction => "Restriction",
        RequestType::Release => "Release",
    }
}

/// Returns the id of a subject in a field. Ids of couriers and deliveries are the customer's, and may
/// have spaces at their ends.
fn subject(form: &Form, name: &str) -> String {
    let (text, is_session) = (form.get(name), form.get("kind").trim() == "sessionId");
    if is_session { text.trim() } else { text }.to_owned()
}

/// The submitted texts.
#[derive(Default)]
pub(super) struct Entered {
    pub(super) request_id: String,
    request_type: String,
    pub(super) kind: String,
    pub(super) subject: String,
    suppress: bool,
    reason: String,
}

impl Entered {
    pub(super) fn of(form: &Form) -> Self {
        let text = |name| form.get(name).trim().to_owned();
        Self {
            request_id: text("requestId"),
            request_type: text("type"),
            kind: text("kind"),
            subject: subject(form, "subject"),
            suppress: form.get("suppress") == "yes",
            reason: text("reason"),
        }
    }

    /// Returns the request, or the error message for the first invalid field.
    pub(super) fn request(&self) -> Result<NewRequest, String> {
        let types = RequestType::ALL.iter();
        let chosen = types
            .into_iter()
            .find(|(name, _)| *name == self.request_type);
        let (_, request_type) = *chosen.ok_or("Choose the type of the request.")?;
        if !is_request_id(&self.request_id) {
            return Err(format!(
                "The id of the request has 1 to {PRIVACY_REQUEST_ID_CHARS_MAX} letters, digits or characters of ._:~@-, and \
                 begins with a letter or digit."
            ));
        }
        let is_blank = self.subject.trim().is_empty();
        if is_blank || self.subject.chars().count() > TEXT_CHARS_MAX {
            return Err(format!(
                "Enter the id of the subject, with at most {TEXT_CHARS_MAX} characters."
            ));
        }
        if self.reason.chars().count() > PRIVACY_REASON_CHARS_MAX {
            return Err(format!(
                "The reason has at most {PRIVACY_REASON_CHARS_MAX} characters."
            ));
        }
        let subject = match self.kind.as_str() {
            "externalRiderId" => Subject::ExternalRiderId(self.subject.clone()),
            "deliveryId" => Subject::DeliveryId(self.subject.clone()),
            "sessionId" => {
                let id: Option<SessionId> = self.subject.parse().ok();
                Subject::SessionId(id.ok_or("The id of a session begins with ses_.")?)
            }
            _ => return Err("Choose the kind of subject.".to_owned()),
        };
        let is_rider = matches!(subject, Subject::ExternalRiderId(_));
        let may_suppress = matches!(
            request_type,
            RequestType::Erasure | RequestType::Restriction
        );
        if self.suppress && !(is_rider && may_suppress) {
            return Err(
                "Only the erasure or restriction of a courier can refuse new sessions.".to_owned(),
            );
        }
        Ok(NewRequest {
            request_id: self.request_id.clone(),
            request_type,
            subject,
            suppress: self.suppress,
            reason: Some(self.reason.clone()).filter(|reason| !reason.is_empty()),
        })
    }

    /// Returns whether the visitor has confirmed the request.
    pub(super) fn is_confirmed(&self, form: &Form) -> bool {
        self.request_type != "erasure" || subject(form, "confirm") == self.subject
    }

    /// Renders the texts as hidden fields.
    pub(super) fn hidden(&self) -> Markup {
        let fields = [
            ("requestId", &self.request_id),
            ("type", &self.request_type),
            ("kind", &self.kind),
            ("subject", &self.subject),
            ("reason", &self.reason),
        ];
        html! {
            @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
            @if self.suppress { input type="hidden" name="suppress" value="yes"; }
        }
    }
}

/// Renders the form for a new request.
pub(super) fn new_request(frame: &Frame<'_>, entered: &Entered) -> Markup {
    let id = match entered.request_id.as_str() {
        // Repeating the form within a second repeats the same request.
        "" => format!("console-{}", frame.now.0 / 1_000),
        id => id.to_owned(),
    };
    html! {
        details.card open[!entered.subject.is_empty()] {
            summary { "New request" }
            form.filters method="post" action={ (ROOT) "/privacy/confirm" } {
                (frame.field())
                div { label for="type" { "Type" } select #type name="type" {
                    @for (name, one) in RequestType::ALL { option value=(name) selected[name == entered.request_type] { (type_name(one)) } }
                } }
                div { label for="kind" { "Of a" } select #kind name="kind" {
                    @for (name, label) in SUBJECTS { option value=(name) selected[name == entered.kind] { (label) } }
                } }
                div.grow { label for="subject" { "Id of the subject" } input #subject name="subject" value=(entered.subject) required maxlength=(TEXT_CHARS_MAX) autocomplete="off" spellcheck="false"; }
                div.grow { label for="requestId" { "Id of the request (kept forever: no names)" } input #requestId.mono name="requestId" value=(id) required maxlength=(PRIVACY_REQUEST_ID_CHARS_MAX) autocomplete="off" spellcheck="false"; }
                div.grow { label for="reason" { "Reason (optional)" } input #reason name="reason" value=(entered.reason) maxlength=(PRIVACY_REASON_CHARS_MAX) autocomplete="off"; }
                div { label for="suppress" { "New sessions of the courier" } select #suppress name="suppress" {
                    option value="" { "stay allowed" }
                    option value="yes" selected[entered.suppress] { "are refused" }
                } }
                button.primary { "Continue" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_courier_keeps_its_spaces_and_that_of_a_session_does_not() {
        let session = "ses_01m7w9gsx00000002yxq0dxjqy";
        let pasted = format!(" {session} ");
        for (kind, entered, expected) in [
            ("externalRiderId", "rider-7 ", "rider-7 "),
            ("sessionId", pasted.as_str(), session),
        ] {
            let form = Form::of(&[
                ("requestId", "r1"),
                ("type", "erasure"),
                ("kind", kind),
                ("subject", entered),
                ("confirm", entered),
            ]);
            let entered = Entered::of(&form);
            assert!(
                entered.is_confirmed(&form) && entered.request().is_ok(),
                "{kind}"
            );
            assert_eq!(entered.subject, expected);
        }
        let blank = [
            ("requestId", "r1"),
            ("type", "erasure"),
            ("kind", "externalRiderId"),
            ("subject", "  "),
        ];
        assert!(Entered::of(&Form::of(&blank)).request().is_err());
    }
}
