//! Phones, and a customer who keeps reading the events of a session in progress.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use porchlight_actors::service::{
    IngestError, InsightState, Service, StartCommand, StartError, StopCommand,
};
use porchlight_ports::{Clock, Idempotency, Note, Store};
use porchlight_schema::event::Event;
use porchlight_schema::ids::SessionId;
use porchlight_schema::sample::packed::PackedBatch;
use porchlight_schema::session::{Pod, PodType, SessionStart, SessionType};

use crate::chance::Chance;
use crate::corpus::{CORPUS, imposter};
use crate::plan::PhoneAction;
use crate::world::World;

const RETRY: u64 = 2;
const POLL: u64 = 3;

/// A request to repeat: it was refused, failed, or had an unknown outcome.
struct Repeat;

/// Runs one phone until everything is done, or the node dies.
pub(crate) async fn phone(
    world: Arc<World>,
    index: usize,
    service: Service,
    store: Arc<dyn Store>,
) {
    let script = world.plan.scripts[index].clone();
    wait_until(&world, script.start_at_ms).await;
    let known = world.log(index).start.clone();
    let start = match known {
        Some(start) => start,
        None => until_done(&world, index, usize::MAX, || start(&world, index, &service)).await,
    };
    if let Some(seq) = script.quarantined {
        let note = Note::Quarantined { seq };
        until_done(&world, index, usize::MAX, || async {
            let noted = store.note(start.session_id, note).await;
            noted.map_err(|_| Repeat)
        })
        .await;
    }
    world.log(index).start = Some(start.clone());
    let mut tasks = vec![actix_rt::spawn(poll_events(
        Arc::clone(&world),
        index,
        service.clone(),
        start.session_id,
    ))];
    for (number, act) in script.acts.iter().enumerate() {
        if world.log(index).done[number] {
            continue;
        }
        let (world, service, act) = (Arc::clone(&world), service.clone(), *act);
        let session_id = start.session_id;
        tasks.push(actix_rt::spawn(async move {
            wait_until(&world, act.at_ms).await;
            until_done(&world, index, number, || {
                perform(&world, index, &service, session_id, act.action)
            })
            .await;
            world.log(index).done[number] = true;
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

async fn wait_until(world: &World, age_ms: i64) {
    let left_ms = age_ms - world.clock.age_ms();
    tokio::time::sleep(Duration::from_millis(left_ms.max(0) as u64)).await;
}

async fn until_done<T, F>(
    world: &World,
    index: usize,
    number: usize,
    mut attempt: impl FnMut() -> F,
) -> T
where
    F: Future<Output = Result<T, Repeat>>,
{
    let mut chance = Chance::of(&[world.plan.seed, RETRY, index as u64, number as u64]);
    loop {
        // As in an HTTP server, a request that panics is answered with an error.
        if let Ok(Ok(done)) = AssertUnwindSafe(attempt()).catch_unwind().await {
            return done;
        }
        tokio::time::sleep(Duration::from_millis(chance.between(100, 3_000) as u64)).await;
    }
}

async fn start(world: &World, index: usize, service: &Service) -> Result<SessionStart, Repeat> {
    let script = &world.plan.scripts[index];
    let command = StartCommand {
        tenant: world.tenant,
        delivery_id: format!("delivery-{index}"),
        external_rider_id: "rider".to_owned(),
        session_type: SessionType::Delivery,
        address: CORPUS[script.recording].address.clone(),
        device: None,
        started_at: None,
        started_at_back_ms_max: porchlight_schema::limits::STARTED_AT_BACK_MS_MAX,
        idempotency: Some(Idempotency {
            key: format!("start-{index}"),
            body_hash: [index as u8; 32],
        }),
    };
    match service.start(command).await {
        Ok(start) => Ok(start),
        Err(StartError::Store(_) | StartError::Draining) => Err(Repeat),
        Err(error) => {
            world.report(format!("a start was refused: {error}"));
            Err(Repeat)
        }
    }
}

async fn perform(
    world: &World,
    index: usize,
    service: &Service,
    session_id: SessionId,
    action: PhoneAction,
) -> Result<(), Repeat> {
    match action {
        PhoneAction::Batch(seq) => {
            let recording = world.plan.scripts[index].recording;
            let batch = CORPUS[recording].batches[seq as usize].clone();
            send(world, index, service, session_id, seq, batch).await
        }
        PhoneAction::Imposter(seq) => {
            send(world, index, service, session_id, seq, imposter(seq)).await
        }
        PhoneAction::Pod(number) => {
            let row = service
                .find(session_id)
                .await
                .map_err(|_| Repeat)?
                .ok_or(Repeat)?;
            service
                .attach_pod(&row, pod(number))
                .await
                .map_err(|_| Repeat)?;
            world.log(index).pods += 1;
            Ok(())
        }
        PhoneAction::Stop { has_time } => {
            let row = service
                .find(session_id)
                .await
                .map_err(|_| Repeat)?
                .ok_or(Repeat)?;
            let now = world.clock.now().max(row.start.started_at);
            let command = StopCommand {
                ended_at: has_time.then_some(now),
                pod: has_time.then(|| pod(9)),
            };
            let stopped = service.stop(&row, command).await.map_err(|_| Repeat)?;
            if stopped.end.is_none() {
                world.report(format!("I3: session {index} continues after its stop"));
            }
            let mut log = world.log(index);
            log.stopped = true;
            log.pods += u32::from(has_time);
            Ok(())
        }
    }
}

fn pod(number: u32) -> Pod {
    Pod {
        pod_type: PodType::Photo,
        url: format!("https://pod.example/{number}.jpg"),
    }
}

async fn send(
    world: &World,
    index: usize,
    service: &Service,
    session_id: SessionId,
    seq: u32,
    batch: PackedBatch,
) -> Result<(), Repeat> {
    let Some(target) = service.target(session_id).await.map_err(|_| Repeat)? else {
        world.report(format!("I1: session {index} was started and is missing"));
        return Ok(());
    };
    let mut permit = service.admit(&target).map_err(|_| Repeat)?;
    permit.grow(batch.as_bytes().len()).map_err(|_| Repeat)?;
    match service.ingest(&target, permit, seq, batch.clone()).await {
        Ok(()) => {
            let earlier = world.log(index).acknowledged.insert(seq, batch.clone());
            if earlier.is_some_and(|earlier| earlier != batch) {
                world.report(format!("I1: two bodies were acknowledged as {index}/{seq}"));
            }
            Ok(())
        }
        Err(IngestError::Conflict | IngestError::Closed) => Ok(()),
        Err(IngestError::Restricted | IngestError::Erased) => {
            world.report(format!(
                "I1: session {index} is refused without a privacy request"
            ));
            Ok(())
        }
        Err(IngestError::Store(_)) => Err(Repeat),
    }
}

/// Reads the events repeatedly while the session records: closed events stay unchanged, and emitted
/// ones are never withdrawn.
async fn poll_events(world: Arc<World>, index: usize, service: Service, session_id: SessionId) {
    let mut chance = Chance::of(&[world.plan.seed, POLL, index as u64]);
    // The reads become rare, so that a session that lives for hours costs nothing.
    let mut pause_ms = chance.between(500, 8_000);
    loop {
        tokio::time::sleep(Duration::from_millis(pause_ms as u64)).await;
        pause_ms += pause_ms / 16;
        let read = AssertUnwindSafe(read_live(&service, session_id))
            .catch_unwind()
            .await;
        match read {
            Ok(Ok(Some(events))) => {
                let mut log = world.log(index);
                for before in &log.seen {
                    if let Some(fault) = changed(before, &events) {
                        world.report(format!(
                            "I2: session {index}: {fault}: {before:?} in {events:?}"
                        ));
                    }
                }
                log.polls += 1;
                log.seen = events;
            }
            Ok(Ok(None)) => return,
            _ => {}
        }
    }
}

/// Returns the events of a session in progress, or `None` if it has ended.
async fn read_live(service: &Service, session_id: SessionId) -> Result<Option<Vec<Event>>, Repeat> {
    let row = service
        .find(session_id)
        .await
        .map_err(|_| Repeat)?
        .ok_or(Repeat)?;
    let state = service.insight(&row).await.map_err(|_| Repeat)?;
    // The session may have ended meanwhile: then the final timeline is about to replace this one.
    let after = service
        .find(session_id)
        .await
        .map_err(|_| Repeat)?
        .ok_or(Repeat)?;
    match state {
        _ if after.end.is_some() => Ok(None),
        // An answer with an age is from a snapshot, which may be older than the answer before.
        InsightState::Processing {
            events,
            age_sec: None,
            ..
        } => Ok(Some(events)),
        InsightState::Processing { .. } | InsightState::Scored(_) => Err(Repeat),
    }
}

fn changed(before: &Event, now: &[Event]) -> Option<&'static str> {
    if before.is_open() {
        let same = |event: &&Event| {
            event.event_type == before.event_type && event.t_start_ms == before.t_start_ms
        };
        now.iter().find(same).is_none().then_some("withdrawn")
    } else {
        (!now.contains(before)).then_some("closed and changed")
    }
}
