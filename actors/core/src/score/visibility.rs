//! Measures how complete the data is, relative to the device's channels.
//!
//! Time is cut into bins of five seconds. A channel covers most of a bin with its first sample, and
//! the rest by its sample frequency compared with its best frequency. A channel that the device
//! does not claim to have may be absent; whether it counts as absent or as lost is decided in the
//! session's favour, so that losing the last sample of a channel never raises the score.

mod silence;

use porchlight_schema::sample::{Kind, SystemName};

use super::evidence_log::{EvidenceLog, rounded, words};
use super::parameters::weights::visibility as weights;
use super::place::Places;
use super::scoring_context::ScoringContext;
use crate::geo::Place;
use crate::score::parameters::door::visibility::{
    BIN_MS, CRITICAL_BEFORE_MS, CRITICAL_MARGIN_MS, SILENT_END_MS,
};

/// The coverage of the whole session and around the drop-off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Visibility {
    pub(crate) score: f64,
    /// The score without the deduction for a phone left in the vehicle: how well the phone itself
    /// was observed.
    pub(crate) coverage: f64,
    /// The coverage of the position over the whole session.
    pub(crate) position: f64,
    /// The score of the time up to the last sample, if a long silence follows it: the app was stopped late.
    pub(crate) until_silence: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    Position,
    Motion,
    Pressure,
    Stream,
    Marks,
}

impl Channel {
    const ALL: [Self; 5] = [
        Self::Position,
        Self::Motion,
        Self::Pressure,
        Self::Stream,
        Self::Marks,
    ];

    fn weight(self) -> f64 {
        match self {
            Self::Position => weights::POSITION,
            Self::Motion => weights::MOTION,
            Self::Pressure => weights::PRESSURE,
            Self::Stream => weights::STREAM,
            Self::Marks => weights::MARKS,
        }
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Position => ("position_coverage", "Position"),
            Self::Motion => ("motion_coverage", "Body motion"),
            Self::Pressure => ("pressure_coverage", "Air pressure"),
            Self::Stream => ("stream_coverage", "The stream as a whole"),
            Self::Marks => ("mark_coverage", "Marks of the app"),
        }
    }

    /// Returns whether the device declares this channel, or `None` if it declares nothing.
    fn is_declared(self, sensors: &[String]) -> Option<bool> {
        if sensors.is_empty() {
            return None;
        }
        let has = |kind: Kind| {
            sensors
                .iter()
                .any(|sensor| sensor.eq_ignore_ascii_case(kind.as_str()))
        };
        Some(match self {
            Self::Position => has(Kind::Location),
            Self::Motion => has(Kind::Steps) || has(Kind::Motion) || has(Kind::Imu),
            Self::Pressure => has(Kind::Pressure),
            Self::Stream => true,
            Self::Marks => has(Kind::Mark),
        })
    }
}

/// A channel with its weight and coverage.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Part {
    channel: Channel,
    /// The channel's share of the whole.
    weight: f64,
    whole: f64,
    critical: f64,
}

impl Part {
    fn coverage(&self) -> f64 {
        weights::WHOLE * self.whole + weights::CRITICAL * self.critical
    }
}

pub(crate) fn score(
    scene: &ScoringContext<'_>,
    places: &Places,
    ledger: &mut EvidenceLog,
) -> Visibility {
    let critical = critical_span(scene, places);
    let parts = parts(scene, places, critical, scene.end_ms);
    let position = parts
        .iter()
        .find(|part| part.channel == Channel::Position)
        .map_or(0.0, |part| part.whole);
    let total: f64 = parts.iter().map(|part| part.weight).sum();
    let mut sum = 0.0;
    for part in &parts {
        let (signal, name) = part.channel.words();
        let points = if total > 0.0 {
            part.weight / total * part.coverage()
        } else {
            0.0
        };
        let (whole, near) = (part.whole * 100.0, part.critical * 100.0);
        let text = format!(
            "{name}: {whole:.0} % of the session and {near:.0} % of the time around the drop-off covered."
        );
        let explanation =
            "Phones save power, and some lack a sensor. GPS lost inside a building does not count.";
        sum += ledger.add(
            "visibilityScore",
            signal,
            points,
            None,
            words(text, explanation),
        );
    }
    sum -= little(scene, sum, ledger);
    sum -= left_out(scene, sum, ledger);
    let coverage = rounded(sum.clamp(0.0, 1.0));
    sum -= not_carried(places, sum, ledger);
    let score = rounded(sum.clamp(0.0, 1.0));
    Visibility {
        score,
        coverage,
        position,
        until_silence: until_silence(scene, places, critical).map_or(score, |it| it.max(score)),
    }
}

/// Returns the coverage of the time up to the last sample, reduced only for little data, if a long silence follows and a stay
/// at a door was recorded before it.
fn until_silence(scene: &ScoringContext<'_>, places: &Places, critical: (u32, u32)) -> Option<f64> {
    places.door()?;
    let mut windows = scene.input.windows.iter().rev();
    let last_ms = windows.find(|window| window.alive)?.end_ms();
    if scene.end_ms.saturating_sub(last_ms) < SILENT_END_MS {
        return None;
    }
    let critical = (critical.0.min(last_ms), critical.1.min(last_ms));
    let parts = parts(scene, places, critical, last_ms);
    let heard_share = (heard_sec(scene) / weights::WHOLE_SEC).min(1.0);
    Some(rounded(coverage_of(&parts) * heard_share))
}

