#![doc = include_str!("../README.md")]

pub mod added_field;
pub mod event;
pub mod fnv;
pub mod hex;
pub mod ids;
pub mod insight;
pub mod json;
pub mod key;
pub mod limits;
pub mod message;
pub mod privacy;
pub mod review;
pub mod sample;
pub mod session;
#[cfg(test)]
mod stored_numbers;
pub mod time;

/// The source of the OpenAPI document, in YAML; its head says how it is expanded.
pub const OPENAPI_YAML: &str = include_str!("../openapi.yaml");
