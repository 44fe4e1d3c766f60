//! Receipts of completed erasures.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use porchlight_actors::service::SignReceipt;
use porchlight_core::privacy::{PrivacyRequest, RecordedSubject};
use porchlight_keys::keyring::SecretKeys;
use porchlight_keys::receipt::{
    ErasureCounts, HashedSubject, ReceiptSigner, Statement, SubjectKind,
};

/// Returns a function that signs receipts with the writing key of these secrets.
pub(crate) fn signer(secrets: &SecretKeys) -> SignReceipt {
    let signer = ReceiptSigner::new(secrets);
    Arc::new(move |request| {
        let receipt = statement(request).map(|statement| signer.sign(&statement));
        Ok(receipt.transpose()?)
    })
}

/// Returns the statement about a completed erasure.
fn statement(request: &PrivacyRequest) -> Option<Statement> {
    let RecordedSubject::Hashed(subject) = &request.subject else {
        return None;
    };
    let kinds = [
        SubjectKind::ExternalRiderId,
        SubjectKind::DeliveryId,
        SubjectKind::SessionId,
    ];
    let kind = kinds
        .into_iter()
        .find(|kind| kind.as_str() == subject.kind)?;
    let counts = request.counts;
    Some(Statement {
        request_id: request.request_id.clone(),
        request_type: "erasure".to_owned(),
        subject: HashedSubject {
            kind,
            salt: URL_SAFE_NO_PAD.encode(request.salt),
            hash: subject.hash.clone(),
        },
        counts: ErasureCounts {
            sessions: counts.sessions,
            telemetry: counts.telemetry,
            insights: counts.insights,
            images: counts.images,
            messages: counts.messages,
            places: counts.places,
            keys: counts.keys,
        },
        completed_at: request.completed_at?,
        key_ids: request.data_keys.ids(),
        other_keys: request.data_keys.others(),
    })
}

#[cfg(test)]
mod tests {
    use porchlight_core::privacy::{Begin, Outcome};
    use porchlight_schema::privacy::{Counts, RequestType, Subject};
    use porchlight_schema::time::TimestampMs;

    use super::*;

    #[test]
    fn the_subject_of_a_receipt_is_recognised_by_its_identifier() {
        let begin = Begin {
            request_id: "r1".into(),
            request_type: RequestType::Erasure,
            subject: Subject::ExternalRiderId("rider-7".into()),
            suppress: false,
            reason: None,
            body_hash: String::new(),
            salt: [7; 16],
            delay_ms: 0,
        };
        let now = TimestampMs(5);
        let mut request = PrivacyRequest::new(begin, now);
        assert!(statement(&request).is_none(), "it is not completed");
        request.begin(now, None);
        for outcome in [
            Outcome::Marked(now),
            Outcome::Planned(Vec::new(), Counts::default(), vec![7, 8]),
            Outcome::Removed(Counts::default()),
            Outcome::Removed(Counts::default()),
            Outcome::Done,
            Outcome::Done,
        ] {
            request.record(outcome, now);
        }
        let statement = statement(&request).unwrap();
        assert_eq!(statement.key_ids, ["7-8"]);
        assert!(statement.subject.matches("rider-7"));
        assert!(!statement.subject.matches("rider-8"));
    }
}
