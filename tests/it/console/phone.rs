//! Tests recording with a phone's browser: a real Chromium with emulated position and motion,
//! driven by `phone.mjs` and `sensors.mjs` next to this file. `PORCHLIGHT_OFFLINE_SECONDS=60` cuts the network for
//! longer than the default of 12 s.

use super::browser::Browser;
use crate::server::{Folder, Server};

/// The time without a network, in seconds.
const OFFLINE_SECONDS: &str = "12";

#[test]
fn a_delivery_is_recorded_in_the_browser_of_a_phone() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let seconds = std::env::var("PORCHLIGHT_OFFLINE_SECONDS");
    let variables = [
        ("KEY", &*server.key("secret")),
        (
            "OFFLINE_SECONDS",
            seconds.as_deref().unwrap_or(OFFLINE_SECONDS),
        ),
    ];
    browser.run("phone.mjs", &server, &folder, &variables);
}

#[test]
fn the_page_says_that_the_location_or_the_motion_is_not_allowed() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let variables = [("KEY", &*server.key("secret"))];
    browser.run("sensors.mjs", &server, &folder, &variables);
}
