//! The operations of a webhook actor whose results are pending.
//!
//! actix polls every future of an actor whenever one of them wakes it, and does not return to its
//! arbiter while one of them is ready. An endpoint has hundreds of operations in flight, and many
//! of them end together. Here only woken operations are polled, and after some results the actors
//! of other tenants on the same arbiter take their turn.

use std::pin::Pin;
use std::task::{self, Poll};

use actix::prelude::*;
use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;

/// The maximum number of results that an actor processes before other actors take their turn. Each
/// result takes about a tenth of a millisecond and can begin an operation that reads the store.
const RESULTS_PER_TURN: usize = 16;

type Continuation<A> = Box<dyn FnOnce(&mut A, &mut Context<A>)>;

/// An actor with operations.
pub(super) trait Operating: Actor<Context = Context<Self>> {
    /// Returns the operations whose results are pending.
    fn operations(&mut self) -> &mut Operations<Self>;
}

/// The operations of an actor whose results are pending. They end with the actor.
pub(super) struct Operations<A: Operating> {
    pending: FuturesUnordered<LocalBoxFuture<'static, Continuation<A>>>,
}

impl<A: Operating> Default for Operations<A> {
    fn default() -> Self {
        Self {
            pending: FuturesUnordered::new(),
        }
    }
}

impl<A: Operating> Operations<A> {
    /// Begins an operation; `then` processes its result. Must be called by the actor itself, whose
    /// [`ProcessResults`] polls the operation next.
    pub(super) fn begin<T: 'static>(
        &mut self,
        operation: impl Future<Output = T> + 'static,
        then: impl FnOnce(&mut A, &mut Context<A>, T) + 'static,
    ) {
        self.pending.push(Box::pin(async move {
            let result = operation.await;
            let then: Continuation<A> = Box::new(move |actor, ctx| then(actor, ctx, result));
            then
        }));
    }
}

/// Processes the results of an actor's operations for as long as the actor runs.
pub(super) struct ProcessResults;

impl<A: Operating> ActorFuture<A> for ProcessResults {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        actor: &mut A,
        ctx: &mut Context<A>,
        cx: &mut task::Context<'_>,
    ) -> Poll<()> {
        for _ in 0..RESULTS_PER_TURN {
            if matches!(ctx.state(), ActorState::Stopping | ActorState::Stopped) {
                return Poll::Ready(());
            }
            match actor.operations().pending.poll_next_unpin(cx) {
                Poll::Ready(Some(then)) => then(actor, ctx),
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    const RESULTS: usize = 10_000;

    /// An actor each of whose results begins an operation that ends immediately.
    struct Busy {
        operations: Operations<Self>,
        processed: Rc<Cell<usize>>,
    }

    impl Busy {
        fn begin(&mut self) {
            self.operations.begin(async {}, |actor, ctx, ()| {
                actor.processed.set(actor.processed.get() + 1);
                if actor.processed.get() < RESULTS {
                    actor.begin();
                } else {
                    ctx.stop();
                }
            });
        }
    }

    impl Operating for Busy {
        fn operations(&mut self) -> &mut Operations<Self> {
            &mut self.operations
        }
    }

    impl Actor for Busy {
        type Context = Context<Self>;

        fn started(&mut self, ctx: &mut Context<Self>) {
            self.begin();
            ctx.spawn(ProcessResults);
        }
    }

    #[actix::test]
    async fn other_tasks_take_turns_with_an_actor_whose_results_never_pause() {
        let processed = Rc::new(Cell::new(0));
        let busy = Busy {
            operations: Operations::default(),
            processed: Rc::clone(&processed),
        };
        let busy = busy.start();
        while processed.get() == 0 {
            tokio::task::yield_now().await;
        }
        let before = processed.get();
        assert!(before < RESULTS, "this task ran before the last result");
        while busy.connected() {
            tokio::task::yield_now().await;
        }
        assert_eq!(processed.get(), RESULTS);
    }
}
