//! The public HTTP API.

pub mod auth;
pub mod body;
pub mod edge;
pub mod observe;
pub mod problem;
pub mod request_id;
pub mod route;
