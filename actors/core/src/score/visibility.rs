//! Measures how complete the data is, relative to the channels of the device.
//!
//! Time is divided into bins of five seconds. The first sample of a channel covers a part of a bin
//! ([`weights::HEARD`]); more samples cover the rest, compared with the channel's usual frequency.
//! If the device does not declare its sensors, a silent channel may be absent or lost. The
//! assumption with the higher score counts, so that losing the last sample of a channel never
//! raises the score.

mod left_out;
mod silence;

use porchlight_schema::insight::statement;
use porchlight_schema::sample::{Kind, SystemName};

use super::evidence_log::{EvidenceLog, EvidenceText, rounded};
use super::parameters::weights::visibility as weights;
use super::place::Places;
use super::scoring_context::ScoringContext;
use crate::context::SessionContext;
use crate::geo::Place;
use crate::score::parameters::door::visibility::{
    BIN_MS, CRITICAL_BEFORE_MS, CRITICAL_MARGIN_MS, SILENT_END_MS, USUAL_SHARE,
};

/// The field of the insight that the evidence is about.
const ABOUT: &str = statement::VISIBILITY_SCORE;

/// The coverage of the whole session and around the drop-off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Visibility {
    pub(crate) score: f64,
    /// The score without the deduction for a phone left in the vehicle: the completeness of the
    /// phone's own data.
    pub(crate) coverage: f64,
    /// The coverage of the position over the whole session.
    pub(crate) position: f64,
    /// The score of the time up to the last sample if a long silence follows it, because the app
    /// was stopped late. It is at least `score`.
    pub(crate) until_silence: f64,
}

