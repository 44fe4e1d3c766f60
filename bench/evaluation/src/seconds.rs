//! Counts correct seconds of walking and staying, in recordings that measured the body.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use porchlight_schema::event::EventType;
use serde::Serialize;

use crate::interval::interval;
use crate::labels::{Detected, Labels};
use crate::matching::STOPPED_SEC;
use crate::span::{Ends, Span, stretch_of, tolerance_sec};
use porchlight_core::window::{WINDOW_MS, Window};

/// The ends of labels are not exact to the second: seconds closer to an end than this are not
/// counted.
const MARGIN_SEC: f64 = 1.0;
/// A phone at rest counts as handled if the spread of its acceleration exceeds this, m/s²: hands
/// that only hold a phone stay below.
const HANDLED_MPS2: f32 = 0.3;

/// The number of correct seconds out of all seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Share {
    /// The number of correct seconds.
    pub right: u32,
    /// The number of all seconds.
    pub all: u32,
}

impl Share {
    fn count(&mut self, is_right: bool) {
        self.right += u32::from(is_right);
        self.all += 1;
    }

    fn add(&mut self, other: Self) {
        self.right += other.right;
        self.all += other.all;
    }

    /// Returns the share, or `None` if there are no seconds.
    #[must_use]
    pub fn value(self) -> Option<f64> {
        crate::quantile::share(self.right, self.all)
    }
}

/// The counts of labelled seconds of one recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SecondCounts {
    /// The seconds labelled `WALKING`.
    pub walking: Share,
    /// The seconds labelled `STOPPED` with a calm phone.
    pub calm: Share,
    /// The seconds labelled `STOPPED` with a handled phone.
    pub handled: Share,
}

impl SecondCounts {
    /// Returns the counts of all labelled seconds.
    #[must_use]
    pub fn all(self) -> Share {
        let mut all = self.walking;
        all.add(self.calm);
        all.add(self.handled);
        all
    }
}

/// The counts of seconds of all recordings, by the family that their names begin with.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct Seconds {
    by_family: BTreeMap<String, Vec<SecondCounts>>,
    /// The counts of each recording without the seconds within the tolerance of a label's end.
    #[serde(skip)]
    outside_tolerance: Vec<SecondCounts>,
}

impl Seconds {
    /// Adds one recording to its family, which is the part of its name before the first underscore.
    pub fn add(&mut self, name: &str, labels: &Labels, detected: &[Detected], windows: &[Window]) {
        let family = name.split('_').next().unwrap_or(name).to_owned();
        let counts = counts_of(labels, detected, windows, Ends::AsLabelled);
        if counts.all().all > 0 {
            self.by_family.entry(family).or_default().push(counts);
        }
        let counts = counts_of(labels, detected, windows, Ends::WithinTolerance);
        if counts.all().all > 0 {
            self.outside_tolerance.push(counts);
        }
    }

    /// Returns the counts of all recordings together.
    #[must_use]
    pub fn total(&self) -> SecondCounts {
        total_of(self.by_family.values().flatten())
    }

    /// Returns one line for each family, and one for all, with 95 % intervals over recordings.
    #[must_use]
    pub fn text(&self) -> String {
        if self.by_family.is_empty() {
            return String::new();
        }
        let mut out = format!(
            "{:<18} {:>26} {:>26} {:>26} {:>26}\n",
            "seconds right", "WALKING", "STOPPED, calm", "STOPPED, handled", "all"
        );
        let all: Vec<SecondCounts> = self.by_family.values().flatten().copied().collect();
        for (family, counts) in &self.by_family {
            line(&mut out, family, counts);
        }
        line(&mut out, "all", &all);
        line(&mut out, "outside tolerance", &self.outside_tolerance);
        out
    }
}

/// Returns the counts of the labelled seconds of one recording.
fn counts_of(
    labels: &Labels,
    detected: &[Detected],
    windows: &[Window],
    ends: Ends,
) -> SecondCounts {
    let mut counts = SecondCounts::default();
    let measured = windows.iter().filter(|window| window.motion.is_some());
    for window in measured {
        let Some(truth) = truth_of(labels, window.t_ms, ends) else {
            continue;
        };
        let is_right = type_at(detected, window.t_ms + WINDOW_MS / 2) == Some(truth);
        let spread_mps2 = window.motion.map_or(0.0, |motion| motion.accel_std);
        let share = match truth {
            EventType::Walking => &mut counts.walking,
            _ if spread_mps2 > HANDLED_MPS2 => &mut counts.handled,
            _ => &mut counts.calm,
        };
        share.count(is_right);
    }
    counts
}

fn total_of<'c>(counts: impl Iterator<Item = &'c SecondCounts>) -> SecondCounts {
    let mut total = SecondCounts::default();
    for one in counts {
        total.walking.add(one.walking);
        total.calm.add(one.calm);
        total.handled.add(one.handled);
    }
    total
}

fn line(out: &mut String, family: &str, counts: &[SecondCounts]) {
    let _ = write!(out, "{family:<18}");
    let columns: [fn(SecondCounts) -> Share; 4] = [
        |one| one.walking,
        |one| one.calm,
        |one| one.handled,
        SecondCounts::all,
    ];
    for of in columns {
        let all = of(total_of(counts.iter()));
        let interval = interval(counts, |drawn| of(total_of(drawn)).value());
        let text = match (all.value(), interval) {
            (Some(value), Some((low, high))) => {
                format!("{value:.3} ({low:.3}-{high:.3}) of {}", all.all)
            }
            (Some(value), None) => format!("{value:.3} of {}", all.all),
            (None, _) => "-".to_owned(),
        };
        let _ = write!(out, " {text:>26}");
    }
    out.push('\n');
}

/// Returns the label of a second, unless the second is near an end of the label.
fn truth_of(labels: &Labels, t_ms: u32, ends: Ends) -> Option<EventType> {
    let second = Span {
        from: f64::from(t_ms) / 1_000.0,
        to: f64::from(t_ms + WINDOW_MS) / 1_000.0,
    };
    let segment = labels.segments.iter().find(|segment| {
        let label = stretch_of(segment);
        let counts = match segment.event_type {
            EventType::Walking => true,
            EventType::Stopped => label.length() >= STOPPED_SEC,
            _ => false,
        };
        let margin_sec = match ends {
            Ends::AsLabelled => MARGIN_SEC,
            Ends::WithinTolerance => tolerance_sec(segment).max(MARGIN_SEC),
        };
        counts && label.from + margin_sec <= second.from && second.to + margin_sec <= label.to
    })?;
    Some(segment.event_type)
}

/// Returns the event of the movement track at the given time.
fn type_at(detected: &[Detected], t_ms: u32) -> Option<EventType> {
    let event = detected.iter().map(|one| one.event).find(|event| {
        event.event_type.is_movement()
            && event.t_start_ms <= t_ms
            && event.t_end_ms.is_some_and(|end_ms| t_ms < end_ms)
    })?;
    Some(event.event_type)
}
