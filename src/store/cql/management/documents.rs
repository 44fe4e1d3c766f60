//! Small documents of management data. A collection is one partition; documents change by
//! lightweight transactions.

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use porchlight_ports::{Collection, Document, Documents, StoreError, StoreResult};

use crate::cql::statements::db::Found;
use crate::cql::{CqlStore, Inner};

impl Inner {
    async fn document(&self, collection: Collection, key: Vec<u8>) -> StoreResult<Option<Vec<u8>>> {
        let collection = collection.key();
        let values = (collection.as_slice(), key.as_slice());
        let row: Option<(Vec<u8>,)> = self
            .db
            .row(&self.db.statements.document_get, values)
            .await?;
        Ok(row.map(|(data,)| data))
    }

    async fn replace_document(
        &self,
        collection: Collection,
        key: Vec<u8>,
        expected: Option<Vec<u8>>,
        data: Option<Vec<u8>>,
    ) -> StoreResult<bool> {
        let collection = collection.key();
        let (collection, key) = (collection.as_slice(), key.as_slice());
        let statements = &self.db.statements;
        let outcome = match (&expected, &data) {
            (None, None) => return Ok(self.serial_document(collection, key).await?.is_none()),
            (None, Some(data)) => {
                let values = (collection, key, data.as_slice());
                self.db
                    .lightweight(&statements.document_make, values)
                    .await?
            }
            (Some(expected), Some(data)) => {
                let values = (data.as_slice(), collection, key, expected.as_slice());
                self.db
                    .lightweight(&statements.document_change, values)
                    .await?
            }
            (Some(expected), None) => {
                let values = (collection, key, expected.as_slice());
                self.db
                    .lightweight(&statements.document_delete, values)
                    .await?
            }
        };
        let found = async {
            let stored = self.serial_document(collection, key).await?;
            Ok(Found::of(&stored, &data, &expected))
        };
        outcome.resolve(found).await
    }

    /// Writes a document of another store, unless one is there.
    async fn import_document(&self, collection: &[u8], key: &[u8], data: &[u8]) -> StoreResult<()> {
        let make = &self.db.statements.document_make;
        let made = self.db.lightweight(make, (collection, key, data)).await?;
        let exists = async { Ok(self.serial_document(collection, key).await?.is_some()) };
        made.resolve_creation(exists).await
    }

    async fn serial_document(&self, collection: &[u8], key: &[u8]) -> StoreResult<Option<Vec<u8>>> {
        let statement = &self.db.statements.document_serial;
        let row: Option<(Vec<u8>,)> = self.db.row(statement, (collection, key)).await?;
        Ok(row.map(|(data,)| data))
    }

    async fn documents(
        &self,
        collection: Collection,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<Vec<Document>, StoreError> {
        let (collection, after) = (collection.key(), after.unwrap_or_default());
        let statement = &self.db.statements.documents_after;
        let values = (collection.as_slice(), after.as_slice());
        let rows: Vec<(Vec<u8>, Vec<u8>)> = self.db.rows(statement, values, limit).await?;
        Ok(rows
            .into_iter()
            .map(|(key, data)| Document { key, data })
            .collect())
    }
}

/// A stored document: its collection's key, its own key, its data.
pub(crate) type StoredDocument = (Vec<u8>, Vec<u8>, Vec<u8>);

impl CqlStore {
    /// Returns all documents, in no order.
    pub(crate) async fn all_documents(
        &self,
    ) -> StoreResult<BoxStream<'static, StoreResult<StoredDocument>>> {
        let db = &self.inner.db;
        db.stream(&db.statements.documents_all, ()).await
    }

    /// Writes a document of another store, unless one is there.
    pub(crate) async fn import_document(
        &self,
        collection: &[u8],
        key: &[u8],
        data: &[u8],
    ) -> StoreResult<()> {
        self.inner.import_document(collection, key, data).await
    }
}

#[async_trait]
impl Documents for CqlStore {
    async fn document(&self, collection: Collection, key: Vec<u8>) -> StoreResult<Option<Vec<u8>>> {
        self.run_with_deadline(|inner| async move { inner.document(collection, key).await })
            .await
    }

    async fn replace_document(
        &self,
        collection: Collection,
        key: Vec<u8>,
        expected: Option<Vec<u8>>,
        data: Option<Vec<u8>>,
    ) -> StoreResult<bool> {
        self.run_to_completion(|inner| async move {
            inner
                .replace_document(collection, key, expected, data)
                .await
        })
        .await
    }

    async fn documents(
        &self,
        collection: Collection,
        after: Option<Vec<u8>>,
        limit: usize,
    ) -> StoreResult<Vec<Document>> {
        self.run_with_deadline(
            |inner| async move { inner.documents(collection, after, limit).await },
        )
        .await
    }
}
