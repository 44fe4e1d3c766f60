//! Parameters of scoring: what speaks for an untruth. Each says its unit in its name and what it rests on.

crate::parameters::table! {
    /// Of `score/fraud.rs`.
    pub(crate) mod signals {
        /// Fixes marked as simulated from which the flag counts as more than a slip.
        MOCK_SEVERAL: usize = 3;
        /// Fixes marked as simulated from which the flag persists, with the time and the share of all fixes.
        MOCK_PERSISTING: usize = 10;
        /// See the one above.
        MOCK_PERSISTING_MS: u32 = 10_000;
        /// See the one above.
        MOCK_PERSISTING_SHARE: f64 = 0.2;
    }

    /// Of `score/fraud/body.rs`.
    pub(crate) mod body {
        /// Positions are compared over pieces of this length.
        PIECE_MS: u32 = 20_000;
        /// A way below this many accuracies is drift, where the phone does not tell its speed.
        DRIFT_SIGMAS: f32 = 2.5;
        /// The same where its speed, which receivers measure apart from the position, says that it moved.
        MOVED_SIGMAS: f32 = 1.5;
        /// Without a told speed a way counts by this part: indoors, positions by radio drift far and claim to be exact.
        UNTOLD_SHARE: f32 = 0.5;
        /// Half of the fixes of a way tell at least this speed; of a stay, hardly any.
        MOVED_MPS: f32 = 0.5;
        /// Exact enough to trust a way of some metres.
        GOOD_ACCURACY_M: f32 = 20.0;
        /// The median spread of acceleration (m/s²) of a phone that lies on a table, or in the pocket of someone who sits. In a
        /// car it is 0.24 and more nine tenths of the time, and never below 0.17 (a recorded drive of 15 minutes); half of
        /// that is left to softer cars and smoother roads.
        AT_REST_ACCEL_STD: f32 = 0.085;
        /// Below this it is nearly at rest: with someone who sits, or in the softest of cars.
        NEARLY_AT_REST_ACCEL_STD: f32 = 0.15;
        /// The same without a gait: whoever stands or sits moves less, whoever walks more (0.7 and more, recorded).
        NO_GAIT_ACCEL_STD: f32 = 0.35;
        /// Speed on foot over a piece.
        FOOT_MPS: core::ops::RangeInclusive<f32> = 0.6..=2.6;
        /// Between two fixes nobody on foot is faster.
        CREEPS_MPS: f32 = 2.8;
        /// Speed in a vehicle over a piece.
        ROAD_MPS: f32 = 5.0;
        /// Seconds of a piece in which the body must be heard.
        HEARD_LEAST: usize = 15;
        /// Fixes that a piece has at least: one each 5 s.
        FIXES_LEAST: usize = 4;
        /// Pieces that do not count begin anew so much later.
        NEXT_MS: u32 = 4_000;
        /// Of the seconds of a piece, so many may look like a gait: whoever holds a phone fidgets. A walk of 20 s has 15 or
        /// more of them.
        FIDGETS_MOST: usize = 4;
        /// And so many steps may be counted: late ones of a walk before. A walk of 20 s has 25 and more.
        STEPS_MOST: u32 = 4;
        /// Way on foot without a body from which it counts, and from which it counts more.
        WALKS_M: f32 = 40.0;
        /// See the one above.
        WALKS_FAR_M: f32 = 150.0;
        /// See the one above.
        WALKS_UNCOUNTED_M: f32 = 60.0;
        /// Way on foot on which body and position go together, from which they are believed to do so, and seconds of gait that
        /// a piece of it has.
        AGREES_M: f32 = 50.0;
        /// See the one above.
        GAIT_LEAST: usize = 12;
        /// Less than this together is none: a piece at the slowest walk has more.
        APART_M: f32 = 12.0;
        /// Time in a vehicle without any shaking.
        DRIVES_MS: u32 = 40_000;
        /// Steps outdoors under a frozen position.
        FROZEN_STEPS: u32 = 90;
        /// See the one above.
        FROZEN_ACCURACY_M: f32 = 10.0;
        /// Heights by position and by pressure may differ by this much.
        ALTITUDE_M: f32 = 45.0;
        /// Heights are compared over times in this range.
        ALTITUDE_MS: core::ops::RangeInclusive<u32> = 60_000..=1_200_000;
        /// Each of the two heights is the middle one of this time.
        ALTITUDE_MIDDLE_MS: u32 = 10_000;
    }

    /// Of `score/fraud/claim.rs`.
    pub(crate) mod claim {
        /// Uncertainties, and metres, beyond which a hand-over is far from the address.
        FAR_SIGMAS: f32 = 3.0;
        /// See the one above.
        FAR_M: f32 = 75.0;
        /// The same for very far.
        VERY_FAR_SIGMAS: f32 = 10.0;
        /// See the one above.
        VERY_FAR_M: f32 = 500.0;
        /// Speed at which one drives.
        DRIVING_MPS: f32 = 5.0;
        /// A stay at a door this long before explains a late tap.
        LATE_TAP_MS: u32 = 300_000;
        /// Where positions jumped away and back, the believed ones before and after a claim lie within this time of it …
        BETWEEN_JUMPS_MS: u32 = 120_000;
        /// … and nobody came from the one to the address, and back to the other, more quickly than this.
        REACH_MPS: f32 = 40.0;
        /// Around an instant, what its position is taken from.
        SAID_MS: u32 = 3_000;
        /// Location taken away this long before the hand-over.
        WITHDRAWN_MS: u32 = 60_000;
    }

    /// Of `score/fraud/doppler.rs`.
    pub(crate) mod doppler {
        /// Exact enough not to be a coasting phone's.
        ACCURACY_M: f32 = 20.0;
        /// Changes of place that are compared, seconds.
        STEP_SEC: core::ops::RangeInclusive<f32> = 0.5..=2.5;
        /// The mean of the two told speeds, on foot: faster, filters bring both together (up to 94 % within 2 %, recorded).
        FOOT_MPS: core::ops::RangeInclusive<f32> = 0.5..=3.0;
        /// They are the same within this, m/s.
        SAME_MPS: f32 = 0.05;
        /// In so many of so many changes. Of 38 recordings with 20 changes and more the highest share is 0.35 of 31, 0.30 of 37,
        /// 0.22 of 58, 0.19 of 159; one phone that coasts has 0.76 of 21.
        SAME_SHARE: f32 = 0.5;
        /// See the one above.
        CHANGES_LEAST: u32 = 30;
    }

    /// Of `score/fraud/kinematics.rs`.
    pub(crate) mod kinematics {
        /// Fixes of constant altitude and accuracy, and the way between them.
        CONSTANT_FIXES: usize = 60;
        /// See the one above.
        CONSTANT_WAY_M: f32 = 100.0;
        /// See the one above.
        CONSTANT_LONG_FIXES: usize = 180;
        /// See the one above.
        CONSTANT_LONG_WAY_M: f32 = 300.0;
    }

    /// Of `score/fraud/noise.rs`.
    pub(crate) mod noise {
        /// Fixes that are looked at together, and how far apart they are.
        PIECE: usize = 40;
        /// See the one above.
        STEP_SEC: core::ops::RangeInclusive<f32> = 0.5..=2.5;
        /// Changes of place that make a chord.
        CHORD: usize = 10;
        /// The mean speed of a piece, on foot and in a vehicle.
        FOOT_MPS: core::ops::RangeInclusive<f32> = 0.5..=3.0;
        /// See the one above.
        ROAD_MPS: core::ops::RangeInclusive<f32> = 3.0..=45.0;
        /// A change of velocity from one second to the next below this is none, m/s.
        EVEN_MPS: f32 = 0.10;
        /// Changes that must be seen for their share to tell something.
        EVEN_OF: u32 = 60;
        /// The share of even ones, on foot: phones that lose the sky coast, two recorded ones in up to 0.66 of 29 changes.
        EVEN_ON_FOOT: f32 = 0.70;
        /// In a vehicle: 0.05 at the most in seven recordings with 7,300 changes.
        EVEN_ON_ROAD: f32 = 0.35;
        /// Wander is taken off by the mean of so many changes of place on either side.
        AROUND: usize = 3;
        /// Noise below this may be that of rounding: five decimals of a degree make 0.64 m/s.
        WHITE_LEAST_MPS: f32 = 0.8;
        /// The correlation of what is left of two successive changes of place. Noise that is thrown anew for each fix gives
        /// −0.6, the wander of a receiver −0.1 to 0.4; recorded phones on foot −0.33 at the least.
        WHITE_CORRELATION: f32 = -0.45;
        /// Pieces in which it must be so.
        WHITE_PIECES: usize = 2;
        /// At rest, by the told speed, m/s.
        REST_MPS: f32 = 0.3;
        /// Changes of place at rest that must be seen, and so many that follow each other.
        REST_CHANGES: u32 = 25;
        /// And how far they lead, metres a second: below it, rounding has its part in them.
        REST_LEAST_MPS: f32 = 0.8;
        /// The correlation of successive ones: a throw of the dice for each fix gives −0.5. A receiver's wander is none or goes
        /// on: −0.00 to 0.85 in 17 recordings with 15 changes and more.
        REST_CORRELATION: f32 = -0.35;
    }

    /// Of `score/fraud/strides.rs`.
    pub(crate) mod strides {
        /// Exact enough to trust a way of some metres.
        ACCURACY_M: f32 = 20.0;
        /// The told speed on foot.
        FOOT_MPS: core::ops::RangeInclusive<f32> = 0.6..=2.4;
        /// Fixes farther apart in time do not belong to one way.
        GAP_MS: u32 = 3_000;
        /// A way lasts this long at least …
        WAY_MS: u32 = 10_000;
        /// … and leads away by this, and by this many accuracies: receivers measure speed apart from the position.
        WAY_LEAST_M: f32 = 12.0;
        /// See the one above.
        WAY_SIGMAS: f32 = 1.5;
        /// Chords of which its length is made.
        CHORD_MS: u32 = 8_000;
        /// Ways shorter than this together tell nothing.
        WALKS_M: f32 = 40.0;
        /// A long stride (textbook: 0.6 to 0.8 m).
        STRIDE_M: f32 = 0.9;
        /// Counters are late by up to this (Android: 10 s, and the beat of their reports).
        LATE_MS: u32 = 15_000;
        /// The share of the strides of a way that may be counted though nobody walked it.
        COUNTED_SHARE: f32 = 0.1;
        /// A gait has this cadence and this spread of acceleration, m/s² (recorded walks: 0.5 and more).
        GAIT_HZ: f32 = 1.0;
        /// See the one above.
        GAIT_ACCEL_STD: f32 = 0.45;
        /// Nobody walks with a gait in fewer seconds than this share; a hand that fidgets looks like one in no more.
        GAIT_SHARE: f32 = 0.15;
        /// With a gait in more seconds than this the counter is believed to be broken.
        BROKEN_SHARE: f32 = 0.4;
        /// Of the seconds of the ways, so many must be heard.
        HEARD_SHARE: f32 = 0.8;
    }

    /// Of `score/fraud/turns.rs`.
    pub(crate) mod turns {
        /// Only fixes this exact show a course.
        ACCURACY_M: f32 = 15.0;
        /// The course before and after a corner is taken over this time on either side.
        LEG_MS: u32 = 8_000;
        /// Each of the two ways must lead this far, so that a wander of a few metres cannot turn the course by 50°.
        LEG_LEAST_M: f32 = 8.0;
        /// And this many accuracies; where the phone tells no speed, more.
        LEG_SIGMAS: f32 = 1.0;
        /// See the one above.
        LEG_SIGMAS_UNTOLD: f32 = 3.0;
        /// Whoever goes a way tells this speed, where he tells one.
        LEG_MPS: f32 = 0.7;
        /// A corner, radians: 50° to 130°. Who turns right round may do so by stepping backwards.
        CORNER_RAD: core::ops::RangeInclusive<f32> = 0.87..=2.27;
        /// The phone is watched for so much longer on either side: positions are smoothed and late.
        LATE_MS: u32 = 4_000;
        /// The share of a corner that a phone turns at least, wherever it is carried; less contradicts.
        TURNED_SHARE: f32 = 0.35;
        /// Seconds that must be heard, of those watched.
        HEARD_SHARE: f32 = 0.9;
        /// A gyroscope whose readings do not differ by this anywhere is dead, radians a second.
        ALIVE_RAD: f32 = 0.0005;
        /// Corners without a turn from which it counts, and from which it counts more.
        CORNERS: usize = 2;
        /// See the one above.
        CORNERS_MANY: usize = 4;
        /// A corner of a street, driven: both ways lead this far, and this many accuracies.
        STREET_M: f32 = 20.0;
        /// See the one above.
        STREET_SIGMAS: f32 = 2.0;
        /// Pieces of the way, a minute, in none of which the phone turned, for one corner to be enough.
        WAYS_LEAST: usize = 5;
        /// Pieces of way in which the phone is asked whether it ever turned.
        PIECE_MS: u32 = 12_000;
        /// By this much, radians (35°); drift and fidgets turn less.
        FELT_RAD: f32 = 0.6;
    }
}
