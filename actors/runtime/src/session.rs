//! The session actor, a thin shell around [`SessionMachine`]. It feeds the machine, executes the
//! machine's requests (read the journal, write a note), and answers queries for the events so far.
//!
//! While the actor waits for the store, its mailbox waits too (`ctx.wait`): messages are handled
//! one after the other, never interleaved.

mod handle;
mod host;
mod messages;
mod running;
pub(crate) mod send;
mod seq_window;
mod watching;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_rt::ArbiterHandle;
use futures_util::future::try_join3;
use porchlight_core::context::SessionContext;
use porchlight_core::session::{RestoreError, SessionMachine, Step};
use porchlight_observe::cluster::{ClusterMetrics, Stale};
use porchlight_observe::{
    ActorKind, ActorMetrics, Fact, MessageKind, Metrics, Outcome, StopReason,
};
use porchlight_ports::{JournalEntry, Note, Snapshot, StoreError, StoreResult};
use porchlight_schema::ids::SessionId;

use crate::journal::ACTOR_BATCHES;

pub use handle::SessionHandle;
pub(crate) use handle::{Adopted, Slot};
pub(crate) use host::Host;
pub use messages::LiveEvents;
pub(crate) use messages::{BatchDurable, CatchUp, Drain, Finish, Passivate, ReadEvents};
pub(crate) use running::{PassivatedState, Running};
pub(crate) use watching::{ReadChanges, ReadFinal};

/// The delay before a failed store operation is retried.
const STORE_RETRY_DELAY: Duration = Duration::from_millis(500);

/// The actor of one session in progress.
pub struct SessionActor {
    host: Arc<dyn Host>,
    handle: Arc<SessionHandle>,
    running: Option<Box<Running>>,
    /// Whether this node has just created the session: see [`Slot::is_new`].
    is_new: bool,
    stop_reason: StopReason,
}

impl SessionActor {
    pub(crate) fn spawn(
        arbiter: &ArbiterHandle,
        host: Arc<dyn Host>,
        handle: Arc<SessionHandle>,
        passivated: Option<Box<PassivatedState>>,
        is_new: bool,
    ) -> Addr<Self> {
        Self::start_in_arbiter(arbiter, move |_context| Self {
            host,
            handle,
            running: passivated.and_then(|passivated| Running::activate(&passivated)),
            is_new,
            stop_reason: StopReason::Finished,
        })
    }