/// A part of the data whose completeness is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    /// The fixes.
    Position,
    /// The motion of the body: steps, `motion` or `imu`.
    Motion,
    /// The air pressure.
    Pressure,
    /// Samples of any measuring kind, and an unchanged clock.
    Stream,
    /// The marks of the app.
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

    /// Returns the signal of the evidence, and the name that begins its text.
    fn signal_and_name(self) -> (&'static str, &'static str) {
        match self {
            Self::Position => ("position_coverage", "Position"),
            Self::Motion => ("motion_coverage", "Body motion"),
            Self::Pressure => ("pressure_coverage", "Air pressure"),
            Self::Stream => ("stream_coverage", "The stream as a whole"),
            Self::Marks => ("mark_coverage", "Marks of the app"),
        }
    }

    /// Returns whether the device declares this channel, or `None` if it declares nothing.
    fn is_declared(self, context: &SessionContext) -> Option<bool> {
        if context.sensors.is_empty() {
            return None;
        }
        let has = |kind: Kind| context.declares(kind);
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
struct ChannelCoverage {
    channel: Channel,
    /// The channel's weight in the score.
    weight: f64,
    /// The coverage of the whole session, 0 to 1.
    whole: f64,
    /// The coverage of the time around the drop-off, 0 to 1.
    critical: f64,
}

impl ChannelCoverage {
    /// Returns the weighted mean of both coverages.
    fn coverage(&self) -> f64 {
        weights::WHOLE * self.whole + weights::CRITICAL * self.critical
    }
}

pub(crate) fn score(
    ctx: &ScoringContext<'_>,
    places: &Places,
    evidence: &mut EvidenceLog,
) -> Visibility {
    let critical = critical_span(ctx, places);
    let parts = parts(ctx, places, critical, ctx.end_ms);
    let position = parts
        .iter()
        .find(|part| part.channel == Channel::Position)
        .map_or(0.0, |part| part.whole);
    let total: f64 = parts.iter().map(|part| part.weight).sum();
    let mut sum = 0.0;
    for part in &parts {
        let (signal, name) = part.channel.signal_and_name();
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
        sum += evidence.add(
            ABOUT,
            signal,
            points,
            None,
            EvidenceText::new(text, explanation),
        );
    }
    sum -= little_data_deduction(ctx, sum, evidence);
    sum -= left_out::batches_deduction(ctx, sum, evidence);
    left_out::explain_full_log(ctx, evidence);
    let coverage = rounded(sum.clamp(0.0, 1.0));
    sum -= not_carried_deduction(places, sum, evidence);
    let score = rounded(sum.clamp(0.0, 1.0));
    Visibility {
        score,
        coverage,
        position,
        until_silence: until_silence(ctx, places, critical).map_or(score, |share| share.max(score)),
    }
}

/// Returns the coverage of the time up to the last sample, reduced only for little data. Returns
/// `None` unless a long silence follows and a stay at a door was recorded before it.
fn until_silence(ctx: &ScoringContext<'_>, places: &Places, critical: (u32, u32)) -> Option<f64> {
    places.door_stay()?;
    let mut windows = ctx.input.windows.iter().rev();
    let last_ms = windows.find(|window| window.has_measurement)?.end_ms();
    if ctx.end_ms.saturating_sub(last_ms) < SILENT_END_MS {
        return None;
    }
    let critical = (critical.0.min(last_ms), critical.1.min(last_ms));
    let parts = parts(ctx, places, critical, last_ms);
    let data_share = (data_sec(ctx) / weights::WHOLE_SEC).min(1.0);
    Some(rounded(coverage_of(&parts) * data_share))
}

/// Returns the number of seconds with data.
fn data_sec(ctx: &ScoringContext<'_>) -> f64 {
    let sampled_sec = ctx
        .input
        .windows
        .iter()
        .filter(|window| window.has_measurement);
    sampled_sec.count() as f64
}

/// Returns the coverage of all channels by their weights.
fn coverage_of(parts: &[ChannelCoverage]) -> f64 {
    let total: f64 = parts.iter().map(|part| part.weight).sum();
    let covered = parts.iter().map(|part| part.weight * part.coverage());
    covered.sum::<f64>() / total.max(f64::MIN_POSITIVE)
}

/// Returns the deduction for a session with very few seconds of data, and adds its evidence.
fn little_data_deduction(ctx: &ScoringContext<'_>, sum: f64, evidence: &mut EvidenceLog) -> f64 {
    let data_sec = data_sec(ctx);
    let missing = 1.0 - data_sec / weights::WHOLE_SEC;
    if sum <= 0.0 || missing <= 0.0 {
        return 0.0;
    }
    let text = format!("Only {data_sec:.0} s of data were received.");
    let explanation = "The app may have been started late, or closed early.";
    -evidence.add(
        ABOUT,
        "little_data",
        -sum * missing,
        None,
        EvidenceText::new(text, explanation),
    )
}

/// Returns the deduction for a phone that the courier did not carry, and adds its evidence.
fn not_carried_deduction(places: &Places, sum: f64, evidence: &mut EvidenceLog) -> f64 {
    let Some(halt) = places
        .not_carried
        .filter(|_| sum > weights::NOT_CARRIED_CAP)
    else {
        return 0.0;
    };
    let text = "The vehicle stood near the address, but the phone recorded no walking.";
    let explanation = "The phone stayed in the vehicle while the courier went to the door.";
    let over = weights::NOT_CARRIED_CAP - sum;
    -evidence.add(
        ABOUT,
        "phone_not_carried",
        over,
        Some(halt),
        EvidenceText::new(text, explanation),
    )
}

/// Returns the critical span: the time around the drop-off, or else around the fix nearest to the
/// address.
fn critical_span(ctx: &ScoringContext<'_>, places: &Places) -> (u32, u32) {
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
                .min(ctx.end_ms),
        );
    }
    let nearest = ctx.fixes.iter().min_by(|a, b| {
        a.place
            .distance_m(Place::default())
            .total_cmp(&b.place.distance_m(Place::default()))
    });
    nearest.map_or((0, ctx.end_ms), |fix| {
        let half_ms = CRITICAL_BEFORE_MS / 2;
        (
            fix.t_ms.saturating_sub(half_ms),
            fix.t_ms.saturating_add(half_ms).min(ctx.end_ms),
        )
    })
}

/// The number of seconds of each bin with a sample of a channel.
struct Bins {
    sampled_sec: Vec<u8>,
    /// The bins that count as covered although the channel was silent.
    covered: Vec<bool>,
}

impl Bins {
    fn new(end_ms: u32) -> Self {
        let count = end_ms.div_ceil(BIN_MS) as usize;
        Self {
            sampled_sec: vec![0; count],
            covered: vec![false; count],
        }
    }

    /// Records a sample; call it once for each second.
    fn count_second(&mut self, t_ms: u32) {
        if let Some(bin) = self.sampled_sec.get_mut((t_ms / BIN_MS) as usize) {
            *bin = bin.saturating_add(1);
        }
    }

    fn cover(&mut self, t_ms: u32) {
        if let Some(bin) = self.covered.get_mut((t_ms / BIN_MS) as usize) {
            *bin = true;
        }
    }

    fn has_sample(&self, t_ms: u32) -> bool {
        let bin = self.sampled_sec.get((t_ms / BIN_MS) as usize);
        bin.is_some_and(|sampled_sec| *sampled_sec > 0)
    }

    fn has_any_sample(&self) -> bool {
        self.sampled_sec.iter().any(|sampled_sec| *sampled_sec > 0)
    }

