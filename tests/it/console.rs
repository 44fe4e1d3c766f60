//! Tests the management console: the requests it admits, the data it shows to each tenant, and its
//! pages in a real browser.

mod access;
mod attempts;
mod audit_log;
mod browser;
mod maps;
mod pages;
mod phone;
mod privacy;
mod roles;
mod scale;
mod shares;
mod tenant;
mod visitor;
