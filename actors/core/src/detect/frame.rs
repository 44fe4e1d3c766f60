//! Holds the evidence of one second about gait, height and speed, for the movement detectors.

use serde::{Deserialize, Serialize};

use super::tally::Counted;

/// The evidence of one second by itself. Values that were not measured are `None` or 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Frame {
    /// The start of the second, milliseconds since the session's start.
    pub t_ms: u32,
    /// The log-odds of gait: positive for gait, negative for stillness, 0 where nothing was
    /// measured.
    pub gait: f32,
    /// Whether `gait` is from the body (imu, motion, steps) and not from positions, so that walking
    /// away from a vehicle would be seen.
    pub has_body: bool,
    /// Whether only the phone's step counter measured the body.
    pub by_counter: bool,
    /// Whether steps were seen, by cadence or by the phone's counter.
    pub has_steps: bool,
    /// Whether the body was pushed up or down, or shaken so much that a push cannot be recognised.
    pub has_push: bool,
    /// Whether acceleration spreads too much for a cabin.
    pub is_loud: bool,
    /// Whether the newest fix is so good and so new that the phone sees the sky.
    pub sees_sky: bool,
    /// Whether a fix came.
    pub has_fix: bool,
    /// The height over the session's reference, metres.
    pub height_m: Option<f32>,
    /// The evidence of the phone's recogniser, in addition to the speed: positive for a vehicle.
    pub vehicle: f32,
}

/// A [`Frame`] packed into a third of its size: a session's state consists mostly of kept frames.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct KeptFrame {
    t_ms: u32,
    height_m: f32,
    /// The slope of the height; like its error in units of 1 mm/s.
    rate: i16,
    rate_error: u16,
    /// The speed over ground, in units of 1 cm/s.
    speed: u16,
    /// The evidence for gait; like that for a vehicle and a climb in units of 1/64.
    gait: i8,
    vehicle: i8,
    climb: i8,
    flags: u16,
}

// A flag that a run counts uses the bit of its [`Counted`] kind.
const HAS_BODY: u16 = Counted::Body.bit();
const HAS_STEPS: u16 = Counted::Steps.bit();
const HAS_PUSH: u16 = Counted::Push.bit();
const SEES_WALK: u16 = Counted::Seen.bit();
const SEES_SKY: u16 = Counted::Sky.bit();
const HAS_FIX: u16 = Counted::Fix.bit();
const CLIMBS: u16 = Counted::Stride.bit();
const HAS_SPEED: u16 = Counted::Speed.bit();
const HAS_HEIGHT: u16 = 256;
const HAS_CLIMB: u16 = 512;
const IS_NON_SATELLITE: u16 = 1024;
const BY_COUNTER: u16 = 2048;
const HAS_JOINED: u16 = 4096;
const IS_LOUD: u16 = 8192;
const IS_CARRIED: u16 = 16384;

/// The share of the step counter's evidence that counts in a second whose speed is known: the
/// counter may be 10 s late, and the speed is not.
const COUNTER_SHARE: f32 = 0.5;

/// Returns the value that `as` truncates to the nearest whole number. `f32::round` is a call where
/// the processor has no instruction for it, and five calls would be a fifth of a second's cost.
fn rounded(value: f32) -> f32 {
    value + 0.5_f32.copysign(value)
}

impl KeptFrame {
    /// Packs a frame, with evidence to 1/64. The slope, the speed and the evidence of the stride
    /// are written later.
    #[inline]
    pub(super) fn of(frame: &Frame) -> Self {
        // `as` saturates: values beyond these ranges carry no more information than the range
        // limits.
        let flag = |is_set: bool, flag: u16| if is_set { flag } else { 0 };
        Self {
            t_ms: frame.t_ms,
            height_m: frame.height_m.unwrap_or(0.0),
            rate: 0,
            rate_error: 0,
            speed: 0,
            gait: rounded(frame.gait * 64.0) as i8,
            vehicle: rounded(frame.vehicle * 64.0) as i8,
            climb: 0,
            flags: flag(frame.has_body, HAS_BODY | SEES_WALK)
                | flag(frame.has_steps, HAS_STEPS)
                | flag(frame.by_counter, BY_COUNTER)
                | flag(frame.has_push, HAS_PUSH)
                | flag(frame.is_loud, IS_LOUD)
                | flag(frame.has_fix, HAS_FIX)
                | flag(frame.sees_sky, SEES_SKY)
                | flag(frame.height_m.is_some(), HAS_HEIGHT),
        }
    }

