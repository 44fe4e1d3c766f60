//! The port [`Sessions`] over the tables of one machine.

use async_trait::async_trait;
use porchlight_ports::{
    EndOutcome, Idempotency, MessageBody, NewSession, Page, PodRow, SessionFilter, SessionRow,
    Sessions, StartOutcome, StoreResult,
};
use porchlight_schema::ids::{MessageId, SessionId, ShardSet};
use porchlight_schema::message::Message;
use porchlight_schema::session::{SessionEnd, Tenant};
use porchlight_schema::time::TimestampMs;

use super::LocalStore;
use crate::engine::Engine;
use crate::tables::{lists, messages, sessions, to_score};

/// Filters pages of a list of all sessions by shard.
async fn of_shards<T, F>(
    shards: ShardSet,
    mut after: Option<SessionId>,
    limit: usize,
    id: impl Fn(&T) -> SessionId,
    read: impl Fn(Option<SessionId>, usize) -> F,
) -> StoreResult<Vec<T>>
where
    F: Future<Output = StoreResult<Vec<T>>>,
{
    let mut found = Vec::new();
    while found.len() < limit {
        let wanted = limit - found.len();
        let page = read(after, wanted).await?;
        let is_last = page.len() < wanted;
        after = page.last().map(&id).or(after);
        found.extend(
            page.into_iter()
                .filter(|one| shards.contains(id(one).shard())),
        );
        if is_last {
            break;
        }
    }
    Ok(found)
}

#[async_trait]
impl<E: Engine> Sessions for LocalStore<E> {
    async fn start(&self, new: NewSession) -> StoreResult<StartOutcome> {
        self.committer
            .write_for_client(move |txn| sessions::start(txn, new))
            .await
    }

    async fn find_earlier_start(
        &self,
        tenant: Tenant,
        idempotency: Idempotency,
        now: TimestampMs,
    ) -> StoreResult<Option<StartOutcome>> {
        self.read_inline(|read| sessions::find_earlier_start(read, tenant, &idempotency, now))
    }

    async fn find(&self, session_id: SessionId) -> StoreResult<Option<SessionRow>> {
        self.read_inline(|read| sessions::find(read, session_id))
    }

    async fn end(
        &self,
        session_id: SessionId,
        end: SessionEnd,
        pod: Option<PodRow>,
        message: MessageBody,
    ) -> StoreResult<Option<EndOutcome>> {
        self.committer
            .write(move |txn| sessions::end(txn, session_id, end, pod, message))
            .await
    }

    async fn stop_after_timeout(
        &self,
        session_id: SessionId,
        end: SessionEnd,
        pod: Option<PodRow>,
    ) -> StoreResult<Option<EndOutcome>> {
        self.committer
            .write(move |txn| sessions::stop_after_timeout(txn, session_id, end, pod))
            .await
    }

    async fn attach_pod(&self, session_id: SessionId, pod: PodRow) -> StoreResult<bool> {
        self.committer
            .write_for_client(move |txn| sessions::attach_pod(txn, session_id, &pod))
            .await
    }

    async fn pod(&self, session_id: SessionId) -> StoreResult<Option<PodRow>> {
        self.read_inline(|read| sessions::pod_of(read, session_id))
    }

    async fn list(
        &self,
        tenant: Tenant,
        filter: &SessionFilter,
        limit: u32,
        after: Option<SessionId>,
    ) -> StoreResult<Page<SessionRow, SessionId>> {
        let filter = filter.clone();
        self.read_rows(move |read| lists::page(read, tenant, &filter, limit as usize, after))
            .await
    }

    async fn live(
        &self,
        shards: ShardSet,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<Vec<SessionRow>> {
        let read = |after, limit| self.read_rows(move |read| sessions::live(read, after, limit));
        of_shards(
            shards,
            after,
            limit,
            |row: &SessionRow| row.start.session_id,
            read,
        )
        .await
    }

    async fn to_score(
        &self,
        shards: ShardSet,
        after: Option<SessionId>,
        limit: usize,
    ) -> StoreResult<Vec<SessionId>> {
        let read = |after, limit| self.read_rows(move |read| to_score::after(read, after, limit));
        of_shards(shards, after, limit, |id: &SessionId| *id, read).await
    }

    async fn messages(&self, session_id: SessionId) -> StoreResult<Vec<Message>> {
        self.read_rows(move |read| messages::all(read, session_id))
            .await
    }

    async fn message(&self, id: MessageId) -> StoreResult<Option<Message>> {
        self.read_inline(|read| messages::find(read, id))
    }
}
