//! Implements the port of webhooks: endpoints, outboxes and deliveries.
//!
//! ```text
//! endpoints.rs     one endpoint per tenant
//! outbox.rs        waiting messages, their due times, and their results
//! deliveries.rs    the list of deliveries, and requested retries
//! relay.rs         copies that must follow a change: the message, its entries in lists and outboxes
//! ```

pub(super) mod deliveries;
pub(super) mod endpoints;
pub(super) mod outbox;
pub(super) mod relay;
