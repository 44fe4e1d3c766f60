//! Tests the management console: the requests it admits, the data it shows to each tenant, and its
//! pages in a real browser.

mod attempts;
mod browser;
mod doors;
mod maps;
mod pages;
mod phone;
mod privacy;
mod roles;
mod scale;
mod tenant;
mod trail;
mod visitor;