    /// Returns the usual number of seconds of a bin with a sample when the channel works best: nine
    /// tenths of its bins have no more.
    fn usual(&self) -> u8 {
        let mut sampled_sec: Vec<u8> = self
            .sampled_sec
            .iter()
            .copied()
            .filter(|sampled_sec| *sampled_sec > 0)
            .collect();
        sampled_sec.sort_unstable();
        let place = sampled_sec.len() * USUAL_SHARE.0 / USUAL_SHARE.1;
        sampled_sec
            .get(place.min(sampled_sec.len().saturating_sub(1)))
            .copied()
            .unwrap_or(1)
            .max(1)
    }

    fn share(&self, (from_ms, to_ms): (u32, u32)) -> f64 {
        let first = (from_ms / BIN_MS) as usize;
        let last =
            (to_ms.div_ceil(BIN_MS) as usize).clamp(first, self.sampled_sec.len().max(first));
        let sampled_sec = self.sampled_sec.get(first..last).unwrap_or_default();
        let covered = self.covered.get(first..last).unwrap_or_default();
        if sampled_sec.is_empty() {
            return 0.0;
        }
        let usual = f64::from(self.usual());
        let value = |(&sampled_sec, &covered): (&u8, &bool)| match sampled_sec {
            _ if covered => 1.0,
            0 => 0.0,
            heard => weights::HEARD + (1.0 - weights::HEARD) * (f64::from(heard) / usual).min(1.0),
        };
        sampled_sec.iter().zip(covered).map(value).sum::<f64>() / sampled_sec.len() as f64
    }
}

/// Returns the share of the stream's coverage that changes of the phone's clock leave.
fn unchanged_clock(ctx: &ScoringContext<'_>) -> f64 {
    let incidents = ctx.input.system.iter();
    let changes = incidents.filter(|(_, name)| *name == SystemName::ClockChanged);
    (1.0 - changes.count() as f64 * weights::CLOCK_CHANGE).max(0.0)
}

/// Returns the channels with their coverage of the time up to `end_ms`.
fn parts(
    ctx: &ScoringContext<'_>,
    places: &Places,
    critical: (u32, u32),
    end_ms: u32,
) -> Vec<ChannelCoverage> {
    let (mut position, mut motion) = (Bins::new(end_ms), Bins::new(end_ms));
    let (mut pressure, mut stream) = (Bins::new(end_ms), Bins::new(end_ms));
    for window in ctx
        .input
        .windows
        .iter()
        .filter(|window| window.has_measurement)
    {
        stream.count_second(window.t_ms);
        if window.has_body_data() {
            motion.count_second(window.t_ms);
        }
        if window.pressure_hpa.is_some() {
            pressure.count_second(window.t_ms);
        }
    }
    let mut seconds: Vec<u32> = ctx.received_ms.iter().map(|t_ms| t_ms / 1_000).collect();
    seconds.dedup();
    for second in seconds {
        position.count_second(second * 1_000);
    }
    silence::cover_uncounted(ctx, &mut motion, &stream);
    silence::cover_indoors(ctx, places, &mut position, (&motion, &pressure));
    let clock = unchanged_clock(ctx);
    let seen = [
        (Channel::Position, &position),
        (Channel::Motion, &motion),
        (Channel::Pressure, &pressure),
        (Channel::Stream, &stream),
    ];
    let mut parts: Vec<ChannelCoverage> = seen
        .into_iter()
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
            match channel.is_declared(ctx.input.context) {
                Some(false) if !bins.has_any_sample() => None,
                _ => Some(ChannelCoverage {
                    channel,
                    weight: channel.weight(),
                    whole,
                    critical,
                }),
            }
        })
        .collect();
    if Channel::Marks.is_declared(ctx.input.context) == Some(true) {
        let covered = if ctx.input.marks.is_empty() { 0.0 } else { 1.0 };
        parts.push(ChannelCoverage {
            channel: Channel::Marks,
            weight: weights::MARKS,
            whole: covered,
            critical: covered,
        });
    }
    if ctx.input.context.sensors.is_empty() {
        parts = most_favourable(parts);
    }
    parts
}

/// Returns the channels of a device that declares no sensors, under the assumption with the highest
/// coverage. Each assumption counts some channels as absent. An absent channel keeps a part of its
/// weight with a coverage of 0, because the device did not declare its absence.
fn most_favourable(parts: Vec<ChannelCoverage>) -> Vec<ChannelCoverage> {
    let assuming = |absent: u32| -> Vec<ChannelCoverage> {
        let place = |(index, part): (usize, &ChannelCoverage)| {
            let is_absent = part.channel != Channel::Stream && absent & (1 << index) != 0;
            if is_absent {
                ChannelCoverage {
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
    let assumed = (0..(1_u32 << parts.len().min(Channel::ALL.len()))).map(assuming);
    assumed.fold(parts.clone(), |best, other| {
        if coverage_of(&other) > coverage_of(&best) {
            other
        } else {
            best
        }
    })
}