/// Returns the number of seconds with data.
fn heard_sec(scene: &ScoringContext<'_>) -> f64 {
    let heard = scene.input.windows.iter().filter(|window| window.alive);
    heard.count() as f64
}

/// Returns the coverage of all channels by their weights.
fn coverage_of(parts: &[Part]) -> f64 {
    let total: f64 = parts.iter().map(|part| part.weight).sum();
    let covered = parts.iter().map(|part| part.weight * part.coverage());
    covered.sum::<f64>() / total.max(f64::MIN_POSITIVE)
}

/// Returns the deduction for very little data, however complete the few seconds are.
fn little(scene: &ScoringContext<'_>, sum: f64, ledger: &mut EvidenceLog) -> f64 {
    let heard_sec = heard_sec(scene);
    let missing = 1.0 - heard_sec / weights::WHOLE_SEC;
    if sum <= 0.0 || missing <= 0.0 {
        return 0.0;
    }
    let text = format!("Only {heard_sec:.0} s of data were received.");
    let explanation = "The app may have been started late, or closed early.";
    -ledger.add(
        "visibilityScore",
        "little_data",
        -sum * missing,
        None,
        words(text, explanation),
    )
}

/// Returns the deduction for batches that were left out.
fn left_out(scene: &ScoringContext<'_>, sum: f64, ledger: &mut EvidenceLog) -> f64 {
    let missing = scene.input.missing_batches;
    if missing > 0 {
        let text = format!("{missing} batches never arrived; their time counts as not covered.");
        let explanation = "The phone had no network, or the app was closed.";
        ledger.add(
            "visibilityScore",
            "missing_batches",
            0.0,
            None,
            words(text, explanation),
        );
    }
    let quarantined = scene.input.quarantined_batches;
    if quarantined == 0 {
        return 0.0;
    }
    let points = (f64::from(quarantined) * weights::QUARANTINED)
        .min(weights::QUARANTINED_CAP)
        .min(sum);
    let text = format!("{quarantined} batches could not be processed and were left out.");
    let explanation = "A fault of the service, not of the courier.";
    -ledger.add(
        "visibilityScore",
        "quarantined_batches",
        -points,
        None,
        words(text, explanation),
    )
}

/// Returns the deduction for a phone that the courier did not carry.
fn not_carried(places: &Places, sum: f64, ledger: &mut EvidenceLog) -> f64 {
    let Some(halt) = places
        .not_carried
        .filter(|_| sum > weights::NOT_CARRIED_CAP)
    else {
        return 0.0;
    };
    let text = "The vehicle stood near the address, but the phone recorded no walking.";
    let explanation = "The phone stayed in the vehicle while the courier went to the door.";
    let over = weights::NOT_CARRIED_CAP - sum;
    -ledger.add(
        "visibilityScore",
        "phone_not_carried",
        over,
        Some(halt),
        words(text, explanation),
    )
}

/// Returns the time span with the highest weight.
fn critical_span(scene: &ScoringContext<'_>, places: &Places) -> (u32, u32) {
    if let Some(drop_off) = places.drop_off {
        let from_ms = places.entrance.map_or(
            drop_off.at_ms.saturating_sub(CRITICAL_BEFORE_MS),
            |entrance| entrance.at_ms.saturating_sub(CRITICAL_MARGIN_MS),
        );
        return (
            from_ms.min(drop_off.at_ms),
            drop_off
                .at_ms
                .saturating_add(CRITICAL_MARGIN_MS)
                .min(scene.end_ms),
        );
    }
    let nearest = scene.fixes.iter().min_by(|a, b| {
        a.place
            .distance_m(Place::default())
            .total_cmp(&b.place.distance_m(Place::default()))
    });
    nearest.map_or((0, scene.end_ms), |fix| {
        let half_ms = CRITICAL_BEFORE_MS / 2;
        (
            fix.t_ms.saturating_sub(half_ms),
            fix.t_ms.saturating_add(half_ms).min(scene.end_ms),
        )
    })
}

/// The number of seconds of each bin with a sample of a channel.
struct Bins {
    heard: Vec<u8>,
    /// The bins that count as covered although the channel was silent.
    granted: Vec<bool>,
}

impl Bins {
    fn new(end_ms: u32) -> Self {
        let count = end_ms.div_ceil(BIN_MS) as usize;
        Self {
            heard: vec![0; count],
            granted: vec![false; count],
        }
    }

    /// Records a sample; call it once for each second.
    fn hear(&mut self, t_ms: u32) {
        if let Some(bin) = self.heard.get_mut((t_ms / BIN_MS) as usize) {
            *bin = bin.saturating_add(1);
        }
    }

