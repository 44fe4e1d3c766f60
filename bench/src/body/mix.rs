//! Defines the content of a batch: the mixes of kinds that phones send.

use std::f64::consts::TAU;
use std::fmt::{self, Write as _};
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use crate::names;

/// The length of the minute that repeats, milliseconds.
pub(super) const CYCLE_MS: u32 = 60_000;
/// The step count at the start of a session.
pub(super) const STEPS_BEFORE: u32 = 8_213;
/// Steps per minute of a walk.
pub(super) const STEPS_PER_CYCLE: u32 = 111;

/// A mix of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mix {
    /// 60 s of location at 1 Hz.
    #[default]
    Location,
    /// 15 s of a walk: location, pressure, motion and steps at 1 Hz.
    Walk,
    /// 5 s of a walk: location, motion and steps at 1 Hz, pressure and magnetic at 5 Hz.
    Dense,
    /// 15 s of a drive: location, pressure and motion at 1 Hz.
    Drive,
    /// 5 s of a walk: raw acceleration and turn rate at 50 Hz, location, pressure and steps at 1
    /// Hz.
    Imu,
}

const NAMES: [(&str, Mix); 5] = [
    ("location", Mix::Location),
    ("walk", Mix::Walk),
    ("dense", Mix::Dense),
    ("drive", Mix::Drive),
    ("imu", Mix::Imu),
];

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        names::find(&NAMES, text)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(names::name_of(&NAMES, self))
    }
}

/// One sample of the minute that repeats.
#[derive(Debug)]
pub(super) struct Template {
    /// Milliseconds since the start of the minute.
    pub(super) t_ms: u32,
    /// The text up to the seconds of the time.
    pub(super) head: &'static str,
    /// The decimals of the time.
    pub(super) fraction: &'static str,
    pub(super) tail: Tail,
}

/// The fields after the time.
#[derive(Debug)]
pub(super) enum Tail {
    /// Fields that are equal in each minute; the text ends with the comma after the sample.
    Fields(String),
    /// The steps since the start of the minute.
    Steps(u32),
}

/// The source of a fix, in mixes of several kinds.
const PROVIDER: &str = ",\"provider\":\"gnss\"";

/// A round trip of one circuit per minute: its radius and speed.
struct Circuit {
    radius_m: f64,
    speed_mps: f64,
}

/// A circuit of 84 m at walking speed.
const ON_FOOT: Circuit = Circuit {
    radius_m: 13.4,
    speed_mps: 1.4,
};
/// A circuit of 660 m at driving speed.
const BY_CAR: Circuit = Circuit {
    radius_m: 105.0,
    speed_mps: 11.0,
};

impl Mix {
    /// All mixes of kinds.
    pub const ALL: [Self; 5] = [
        Self::Location,
        Self::Walk,
        Self::Dense,
        Self::Drive,
        Self::Imu,
    ];

    /// Returns the time that a batch covers, milliseconds; it divides a minute.
    #[must_use]
    pub fn span_ms(self) -> u32 {
        match self {
            Self::Location => 60_000,
            Self::Walk | Self::Drive => 15_000,
            Self::Dense | Self::Imu => 5_000,
        }
    }

    /// Returns the number of samples in a batch.
    #[must_use]
    pub fn batch_samples(self) -> u32 {
        match self {
            Self::Location | Self::Walk => 60,
            Self::Dense => 65,
            Self::Drive => 45,
            Self::Imu => 20,
        }
    }

    /// Returns the minute that repeats.
    pub(super) fn cycle(self) -> Arc<[Template]> {
        static CYCLES: LazyLock<[Arc<[Template]>; 5]> =
            LazyLock::new(|| Mix::ALL.map(Mix::new_cycle));
        let index = Self::ALL.iter().position(|mix| *mix == self);
        Arc::clone(&CYCLES[index.unwrap_or_default()])
    }

    fn new_cycle(self) -> Arc<[Template]> {
        let mut cycle = Cycle::default();
        for second in 0..CYCLE_MS / 1_000 {
            match self {
                Self::Location => cycle.fix(second, &ON_FOOT, ""),
                Self::Walk => {
                    cycle.fix(second, &ON_FOOT, PROVIDER);
                    cycle.pressure(second, 1);
                    cycle.motion(second, true);
                    cycle.steps(second);
                }
                Self::Dense => {
                    cycle.fix(second, &ON_FOOT, PROVIDER);
                    cycle.pressure(second, 5);
                    cycle.motion(second, true);
                    cycle.magnetic(second);
                    cycle.steps(second);
                }
                Self::Drive => {
                    cycle.fix(second, &BY_CAR, PROVIDER);
                    cycle.pressure(second, 1);
                    cycle.motion(second, false);
                }
                Self::Imu => {
                    cycle.imu(second);
                    cycle.fix(second, &ON_FOOT, PROVIDER);
                    cycle.pressure(second, 1);
                    cycle.steps(second);
                }
            }
        }
        let mut samples = cycle.samples;
        // Stable: samples of one time stay in the order above.
        samples.sort_by_key(|sample| sample.t_ms);
        samples.into()
    }
}

