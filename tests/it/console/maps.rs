//! Tests the maps of the console in a real Chromium, driven by `maps.mjs` next to this file: the
//! session page, the live board with 1,000 sessions, and the path image. The street map is the
//! synthetic town. No request may leave the service.

use porchlight_sim::{Kind, ParameterSet, Scenario};
use serde_json::json;

use super::browser::{Browser, certify, root};
use crate::server::{Folder, Server, porchlight, successful};

/// Places on streets of the town that run east, in degrees of latitude and longitude.
const STREETS_DEG: [(f64, f64); 2] = [(45.501_259_1, -27.496), (45.498_740_9, -27.494_1)];

#[test]
fn the_maps_work_in_a_browser() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let folder = Folder::new();
    certify(folder.path());
    let kinds = [Kind::Elevator, Kind::House];
    let sent = kinds.into_iter().zip(STREETS_DEG).enumerate();
    let sent = sent.map(|(number, (kind, street_deg))| {
        let scenario = Scenario::new(kind, ParameterSet::Tuning, 70 + number as u64);
        let mut delivery = scenario.deliver_on_street(street_deg);
        let (lat, lng) = (&delivery.start["address"]["lat"], &delivery.start["address"]["lng"]);
        let gate = json!({ "lat": lat.as_f64().unwrap() - 0.000_06, "lng": lng });
        delivery.start["address"]["gates"] = json!([gate]);
        let batches: Vec<String> = delivery
            .batches(15.0)
            .map(|batch| batch.json().unwrap())
            .collect();
        json!({ "start": delivery.start, "batches": batches, "pod": delivery.pod, "seconds": delivery.end_t })
    });
    let sent: Vec<_> = sent.collect();
    std::fs::write(
        folder.path().join("deliveries.json"),
        json!(sent).to_string(),
    )
    .unwrap();
    let map = root().join("src/map/town.pmtiles");
    let server = Server::start(&folder, &[("PORCHLIGHT__MAP__FILE", map.to_str().unwrap())]);
    let key = |organization: &str| {
        let made = porchlight()
            .args(["keys", "create", "--org", organization])
            .args(["--env", "sandbox", "--kind", "secret"])
            .env("PORCHLIGHT__STORE__PATH", folder.store())
            .output();
        successful(made.unwrap()).trim().to_owned()
    };
    let keys = [
        ("KEY", &*key("Harbour Parcels")),
        ("OTHER_KEY", &*key("Hill Parcels")),
    ];
    browser.run("maps.mjs", &server, &folder, &keys);
}
