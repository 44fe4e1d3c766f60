//! The port [`Documents`] over the tables of one machine.

use async_trait::async_trait;
use porchlight_ports::{Collection, Document, Documents, StoreResult};

use super::LocalStore;
use crate::engine::Engine;
use crate::tables::documents;

#[async_trait]
impl<E: Engine> Documents for LocalStore<E> {
    async fn document(&self, collection: Collection, key: Vec<u8>) -> StoreResult<Option<Vec<u8>>> {
        self.read_inline(|read| documents::get(read, collection, &key))
    }

    async fn replace_document(
        &self,
        collection: Collection,
        key: Vec<u8>,
        expected: Option<Vec<u8>>,
        data: Option<Vec<u8>>,
    ) -> StoreResult<bool> {
        self.committer
            .write(move |txn| documents::replace(txn, collection, &key, expected.as_deref(), data))
            .await
    }

    async fn documents(
        &self,
        collection: Collection,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> StoreResult<Vec<Document>> {
        self.read_rows(move |read| documents::list(read, collection, after.as_deref(), limit))
            .await
    }
}
