//! Checks the signatures of the service with the reference library of Standard Webhooks.

use porchlight_core::webhook::signature::{secret_text, standard_signature, standard_timestamp};
use porchlight_schema::ids::MessageId;
use porchlight_schema::time::TimestampMs;

#[test]
fn the_reference_library_accepts_every_live_secret_and_no_other() {
    let now_ms = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_millis();
    let now = TimestampMs(i64::try_from(now_ms).unwrap());
    let (new, old, other) = (
        secret_text(&[7; 32]),
        secret_text(&[9; 32]),
        secret_text(&[11; 32]),
    );
    let (id, body) = (
        MessageId::new(now, 5),
        br#"{"event":"session.started","data":{"text":"\u00fc"}}"#,
    );
    let signature = standard_signature([new.as_str(), old.as_str()], id, now, body).unwrap();
    let mut headers = reqwest::header::HeaderMap::new();
    headers.insert("webhook-id", id.to_string().parse().unwrap());
    headers.insert(
        "webhook-timestamp",
        standard_timestamp(now).to_string().parse().unwrap(),
    );
    headers.insert("webhook-signature", signature.parse().unwrap());
    let verify = |secret: &str, body: &[u8], headers: &reqwest::header::HeaderMap| {
        standardwebhooks::Webhook::new(secret)
            .unwrap()
            .verify(body, headers)
    };
    assert!(verify(&new, body, &headers).is_ok());
    assert!(verify(&old, body, &headers).is_ok());
    assert!(verify(&other, body, &headers).is_err());
    assert!(verify(&new, b"{}", &headers).is_err());
    headers.insert("webhook-id", "dlv_other".parse().unwrap());
    assert!(verify(&new, body, &headers).is_err());
}
