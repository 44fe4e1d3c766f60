//! A courier who follows a test's script, and the windows and events that a phone would produce.

use porchlight_schema::event::{Confidence, Direction, Event, EventType, Metadata, sort_events};
use porchlight_schema::insight::Score;
use porchlight_schema::sample::SystemName;
use porchlight_schema::session::{Address, Device, PodType, Point};

use crate::context::SessionContext;
use crate::geo::Place;
use crate::score::{Knowledge, MarkName, PodInput, ScoreInput, Scored, score_and_learn};
use crate::window::{BodyMotion, Fix, WINDOW_MS, Window};

/// The data that the phone can send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kit {
    pub(super) location: bool,
    pub(super) pressure: bool,
    pub(super) body: bool,
}

pub(super) const FULL: Kit = Kit {
    location: true,
    pressure: true,
    body: true,
};

/// The movement of the body.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Gait {
    Drives,
    Walks,
    Climbs,
    Rests,
}

/// A session under construction.
#[derive(Debug, Clone)]
pub(super) struct Script {
    kit: Kit,
    pub(super) address: Address,
    pub(super) sensors: Vec<String>,
    place: (f32, f32),
    height_m: f32,
    indoor_since_ms: Option<u32>,
    now_ms: u32,
    pub(super) windows: Vec<Window>,
    pub(super) events: Vec<Event>,
    pub(super) marks: Vec<(u32, MarkName)>,
    pub(super) system: Vec<(u32, SystemName)>,
    pub(super) pod: Option<PodInput>,
    pub(super) known: Knowledge,
    pub(super) timed_out: bool,
    pub(super) missing_batches: u32,
    pub(super) quarantined_batches: u32,
    pub(super) mock: bool,
    noise: u64,
    drift_m: (f32, f32),
}

