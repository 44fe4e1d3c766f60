//! Every number of the detectors of gates and of the quality of positions, with its unit in its name and what it rests
//! on.

crate::parameters::table! {
    /// The quality of positions: the limits of the contract.
    pub(super) mod gps {
        /// A fix this bad is degraded, metres (contract 4).
        DEGRADED_ACCURACY_M: f32 = 50.0;
        /// Fixes running that make a degradation (contract 4).
        DEGRADED_FIXES: u8 = 2;
        /// Fixes worse than this do not count as fixes for the loss, metres (contract 4).
        USELESS_ACCURACY_M: f32 = 150.0;
        /// Without a useful fix for this long GPS is lost (contract 4).
        LOST_AFTER_MS: u32 = 10_000;
        /// A fix this good restores, metres (contract 4).
        GOOD_ACCURACY_M: f32 = 35.0;
        /// Three good fixes within this restore (contract 4).
        RESTORED_WITHIN_MS: u32 = 15_000;
        /// Log-odds of the three: they follow from the fixes by rule.
        CONFIDENCE_GPS: f32 = 3.5;
    }

    /// Gates: log-odds, unless the name says else. Judgement until there are recordings with labels (research 2.6).
    pub(super) mod gate {
        /// A pause from here on can be a gate, milliseconds (contract 4) …
        GATE_PAUSE_MS_MIN: u32 = 3_000;
        /// … up to here (contract 4).
        GATE_PAUSE_MS_MAX: u32 = 90_000;
        /// Seconds of walking before it, so that it is on the way.
        GATE_WALK_SEC: u8 = 5;
        /// A pause that begins sooner after a drive is one in the vehicle, milliseconds.
        GATE_LEFT_MS: u32 = 4_000;
        /// Whatever moves this fast is a vehicle, m/s: runners reach 4, and a walk is below 2.1.
        GATE_VEHICLE_MPS: f32 = 4.0;
        /// Seconds of gait from which on the vehicle counts as left.
        GATE_FIRST_STEPS_SEC: u8 = 3;
        /// Fixes at rest whose mean is the vehicle's place.
        GATE_VEHICLE_FIXES: u8 = 8;
        /// A door is pulled open within this after the wait for it has ended.
        GATE_DOOR_MS: u32 = 2_000;
        /// Seconds of walking that lead round a van to its rear doors: 7 m.
        GATE_ROUND_VEHICLE_SEC: u8 = 6;
        /// Up to so many seconds of walking, positions tell whether one is still beside it …
        GATE_NEAR_VEHICLE_SEC: u8 = 20;
        /// … within this, metres: a van's length. Positions of one minute err against each other by 3 m only.
        GATE_NEAR_VEHICLE_M: f32 = 6.0;
        /// A pause there is for the parcel. It takes a door's pressure, or a gate that is known, to make it a gate all the same.
        GATE_AT_VEHICLE_LOG_ODDS: f32 = -2.5;
        /// Evidence for rest that adds up to a pause: three seconds at rest.
        GATE_PAUSE_EVIDENCE: f32 = 2.8;
        /// Evidence for gait after which it has gone on: three seconds of a clear walk; who fidgets has not.
        GATE_RESUME_EVIDENCE: f32 = 4.0;
        /// Evidence of a second that counts as walking.
        GATE_GAIT_LOG_ODDS: f32 = 0.3;
        /// From the end of the wait for an elevator to its start, at most: into the cabin, and the doors.
        GATE_TO_CABIN_MS: u32 = 16_000;
        /// From a gate to the foot of the stairs, at least: less is their landing.
        GATE_TO_STAIRS_MS: u32 = 3_000;
        /// The decision is taken this long after the pause: the position decays some seconds behind a door (research 3: 12 s).
        GATE_DECIDE_MS: u32 = 20_000;
        /// A pause on foot with nothing else known.
        GATE_BASE_LOG_ODDS: f32 = -0.6;
        /// The least that is reported.
        GATE_LOG_ODDS_MIN: f32 = 0.25;
        /// At a gate or entrance that is known.
        GATE_KNOWN_LOG_ODDS: f32 = 3.0;
        /// Within this of it, metres, or within the fix's accuracy.
        GATE_KNOWN_M: f32 = 15.0;
        /// A leap of the pressure such as a door makes: 5 Pa (research 2.6) are 0.42 m; half of it in the mean of a second.
        GATE_SWING_M: f32 = 0.25;
        /// A leap is one if it is this many times the usual.
        GATE_SWING_NOISE: f32 = 4.0;
        /// Such a leap …
        GATE_SWING_LOG_ODDS: f32 = 2.0;
        /// … and none although there is a barometer: street gates make none.
        GATE_NO_SWING_LOG_ODDS: f32 = -0.3;
        /// The position decays from here on.
        GATE_DECAY_LOG_ODDS: f32 = 1.0;
        /// Decayed: this many times the accuracy before …
        GATE_DECAY_RATIO: f32 = 2.0;
        /// … and at least this, metres …
        GATE_DECAY_M_MIN: f32 = 25.0;
        /// … or no fix for this long.
        GATE_GPS_SILENT_MS: u32 = 8_000;
        /// The magnetic field is another behind it.
        GATE_FIELD_LOG_ODDS: f32 = 0.4;
        /// By this much, µT: a steel frame at arm's length.
        GATE_FIELD_UT: f32 = 12.0;
        /// Near the address …
        GATE_NEAR_LOG_ODDS: f32 = 1.4;
        /// … within this, metres.
        GATE_NEAR_M: f32 = 60.0;
        /// Far from it …
        GATE_AWAY_LOG_ODDS: f32 = -1.5;
        /// … beyond this, metres.
        GATE_AWAY_M: f32 = 150.0;
        /// Who says there that this is the door has no gate before him, unless one is known or a door's pressure shows it.
        GATE_ARRIVED_LOG_ODDS: f32 = -2.0;
        /// A short pause is a glance at the phone now and then.
        GATE_SHORT_LOG_ODDS: f32 = -0.2;
        /// Shorter than this, milliseconds.
        GATE_SHORT_MS: u32 = 5_000;
        /// After a climb or ride the doors are those of flats.
        GATE_INSIDE_LOG_ODDS: f32 = -1.2;
        /// Height that was gained or lost since the pause, metres: it was a wait for an elevator, or the foot of a staircase.
        GATE_CLIMBED_M: f32 = 1.5;
        /// Seconds of walking from the wait for an elevator into its cabin, at most.
        GATE_CABIN_SEC: u8 = 9;
        /// The position was already this bad before the pause, metres: the way was inside.
        GATE_INSIDE_ACCURACY_M: f32 = 40.0;
        /// A turn between this and its mirror, radians, is turning back: 180° less a third of a right angle.
        GATE_BACK_RAD: f32 = 2.4;
        /// By positions: the cosine between the way there and the way on is at most this.
        GATE_BACK_COSINE: f32 = -0.5;
        /// Ways shorter than this have no direction, metres.
        GATE_LEG_M: f32 = 8.0;
        /// The most without a door's pressure and without a known gate: a confidence of 0.6 (research 2.6).
        GATE_CAP_LOG_ODDS: f32 = 0.405;
    }
}
