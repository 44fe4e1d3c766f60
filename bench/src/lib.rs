#![doc = include_str!("../README.md")]

pub mod body;
pub mod confidence;
pub mod gait;
#[cfg(feature = "load")]
pub mod load;
mod names;
#[cfg(feature = "town")]
pub mod town;
mod version;
