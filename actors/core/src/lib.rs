#![doc = include_str!("../README.md")]

pub mod context;
pub mod geo;
pub mod webhook;
pub mod window;