    fn metrics() -> &'static ActorMetrics {
        Metrics::get().actor(ActorKind::Session)
    }

    /// Builds the machine from the stored state, and catches up with the journal. The machine of a
    /// new session starts empty: a batch that it misses leaves a gap, and then it reads the
    /// journal.
    fn activate(&self, ctx: &mut Context<Self>) {
        let (host, session_id) = (Arc::clone(&self.host), self.handle.session_id);
        let is_new = self.is_new;
        let loading = async move {
            let store = host.store();
            let snapshot = async {
                match is_new {
                    true => Ok(None),
                    false => store.newest_snapshot(session_id).await,
                }
            };
            let (row, snapshot, notes) =
                try_join3(store.find(session_id), snapshot, store.notes(session_id)).await?;
            if let Some(row) = &row
                && row.end.is_some()
                && host.is_live(session_id)
            {
                // The session was adopted while it ended.
                host.on_ended(session_id, row.start.tenant);
            }
            Ok(row.map(|row| (SessionContext::new(&row.start), snapshot, notes)))
        };
        let loaded = loading
            .into_actor(self)
            .map(move |loaded: StoreResult<_>, actor, ctx| match loaded {
                Ok(Some((context, snapshot, notes))) => {
                    let machine = actor.restore(snapshot, &notes);
                    let from_seq = machine.next_seq();
                    let running = Running {
                        context,
                        machine,
                        unsnapshotted_since: None,
                        is_caught_up: is_new,
                    };
                    actor.running = Some(Box::new(running));
                    if !is_new {
                        actor.read(from_seq, ctx);
                    }
                }
                Ok(None) => ctx.stop(),
                Err(error) => {
                    store_failed(actor.handle.session_id, "loading a session", &error);
                    actor.retry_later(ctx, &error, |actor, ctx| actor.activate(ctx));
                }
            });
        ctx.wait(loaded);
    }

    fn restore(&self, snapshot: Option<Snapshot>, notes: &[Note]) -> SessionMachine {
        let snapshot = snapshot.filter(|_| self.handle.slot().budget.trusts_snapshot());
        let restored =
            snapshot.and_then(|snapshot| match SessionMachine::restore(&snapshot.state) {
                Ok(machine) => Some(machine),
                Err(RestoreError::Format) => {
                    let session_id = self.handle.session_id;
                    Fact::SnapshotOfOtherRelease { session_id }.record();
                    None
                }
                Err(error @ RestoreError::Damaged) => {
                    // A snapshot can always be discarded, because the journal has everything.
                    Fact::Damaged {
                        session_id: self.handle.session_id,
                        what: "snapshot",
                        error: &error,
                    }
                    .record();
                    None
                }
            });
        let mut machine = restored.unwrap_or_default();
        let skipped = notes.iter().filter_map(|note| note.skipped());
        let quarantined = notes.iter().filter_map(|note| note.quarantined());
        machine.recall(skipped, quarantined);
        machine
    }

    /// Reads the journal from `from_seq` to its end, page by page.
    fn read(&self, from_seq: u32, ctx: &mut Context<Self>) {
        let (store, session_id) = (Arc::clone(self.host.store()), self.handle.session_id);
        let reading = async move { store.read(session_id, from_seq, ACTOR_BATCHES).await };
        let read = reading
            .into_actor(self)
            .map(move |page, actor, ctx| match page {
                Ok(page) => actor.on_page(&page, ctx),
                Err(error) => {
                    store_failed(actor.handle.session_id, "reading the journal", &error);
                    actor.retry_later(ctx, &error, move |actor, ctx| {
                        actor.read(from_seq, ctx);
                    });
                }
            });
        ctx.wait(read);
    }

    fn on_page(&mut self, page: &[JournalEntry], ctx: &mut Context<Self>) {
        if let Some(running) = &self.running {
            let next_seq = running.machine.next_seq();
            self.handle
                .record_read(page, next_seq, running.is_caught_up);
        }
        for entry in page {
            // The step is ignored: the only possible request of the machine here, to continue
            // reading, is already in progress.
            if self.apply_batch(entry, ctx).is_none() {
                return;
            }
            self.handle.mark_known(entry.seq);
        }
        match (page.last(), self.running.as_mut()) {
            (Some(last), _) => self.read(last.seq.saturating_add(1), ctx),
            (None, Some(running)) => {
                running.is_caught_up = true;
                let step = running.machine.on_journal_read();
                self.perform_step(step, ctx);
            }
            (None, None) => {}
        }
    }

    /// Passes a batch to the machine. Returns `None` if the machine panicked, in which case the
    /// actor stops. The events change at the time of receipt that the journal holds, so a restart
    /// does not change the time. A batch that another node forwarded has the time of its arrival.
    fn apply_batch(&mut self, entry: &JournalEntry, ctx: &mut Context<Self>) -> Option<Step> {
        let seq = entry.seq;
        let running = self.running.as_mut()?;
        let Running {
            context, machine, ..
        } = &mut **running;
        // A machine that panics is dropped, so that nothing sees it half changed.
        match catch_unwind(AssertUnwindSafe(|| {
            machine.receive(context, seq, &entry.batch)
        })) {
            Ok(step) => {
                if running.record_change(entry.received_at) {
                    self.host.on_changed(self.handle.session_id);
                }
                Some(step)
            }
            Err(_panic) => {
                self.running = None;
                self.stop_reason = StopReason::Panic;
                ctx.stop();
                self.host.on_panicked(&self.handle, Some(seq));
                None
            }
        }
    }

    /// Performs the next step that the machine requests.
    fn perform_step(&mut self, step: Step, ctx: &mut Context<Self>) {
        match step {
            Step::Read { from_seq } => self.read(from_seq, ctx),
            Step::SkipGap { first, last } => self.skip_gap(first, last, ctx),
            Step::Wait => match self.running.as_mut() {
                Some(running) if self.handle.take_missed_batch() => {
                    let from_seq = running.machine.next_seq();
                    self.read(from_seq, ctx);
                }
                Some(running) if running.is_snapshot_due() => self.snapshot(ctx),
                _ => {}
            },
        }
    }

    /// Writes a note that a gap is skipped, then continues after it.
    fn skip_gap(&self, first: u32, last: u32, ctx: &mut Context<Self>) {
        let (store, session_id) = (Arc::clone(self.host.store()), self.handle.session_id);
        let noting = async move { store.note(session_id, Note::Skipped { first, last }).await };
        let noted = noting
            .into_actor(self)
            .map(move |noted, actor, ctx| match noted {
                Ok(()) => {
                    Fact::GapSkipped {
                        session_id,
                        first,
                        last,
                    }
                    .record();
                    if let Some(running) = actor.running.as_mut() {
                        let step = running.machine.skip_gap(first, last);
                        actor.perform_step(step, ctx);
                    }
                }
                Err(error) => {
                    store_failed(session_id, "recording a gap", &error);
                    actor.retry_later(ctx, &error, move |actor, ctx| {
                        actor.skip_gap(first, last, ctx);
                    });
                }
            });
        ctx.wait(noted);
    }

    /// Prepares the write of a snapshot. Returns `None` if there is nothing new to write or another
    /// node acts for the session now.
    fn write_snapshot(&mut self) -> Option<impl Future<Output = StoreResult<()>> + use<>> {
        let Some(generation) = self.host.generation(self.handle.session_id) else {
            ClusterMetrics::get().on_stale(Stale::Snapshot);
            return None;
        };
        let running = self
            .running
            .as_mut()
            .filter(|running| running.machine.has_unsnapshotted())?;
        running.unsnapshotted_since = None;
        let store = Arc::clone(self.host.store());
        let session_id = self.handle.session_id;
        let snapshot = Snapshot {
            generation,
            next_seq: running.machine.next_seq(),
            state: running.machine.snapshot(),
        };
        Some(async move { store.put_snapshot(session_id, snapshot).await })
    }

    fn snapshot(&mut self, ctx: &mut Context<Self>) {
        let Some(writing) = self.write_snapshot() else {
            return;
        };
        // Nothing waits for the write, and a lost snapshot costs only a longer replay.
        ctx.spawn(writing.into_actor(self).map(|written, actor, _| {
            if let Err(error) = written {
                store_failed(actor.handle.session_id, "writing a snapshot", &error);
            }
        }));
    }

    /// Retries a failed store operation after [`STORE_RETRY_DELAY`]. The actor stops instead if the
    /// session has finished, or if its rows are damaged or of a later release: another attempt would
    /// fail in the same way, and the actor reads no message between two attempts. The next message starts it again.
    fn retry_later(
        &self,
        ctx: &mut Context<Self>,
        error: &StoreError,
        retry: impl FnOnce(&mut Self, &mut Context<Self>) + 'static,
    ) {
        let is_lasting = error.is_of_single_rows();
        let sleeping = tokio::time::sleep(STORE_RETRY_DELAY).into_actor(self);
        ctx.wait(sleeping.map(move |(), actor, ctx| {
            if is_lasting || actor.handle.slot().is_finished {
                ctx.stop();
            } else {
                retry(actor, ctx);
            }
        }));
    }
}

