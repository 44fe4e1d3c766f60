//! Tests that a node answers for a session whose snapshot it cannot read.

use porchlight_ports::{PeerError, Peers, Snapshots};
use porchlight_schema::time::TimestampMs;

use super::{Nodes, id_of, wait_until};
use crate::answer::Answer;
use crate::events::send;
use crate::server::insights;

/// Changes the number of the format, as another release writes it.
fn of_other_format(state: &mut [u8]) {
    state[0] ^= 1;
}

fn updated_at(insight: &Answer) -> TimestampMs {
    let text = insight.json["updatedAt"].as_str().unwrap();
    text.parse().unwrap()
}

fn damage(state: &mut [u8]) {
    state[1..].fill(0xff);
}

#[actix::test]
async fn the_events_of_a_session_stay_although_its_snapshot_cannot_be_read() {
    let nodes = Nodes::start().await;
    nodes.forward();
    let (edge, owner) = (&nodes.edge.server, &nodes.owner.server);
    let session = edge.start_session().await;
    let id = id_of(&session);
    wait_until(async || owner.service.registry().handle(id).is_some()).await;
    send(edge, &session, 0..30).await;
    wait_until(async || {
        let snapshot = nodes.store.newest_snapshot(id).await.unwrap();
        snapshot.is_some_and(|snapshot| snapshot.next_seq >= 12)
    })
    .await;
    let read = async || edge.get(&insights(&session.id), &edge.keys.secret).await;
    let all = async || {
        let live = owner.service.live(id).await.unwrap();
        let read = read().await;
        let events = read.json["events"].as_array().map_or(0, Vec::len);
        (events == live.events.len() && events > 0).then_some(read)
    };
    wait_until(async || all().await.is_some()).await;
    let before = all().await.unwrap();
    nodes.owner.peers.stop();
    wait_until(async || {
        let response = nodes.edge.client.live(id).await;
        matches!(response, Err(PeerError::Unreachable))
    })
    .await;
    let mut snapshot = nodes.store.newest_snapshot(id).await.unwrap().unwrap();
    let state = std::mem::take(&mut snapshot.state);
    for change in [of_other_format, damage] {
        let mut unreadable = snapshot.clone();
        unreadable.generation += 1;
        unreadable.state = state.clone();
        change(&mut unreadable.state);
        nodes.store.put_snapshot(id, unreadable).await.unwrap();
        let now = read().await;
        assert_eq!(now.json["events"], before.json["events"]);
        // The edge forwards its batches without the time of receipt that the journal stores, so the
        // owner takes the time of arrival, some milliseconds later.
        let earlier_ms = updated_at(&before).since_ms(updated_at(&now));
        assert!((0..1_000).contains(&earlier_ms), "{earlier_ms} ms");
        assert_eq!(now.header("age"), "0", "the answer is complete: {now:?}");
    }
    nodes.end().await;
}
