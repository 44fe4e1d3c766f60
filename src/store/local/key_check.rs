//! The port [`KeyCheck`] over the tables of one machine.

use async_trait::async_trait;
use porchlight_ports::{KeyCheck, KeyCheckValue, StoreResult};

use super::LocalStore;
use crate::engine::Engine;
use crate::tables::key_check;

impl<E: Engine> LocalStore<E> {
    /// Returns whether the store has sessions, webhooks or recorders, which are useless without the
    /// secret key that was in use when they were written.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read.
    pub async fn depends_on_a_key(&self) -> StoreResult<bool> {
        self.read_rows(key_check::has_dependents).await
    }
}

#[async_trait]
impl<E: Engine> KeyCheck for LocalStore<E> {
    async fn key_check(&self) -> StoreResult<Option<KeyCheckValue>> {
        self.read_rows(key_check::find).await
    }

    async fn replace_key_check(
        &self,
        expected: Option<KeyCheckValue>,
        next: KeyCheckValue,
    ) -> StoreResult<bool> {
        self.committer
            .write(move |txn| key_check::replace(txn, expected, next))
            .await
    }
}