impl Script {
    /// Creates a session that begins 600 m west of the address, which is the origin.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            kit: FULL,
            address: Address {
                line1: "1 Test Street".into(),
                city: "Town".into(),
                country: "DE".into(),
                accuracy_m: 10.0,
                storey_height_m: Some(3.2),
                ..Address::at(Point {
                    lat: 48.2,
                    lng: 11.6,
                })
            },
            sensors: Vec::new(),
            place: (-600.0, -25.0),
            height_m: 0.0,
            indoor_since_ms: None,
            now_ms: 0,
            windows: Vec::new(),
            events: Vec::new(),
            marks: Vec::new(),
            system: Vec::new(),
            pod: None,
            known: Knowledge::default(),
            timed_out: false,
            missing_batches: 0,
            quarantined_batches: 0,
            mock: false,
            noise: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            drift_m: (0.0, 0.0),
        }
    }

    pub(super) fn with(mut self, kit: Kit) -> Self {
        self.kit = kit;
        self
    }

    pub(super) fn floor(mut self, floor: i16) -> Self {
        self.address.floor = Some(floor);
        self
    }

    /// Returns an evenly distributed number in −1 to 1 (xorshift, Marsaglia 2003).
    fn noise(&mut self) -> f32 {
        self.noise ^= self.noise << 13;
        self.noise ^= self.noise >> 7;
        self.noise ^= self.noise << 17;
        (self.noise >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }

    fn fix(&mut self, speed_mps: f32) -> Option<Fix> {
        let indoor_ms = self.indoor_since_ms.map(|since_ms| self.now_ms - since_ms);
        let accuracy_m = match indoor_ms {
            None => 5.0 + 1.5 * self.noise(),
            Some(0..=5_999) => 9.0,
            Some(6_000..=14_999) => 70.0,
            Some(_) => return None,
        };
        self.drift_m.0 = 0.95 * self.drift_m.0 + 0.8 * self.noise();
        self.drift_m.1 = 0.95 * self.drift_m.1 + 0.8 * self.noise();
        let scale = accuracy_m / 5.0;
        Some(Fix {
            t_ms: self.now_ms + 200,
            place: Place {
                east_m: self.place.0 + scale * self.drift_m.0,
                north_m: self.place.1 + scale * self.drift_m.1,
            },
            accuracy_m,
            accuracy_known: true,
            speed_mps: Some(speed_mps),
            bearing_deg: None,
            altitude_m: Some(500.0 + self.height_m + 3.0 * self.noise()),
            mock: self.mock,
            provider: None,
        })
    }

    fn second(&mut self, gait: Gait, speed_mps: f32) {
        let fix = if self.kit.location {
            self.fix(speed_mps)
        } else {
            None
        };
        let (steps, accel_std) = match gait {
            Gait::Drives => (0, 0.4),
            Gait::Walks | Gait::Climbs => (2, 2.4),
            Gait::Rests => (0, 0.15),
        };
        let pressure = 955.0 * libm::expf(-self.height_m / 8_434.0) + 0.003 * self.noise();
        let accel_std = accel_std * (1.0 + 0.2 * self.noise());
        let motion = BodyMotion {
            accel_mean: 9.81,
            accel_std,
            vertical_mean: Some(0.0),
            cadence_hz: Some(f32::from(steps)),
            yaw_rad: None,
            stride: None,
            gait: None,
        };
        let has_measurement = fix.is_some() || self.kit.pressure || self.kit.body;
        self.windows.push(Window {
            t_ms: self.now_ms,
            fixes: [fix, None],
            pressure_hpa: self.kit.pressure.then_some(pressure),
            steps: self.kit.body.then_some(steps),
            motion: self.kit.body.then_some(motion),
            has_measurement,
            has_sample: has_measurement,
            ..Window::default()
        });
        self.now_ms += WINDOW_MS;
    }

    fn event(&mut self, event_type: EventType, from_ms: u32, metadata: Metadata) {
        let confidence = Confidence::from_probability(0.9);
        let t_end_ms = Some(self.now_ms);
        self.events.push(Event {
            event_type,
            t_start_ms: from_ms,
            t_end_ms,
            confidence,
            metadata,
        });
    }

    fn go(&mut self, to: (f32, f32), gait: Gait, speed_mps: f32) {
        let from = self.place;
        let (east, north) = (to.0 - from.0, to.1 - from.1);
        let seconds = ((east * east + north * north).sqrt() / speed_mps)
            .ceil()
            .max(1.0);
        for second in 1..=seconds as u32 {
            let part = second as f32 / seconds;
            self.place = (from.0 + part * east, from.1 + part * north);
            self.second(gait, speed_mps);
        }
    }

    pub(super) fn drive_to(mut self, east: f32, north: f32) -> Self {
        let from_ms = self.now_ms;
        self.go((east, north), Gait::Drives, 9.0);
        self.event(EventType::Driving, from_ms, Metadata::None);
        self
    }

    pub(super) fn walk_to(mut self, east: f32, north: f32) -> Self {
        let from_ms = self.now_ms;
        self.go((east, north), Gait::Walks, 1.3);
        match self.events.last_mut() {
            Some(last)
                if last.event_type == EventType::Walking && last.t_end_ms == Some(from_ms) =>
            {
                last.t_end_ms = Some(self.now_ms);
            }
            _ => self.event(EventType::Walking, from_ms, Metadata::None),
        }
        self
    }

    pub(super) fn stay(mut self, seconds: u32) -> Self {
        let from_ms = self.now_ms;
        for _ in 0..seconds {
            self.second(Gait::Rests, 0.0);
        }
        if seconds >= 8 {
            self.event(EventType::Stopped, from_ms, Metadata::None);
        }
        self
    }

    pub(super) fn wait_at_gate(self, seconds: u32) -> Self {
        let from_ms = self.now_ms;
        let mut script = self.stay(seconds);
        script.event(
            EventType::Gate,
            from_ms,
            Metadata::Gate { wait_sec: seconds },
        );
        script
    }

    /// Climbs the given metres up or down.
    pub(super) fn climb(mut self, metres: f32, elevator: bool) -> Self {
        let (event_type, gait, speed_mps) = if elevator {
            (EventType::Elevator, Gait::Rests, 1.0)
        } else {
            (EventType::Stairs, Gait::Climbs, 0.3)
        };
        let (from_ms, from_m) = (self.now_ms, self.height_m);
        let seconds = (metres.abs() / speed_mps).ceil() as u32;
        for second in 1..=seconds {
            self.height_m = from_m + metres * second as f32 / seconds as f32;
            self.second(gait, 0.0);
        }
        let direction = if metres < 0.0 {
            Direction::Down
        } else {
            Direction::Up
        };
        let height_cm = self.kit.pressure.then_some((metres.abs() * 100.0) as u32);
        let floors = Some((metres.abs() / 3.2).round() as u16);
        self.event(
            event_type,
            from_ms,
            Metadata::Climb {
                floors,
                direction,
                height_cm,
            },
        );
        self
    }

    pub(super) fn go_in(mut self) -> Self {
        self.indoor_since_ms = Some(self.now_ms);
        self
    }

    pub(super) fn come_out(mut self) -> Self {
        if let Some(since_ms) = self.indoor_since_ms.take()
            && self.now_ms > since_ms + 8_000
        {
            self.event(EventType::GpsDegraded, since_ms + 6_000, Metadata::None);
            let restored = Event {
                t_end_ms: None,
                event_type: EventType::GpsRestored,
                t_start_ms: self.now_ms,
                ..self.events[0]
            };
            self.events.push(restored);
        }
        self
    }

    pub(super) fn mark(mut self, name: MarkName) -> Self {
        self.marks.push((self.now_ms.saturating_sub(3_000), name));
        self
    }

    pub(super) fn incident(mut self, name: SystemName) -> Self {
        self.system.push((self.now_ms, name));
        self
    }

    /// Sends no data for the given seconds.
    pub(super) fn silence(mut self, seconds: u32) -> Self {
        self.now_ms += seconds * WINDOW_MS;
        self
    }

    /// Moves the courier to another height without any data.
    pub(super) fn lift_to(&mut self, height_m: f32) {
        self.height_m = height_m;
    }

    /// Moves all further positions elsewhere.
    pub(super) fn teleport(mut self, east: f32, north: f32) -> Self {
        self.place = (east, north);
        self
    }

    pub(super) fn proved(mut self) -> Self {
        self.pod = Some(PodInput {
            pod_type: PodType::Photo,
            t_ms: None,
            clock_ahead_ms: 0,
        });
        self
    }

    /// Makes the body lie on a table for everything so far.
    pub(super) fn body_at_rest(mut self) -> Self {
        for window in &mut self.windows {
            window.steps = Some(0);
            if let Some(motion) = &mut window.motion {
                (motion.accel_std, motion.cadence_hz) = (0.02, Some(0.0));
            }
            window.pressure_hpa = Some(955.0);
        }
        self.events
            .retain(|event| event.event_type == EventType::Driving);
        self
    }

    pub(super) fn duration_ms(&self) -> u32 {
        self.now_ms
    }

    pub(super) fn context(&self) -> SessionContext {
        let device = Device {
            sensors: self.sensors.clone(),
            ..Device::default()
        };
        SessionContext::of_address(&self.address, Some(&device))
    }

    pub(super) fn scored(&self) -> Scored {
        let mut events = self.events.clone();
        sort_events(&mut events);
        score_and_learn(&ScoreInput {
            context: &self.context(),
            windows: &self.windows,
            events: &events,
            marks: &self.marks,
            system: &self.system,
            clock_steps: &[],
            pod: self.pod,
            duration_ms: self.now_ms,
            timed_out: self.timed_out,
            missing_batches: self.missing_batches,
            quarantined_batches: self.quarantined_batches,
            known: &self.known,
        })
    }

    pub(super) fn score(&self) -> Score {
        self.scored().score
    }
}