impl Actor for SessionActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        Self::metrics().on_started();
        // An actor that was passivated has missed nothing, because any batch would have activated
        // it.
        if self.running.is_none() {
            self.activate(ctx);
        }
    }

    fn stopped(&mut self, _ctx: &mut Context<Self>) {
        Self::metrics().on_stopped(self.stop_reason);
    }
}

impl Handler<BatchDurable> for SessionActor {
    type Result = ();

    fn handle(&mut self, message: BatchDurable, ctx: &mut Context<Self>) {
        let started_at = Instant::now();
        self.handle.dequeue();
        Self::metrics()
            .wait
            .record(started_at.duration_since(message.queued_at).as_secs_f64());
        let step = self.apply_batch(&message.entry, ctx);
        let outcome = if step.is_some() {
            Outcome::Ok
        } else {
            Outcome::Panic
        };
        Self::metrics().on_handled(
            MessageKind::Batch,
            outcome,
            started_at.elapsed().as_secs_f64(),
        );
        if let Some(step) = step {
            self.perform_step(step, ctx);
        }
    }
}

impl Handler<ReadEvents> for SessionActor {
    type Result = MessageResult<ReadEvents>;

    fn handle(&mut self, _message: ReadEvents, _ctx: &mut Context<Self>) -> Self::Result {
        let started_at = Instant::now();
        let live = self.running.as_ref().map(|running| LiveEvents {
            events: running.machine.events().to_vec(),
            changed_at: running.machine.changed_at(),
        });
        Self::metrics().on_handled(
            MessageKind::Events,
            Outcome::Ok,
            started_at.elapsed().as_secs_f64(),
        );
        MessageResult(live.unwrap_or(LiveEvents {
            events: Vec::new(),
            changed_at: None,
        }))
    }
}

