//! The management console: what it lets in, what it shows to whom, and how it does in a real browser.

mod browser;
mod doors;
mod pages;
mod scale;
mod tenant;
mod visitor;
