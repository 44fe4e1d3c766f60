//! A machine's state as bytes, and back.

use super::SessionMachine;

/// The first byte of a snapshot. It rises whenever the state's shape, or a detector's meaning, changes: a snapshot
/// of another format is thrown away, and the session built anew from its journal.
pub const SNAPSHOT_FORMAT: u8 = 2;

/// The snapshot can't be used; build the machine from its journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Written by another version.
    #[error("snapshot of another format")]
    Format,
    /// Not a snapshot.
    #[error("snapshot is corrupt")]
    Corrupt,
}

impl SessionMachine {
    /// The state as bytes. The next one is due after as many batches again.
    pub fn snapshot(&mut self) -> Vec<u8> {
        self.unsnapshotted = 0;
        // Serializing into a vector of plain data can't fail; were it to, an empty snapshot is one that is thrown
        // away.
        postcard::to_extend(self, vec![SNAPSHOT_FORMAT]).unwrap_or_default()
    }

    /// The machine of a snapshot.
    pub fn restore(bytes: &[u8]) -> Result<Self, RestoreError> {
        let (&format, state) = bytes.split_first().ok_or(RestoreError::Corrupt)?;
        if format != SNAPSHOT_FORMAT {
            return Err(RestoreError::Format);
        }
        postcard::from_bytes(state).map_err(|_| RestoreError::Corrupt)
    }
}
