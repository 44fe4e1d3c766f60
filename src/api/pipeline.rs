//! The batches of one connection on their way to the store. They are started in order, committed
//! together, and answered in order.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use actix_web::rt;
use porchlight_actors::service::{AdmitError, IngestError, Permit, Service, Target, TenantUsage};
use porchlight_http::problem::Problem;
use porchlight_http::waking::await_batched;
use porchlight_schema::sample::json::DecodedBatch;

use super::telemetry::ingest_problem;

/// Bytes that a connection may buffer without a permit.
const UNCOUNTED_BYTES_MAX: usize = 16 * 1024;

/// Unanswered batches, in order; `A` identifies the answer of each.
pub(super) struct Pipeline<A> {
    waiting: VecDeque<(A, State)>,
}

enum State {
    Done(Result<(), Problem>),
    /// The connection's task drives all its commits: a task per commit would cost as much as
    /// decoding a frame.
    Commits(Pin<Box<dyn Future<Output = Result<(), IngestError>>>>),
}

impl<A: 'static> Pipeline<A> {
    pub(super) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
        }
    }

    /// Returns the number of unanswered batches.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the answers that are due.
    pub(super) fn answers(&self) -> impl Iterator<Item = &A> {
        self.waiting.iter().map(|(answer, _)| answer)
    }

    /// Adds a batch with a known outcome.
    pub(super) fn push_done(&mut self, answer: A, outcome: Result<(), Problem>) {
        self.waiting.push_back((answer, State::Done(outcome)));
    }

    /// Starts an admitted batch. It reaches the store immediately, so a session's batches keep
    /// their order.
    pub(super) async fn begin(
        &mut self,
        answer: A,
        service: Service,
        target: Target,
        permit: Permit,
        batch: DecodedBatch,
    ) {
        let mut commits = Box::pin(async move {
            await_batched(service.ingest(&target, permit, batch.seq, batch.batch)).await
        });
        let state = match poll_fn(|context| Poll::Ready(commits.as_mut().poll(context))).await {
            Poll::Ready(outcome) => State::Done(outcome.map_err(ingest_problem)),
            Poll::Pending => State::Commits(commits),
        };
        self.waiting.push_back((answer, state));
    }

    /// Waits for the outcome of the first batch. Waits forever if there is no batch.
    pub(super) async fn first_done(&mut self) {
        poll_fn(|context| {
            self.poll_all(context);
            match self.waiting.front() {
                Some((_, State::Done(_))) => Poll::Ready(()),
                _ => Poll::Pending,
            }
        })
        .await;
    }

    /// Awaits `future` while commits proceed, so that permits are returned when batches are
    /// durable, even if the client does not read the answers.
    pub(super) async fn await_with_commits<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            let output = future.as_mut().poll(context);
            if output.is_pending() {
                self.poll_all(context);
            }
            output
        })
        .await
    }

    /// Abandons the answers; commits in flight still finish.
    pub(super) fn abandon(mut self) {
        if self.waiting.is_empty() {
            return;
        }
        rt::spawn(async move {
            while !self.waiting.is_empty() {
                self.first_done().await;
                self.waiting.pop_front();
            }
        });
    }

    /// Returns the first batch, if its outcome is known.
    pub(super) async fn take_done(&mut self) -> Option<(A, Result<(), Problem>)> {
        if let Some((_, State::Commits(_))) = self.waiting.front() {
            poll_fn(|context| {
                self.poll_all(context);
                Poll::Ready(())
            })
            .await;
        }
        match self.waiting.pop_front()? {
            (answer, State::Done(outcome)) => Some((answer, outcome)),
            first => {
                self.waiting.push_front(first);
                None
            }
        }
    }

    /// Polls all commits: they complete in groups, and a commit that is not polled keeps its
    /// permit.
    fn poll_all(&mut self, context: &mut Context<'_>) {
        for (_, state) in &mut self.waiting {
            if let State::Commits(commits) = state
                && let Poll::Ready(outcome) = commits.as_mut().poll(context)
            {
                *state = State::Done(outcome.map_err(ingest_problem));
            }
        }
    }
}

/// The permit to buffer a large message while it arrives: bytes beyond [`UNCOUNTED_BYTES_MAX`]
/// count as in flight.
#[derive(Default)]
pub(super) struct BufferPermit(Option<(Permit, usize)>);

impl BufferPermit {
    /// Makes the permit cover `held` buffered bytes. A refusal releases all bytes of the permit.
    ///
    /// # Errors
    ///
    /// Returns an error if the tenant or the node has too much in flight, or the node stops.
    pub(super) fn cover(
        &mut self,
        service: &Service,
        usage: &Arc<TenantUsage>,
        held: usize,
    ) -> Result<(), AdmitError> {
        if held <= UNCOUNTED_BYTES_MAX {
            self.0 = None;
            return Ok(());
        }
        let covered = match &mut self.0 {
            Some((_, bytes)) if *bytes >= held => Ok(()),
            Some((permit, bytes)) => permit.grow(held - *bytes).map(|()| *bytes = held),
            None => service
                .reserve(usage, held)
                .map(|permit| self.0 = Some((permit, held))),
        };
        if covered.is_err() {
            self.0 = None;
        }
        covered
    }
}
