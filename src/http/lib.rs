//! The HTTP toolkit that the API, the console and the operators' listener share: credentials,
//! bodies, parameters, errors, middleware, and the listener. It knows no resource.
//!
//! **Errors.** A handler returns a [`problem::Problem`]; [`middleware::edge`] adds the request's id and
//! turns every other error, including a panic, into one. No error leaves the service in another
//! form.
//!
//! **HEAD** is answered wherever GET is (RFC 9110, section 9.3.2): see [`route::get`].

pub mod asset;
pub mod audit;
pub mod auth;
pub mod background;
pub mod body;
pub mod client_address;
pub mod connections;
pub mod cors;
pub mod etag;
mod expect;
pub mod fields;
pub mod links;
pub mod middleware;
pub mod observe;
pub mod permission;
pub mod problem;
pub mod query;
pub mod queue_delay;
pub mod recorder;
pub mod request_context;
pub mod request_id;
pub mod route;
pub mod serve;
mod state;
pub mod waking;

pub use state::{Settings, State, keep_tidy};