    fn grant(&mut self, t_ms: u32) {
        if let Some(bin) = self.granted.get_mut((t_ms / BIN_MS) as usize) {
            *bin = true;
        }
    }

    fn is_heard(&self, t_ms: u32) -> bool {
        let bin = self.heard.get((t_ms / BIN_MS) as usize);
        bin.is_some_and(|heard| *heard > 0)
    }

    fn any(&self) -> bool {
        self.heard.iter().any(|heard| *heard > 0)
    }

    /// Returns the usual number of seconds of a bin with a sample when the channel works best: nine
    /// tenths of its bins have no more.
    fn usual(&self) -> u8 {
        let mut heard: Vec<u8> = self
            .heard
            .iter()
            .copied()
            .filter(|heard| *heard > 0)
            .collect();
        heard.sort_unstable();
        let place = heard.len() * 9 / 10;
        heard
            .get(place.min(heard.len().saturating_sub(1)))
            .copied()
            .unwrap_or(1)
            .max(1)
    }

    fn share(&self, (from_ms, to_ms): (u32, u32)) -> f64 {
        let first = (from_ms / BIN_MS) as usize;
        let last = (to_ms.div_ceil(BIN_MS) as usize).clamp(first, self.heard.len().max(first));
        let heard = self.heard.get(first..last).unwrap_or_default();
        let granted = self.granted.get(first..last).unwrap_or_default();
        if heard.is_empty() {
            return 0.0;
        }
        let usual = f64::from(self.usual());
        let value = |(&heard, &granted): (&u8, &bool)| match heard {
            _ if granted => 1.0,
            0 => 0.0,
            heard => weights::HEARD + (1.0 - weights::HEARD) * (f64::from(heard) / usual).min(1.0),
        };
        heard.iter().zip(granted).map(value).sum::<f64>() / heard.len() as f64
    }
}

/// Returns the channels with their coverage of the time up to `end_ms`.
fn parts(
    scene: &ScoringContext<'_>,
    places: &Places,
    critical: (u32, u32),
    end_ms: u32,
) -> Vec<Part> {
    let (mut position, mut motion) = (Bins::new(end_ms), Bins::new(end_ms));
    let (mut pressure, mut stream) = (Bins::new(end_ms), Bins::new(end_ms));
    for window in scene.input.windows.iter().filter(|window| window.alive) {
        stream.hear(window.t_ms);
        if window.hears_body() {
            motion.hear(window.t_ms);
        }
        if window.pressure_hpa.is_some() {
            pressure.hear(window.t_ms);
        }
    }
    let mut seconds: Vec<u32> = scene.received_ms.iter().map(|t_ms| t_ms / 1_000).collect();
    seconds.dedup();
    for second in seconds {
        position.hear(second * 1_000);
    }
    silence::cover_uncounted(scene, &mut motion, &stream);
    silence::cover_indoors(scene, places, &mut position, (&motion, &pressure));
    let changes = scene
        .input
        .system
        .iter()
        .filter(|(_, name)| *name == SystemName::ClockChanged)
        .count();
    let clock = (1.0 - changes as f64 * weights::CLOCK_CHANGE).max(0.0);
    let seen = [&position, &motion, &pressure, &stream];
    let mut parts: Vec<Part> = Channel::ALL
        .into_iter()
        .zip(seen)
        .filter_map(|(channel, bins)| {
            let factor = if channel == Channel::Stream {
                clock
            } else {
                1.0
            };
            let (whole, critical) = (
                bins.share((0, end_ms)) * factor,
                bins.share(critical) * factor,
            );
            match channel.is_declared(&scene.input.context.sensors) {
                Some(false) if !bins.any() => None,
                _ => Some(Part {
                    channel,
                    weight: channel.weight(),
                    whole,
                    critical,
                }),
            }
        })
        .collect();
    if Channel::Marks.is_declared(&scene.input.context.sensors) == Some(true) {
        let covered = if scene.input.marks.is_empty() {
            0.0
        } else {
            1.0
        };
        parts.push(Part {
            channel: Channel::Marks,
            weight: weights::MARKS,
            whole: covered,
            critical: covered,
        });
    }
    if scene.input.context.sensors.is_empty() {
        parts = in_favour(parts);
    }
    parts
}

/// Handles a device that declares nothing: it may lack a channel, so the most favourable
/// interpretation counts. An absent channel keeps a part of its share, uncovered, because the
/// device did not declare its absence.
fn in_favour(parts: Vec<Part>) -> Vec<Part> {
    let reading = |absent: u32| -> Vec<Part> {
        let place = |(index, part): (usize, &Part)| {
            let is_absent = part.channel != Channel::Stream && absent & (1 << index) != 0;
            if is_absent {
                Part {
                    weight: part.weight * weights::UNDECLARED,
                    whole: 0.0,
                    critical: 0.0,
                    ..*part
                }
            } else {
                *part
            }
        };
        parts.iter().enumerate().map(place).collect()
    };
    let readings = (0..(1_u32 << parts.len().min(8))).map(reading);
    readings.fold(parts.clone(), |best, other| {
        if coverage_of(&other) > coverage_of(&best) {
            other
        } else {
            best
        }
    })
}