impl Handler<Drain> for SessionActor {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, _message: Drain, _ctx: &mut Context<Self>) -> Self::Result {
        let started_at = Instant::now();
        self.stop_reason = self.host.drain_reason(self.handle.session_id);
        let writing = self.write_snapshot();
        // The context stops when the reply is sent, and would end anything spawned on it.
        let written = async move {
            if let Some(writing) = writing {
                writing.await
            } else {
                Ok(())
            }
        };
        Box::pin(written.into_actor(self).map(move |written, actor, ctx| {
            let outcome = match written {
                Ok(()) => Outcome::Ok,
                Err(error) => {
                    store_failed(actor.handle.session_id, "writing the last snapshot", &error);
                    Outcome::Error
                }
            };
            Self::metrics().on_handled(
                MessageKind::Drain,
                outcome,
                started_at.elapsed().as_secs_f64(),
            );
            ctx.stop();
        }))
    }
}

impl Handler<CatchUp> for SessionActor {
    type Result = ();

    fn handle(&mut self, _message: CatchUp, ctx: &mut Context<Self>) {
        // An actor that is being built reads the journal to its end in any case.
        if let Some(running) = &self.running {
            self.read(running.machine.next_seq(), ctx);
        }
    }
}

impl Handler<Finish> for SessionActor {
    type Result = ();

    fn handle(&mut self, Finish(reason): Finish, ctx: &mut Context<Self>) {
        self.stop_reason = reason;
        ctx.stop();
    }
}

impl Handler<Passivate> for SessionActor {
    type Result = ();

    fn handle(&mut self, _message: Passivate, ctx: &mut Context<Self>) {
        self.stop_reason = StopReason::Idle;
        let passivated = self.running.as_ref().map(|running| running.passivate());
        self.host.on_passivated(&self.handle, passivated);
        ctx.stop();
    }
}

/// Logs and counts that the store failed while an actor or the registry worked for a session.
pub(crate) fn store_failed(session_id: SessionId, doing: &'static str, error: &StoreError) {
    Fact::StoreFailed {
        actor: ActorKind::Session,
        session_id,
        doing,
        error,
    }
    .record();
}
