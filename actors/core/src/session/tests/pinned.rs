//! Pins the snapshots and the keys of the trace of a fixed recording, so that no change of the
//! state or of the detectors keeps the number of the snapshot format.

use std::fmt::Write as _;

use porchlight_schema::event::EventType;
use porchlight_schema::{fnv, hex};
use sha2::{Digest, Sha256};

use super::*;
use crate::parameters::hash;
use crate::score::trace_fingerprint;
use crate::session::replay::Replay;

/// The number of the format, the hash of the parameters, and the hash of the snapshots.
const PINNED: (u8, &str, &str) = (
    32,
    "eac64825b315e5b7",
    "5ca7cf3ef77dd82f1e5c635771f3fc01334d627c88fe686b2beea98df02f7b1c",
);

/// The hash of all parameters on which the state and the events of a live session depend.
fn parameters() -> String {
    let mut sum = hash(fnv::START, crate::barometer::TABLE);
    sum = hash(sum, crate::floors::parameters::TABLE);
    for table in crate::detect::parameters::TABLES {
        sum = hash(sum, table);
    }
    let models = [
        ("model", "gait", crate::gait::VERSION),
        ("model", "confidence", crate::confidence::VERSION),
    ];
    format!("{:016x}", hash(sum, &models))
}

/// The movement of the phone during one part of the recording.
struct Part {
    until_sec: u32,
    /// Metres to the east and up within one second.
    east_m: f64,
    up_m: f64,
    /// Steps in ten seconds.
    steps: u32,
    /// The spread of the acceleration, m/s².
    shake: f64,
    /// The accuracy of the fixes in metres; `None` if the phone sends no fix.
    accuracy_m: Option<u32>,
}

const fn part(
    until_sec: u32,
    (east_m, up_m): (f64, f64),
    (steps, shake): (u32, f64),
    accuracy_m: Option<u32>,
) -> Part {
    Part {
        until_sec,
        east_m,
        up_m,
        steps,
        shake,
        accuracy_m,
    }
}

/// A drive, a walk through a gate, a lost signal, stairs and an elevator to the door, a turn back
/// on foot, and the way back to the vehicle.
const PARTS: [Part; 15] = [
    part(80, (11.0, 0.0), (0, 0.6), Some(6)),
    part(110, (0.0, 0.0), (0, 0.05), Some(5)),
    part(150, (1.3, 0.0), (18, 2.2), Some(5)),
    part(175, (0.0, 0.0), (0, 0.05), Some(5)),
    part(200, (1.3, 0.0), (18, 2.2), Some(5)),
    part(240, (-1.3, 0.0), (18, 2.2), Some(5)),
    part(290, (1.3, 0.0), (18, 2.2), Some(6)),
    part(320, (0.3, 0.0), (15, 2.0), Some(90)),
    part(350, (0.2, 0.3), (16, 2.4), None),
    part(365, (0.0, 0.0), (0, 0.05), None),
    part(385, (0.0, 1.2), (0, 0.1), None),
    part(430, (0.0, 0.0), (0, 0.05), None),
    part(450, (0.0, -1.6), (0, 0.1), None),
    part(500, (-1.3, 0.0), (18, 2.2), Some(8)),
    part(600, (-9.0, 0.0), (0, 0.6), Some(6)),
];

/// The number of parts in the recording of the stored trace. A part that is added to the end of
/// [`PARTS`] does not change its keys.
const TRACE_PARTS: usize = 15;

/// The number of seconds in a batch.
const BATCH_SEC: u32 = 10;
/// The first second in which the phone sends `motion` instead of `imu`.
const MOTION_FROM_SEC: u32 = 260;

/// The phone that the parts move.
#[derive(Default)]
struct Phone {
    east_m: f64,
    up_m: f64,
    tenth_steps: u32,
}

