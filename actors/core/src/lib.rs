#![doc = include_str!("../README.md")]

pub mod context;
pub mod geo;
pub mod score;
pub mod window;
