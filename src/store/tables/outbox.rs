//! Outboxes: which sessions of a tenant have messages to deliver.

use porchlight_actors::ports::StoreResult;
use porchlight_schema::ids::SessionId;
use porchlight_schema::message::Message;
use porchlight_schema::session::Tenant;

use super::{Key, messages};
use crate::store::engine::Space;
use crate::store::record::corrupt;
use crate::store::txn::{Read, Txn};

/// The key of a tenant's endpoint. Its payload begins with the format, then with whether the endpoint is enabled.
#[must_use]
pub fn endpoint_key(tenant: Tenant) -> Vec<u8> {
    Key::of(b'h').tenant(tenant).build()
}

/// The key of a session's lane.
#[must_use]
pub fn key(tenant: Tenant, session_id: SessionId) -> Vec<u8> {
    Key::of(b'o').tenant(tenant).session(session_id).build()
}

/// Whether the tenant has an endpoint that is enabled.
pub fn wanted(read: &dyn Read, tenant: Tenant) -> StoreResult<bool> {
    let key = endpoint_key(tenant);
    match read.get(Space::State, &key)?.as_deref() {
        None | Some([_, 0, ..]) => Ok(false),
        Some([_, 1, ..]) => Ok(true),
        Some(_) => Err(corrupt(Space::State, &key, "neither enabled nor disabled")),
    }
}

/// Stores a message, and the lane in which it waits. The lane's row holds the number of its last message.
pub fn enqueue(txn: &mut Txn<'_>, message: &Message) -> StoreResult<()> {
    let (session_id, number) = (message.session_id, message.number);
    txn.put_state(messages::key(session_id, number), message)?;
    txn.put_state(messages::id_key(message.id), &(session_id, number))?;
    txn.put_state(key(message.tenant, session_id), &number)
}