    /// Returns a second in which nothing was measured.
    #[cfg(test)]
    pub(super) fn at(t_ms: u32) -> Self {
        Self {
            t_ms,
            ..Self::default()
        }
    }

    // The values that are known later are written one by one, so that the others need not be
    // unpacked and packed again.

    /// Writes the slope of the height and its standard error, m/s, and the height itself, metres; 0
    /// where none was measured.
    pub(super) fn put_slope(&mut self, rate_mps: f32, error_mps: f32, height_m: f32) {
        self.rate = rounded(rate_mps * 1_000.0) as i16;
        self.rate_error = rounded(error_mps * 1_000.0) as u16;
        self.height_m = height_m;
    }

    /// Writes a speed over ground, m/s; `is_non_satellite` marks a speed from fixes that are not
    /// from satellites.
    pub(super) fn put_speed(&mut self, speed_mps: f32, is_non_satellite: bool) {
        self.speed = rounded(speed_mps * 100.0) as u16;
        self.flags = (self.flags & !IS_NON_SATELLITE)
            | HAS_SPEED
            | if is_non_satellite {
                IS_NON_SATELLITE
            } else {
                0
            };
    }

    /// Records whether satellites show without doubt that the phone moves faster than a walk.
    pub(super) fn put_carried(&mut self, is_carried: bool) {
        self.flags = (self.flags & !IS_CARRIED) | if is_carried { IS_CARRIED } else { 0 };
    }

    /// Records that walking away from a vehicle would be seen.
    pub(super) fn put_sees_walk(&mut self) {
        self.flags |= SEES_WALK;
    }

    /// Writes the evidence for gait or rest, log-odds.
    pub(super) fn put_gait(&mut self, gait: f32) {
        self.gait = rounded(gait * 64.0) as i8;
    }

    /// Writes a height that was not measured in this second itself, metres.
    pub(super) fn put_height(&mut self, height_m: f32) {
        self.height_m = height_m;
        self.flags |= HAS_HEIGHT;
    }

    /// Joins the evidence of the phone's own speed, log-odds, to that of the step counter, if
    /// nothing else measured the body.
    pub(super) fn join_counter(&mut self, gait: f32) {
        if self.has(BY_COUNTER) && !self.has(HAS_JOINED) {
            self.put_gait(COUNTER_SHARE * self.gait() + gait);
            self.flags |= HAS_JOINED;
        }
    }

    /// Writes the step counter's evidence for gait or rest, log-odds, and whether steps were seen.
    /// Evidence of the speed that was joined before is kept.
    pub(super) fn put_counter(&mut self, gait: f32, has_steps: bool) {
        let gait = if self.has(HAS_JOINED) {
            COUNTER_SHARE * gait + self.gait()
        } else {
            gait
        };
        self.put_body(gait, has_steps);
    }

    /// Writes the body's evidence for gait or rest, log-odds, and whether steps were seen.
    pub(super) fn put_body(&mut self, gait: f32, has_steps: bool) {
        self.put_gait(gait);
        self.flags = (self.flags & !HAS_STEPS) | if has_steps { HAS_STEPS } else { 0 };
    }

    /// Writes the weaker evidence of the two seconds around this one, in which nothing measured the
    /// body.
    pub(super) fn put_between(&mut self, before: &Self, after: &Self) {
        let gait = if before.gait.abs() < after.gait.abs() {
            before.gait
        } else {
            after.gait
        };
        let is_one = (before.gait > 0) == (after.gait > 0);
        self.gait = if is_one { gait } else { 0 };
        self.flags |= HAS_BODY | SEES_WALK | (before.flags & after.flags & HAS_STEPS);
    }