/// The decimals of times within a second, for up to five samples of a kind.
const FIFTHS: [(u32, &str); 5] = [
    (310, ".310"),
    (510, ".510"),
    (710, ".710"),
    (910, ".910"),
    (110, ".110"),
];

/// The minute that is being put together.
#[derive(Default)]
struct Cycle {
    samples: Vec<Template>,
    noise: u64,
}

impl Cycle {
    /// Returns the next number of a fixed sequence, −1 to 1 (SplitMix64).
    fn noise(&mut self) -> f64 {
        self.noise = self.noise.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.noise;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    fn push(&mut self, t_ms: u32, head: &'static str, fraction: &'static str, tail: Tail) {
        self.samples.push(Template {
            t_ms,
            head,
            fraction,
            tail,
        });
    }

    fn fix(&mut self, second: u32, circuit: &Circuit, provider: &str) {
        let turn = f64::from(second) * 1_000.0 / f64::from(CYCLE_MS);
        let angle = turn * TAU;
        let east_m = circuit.radius_m * libm::sin(angle);
        let north_m = circuit.radius_m * libm::cos(angle);
        let (lat, lng) = (
            52.520_006_6 + north_m / 111_195.0,
            13.404_954_1 + east_m / 67_600.0,
        );
        let course_deg = (90.0 + turn * 360.0) % 360.0;
        let accuracy_m = 4.0 + 1.5 * libm::sin(3.0 * angle);
        let altitude_m = 34.5 + 0.8 * libm::cos(2.0 * angle);
        let speed_mps = circuit.speed_mps + 0.1 * libm::sin(5.0 * angle);
        let fields = format!(
            ",\"lat\":{lat:.7},\"lng\":{lng:.7},\"accuracyM\":{accuracy_m:.1},\"speedMps\":{speed_mps:.2},\"bearingDeg\":{course_deg:.1},\"altitudeM\":{altitude_m:.1}{provider}}},"
        );
        let head = "{\"kind\":\"location\",\"t\":";
        self.push(second * 1_000 + 250, head, ".25", Tail::Fields(fields));
    }

    fn pressure(&mut self, second: u32, per_sec: usize) {
        for (ms, fraction) in FIFTHS.into_iter().take(per_sec) {
            let hpa = 1_012.34 + 0.02 * self.noise();
            let fields = format!(",\"hPa\":{hpa:.5}}},");
            let head = "{\"kind\":\"pressure\",\"t\":";
            self.push(second * 1_000 + ms, head, fraction, Tail::Fields(fields));
        }
    }

    fn motion(&mut self, second: u32, is_walk: bool) {
        let mean = 9.81 + 0.08 * self.noise();
        let (std, cadence_hz) = if is_walk {
            (2.1 + 0.4 * self.noise(), 1.85 + 0.06 * self.noise())
        } else {
            (0.45 + 0.2 * self.noise(), 0.0)
        };
        let (vertical, yaw) = (0.05 * self.noise(), 0.105 + 0.03 * self.noise());
        let fields = format!(
            ",\"accelMean\":{mean:.7},\"accelStd\":{std:.7},\"verticalMean\":{vertical:.7},\"cadenceHz\":{cadence_hz:.6},\"yawRad\":{yaw:.7}}},"
        );
        let head = "{\"kind\":\"motion\",\"t\":";
        self.push(second * 1_000, head, ".000", Tail::Fields(fields));
    }

    fn magnetic(&mut self, second: u32) {
        for (ms, fraction) in FIFTHS {
            let [x, y, z] = [18.5, -4.2, -42.7].map(|axis| axis + 0.6 * self.noise());
            let fields = format!(",\"x\":{x:.2},\"y\":{y:.2},\"z\":{z:.2}}},");
            let head = "{\"kind\":\"magnetic\",\"t\":";
            self.push(second * 1_000 + ms, head, fraction, Tail::Fields(fields));
        }
    }

    fn steps(&mut self, second: u32) {
        let steps = (second + 1) * STEPS_PER_CYCLE * 1_000 / CYCLE_MS;
        let head = "{\"kind\":\"steps\",\"t\":";
        self.push(second * 1_000 + 420, head, ".420", Tail::Steps(steps));
    }

    fn imu(&mut self, second: u32) {
        const HZ: u32 = 50;
        let axes = [
            ("ax", 0.4, 0.9, 0.0),
            ("ay", 1.1, 1.4, 0.8),
            ("az", 9.6, 2.6, 0.3),
            ("gx", 0.02, 0.5, 0.1),
            ("gy", 0.01, 0.4, 1.3),
            ("gz", 0.1, 0.3, 2.0),
        ];
        let mut fields = format!(",\"hz\":{HZ}");
        for (name, mean, swing, phase) in axes {
            let _ = write!(fields, ",\"{name}\":[");
            for element in 0..HZ {
                let turns = 1.85 * (f64::from(second) + f64::from(element) / f64::from(HZ));
                let value = mean + swing * (libm::sin(turns * TAU + phase) + 0.2 * self.noise());
                let _ = write!(fields, "{value:.3},");
            }
            fields.pop();
            fields.push(']');
        }
        fields.push_str("},");
        let head = "{\"kind\":\"imu\",\"t\":";
        self.push(second * 1_000, head, ".000", Tail::Fields(fields));
    }
}
