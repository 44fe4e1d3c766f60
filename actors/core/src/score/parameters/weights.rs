//! The weights of scores, in points.
//!
//! Log-odds without a measured origin are starting values by judgement, to be fitted once sessions
//! with a known truth exist; until then `fraudScore` is a risk index and not a calibrated
//! probability.

crate::parameters::table! {
    /// The log-odds of fraud.
    pub(crate) mod fraud {
        /// The prior before any evidence: about 1 % of couriers spoof (Incognia, food delivery
        /// report 2022).
        PRIOR: f64 = -4.6;
        /// The most that a group of correlated signals may add. Judgement: no single group of
        /// inferred signals reaches 0.5, except the body (see [`BODY_CAP`]) and several far jumps
        /// (see [`FAR_TELEPORTS`]).
        GROUP_CAP: f64 = 4.5;
        /// The cap of the body group, instead of [`GROUP_CAP`]: [`GPS_WALKS_LYING`] alone, or
        /// several signals together, show that the body never moved.
        BODY_CAP: f64 = 5.2;
        /// The most that platform flags and an exact copy of a trace may add: these are facts and
        /// not inferences, and a persisting one alone must be able to make a session suspicious
        /// (contract 5).
        FACT_CAP: f64 = 6.0;
        /// One or two fixes are marked as simulated. Judgement.
        MOCK_ONCE: f64 = 1.5;
        /// Three or more fixes are marked as simulated. Judgement: genuine phones hardly ever do
        /// it.
        MOCK_SEVERAL: f64 = 4.0;
        /// The simulation flag persists. Judgement.
        MOCK_PERSISTING: f64 = 6.0;
        /// The platform's integrity check failed. Judgement: custom systems fail it too.
        INTEGRITY: f64 = 2.5;
        /// A jump that the accuracies do not explain and after which the position stays. 0 of 97
        /// genuine traces show one (measured on the recordings of Falcon and Schulzrinne, 2018;
        /// ungated speed rules: 57 to 65 %).
        TELEPORT: f64 = 2.5;
        /// Three or more jumps that stay, or many that do not.
        TELEPORTS: f64 = 3.5;
        /// Two or more jumps of a kilometre between positions that claim 15 m or better, as of a
        /// false position that is switched on and off. Alone it may reach 0.5. A single one may be
        /// a receiver that was wrong at first. Also for many such jumps after which the position
        /// returns. Judgement.
        FAR_TELEPORTS: f64 = 5.2;
        /// A few distant fixes, each followed by a return: phones do that.
        OUTLIER: f64 = 0.3;
        /// A path on foot without noise and at constant speed. Judgement; road snapping does it in
        /// vehicles.
        SMOOTH_PATH: f64 = 2.0;
        /// A path in a vehicle without noise and at constant speed. Judgement: less than on foot,
        /// because maps snap positions to the road, though no recorded phone does it.
        SMOOTH_DRIVE: f64 = 1.5;
        /// Independent position errors for each fix on foot. None of 21 recordings with walks at
        /// one fix per second has them.
        WHITE_NOISE: f64 = 1.5;
        /// Positions that jump back and forth independently while the reported speed is zero. None
        /// of 17 recordings with a rest does it.
        WHITE_NOISE_AT_REST: f64 = 2.5;
        /// Reported speed and change of place agree to 5 cm/s in half of the steps on foot. None of
        /// 37 recordings with 30 steps does it; a receiver measures the two independently.
        SPEED_FROM_ROUTE: f64 = 2.5;
        /// Altitude and accuracy are both constant over a hundred metres. No recording with both
        /// does it for more than 24 m on foot, or 16 fixes in a vehicle. Constant accuracy alone:
        /// 20 % of genuine traces, one over 16 km.
        CONSTANT_FIX: f64 = 1.5;
        /// Altitude and accuracy are both constant over three minutes and three hundred metres.
        CONSTANT_FIX_LONG: f64 = 2.5;
        /// The altitude is constant over sixty places and a hundred metres, regardless of the
        /// accuracy. None of 15 recordings with heights does it over more than 28 places and 20 m
        /// on foot, or 16 places in a vehicle.
        CONSTANT_ALTITUDE: f64 = 2.0;
        /// The position walks while the body rests. Judgement; a cart or a lift on wheels does it.
        GPS_WALKS: f64 = 3.5;
        /// The position walks over 150 m while the body rests.
        GPS_WALKS_FAR: f64 = 4.0;
        /// The position walks over 150 m while the phone lies as if on a table: no cart rolls that
        /// smoothly, and no step is counted. Judgement: with the prior this is just above 0.5, the
        /// most that one group alone may reach.
        GPS_WALKS_LYING: f64 = 5.0;
        /// The position walks and no step is counted, by a phone that reports no other motion.
        /// Judgement: less, because a cart, a scooter and a step counter in power-save mode do it
        /// too.
        GPS_WALKS_UNCOUNTED: f64 = 2.5;
        /// The position walks and a phone without a step counter measures no gait. Judgement: less,
        /// for the same reasons.
        GPS_WALKS_UNFELT: f64 = 2.5;
        /// The position turns corners and the phone does not turn. Judgement: the only known
        /// genuine cause is a broken gyroscope.
        TURNS_UNFELT: f64 = 2.5;
        /// The position turns four or more corners and the phone does not turn.
        TURNS_UNFELT_MANY: f64 = 3.5;
        /// The position turns corners and the phone does not, although its bearer walks in step
        /// with the positions: a broken gyroscope is then more likely. Judgement.
        TURNS_UNFELT_CARRIED: f64 = 0.7;
        /// The position drives while the phone lies perfectly still: no road is that smooth.
        GPS_DRIVES: f64 = 3.5;
        /// The position drives while the phone lies nearly still, as with a seated person: soft
        /// cars on good roads do it too, so that it does not count as a group of its own.
        GPS_DRIVES_NEARLY: f64 = 0.7;
        /// The body walks outdoors while the position is frozen and claims to be exact. 21 % of
        /// genuine outdoor fixes repeat.
        GPS_FROZEN: f64 = 1.0;
        /// Heights by position and by pressure disagree over a drive. Judgement.
        ALTITUDE: f64 = 1.5;
        /// The wall clock was changed once.
        CLOCK_ONCE: f64 = 1.0;
        /// The wall clock was changed more than once.
        CLOCK_REPEATED: f64 = 2.0;
        /// Another session contains the same trace. Judgement: position noise does not repeat
        /// itself.
        COPIED_TRACE: f64 = 5.5;
        /// The drop-off was far from the address.
        POD_FAR: f64 = 2.5;
        /// The drop-off was very far from the address.
        POD_VERY_FAR: f64 = 3.5;
        /// The drop-off was very far from an address that the phone never approached. Judgement:
        /// too little to make a session suspicious alone, because about one address in a hundred is
        /// placed in another part of the town.
        POD_NEVER_NEAR: f64 = 4.2;
        /// The drop-off was reported while driving.
        POD_DRIVING: f64 = 2.0;
        /// Location was switched off manually just before the drop-off.
        LOCATION_WITHDRAWN: f64 = 1.0;
        /// Consistent evidence of a drop-off at the door counts against fraud.
        DOOR: f64 = -2.5;
        /// A signal of this strength puts the positions in doubt, so that a door that they show is
        /// no evidence for the courier.
        DOUBT: f64 = 2.0;
        /// The points from which a group counts as an independent sign of fraud: the least weight
        /// of an inference, less the reduction by a tenth of the visibility.
        GROUND: f64 = 0.9;
        /// The score from which a session is suspicious, together with two independent groups or a
        /// persisting flag (contract 5).
        SUSPICIOUS: f64 = 0.5;
    }

    /// Visibility: the shares of the channels, by the loss to scoring without them. Judgement.
    pub(crate) mod visibility {
        /// The share of the position.
        POSITION: f64 = 0.30;
        /// The share of body motion: steps, `motion` or `imu`.
        MOTION: f64 = 0.30;
        /// The share of the pressure.
        PRESSURE: f64 = 0.20;
        /// The share of the stream itself: any data at all, and an unchanged clock.
        STREAM: f64 = 0.10;
        /// The share of marks, if the app declares that it sends them.
        MARKS: f64 = 0.10;
        /// The part of a channel's share that counts if the device does not declare its sensors and
        /// the channel sent nothing.
        UNDECLARED: f64 = 0.5;
        /// With fewer seconds of data than this the score falls in proportion: no delivery takes
        /// less time than parking, walking to a door and dropping off a parcel.
        WHOLE_SEC: f64 = 60.0;
        /// The coverage of a bin with any data at all; the rest depends on the number of readings.
        HEARD: f64 = 0.4;
        /// The weight of the coverage over the whole session.
        WHOLE: f64 = 0.4;
        /// The weight of the coverage around the drop-off.
        CRITICAL: f64 = 0.6;
        /// The highest value if the phone was not carried.
        NOT_CARRIED_CAP: f64 = 0.4;
        /// The part of the stream's coverage that each change of the wall clock removes.
        CLOCK_CHANGE: f64 = 0.25;
        /// The deduction for each batch that was left out because it could not be processed.
        QUARANTINED: f64 = 0.02;
        /// The maximum deduction for batches that were left out.
        QUARANTINED_CAP: f64 = 0.10;
        /// Below this value nothing is concluded.
        INSUFFICIENT: f64 = 0.30;
        /// The least value from which the data counts as good.
        GOOD: f64 = 0.60;
    }

    /// Friction: points out of 1. Judgement, based on the factors of courier pay by difficulty
    /// (TransFloor, IMWUT 2023).
    pub(crate) mod friction {
        /// The points for waiting at door and gates, saturating.
        WAIT: f64 = 0.25;
        /// A wait of this many seconds counts as 63 % of [`WAIT`].
        WAIT_SCALE_SEC: f64 = 180.0;
        /// The wait in seconds that every drop-off has.
        WAIT_FREE_SEC: f64 = 30.0;
        /// The points for each controlled passage.
        GATE: f64 = 0.08;
        /// The maximum for controlled passages.
        GATE_CAP: f64 = 0.20;
        /// The points for each [`BACKTRACKING_M`] of backtracking.
        BACKTRACKING: f64 = 0.10;
        /// The metres of backtracking that make one difficulty.
        BACKTRACKING_M: f64 = 50.0;
        /// The maximum for backtracking.
        BACKTRACKING_CAP: f64 = 0.20;
        /// The points for each storey on foot.
        STAIRS_PER_FLOOR: f64 = 0.04;
        /// The maximum for storeys on foot.
        STAIRS_CAP: f64 = 0.25;
        /// The points for each elevator ride.
        ELEVATOR: f64 = 0.05;
        /// The maximum for elevator rides.
        ELEVATOR_CAP: f64 = 0.10;
        /// The points for the way from entrance to door, saturating.
        WAY_IN: f64 = 0.20;
        /// A way of this many seconds counts as 63 % of [`WAY_IN`].
        WAY_IN_SCALE_SEC: f64 = 240.0;
        /// The points for the approach on foot before the drop-off, saturating.
        APPROACH: f64 = 0.15;
        /// An approach of this many seconds counts as 63 % of [`APPROACH`].
        APPROACH_SCALE_SEC: f64 = 300.0;
        /// The points for each visit to the door beyond the first.
        ATTEMPT: f64 = 0.20;
        /// The maximum for visits to the door.
        ATTEMPT_CAP: f64 = 0.40;
        /// Fewer points than this are not evidence: they round to 0.000.
        POINTS_MIN: f64 = 0.0005;
    }

    /// The points that select the stay at the door.
    pub(crate) mod stay {
        /// A mark of the drop-off within the stay, or within 20 s of it.
        MARK: f64 = 4.0;
        /// The mark `arrived` within the stay, or within 20 s of it.
        ARRIVED: f64 = 1.5;
        /// The stay is the farthest from the vehicle.
        FARTHEST: f64 = 1.0;
        /// The stay is at the highest or lowest level reached.
        EXTREME: f64 = 1.0;
        /// The courier goes back after the stay.
        REVERSAL: f64 = 0.5;
        /// The stay is 5 to 120 s long.
        LENGTH: f64 = 1.0;
        /// The stay is near the address; the points fall to 0 at three times the uncertainty.
        NEAR: f64 = 3.0;
        /// The stay is a pause at a gate.
        GATE: f64 = -2.0;
        /// The stay is a wait for an elevator.
        ELEVATOR: f64 = -1.5;
        /// A stay with fewer points than this is not at a door.
        POINTS_MIN: f64 = 1.5;
        /// The stay is longer than 120 s, and at most ten minutes long.
        LONG: f64 = 0.5;
    }

    /// The points of `rightDoorstep`. They rank its evidence; nothing is decided by their sum.
    pub(crate) mod doorstep {
        /// The drop-off was at the address.
        AT: f64 = 1.0;
        /// The drop-off may have been at the address.
        PERHAPS: f64 = 0.3;
        /// The drop-off was beside the address.
        BESIDE: f64 = -0.5;
        /// The drop-off was at another address.
        ELSEWHERE: f64 = -1.0;
        /// No position of the drop-off is known.
        UNKNOWN: f64 = 0.0;
        /// The height fits the address's floor clearly better than any other.
        RIGHT_FLOOR: f64 = 0.5;
        /// The height is that of another floor.
        WRONG_FLOOR: f64 = -1.0;
        /// The height may as well be that of another floor.
        UNCLEAR_FLOOR: f64 = -0.5;
        /// The fraud score puts the positions in doubt that show the right door.
        POSITIONS_IN_DOUBT: f64 = -2.0;
    }
}
