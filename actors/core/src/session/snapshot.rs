//! Serializes a machine's state and restores it.

use super::SessionMachine;
use crate::context::SessionContext;

/// The first byte of a snapshot. It rises whenever the state's form or a detector's meaning
/// changes. A snapshot with another format is discarded, and the session is rebuilt from its
/// journal.
pub const SNAPSHOT_FORMAT: u8 = 32;

/// The reason why a snapshot cannot be used; the machine must be rebuilt from its journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Another version of the service wrote the snapshot.
    #[error("snapshot of another format")]
    Format,
    /// The bytes are not a snapshot.
    #[error("snapshot is damaged")]
    Damaged,
}

impl SessionMachine {
    /// Serializes the state. The next snapshot is due after as many batches again.
    pub fn snapshot(&mut self) -> Vec<u8> {
        self.unsnapshotted = 0;
        // Serializing plain data into a vector cannot fail; an empty snapshot would be discarded.
        postcard::to_extend(self, vec![SNAPSHOT_FORMAT]).unwrap_or_default()
    }

    /// Serializes the state and the session's context for a passivated session: a third of the
    /// machine's size. A due snapshot stays due.
    #[must_use]
    pub fn passivate(&self, context: &SessionContext) -> Box<[u8]> {
        postcard::to_stdvec(&(context, self))
            .unwrap_or_default()
            .into()
    }

    /// Restores a passivated session.
    ///
    /// # Errors
    ///
    /// Returns [`RestoreError::Damaged`] if the bytes are not a passivated session.
    pub fn activate(bytes: &[u8]) -> Result<(SessionContext, Self), RestoreError> {
        postcard::from_bytes(bytes).map_err(|_| RestoreError::Damaged)
    }

    /// Restores the machine from a snapshot.
    pub fn restore(bytes: &[u8]) -> Result<Self, RestoreError> {
        let (&format, state) = bytes.split_first().ok_or(RestoreError::Damaged)?;
        if format != SNAPSHOT_FORMAT {
            return Err(RestoreError::Format);
        }
        postcard::from_bytes(state).map_err(|_| RestoreError::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use porchlight_schema::sample::json::decode_batch;
    use porchlight_schema::time::TimestampMs;
    use proptest::prelude::*;

    use super::*;
    use crate::session::tests::context;

    fn snapshot() -> Vec<u8> {
        let context = context();
        let mut machine = SessionMachine::default();
        for seq in 0..12_u32 {
            let samples: Vec<_> = (0..10)
                .map(|n| {
                    let t = seq * 10 + n;
                    let lat = 52.5 + f64::from(t) * 1e-4;
                    format!(r#"{{"t":{t},"kind":"location","lat":{lat},"lng":13.4,"accuracyM":5}}"#)
                })
                .collect();
            let text = format!(r#"{{"seq":{seq},"samples":[{}]}}"#, samples.join(","));
            let batch = decode_batch(text.as_bytes()).unwrap().batch;
            machine.receive(&context, seq, &batch);
        }
        assert!(machine.record_changes(TimestampMs(7)) && !machine.record_changes(TimestampMs(8)));
        machine.snapshot()
    }

    #[test]
    fn a_snapshot_keeps_the_time_of_the_last_change() {
        let mut restored = SessionMachine::restore(&snapshot()).unwrap();
        assert!(
            !restored.record_changes(TimestampMs(9)),
            "nothing changed since"
        );
        assert_eq!(restored.changed_at(), Some(TimestampMs(7)));
    }

    proptest! {
        /// Arbitrary bytes are refused or restore a machine that works. `PROPTEST_CASES` sets the
        /// number of cases.
        #[test]
        fn any_bytes_are_restored_or_refused(
            noise in proptest::collection::vec(any::<u8>(), 0..300),
            at in any::<prop::sample::Index>(),
            is_damage in any::<bool>(),
        ) {
            let mut bytes = noise;
            bytes.insert(0, SNAPSHOT_FORMAT);
            if is_damage {
                static SNAPSHOT: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(snapshot);
                let mut damaged = SNAPSHOT.clone();
                let from = at.index(damaged.len());
                let length = bytes.len().min(damaged.len() - from).min(4);
                damaged[from..from + length].copy_from_slice(&bytes[bytes.len() - length..]);
                bytes = damaged;
            }
            if let Ok(machine) = SessionMachine::restore(&bytes) {
                let changes = machine.numbered_changes_since(0, usize::MAX);
                prop_assert!(machine.events().len() <= bytes.len() && changes.len() <= 2 * bytes.len());
            }
        }
    }
}
