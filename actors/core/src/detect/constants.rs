//! Every threshold of the detectors, with its unit in its name and where it comes from: the contract, a published or
//! measured figure, or a fit.

// --- GPS quality ------------------------------------------------------------------------------------------------

/// A fix this bad is degraded, metres (contract 4).
pub(super) const DEGRADED_ACCURACY_M: f32 = 50.0;
/// A fix this many times worse than the session's usual is degraded (contract 4).
pub(super) const DEGRADED_RATIO: f32 = 2.5;
/// Fixes running that make a degradation (contract 4).
pub(super) const DEGRADED_FIXES: u8 = 2;
/// Fixes worse than this do not count as fixes for the loss, metres (contract 4).
pub(super) const USELESS_ACCURACY_M: f32 = 150.0;
/// Without a useful fix for this long GPS is lost (contract 4).
pub(super) const LOST_AFTER_MS: u32 = 10_000;
/// A fix this good restores, metres (contract 4).
pub(super) const GOOD_ACCURACY_M: f32 = 35.0;
/// Three good fixes within this restore (contract 4).
pub(super) const RESTORED_WITHIN_MS: u32 = 15_000;
/// An accuracy that is usual is at least this, metres: below it a ratio says nothing, phones claim 3 to 10 m in turn
/// under open sky (measured: Falcon & Schulzrinne's traces).
pub(super) const USUAL_ACCURACY_M_MIN: f32 = 5.0;
/// Weight of a fix in the session's usual accuracy, which is learned from good fixes: about the last minute at 1 Hz.
pub(super) const USUAL_ACCURACY_NEW: f32 = 1.0 / 30.0;
/// Weight of a gap between two fixes in the session's usual interval.
pub(super) const USUAL_INTERVAL_NEW: f32 = 0.2;
/// The longest usual interval between fixes that is believed, milliseconds.
pub(super) const USUAL_INTERVAL_MS_MAX: f32 = 12_000.0;
/// Without a useful fix for this many usual intervals GPS is lost, where that is longer than the contract's 10 s:
/// a phone that saves power sends one fix in ten seconds, and nothing is lost (research 2.7).
pub(super) const LOST_AFTER_INTERVALS: f32 = 5.0;
