//! The check value of the secret key: one row, changed by a lightweight transaction, so that of two
//! nodes with different keys only one starts.

use async_trait::async_trait;
use porchlight_ports::{KeyCheck, KeyCheckValue, StoreResult};

use crate::cql::statements::db::{Found, decode, encode};
use crate::cql::{CqlStore, Inner};

/// The name of the only row.
const NAME: &str = "secret key";

impl Inner {
    async fn key_check(&self) -> StoreResult<Option<KeyCheckValue>> {
        let statement = &self.db.statements.key_check_serial;
        let row: Option<(Vec<u8>,)> = self.db.row(statement, (NAME,)).await?;
        let check = row.map(|(data,)| decode("key_check", &data)).transpose()?;
        Ok(check.map(KeyCheckValue))
    }

    async fn replace_key_check(
        &self,
        expected: Option<KeyCheckValue>,
        next: KeyCheckValue,
    ) -> StoreResult<bool> {
        let (data, statements) = (encode(&next.0)?, &self.db.statements);
        let changed = match expected {
            None => {
                let values = (NAME, data.as_slice());
                self.db
                    .lightweight(&statements.key_check_make, values)
                    .await?
            }
            Some(expected) => {
                let stored = encode(&expected.0)?;
                let values = (data.as_slice(), NAME, stored.as_slice());
                self.db
                    .lightweight(&statements.key_check_change, values)
                    .await?
            }
        };
        let found = async {
            let stored = self.key_check().await?;
            Ok(Found::of(&stored, &Some(next), &expected))
        };
        changed.resolve(found).await
    }
}

#[async_trait]
impl KeyCheck for CqlStore {
    async fn key_check(&self) -> StoreResult<Option<KeyCheckValue>> {
        self.run_with_deadline(|inner| async move { inner.key_check().await })
            .await
    }

    async fn replace_key_check(
        &self,
        expected: Option<KeyCheckValue>,
        next: KeyCheckValue,
    ) -> StoreResult<bool> {
        self.run_to_completion(|inner| async move { inner.replace_key_check(expected, next).await })
            .await
    }
}
