//! Tests the reasons for which a retry is refused.

use porchlight_core::webhook::{Queued, State};
use porchlight_schema::ids::{EndpointId, MessageId, SessionId};
use porchlight_schema::limits::DELIVERY_ATTEMPTS_MAX;
use porchlight_schema::message::MessageEvent;
use porchlight_schema::time::TimestampMs;

use super::*;

use RetryRefusal::{AttemptsUsed, NoWebhook, Superseded, WebhookDeleted};

#[test]
fn a_refused_retry_names_the_reason_that_holds() {
    let at = TimestampMs(1);
    let [own, other] = [1, 2].map(|number| EndpointId::new(at, number));
    let row = |state: State, attempts: u32| {
        let (id, session_id) = (MessageId::new(at, 3), SessionId::new(at, 4));
        let queued = Queued {
            state,
            attempts,
            ..Queued::new(id, session_id, 0, MessageEvent::SessionStarted)
        };
        DeliveryRow::new(queued, own)
    };
    for (state, attempts, current, expected) in [
        (State::Superseded, 0, Some(own), Some(Superseded)),
        (State::Superseded, 0, None, Some(Superseded)),
        (State::Waiting, 0, Some(own), None),
        (State::Held, 0, Some(own), None),
        (State::Waiting, 0, Some(other), Some(WebhookDeleted)),
        (State::Held, 0, None, Some(WebhookDeleted)),
        // The message was held for too long.
        (State::Cancelled, 0, Some(own), None),
        (State::Cancelled, 0, Some(other), None),
        (State::Failed, 6, Some(other), None),
        (State::Failed, 6, None, Some(NoWebhook)),
        (
            State::Delivered,
            DELIVERY_ATTEMPTS_MAX,
            Some(own),
            Some(AttemptsUsed),
        ),
    ] {
        let refusal = row(state, attempts).retry_refusal(current);
        assert_eq!(refusal, expected, "{state:?} {attempts} {current:?}");
    }
}