    /// Returns whether acceleration measured the body.
    #[inline]
    pub(super) fn has_acceleration(&self) -> bool {
        self.has(HAS_BODY) && !self.has(BY_COUNTER)
    }

    /// Writes the evidence for climbing or level ground, log-odds.
    pub(super) fn put_climb(&mut self, climb: f32) {
        self.climb = rounded(climb * 64.0) as i8;
        let climbs = if self.climb > 0 { CLIMBS } else { 0 };
        self.flags = (self.flags & !CLIMBS) | HAS_CLIMB | climbs;
    }

    // The kept values are read field by field, because few readers need all of them.

    /// Returns the start of the second, milliseconds since the session's start.
    #[inline]
    pub(super) fn t_ms(&self) -> u32 {
        self.t_ms
    }

    #[inline]
    fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Returns the height over the session's reference, metres.
    #[inline]
    pub(super) fn height_m(&self) -> Option<f32> {
        self.has(HAS_HEIGHT).then_some(self.height_m)
    }

    /// Returns [`Frame::gait`], to 1/64.
    #[inline]
    pub(super) fn gait(&self) -> f32 {
        f32::from(self.gait) / 64.0
    }

    /// Returns [`Frame::vehicle`], to 1/64.
    #[inline]
    pub(super) fn vehicle(&self) -> f32 {
        f32::from(self.vehicle) / 64.0
    }

    /// Returns the evidence by the stride alone, to 1/64: positive for climbing stairs, negative
    /// for level ground.
    #[inline]
    pub(super) fn climb(&self) -> Option<f32> {
        self.has(HAS_CLIMB).then(|| f32::from(self.climb) / 64.0)
    }

    /// Returns the speed over ground if fixes are good enough to show it, to 1 cm/s.
    #[inline]
    pub(super) fn speed_mps(&self) -> Option<f32> {
        self.has(HAS_SPEED).then(|| f32::from(self.speed) / 100.0)
    }

    /// Returns whether the slope of the height or its error is other than 0.
    #[inline]
    pub(super) fn has_slope(&self) -> bool {
        self.rate != 0 || self.rate_error != 0
    }

    /// Returns the slope of the height around the second, to 1 mm/s.
    #[inline]
    pub(super) fn rate_mps(&self) -> f32 {
        f32::from(self.rate) / 1_000.0
    }

    /// Returns the standard error of the slope, to 1 mm/s.
    #[inline]
    pub(super) fn rate_error_mps(&self) -> f32 {
        f32::from(self.rate_error) / 1_000.0
    }

    /// Returns whether the body was measured.
    #[inline]
    pub(super) fn has_body(&self) -> bool {
        self.has(HAS_BODY)
    }

    /// Returns whether acceleration spread too much for a cabin.
    #[inline]
    pub(super) fn is_loud(&self) -> bool {
        self.has(IS_LOUD)
    }

    /// Returns whether only the step counter measured the body.
    #[inline]
    pub(super) fn is_by_counter(&self) -> bool {
        self.has(BY_COUNTER)
    }

    /// Returns the bits of all that is counted of the second ([`Counted`]). A body that was not
    /// measured may have been pushed.
    #[inline]
    pub(super) fn counted(&self) -> u16 {
        let pushed = if self.has_body() { 0 } else { HAS_PUSH };
        self.flags | pushed
    }

    /// Returns whether the newest fix was so good and so new that the phone saw the sky.
    #[inline]
    pub(super) fn sees_sky(&self) -> bool {
        self.has(SEES_SKY)
    }

    /// Returns whether satellites show without doubt that the phone moves faster than a walk.
    #[inline]
    pub(super) fn is_carried(&self) -> bool {
        self.has(IS_CARRIED)
    }

    /// Returns whether the speed is from the distance between fixes that are not from satellites.
    #[inline]
    pub(super) fn is_non_satellite(&self) -> bool {
        self.has(IS_NON_SATELLITE)
    }
}
