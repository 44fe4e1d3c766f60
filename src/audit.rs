//! Lines of the audit log for the actions of operators.

use porchlight_core::audit::{Action, Actor, ActorKind, Line};
use porchlight_schema::session::{Env, Tenant};
use porchlight_schema::time::TimestampMs;

/// Returns the line about a key that an operator has created or revoked.
pub(crate) fn key_line(action: Action, key_id: &str, at: TimestampMs) -> Line {
    Line {
        at,
        actor: Actor::of_kind(ActorKind::Operator),
        action: action.as_str().to_owned(),
        object: Some(key_id.to_owned()),
        from: None,
    }
}

/// Returns the tenant of a key, from the texts in which keys are listed.
pub(crate) fn tenant_of(organization_id: &str, env: &str) -> Option<Tenant> {
    Some(Tenant {
        organization_id: organization_id.parse().ok()?,
        env: Env::ALL.into_iter().find(|one| one.key_word() == env)?,
    })
}