impl Phone {
    /// Moves for one second and appends its samples as JSON, each followed by a comma.
    fn second(&mut self, t: u32, part: &Part, json: &mut String) {
        self.east_m += part.east_m;
        self.up_m += part.up_m;
        self.tenth_steps += part.steps;
        let hpa = 1_013.0 - 0.12 * self.up_m + f64::from(t % 3) * 0.01;
        write!(json, r#"{{"t":{t},"kind":"pressure","hPa":{hpa:.3}}},"#).unwrap();
        let steps = 100 + self.tenth_steps / 10;
        write!(json, r#"{{"t":{t},"kind":"steps","count":{steps}}},"#).unwrap();
        self.fix(t, part, json);
        motion(t, part, json);
        self.seldom(t, json);
    }

    fn fix(&self, t: u32, part: &Part, json: &mut String) {
        let Some(accuracy_m) = part.accuracy_m else {
            return;
        };
        // A degree of longitude has 67.8 km at this latitude.
        let lng = 13.4 + (self.east_m - 1_000.0 + f64::from(t % 4) * 0.3) / 67_800.0;
        let (speed_mps, bearing) = (part.east_m.abs(), if part.east_m < 0.0 { 270 } else { 90 });
        write!(
            json,
            r#"{{"t":{t}.1,"kind":"location","lat":52.5,"lng":{lng:.6},"accuracyM":{accuracy_m},"speedMps":{speed_mps:.1},"bearingDeg":{bearing},"altitudeM":{:.1},"provider":"fused"}},"#,
            34.0 + self.up_m
        )
        .unwrap();
    }

    /// Appends the samples that a phone sends seldom.
    fn seldom(&self, t: u32, json: &mut String) {
        let field = t % 7;
        if t.is_multiple_of(5) {
            write!(
                json,
                r#"{{"t":{t},"kind":"magnetic","x":{field},"y":20,"z":-40}},"#
            )
            .unwrap();
        }
        let rest = match t {
            0 => r#"{"t":0,"kind":"activity","type":"driving","confidence":0.9},"#,
            81 => r#"{"t":81,"kind":"activity","type":"still","confidence":0.7},"#,
            111 => r#"{"t":111,"kind":"activity","type":"walking","confidence":0.8},"#,
            290 => r#"{"t":290,"kind":"mark","name":"arrived"},"#,
            300 => r#"{"t":300,"kind":"system","name":"background"},"#,
            400 => r#"{"t":400,"kind":"mark","name":"left_at_door"},"#,
            _ => "",
        };
        json.push_str(rest);
    }
}

/// Appends the motion of one second: as raw acceleration at first, then reduced by the phone.
fn motion(t: u32, part: &Part, json: &mut String) {
    if t >= MOTION_FROM_SEC {
        let (shake, cadence) = (part.shake, f64::from(part.steps) / 10.0);
        write!(json, r#"{{"t":{t},"kind":"motion","accelMean":9.81,"accelStd":{shake:.2},"verticalMean":0.01,"cadenceHz":{cadence:.1},"yawRad":0.1}},"#).unwrap();
        return;
    }
    let axis = |phase: u32, offset: f64| -> String {
        let value = |n: u32| {
            // A triangle with a period of half a second.
            let swing = f64::from((n + phase) % 12).mul_add(1.0 / 6.0, -1.0).abs() * 2.0 - 1.0;
            format!("{:.2}", offset + part.shake * swing)
        };
        (0..24).map(value).collect::<Vec<_>>().join(",")
    };
    let (x, y, z) = (axis(0, 0.1), axis(4, 0.3), axis(0, 9.8));
    write!(
        json,
        r#"{{"t":{t},"kind":"imu","hz":24,"ax":[{x}],"ay":[{y}],"az":[{z}]}},"#
    )
    .unwrap();
}

/// Returns the batches of a recording of these parts, in order.
fn recording(parts: &[Part]) -> Vec<PackedBatch> {
    let (mut phone, mut batches, mut json) = (Phone::default(), Vec::new(), String::new());
    let until_sec = parts.last().unwrap().until_sec;
    let mut parts = parts.iter().peekable();
    for t in 0..until_sec {
        while parts.next_if(|part| part.until_sec <= t).is_some() {}
        phone.second(t, parts.peek().unwrap(), &mut json);
        if t % BATCH_SEC == BATCH_SEC - 1 {
            let samples = json.trim_end_matches(',');
            let text = format!(r#"{{"seq":0,"samples":[{samples}]}}"#);
            batches.push(decode_batch(text.as_bytes()).unwrap().batch);
            json.clear();
        }
    }
    batches
}

fn context_of_door() -> SessionContext {
    let point = |lng| Point { lat: 52.5, lng };
    let address = Address {
        floor: Some(3),
        storey_height_m: Some(3.0),
        entrance: Some(point(13.399_8)),
        gates: vec![point(13.398_9)],
        ..Address::at(point(13.4))
    };
    SessionContext::of_address(&address, None)
}

/// A later release discards the snapshots of an earlier one only if their number differs. Otherwise
/// it reads the bytes of the old state as a new one, and its events differ from those that it would
/// have detected itself.
#[test]
fn a_changed_state_or_detector_has_another_snapshot_format() {
    let batches = recording(&PARTS);
    let mut shell = Shell {
        context: context_of_door(),
        ..Shell::new()
    };
    let notes = ([(52, 53)].into_iter(), [55].into_iter());
    shell.machine.recall(notes.0, notes.1);
    let mut hash = Sha256::new();
    // Two pairs of batches change places, and one batch is lost.
    let order = (0..4).chain([5, 4, 7, 6]).chain(8..30).chain(31..62);
    // The last ones are far beyond a gap.
    for seq in order.chain([200, 150]) {
        let batch = &batches[seq as usize % batches.len()];
        shell.journal.insert(seq, batch.clone());
        let step = shell.apply(seq);
        shell.drive(step);
        let received_at = TimestampMs(i64::from(seq));
        shell.machine.record_changes(received_at);
        // The number of batches since the last snapshot is part of the state.
        hash.update(shell.machine.clone().snapshot());
        if seq.is_multiple_of(2) {
            hash.update(shell.machine.snapshot());
        }
    }
    assert_eq!(shell.noted, [(30, 30)]);
    let events = shell.machine.events();
    let types: Vec<_> = events.iter().map(|event| event.event_type).collect();
    for event_type in EventType::ALL {
        assert!(
            types.contains(&event_type),
            "{event_type:?} is not in {types:?}: add a part to the end of PARTS in which it occurs"
        );
    }
    let (parameters, snapshots) = (parameters(), hex::encode(&hash.finalize()));
    assert_eq!(
        (SNAPSHOT_FORMAT, parameters.as_str(), snapshots.as_str()),
        PINNED,
        "a snapshot or a parameter of the detectors changed: raise SNAPSHOT_FORMAT, so that no release \
         continues with the snapshots of another, and then pin the new values"
    );
}

/// Copies of a stored trace are found by its keys.
#[test]
fn a_trace_keeps_the_keys_by_which_its_copies_are_found() {
    let context = context_of_door();
    let mut replay = Replay::new(&context);
    for (seq, batch) in (0..).zip(recording(&PARTS[..TRACE_PARTS])) {
        replay.batch(seq, &batch);
    }
    let trace = trace_fingerprint(&replay.finish().windows).unwrap();
    let mut hash = Sha256::new();
    for key in trace.keys().into_iter().chain(trace.stored_keys()) {
        hash.update(key.to_be_bytes());
    }
    assert_eq!(
        hex::encode(&hash.finalize()),
        "a8d575996701d8de799cb1d75dc6ba13b96c379e5e857cff71f7dca67b994deb",
        "the keys of a stored trace changed, so copies of the traces in the stores are no longer found: \
         restore the keys, do not pin new ones"
    );
}
