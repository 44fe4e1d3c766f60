#![doc = include_str!("README.md")]

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
mod holds;
pub mod links;
pub mod middleware;
pub mod observe;
pub mod open_files;
pub mod permission;
pub mod problem;
pub mod query;
pub mod queue_delay;
pub mod recorder;
pub mod request_context;
pub mod request_id;
pub mod route;
pub mod serve;
pub mod sliced;
mod state;
mod unread;
pub mod waking;

pub use state::{Settings, State, run_cleanup};
