//! Parameters of scoring: the signals of false telemetry. Each name includes the unit, and each
//! comment the source.

crate::parameters::table! {
    /// Parameters of `score/fraud.rs`.
    pub(crate) mod signals {
        /// The number of simulated fixes from which the flag counts as more than a slip.
        MOCK_SEVERAL: usize = 3;
        /// The number of simulated fixes from which the flag persists, together with the time and
        /// the share of all fixes.
        MOCK_PERSISTING: usize = 10;
        /// The duration of simulated fixes from which the flag persists.
        MOCK_PERSISTING_MS: u32 = 10_000;
        /// The share of simulated fixes among all fixes from which the flag persists.
        MOCK_PERSISTING_SHARE: f64 = 0.2;
        /// The minimum number of seconds in which the body walked to the door, for evidence at the
        /// door: a few steps.
        WALKED_SEC_MIN: usize = 5;
    }

    /// Parameters of `score/fraud/body.rs`.
    pub(crate) mod body {
        /// The length of the pieces over which positions are compared.
        PIECE_MS: u32 = 20_000;
        /// The least distance in accuracies that is not drift, if the phone does not report its
        /// speed.
        DRIFT_SIGMAS: f32 = 2.5;
        /// The least distance in accuracies that is not drift, if the reported speed, which
        /// receivers measure independently of the position, shows movement.
        MOVED_SIGMAS: f32 = 1.5;
        /// The share by which a distance counts without a reported speed: indoors, radio positions
        /// drift far and claim to be exact.
        NO_SPEED_SHARE: f32 = 0.5;
        /// The least median reported speed of a path; hardly any fix of a stay reaches it.
        MOVED_MPS: f32 = 0.5;
        /// The accuracy at which a distance of some metres is trusted.
        GOOD_ACCURACY_M: f32 = 20.0;
        /// The median spread of acceleration (m/s²) of a phone that lies on a table, or in the
        /// pocket of someone who sits. In a car it is 0.24 and more nine tenths of the time, and
        /// never below 0.17 (a recorded drive of 15 minutes). Half of that is left as a margin for
        /// softer cars and smoother roads. In a recorded intercity train it is 0.04 to 0.31, median
        /// 0.10: see [`VIBRATION_RATIO`].
        AT_REST_ACCEL_STD: f32 = 0.085;
        /// The speed up to which a vehicle stands, m/s.
        STANDS_MPS: f32 = 0.3;
        /// The ratio of the spread of acceleration at the speed of a vehicle to that at a
        /// standstill from which a vehicle shakes the phone. Recorded in two trains: 6.1 and 4.2.
        /// On a table it is 1.
        VIBRATION_RATIO: f32 = 2.0;
        /// The least number of seconds at each of the two speeds.
        VIBRATION_SEC_MIN: usize = 15;
        /// The spread of acceleration below which the phone is nearly at rest: with someone who
        /// sits, or in the softest of cars.
        NEARLY_AT_REST_ACCEL_STD: f32 = 0.15;
        /// The spread of acceleration below which there is no gait: standing or sitting produces
        /// less, walking more (0.7 and more, recorded).
        NO_GAIT_ACCEL_STD: f32 = 0.35;
        /// The speed range on foot over a piece.
        FOOT_MPS: core::ops::RangeInclusive<f32> = 0.6..=2.6;
        /// The highest speed on foot between two fixes.
        CREEPS_MPS: f32 = 2.8;
        /// The speed in a vehicle over a piece.
        ROAD_MPS: f32 = 5.0;
        /// The least number of seconds of a piece with body data.
        HEARD_MIN: usize = 15;
        /// The least number of fixes in a piece: one each 5 s.
        FIXES_MIN: usize = 4;
        /// The step to the start of the next piece if a piece does not count.
        NEXT_MS: u32 = 4_000;
        /// The most seconds of a piece that may look like a gait, because people fidget with a
        /// phone in the hand. A walk of 20 s has 15 or more of them.
        FIDGETS_MAX: usize = 4;
        /// The most steps that may be counted in a piece: late ones of an earlier walk. A walk of
        /// 20 s has 25 or more.
        STEPS_MAX: u32 = 4;
        /// The distance on foot without a moving body from which the signal counts.
        WALKS_M: f32 = 40.0;
        /// The distance on foot without a moving body from which the signal counts more.
        WALKS_FAR_M: f32 = 150.0;
        /// The distance on foot without a counted step from which the signal counts.
        WALKS_UNCOUNTED_M: f32 = 60.0;
        /// The distance on foot over which body and position must agree before they are considered
        /// to move together.
        AGREES_M: f32 = 50.0;
        /// The minimum seconds of gait in a piece in which body and position agree.
        GAIT_MIN: usize = 12;
        /// Below this common distance, body and position do not count as moving together: a piece
        /// at the slowest walk is longer.
        APART_M: f32 = 12.0;
        /// The time in a vehicle without any shaking from which the signal counts.
        DRIVES_MS: u32 = 40_000;
        /// The steps outdoors under a frozen position from which the signal counts.
        FROZEN_STEPS: u32 = 90;
        /// The maximum accuracy of a frozen position that claims to be exact.
        FROZEN_ACCURACY_M: f32 = 10.0;
        /// The most by which heights by position and by pressure may differ.
        ALTITUDE_M: f32 = 45.0;
        /// The most by which a receiver's altitude changes from fix to fix, metres: an error of a
        /// few tens of metres, which moves slowly.
        ALTITUDE_STEP_M: f32 = 30.0;
        /// The durations over which heights are compared.
        ALTITUDE_MS: core::ops::RangeInclusive<u32> = 60_000..=1_200_000;
        /// Each of the two heights is the median over this time.
        ALTITUDE_MIDDLE_MS: u32 = 10_000;
        /// The minimum time between the first and the last fix of a piece, seconds: half of its
        /// length.
        PIECE_SEC_MIN: f32 = 10.0;
        /// The minimum distance from the address, metres, at which a frozen position is judged:
        /// nearer, the courier may be indoors.
        FROZEN_AWAY_M: f32 = 150.0;
        /// The minimum number of altitudes whose median is a height: one in two seconds.
        ALTITUDES_MIN: usize = 5;
        /// The share of a height by pressure by which the temperature of the air may change it: a
        /// tenth, with a margin.
        PRESSURE_ERROR_SHARE: f32 = 0.15;
    }

    /// Parameters of `score/fraud/claim.rs`.
    pub(crate) mod claim {
        /// The number of uncertainties beyond which a drop-off is far from the address.
        FAR_SIGMAS: f32 = 3.0;
        /// The distance in metres beyond which a drop-off is far from the address.
        FAR_M: f32 = 75.0;
        /// The number of uncertainties beyond which a drop-off is very far from the address.
        VERY_FAR_SIGMAS: f32 = 10.0;
        /// The distance in metres beyond which a drop-off is very far from the address.
        VERY_FAR_M: f32 = 500.0;
        /// The speed above which a vehicle is driving.
        DRIVING_MPS: f32 = 5.0;
        /// A stay at a door within this time before the drop-off explains a late tap.
        LATE_TAP_MS: u32 = 300_000;
        /// If positions jumped away and back, the trusted positions before and after a claim must
        /// lie within this time of it.
        BETWEEN_JUMPS_MS: u32 = 120_000;
        /// The maximum speed at which a courier travels from the trusted positions around a claim
        /// to the address.
        REACH_MPS: f32 = 40.0;
        /// The time around an instant from which its position is taken.
        SAID_MS: u32 = 3_000;
        /// The time before the drop-off within which switching location off counts.
        WITHDRAWN_MS: u32 = 60_000;
    }

    /// Parameters of `score/fraud/doppler.rs`.
    pub(crate) mod doppler {
        /// Fixes with at most this accuracy do not come from a coasting phone.
        ACCURACY_M: f32 = 20.0;
        /// The durations of the changes of place that are compared, in seconds.
        STEP_SEC: core::ops::RangeInclusive<f32> = 0.5..=2.5;
        /// The mean of the two reported speeds, on foot. At higher speeds, filters bring both
        /// together (up to 94 % within 2 %, recorded).
        FOOT_MPS: core::ops::RangeInclusive<f32> = 0.5..=3.0;
        /// Two speeds are equal within this, m/s.
        SAME_MPS: f32 = 0.05;
        /// The share of changes in which the speeds must be equal. Of 38 recordings with 20 or more
        /// changes the highest shares are 0.35 of 31, 0.30 of 37, 0.22 of 58, 0.19 of 159; one
        /// phone that coasts has 0.76 of 21.
        SAME_SHARE: f32 = 0.5;
        /// The minimum number of compared changes.
        CHANGES_MIN: u32 = 30;
    }

    /// Parameters of `score/fraud/kinematics.rs`.
    pub(crate) mod kinematics {
        /// The time between two jumps that are one move of a smoothed position.
        ONE_MOVE_MS: u32 = 5_000;
        /// The minimum number of outliers that errors of a receiver do not explain. Judgement.
        OUTLIERS: usize = 10;
        /// The divisor of the number of fixes: at least one fix in this many must be an outlier.
        /// Judgement.
        OUTLIERS_PER_FIXES: usize = 10;
        /// The minimum number of fixes of constant altitude and accuracy.
        CONSTANT_FIXES: usize = 60;
        /// The minimum distance covered by fixes of constant altitude and accuracy.
        CONSTANT_WAY_M: f32 = 100.0;
        /// The number of constant fixes from which the signal counts more.
        CONSTANT_LONG_FIXES: usize = 180;
        /// The distance covered by constant fixes from which the signal counts more.
        CONSTANT_LONG_WAY_M: f32 = 300.0;
    }

    /// Parameters of `score/fraud/noise.rs`.
    pub(crate) mod noise {
        /// The number of changes of place that form a piece.
        PIECE: usize = 40;
        /// The time between two fixes that form a change of place, in seconds.
        STEP_SEC: core::ops::RangeInclusive<f32> = 0.5..=2.5;
        /// The number of changes of place that form a chord.
        CHORD: usize = 10;
        /// The mean speed of a piece on foot.
        FOOT_MPS: core::ops::RangeInclusive<f32> = 0.5..=3.0;
        /// The mean speed of a piece in a vehicle.
        ROAD_MPS: core::ops::RangeInclusive<f32> = 3.0..=45.0;
        /// A change of velocity from one second to the next below this counts as even, m/s.
        EVEN_MPS: f32 = 0.10;
        /// The minimum number of changes for their share to be meaningful.
        EVEN_OF: u32 = 60;
        /// The share of even changes on foot from which a path counts as smooth. Phones that lose
        /// the sky coast, two recorded ones in up to 0.66 of 29 changes.
        EVEN_ON_FOOT: f32 = 0.70;
        /// The share of even changes in a vehicle from which a path counts as smooth: 0.05 at most
        /// in seven recordings with 7,300 changes.
        EVEN_ON_ROAD: f32 = 0.35;
        /// The mean of this many changes of place on either side removes the wander.
        AROUND: usize = 3;
        /// Noise below this may come from rounding: five decimals of a degree make 0.64 m/s.
        WHITE_MPS_MIN: f32 = 0.8;
        /// The correlation of the residuals of two successive changes of place. Independent noise
        /// for each fix gives −0.6, the wander of a receiver −0.1 to 0.4, and recorded phones on
        /// foot at least −0.33.
        WHITE_CORRELATION: f32 = -0.45;
        /// The minimum number of pieces with such a correlation.
        WHITE_PIECES: usize = 2;
        /// The reported speed up to which a receiver is at rest, m/s.
        REST_MPS: f32 = 0.3;
        /// The minimum number of pairs of successive changes of place at rest.
        REST_CHANGES: u32 = 25;
        /// The minimum size of the changes of place at rest, in metres per second: rounding
        /// contributes to smaller ones.
        REST_MPS_MIN: f32 = 0.8;
        /// The correlation of successive changes at rest: independent noise for each fix gives
        /// −0.5. A receiver's wander is zero or continues: −0.00 to 0.85 in 17 recordings with 15
        /// or more changes.
        REST_CORRELATION: f32 = -0.35;
        /// The minimum share of the pieces on foot with such a correlation, as a fraction.
        WHITE_SHARE: (usize, usize) = (2, 3);
    }

    /// Parameters of `score/fraud/strides.rs`.
    pub(crate) mod strides {
        /// Fixes with at most this accuracy are trusted over a path of some metres.
        ACCURACY_M: f32 = 20.0;
        /// The reported speed on foot.
        FOOT_MPS: core::ops::RangeInclusive<f32> = 0.6..=2.4;
        /// Fixes farther apart in time do not belong to one path.
        GAP_MS: u32 = 3_000;
        /// The minimum duration of a path.
        WAY_MS: u32 = 10_000;
        /// The minimum distance that a path leads away: receivers measure speed independently of
        /// the position.
        WAY_M_MIN: f32 = 12.0;
        /// The minimum number of accuracies that a path leads away.
        WAY_SIGMAS: f32 = 1.5;
        /// The duration of the chords that make up the length of a path.
        CHORD_MS: u32 = 8_000;
        /// Paths with a smaller total length are not judged.
        WALKS_M: f32 = 40.0;
        /// A long stride (textbook: 0.6 to 0.8 m).
        STRIDE_M: f32 = 0.9;
        /// The most that step counters lag (Android: 10 s, plus their report interval).
        LATE_MS: u32 = 15_000;
        /// The share of the strides of a path that may be counted although the courier did not walk
        /// it.
        COUNTED_SHARE: f32 = 0.1;
        /// The minimum cadence of a gait.
        GAIT_HZ: f32 = 1.0;
        /// The minimum spread of acceleration of a gait, m/s² (recorded walks: 0.5 and more).
        GAIT_ACCEL_STD: f32 = 0.45;
        /// With a gait in at most this share of the seconds, the courier did not walk: the motion
        /// of a fidgeting hand resembles a gait in no larger share.
        GAIT_SHARE: f32 = 0.15;
        /// With a gait in more than this share of the seconds, the step counter is assumed to be
        /// broken.
        BROKEN_SHARE: f32 = 0.4;
        /// The share of the seconds of the paths with motion data that is required.
        HEARD_SHARE: f32 = 0.8;
    }

    /// Parameters of `score/fraud/turns.rs`.
    pub(crate) mod path_turns {
        /// Only fixes with at most this accuracy show a course.
        ACCURACY_M: f32 = 15.0;
        /// The time on either side of a corner over which the course is taken.
        LEG_MS: u32 = 8_000;
        /// The minimum length of each of the two legs, so that a wander of a few metres cannot turn
        /// the course by 50°.
        LEG_M_MIN: f32 = 8.0;
        /// The minimum length of a leg in accuracies, if the phone reports a speed.
        LEG_SIGMAS: f32 = 1.0;
        /// The minimum length of a leg in accuracies, if the phone reports no speed.
        LEG_SIGMAS_NO_SPEED: f32 = 3.0;
        /// The minimum reported speed on a leg, if the phone reports one.
        LEG_MPS: f32 = 0.7;
        /// The angle of a corner in radians: 50° to 130°. A courier may turn right round by
        /// stepping backwards.
        CORNER_RAD: core::ops::RangeInclusive<f32> = 0.87..=2.27;
        /// The additional time on either side in which the turns of the phone are examined:
        /// positions are smoothed and late.
        LATE_MS: u32 = 4_000;
        /// The minimum share of a corner that a phone turns, wherever it is carried; less
        /// contradicts the corner.
        TURNED_SHARE: f32 = 0.35;
        /// The least share of the examined seconds that have data.
        HEARD_SHARE: f32 = 0.9;
        /// A gyroscope whose readings never differ by more than this is broken, radians per second.
        ALIVE_RAD: f32 = 0.0005;
        /// The number of corners without a turn from which the signal counts.
        CORNERS: usize = 2;
        /// The number of corners without a turn from which the signal counts more.
        CORNERS_MANY: usize = 4;
        /// The minimum length of both legs of a driven street corner, in metres.
        STREET_M: f32 = 20.0;
        /// The minimum length of both legs of a driven street corner, in accuracies.
        STREET_SIGMAS: f32 = 2.0;
        /// The number of pieces, one minute in total, without any turn of the phone for which one
        /// corner is enough.
        WAYS_MIN: usize = 5;
        /// The duration of the pieces in which the phone is checked for turns.
        PIECE_MS: u32 = 12_000;
        /// The minimum turn of the phone in a piece, radians (35°); drift and fidgeting turn it
        /// less.
        FELT_RAD: f32 = 0.6;
    }
}
