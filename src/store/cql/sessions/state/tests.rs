//! Tests of the decisions about a session's state.

use porchlight_schema::message::MessageEvent;
use porchlight_schema::session::{EndReason, Env, Pod, PodType, Tenant};

use super::*;

const T0: TimestampMs = TimestampMs(1_763_636_100_000);

fn ended(insight: Option<Covered>) -> State {
    let end = SessionEnd {
        ended_at: T0,
        completed_at: T0,
        reason: EndReason::Stopped,
    };
    let insight = insight.map(|covered| OfficialInsight {
        revision: 1,
        tag: [0; 16],
        covered,
    });
    State::imported(Some(end), insight, 2)
}

#[test]
fn a_pod_that_no_insight_covers_leaves_an_ended_session_to_be_scored() {
    let pod = PodRow {
        pod: Pod {
            pod_type: PodType::Note,
            url: "https://example.com/pod".to_owned(),
        },
        received_at: T0.plus_ms(5),
    };
    let covering = |pod_received_at| {
        Some(Covered {
            pod_received_at,
            ..Covered::default()
        })
    };
    // The insight may be the one from before a PoD whose mark was not set.
    for insight in [None, covering(None), covering(Some(T0))] {
        assert!(ended(insight).lacks_pod(&pod), "{insight:?}");
    }
    assert!(!ended(covering(Some(pod.received_at))).lacks_pod(&pod));
    assert!(!State::imported(None, None, 1).lacks_pod(&pod));
}

#[test]
fn a_removed_message_is_dropped_from_the_state_and_nothing_else_is() {
    let session_id = SessionId::new(T0, 1);
    let message = Message {
        id: MessageId::derived(T0, session_id, 1),
        tenant: Tenant {
            organization_id: porchlight_schema::ids::OrganizationId::new(T0, 1),
            env: Env::Sandbox,
        },
        session_id,
        number: 1,
        event: MessageEvent::InsightUpdated,
        created_at: T0,
        body: "{}".into(),
    };
    let mut state = ended(None);
    state.pending.learned = vec![([7; 32], vec![7])];
    let without = state.clone();
    assert_eq!(state.clone().without_message(), None);
    state.pending.message = Some((message, EndpointId::new(T0, 1)));
    assert_eq!(state.without_message(), Some(without));
}
