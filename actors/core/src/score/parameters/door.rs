//! Parameters of scoring: the climb, the door, the outcome, visibility, and learning. Each name
//! includes the unit, and each comment the source.

crate::parameters::table! {
    /// Parameters of `score/climb.rs`.
    pub(crate) mod climb {
        /// The time before the entry from which the ground's level is taken.
        GROUND_MS: u32 = 20_000;
        /// The time after the entrance in which the level still counts as the ground's: halls are
        /// level.
        HALL_MS: u32 = 5_000;
        /// The time after which the pressure change of a door has faded.
        DOOR_MS: u32 = 2_000;
        /// The longest time between the first step of a climb and its detection.
        FOOT_MS: u32 = 1_000;
        /// The time around a drop-off without a stay.
        INSTANT_MS: u32 = 5_000;
        /// The largest difference in metres at which the sum of the climbs and the difference of
        /// the levels agree.
        AGREE_M: f32 = 1.5;
        /// The level change within [`STEEP_MS`] that a walk on a street of one in ten does not
        /// reach; stairs make twice as much.
        STEEP_M: f32 = 2.8;
        /// The time for [`STEEP_M`].
        STEEP_MS: u32 = 20_000;
        /// The highest speed on stairs, m/s (sources: stairs, 0.2 to 0.35, the quickest half a metre).
        STAIRS_MPS: f32 = 0.5;
        /// The least confidence at which an event counts.
        CONFIDENCE_MIN: f64 = 0.4;
        /// The least share of recorded time for a "none" result.
        HEARD_SHARE: f64 = 0.8;
        /// The highest floor, up or down, to which couriers climb stairs. On the way to a higher
        /// one, a courier who stood still may have ridden an elevator: without a barometer, 4 of 14
        /// simulated rides are not detected.
        FLOORS_ON_FOOT_MAX: i16 = 4;
        /// The least time that can show a ride or its absence (contract 5: nothing is concluded
        /// from a session that short).
        HEARD_SEC_MIN: f64 = 20.0;
        /// The longest interval between pressure samples that shows every climb: the slope of a
        /// height is taken over seven seconds.
        PRESSURE_GAP_MS: u32 = 2_000;
        /// The standard deviation of the height of one climb, metres: its first and last steps may
        /// be missing.
        CLIMB_SIGMA_M: f32 = 0.8;
        /// The least height of a ride, metres: less than the lowest storey, and as much as the
        /// detector of rides requires at their start.
        RIDE_M_MIN: f32 = 1.8;
        /// The time from the end of a ride within which nobody walks to a vehicle, gets in and
        /// drives off.
        DRIVE_AT_ONCE_MS: u32 = 5_000;
        /// The time after a climb in which the pressure must go on: a barometer that stops in
        /// mid-climb does not show its end. Levels are medians of three readings.
        PRESSURE_GOES_ON_MS: u32 = 10_000;
        /// The time over which a level is the median of the readings.
        LEVEL_MS: u32 = 5_000;
        /// The unexplained rise that leaves the kind of climb open.
        UNEXPLAINED_M: f32 = 2.2;
        /// The time for [`UNEXPLAINED_M`].
        UNEXPLAINED_MS: u32 = 60_000;
        /// The factor on [`UNEXPLAINED_M`] for a change without a direction: outdoors, a walk of a
        /// minute over a hill changes the level by half a floor.
        UNEXPLAINED_TIMES: f32 = 1.5;
        /// The number of less likely floors that the evidence names.
        RUNNERS_UP: usize = 3;
    }

    /// Parameters of `score/climb/garage.rs`.
    pub(crate) mod garage {
        /// The time before the first step in which the vehicle came down: the usual accuracy is
        /// that of the drive, which fills most of this time.
        RAMP_MS: u32 = 180_000;
        /// The least number of fixes in that time (as `entrance::USUAL_FIXES`).
        USUAL_FIXES: usize = 20;
        /// An accuracy of up to this many times the usual one is that of the open sky. Under a
        /// ceiling the accuracy value grows within seconds, in which a ramp falls by half a metre.
        GOOD_TIMES: f32 = 1.5;
        /// The time up to the last good fix from which the level of the street is taken.
        LEVEL_MS: u32 = 4_000;
        /// The time up to the first step from which the level of the parked vehicle is taken.
        PARKED_MS: u32 = 6_000;
        /// The depth of a garage, metres: from a half storey below the street to six storeys.
        DEPTH_M: core::ops::RangeInclusive<f32> = 2.0..=18.0;
        /// The standard deviation of the depth, metres: the ramp begins some seconds before or
        /// after reception fades, and slopes by up to 0.15 (building codes) at 3 m/s.
        SIGMA_M: f32 = 0.5;
    }

    /// Parameters of `score/climb/leap.rs`.
    pub(crate) mod leap {
        /// The time around the entrance in which a leap belongs to its door (as
        /// `doorway::AROUND_MS`).
        AROUND_MS: u32 = 12_000;
        /// The time of a leap: a step through a door takes one second, and may fall into two.
        CORE_MS: u32 = 2_000;
        /// The size of a leap, metres. Smaller ones (0.14 hPa) are less than half of the lowest
        /// storey. The greatest is 0.95 hPa: 133 N at the handle, the most that NFPA 101 allows for
        /// opening a door, less a third for the closer.
        LEAP_M: core::ops::RangeInclusive<f32> = 1.2..=8.0;
        /// The least share of a leap within its time. An elevator that rises one storey at 1 m/s
        /// makes 0.67 of it in two seconds, stairs a fifth.
        CORE_SHARE: f32 = 0.8;
        /// The time on each side over which the level is steady.
        SIDE_MS: u32 = 3_000;
        /// The greatest range of the levels on one side, as a share of the leap: four levels with a
        /// noise of 0.15 m have a range of 0.3 m, a quarter of the smallest leap.
        SIDE_SHARE: f32 = 0.3;
        /// The time from the last second outside in which the courier walks.
        PASSED_MS: u32 = 4_000;
        /// The least number of seconds of walking in that time: two steps through the door.
        MOVING_MIN: usize = 2;
        /// The maximum time from the beginning of a detected climb to the leap with which it seems
        /// to begin: the slope is taken over 3 s before and after, and the leap takes up to 2 s.
        IN_CLIMB_MS: u32 = 6_000;
        /// The push of a cabin that rides one storey within the time of a leap, m/s² over a second:
        /// half of the usual 1 m/s².
        PUSH_MPS2: f32 = 0.5;
        /// The time before and after a leap in which the cabin pushes.
        PUSH_MS: u32 = 2_000;
    }

    /// Parameters of `score/climb/lost.rs`.
    pub(crate) mod lost {
        /// The length of the parts that are examined: a flight and its landing.
        BLOCK_MS: u32 = 10_000;
        /// The time around an instant from which its level is taken.
        EDGE_MS: u32 = 2_000;
        /// The fastest pace on such stairs, m/s: a step of 0.7 m a second, while a walk on the
        /// level has 1.5 steps a second and more (sources: walking).
        PACE_MPS: f32 = 0.8;
        /// The least rise, m/s: the slowest rate at which stairs are detected is three times this.
        RISE_MPS: f32 = 0.05;
        /// The least rise per metre of the path by the receiver's speed. Streets rise by one in ten
        /// (`STEEP_M`), stairs with their landings by one in four and more.
        GRADE: f32 = 0.12;
        /// The least undetected rise, metres: half of a low storey, as `stops::END_M`.
        LOST_M_MIN: f32 = 1.5;
        /// The least number of speeds that show a pace.
        SPEEDS_MIN: usize = 3;
    }

    /// Parameters of `score/climb/street.rs`.
    pub(crate) mod street {
        /// A time without pressure of this length may hide a climb: three metres of stairs.
        HOLE_MS: u32 = 10_000;
        /// The time over which the level of the street is taken (as `stays::BEFORE_MS`).
        STREET_MS: u32 = 10_000;
        /// The largest accuracy radius of a fix under the open sky, metres (as
        /// `entrance::GATE_ACCURACY_M`).
        OUTDOORS_ACCURACY_M: f32 = 17.0;
        /// The least number of such fixes (as `entrance::GATE_FIXES`).
        OUTDOORS_FIXES: usize = 3;
    }

    /// Parameters of `score/climb/stops.rs`.
    pub(crate) mod stops {
        /// The duration of a constant level that counts as a stop. Judgement: doors of elevators
        /// stay open for 3 s and more.
        STOP_SECONDS: usize = 4;
        /// The largest level change per second at a stop, metres: elevators start with 0.3 m/s² and
        /// more.
        LEVEL_M: f32 = 0.1;
        /// The distance in metres at which a stop counts as the beginning or end of the climb: half
        /// of a low storey.
        END_M: f32 = 1.5;
        /// The largest number of stops examined.
        STOPS_MAX: usize = 12;
        /// The least share of the seconds on stairs with gyroscope data.
        TURN_SHARE: f32 = 0.8;
    }

    /// Parameters of `score/climb/ride_speed.rs`.
    pub(crate) mod ride {
        /// The speed from which an elevator is a fast one, m/s: the elevators of the recordings
        /// move at 1.0 to 1.15 m/s or at 1.6 to 2.1.
        FAST_MPS: f32 = 1.3;
        /// The number of levels over which a speed is measured: over three seconds, the noise of
        /// two levels (0.1 m each) is 0.05 m/s.
        SPAN_LEVELS: usize = 4;
    }

    /// Parameters of `score/climb/landings.rs`.
    pub(crate) mod landings {
        /// The greatest noise of one second's height at which landings are counted, metres. A
        /// landing of 2 s lacks 0.6 m of height at 0.3 m/s, which is six times this noise. Phones
        /// have 0.026 m (median) to 0.085 m (95th percentile, sources: phones).
        NOISE_M_MAX: f32 = 0.1;
        /// The variation of the rate of steady climbing, m/s: a third of a step each second.
        STRIDE_SIGMA_MPS: f32 = 0.05;
        /// The quantile of the slopes that is the rate of the flights: landings take less than half
        /// of the time.
        RATE_SHARE: f32 = 0.7;
        /// The slowest rate of a flight, m/s (sources: stairs, 0.2 to 0.35).
        RATE_MPS_MIN: f32 = 0.12;
        /// The cost of a change between flight and landing, in log-likelihood: two changes weigh as
        /// much as one second of a clear landing.
        CHANGE_COST: f32 = 2.0;
        /// The greatest cost of one second, in log-likelihood: a gust or a pause decides nothing.
        COST_MAX: f32 = 6.0;
        /// The shortest climb whose landings are counted, in seconds.
        SECONDS_MIN: usize = 6;
        /// The least mean height of a flight, metres: five steps of 0.17 m.
        FLIGHT_M_MIN: f32 = 0.85;
        /// The greatest mean height of a flight, metres: building codes require a landing after 3.7
        /// m at most.
        FLIGHT_M_MAX: f32 = 4.2;
        /// The time before and after a climb that is examined too: its ends are known to a second.
        MARGIN_MS: u32 = 1_000;
        /// The median of the absolute value of a normal variable, in standard deviations
        /// (textbook).
        MEDIAN_SIGMAS: f32 = 0.6745;
        /// The variance of a second difference, in that of a height: 1 + 4 + 1.
        BEND_VARIANCES: f32 = 6.0;
    }

    /// Parameters of `score/climb/way_back.rs`.
    pub(crate) mod way_back {
        /// The way back contradicts the rise if it is higher by more than this, metres: the lowest
        /// storey, less the noise of two levels.
        HIGHER_M: f32 = 2.0;
    }

    /// Parameters of `score/height.rs`.
    pub(crate) mod height {
        /// The least number of seconds of pressure for measuring a level.
        SECONDS_MIN: usize = 3;
        /// The longest time between two readings of a barometer that are joined by a line, in
        /// milliseconds, for phones that report pressure rarely.
        BRIDGE_MS: u32 = 12_000;
        /// The pressure drift by weather, metres a minute: about 0.1 hPa in ten minutes (judgement,
        /// as fronts do more).
        DRIFT_M_PER_MIN: f32 = 0.08;
        /// The longest time over which two levels can be compared.
        COMPARABLE_MS: u32 = 45 * 60_000;
        /// The noise of one level: a phone's barometer averages to 0.03 to 0.1 m within seconds
        /// (Falcon and Schulzrinne 2018).
        LEVEL_SIGMA_M: f32 = 0.3;
        /// The least number of seconds of pressure for detecting a coarse barometer.
        COARSE_SECONDS_MIN: usize = 20;
    }

    /// Parameters of `score/doorstep.rs`.
    pub(crate) mod doorstep {
        /// The number of combined uncertainties (68 % radius) within which the stay is at the
        /// address: 99 % of genuine ones are.
        ACROSS_SIGMAS: f32 = 2.0;
        /// The distance of a door from the middle of its roof, which geocoders return.
        ACROSS_M_MIN: f32 = 20.0;
        /// The largest uncertainty of a position that is evidence for the right door.
        RIGHT_SIGMA_M: f32 = 35.0;
        /// The largest uncertainty of a position that is evidence for a stay at the address at all.
        FULL_SIGMA_M: f32 = 60.0;
        /// The least distance of a stay at another address, which must also exceed three
        /// uncertainties (contract 5).
        WRONG_M_MIN: f32 = 50.0;
        /// The least distance of a stay at another address, in uncertainties (contract 5).
        WRONG_SIGMAS: f32 = 3.0;
        /// The minimum weight at which a learned drop-off point counts in addition to the address:
        /// that of three fresh sessions.
        LEARNED_WEIGHT_MIN: f32 = 2.5;
        /// The least fraud score at which positions are not evidence for the right door.
        DOUBT_SCORE: f64 = 0.5;
    }

    /// Parameters of `score.rs`: the conditions for learning from a session.
    pub(crate) mod learning {
        /// The highest fraud score of a session used for learning. Genuine sessions have 0.05 and
        /// less.
        FRAUD_MAX: f64 = 0.1;
        /// The time before passing the entrance whose fixes show the place of the entrance: the
        /// last ones outside the walls.
        ENTRANCE_BEFORE_MS: u32 = 2_000;
    }

    /// Parameters of `score/attempts.rs`.
    pub(crate) mod attempts {
        /// The horizontal distance that counts as leaving (contract 5).
        LEFT_M: f32 = 15.0;
        /// The vertical distance that counts as leaving: more than half of the lowest storey.
        LEFT_HEIGHT_M: f32 = 2.2;
        /// The least distance walked, in metres, for leaving and coming back on foot.
        LEFT_WALK_M: f32 = 2.0 * LEFT_M;
        /// The distance from the address in metres from which a stay beside it was at another door.
        /// In simulations, positions of stays at the right door are nearer.
        BESIDE_CLEAR_M: f32 = 30.0;
        /// The least distance of a stay beside the address, in uncertainties, in addition to
        /// [`BESIDE_CLEAR_M`].
        BESIDE_CLEAR_SIGMAS: f32 = 4.0;
        /// The least time at the address's door that is an attempt, if the drop-off was at another
        /// door: longer than a look at the name plate.
        ATTEMPT_MS_MIN: u32 = 15_000;
        /// The longest distance in metres of steps aside at a door: four steps; a garden gate is
        /// farther from the door.
        ASIDE_M: f32 = 3.0;
        /// The least number of seconds away on another level: doors and gusts move the pressure for
        /// a moment.
        LEFT_SECONDS: usize = 3;
        /// The number of combined uncertainties within which a stay may be at the door.
        SAME_DOOR_SIGMAS: f32 = 2.0;
        /// The number of combined uncertainties within which a stay that the courier reported may
        /// be at the door: its position is then more likely off.
        SAME_DOOR_MARKED_SIGMAS: f32 = 3.0;
        /// The time before the vehicle was parked from which its place is taken (as
        /// `stays::PARKED_BEFORE_MS`).
        PARKED_BEFORE_MS: u32 = 5_000;
    }

    /// Parameters of `score/outcome.rs`.
    pub(crate) mod outcome {
        /// A position shows where a walk was, up to this time before and after it.
        LOCATED_MS: u32 = 60_000;
        /// The time between two accurate fixes in which a walk to the address and back is not seen.
        UNSEEN_WALK_MS: u32 = 30_000;
        /// The time around a fix in which a better one limits where the courier can have been.
        BETTER_FIX_MS: u32 = 10_000;
        /// A fix is much better if its accuracy radius is this many times smaller.
        BETTER_FIX_TIMES: f32 = 3.0;
        /// The speed of a courier who runs, m/s.
        RUN_MPS: f32 = 3.0;
        /// The radius of the address's surroundings (contract 5), to which the uncertainty is
        /// added.
        SURROUNDINGS_M: f32 = 75.0;
        /// The largest accuracy radius of a fix that is evidence about the surroundings.
        NEAR_ACCURACY_M: f32 = 100.0;
        /// The least time near the address; a shorter one is passing by.
        NEAR_MS_MIN: u32 = 10_000;
        /// The least duration of a session that shows anything (sources: trust).
        SESSION_MS_MIN: u32 = 20_000;
        /// The silence that interrupts a stream, anywhere (contract 5).
        SILENCE_MS: u32 = 30_000;
        /// The silence that interrupts a stream around the drop-off (contract 5).
        SILENCE_AT_DROP_OFF_MS: u32 = 10_000;
        /// The time before and after the drop-off that counts as around it.
        AROUND_MS: u32 = 30_000;
        /// The longest walk from the entrance to the drop-off that counts as near the entrance
        /// (sources: entrances and doors).
        LOBBY_M: f32 = 30.0;
        /// The least height that counts as gained.
        LEVEL_M: f32 = 1.6;
        /// The duration of an unmarked stay elsewhere that may be a drop-off; a longer one is a
        /// break.
        DOOR_STAY_MS: core::ops::RangeInclusive<u32> = 5_000..=300_000;
        /// The number of combined uncertainties within which a drop-off on the address's floor may
        /// be at its door (contract 5: a more distant drop-off is at another door).
        BESIDE_SIGMAS: f32 = 3.0;
        /// The longest distance of an unmarked stay elsewhere that may be a drop-off; a farther one
        /// is an errand: wrong doors are in the same or the next street.
        DOOR_STAY_M: f32 = 400.0;
    }

    /// Parameters of `score/visibility.rs`.
    pub(crate) mod visibility {
        /// The silence at the end of a session from which the app counts as stopped late. The data
        /// before the silence then decides whether the data suffices.
        SILENT_END_MS: u32 = 600_000;
        /// The length of a bin.
        BIN_MS: u32 = 5_000;
        /// The time before the entrance and after the drop-off that is still critical (sources: trust).
        CRITICAL_MARGIN_MS: u32 = 30_000;
        /// The critical time before the drop-off without an entrance: three minutes together with
        /// the margin.
        CRITICAL_BEFORE_MS: u32 = 150_000;
        /// The share of a channel's bins that have no more seconds with a sample than usual, as a
        /// fraction.
        USUAL_SHARE: (usize, usize) = (9, 10);
    }

    /// Parameters of `score/visibility/silence.rs`.
    pub(crate) mod silence {
        /// The distance from the address or the drop-off within which lost reception is attributed
        /// to a building.
        BUILDING_M: f32 = 100.0;
        /// The divisor for the readings without a rise of a counter that reports on change: at most
        /// the first, and one in this many others.
        REPEATED_SHARE: usize = 10;
    }

    /// Parameters of `score/knowledge.rs`.
    pub(crate) mod knowledge {
        /// The number of days after which a session counts half.
        HALF_LIFE_DAYS: f64 = 180.0;
        /// The least weight for learning a place: two fresh sessions.
        WEIGHT_MIN: f64 = 1.5;
        /// The least weight for learning a height: a session of a year ago.
        FLOOR_WEIGHT_MIN: f64 = 0.25;
        /// The largest weight of one courier, as a share of the weight of the others: less than
        /// half of all.
        ONE_COURIER_SHARE: f64 = 0.9;
        /// The largest distance of a learned place from the address.
        PLACE_M_MAX: f32 = 150.0;
        /// The least uncertainty of a learned place, metres.
        PLACE_SIGMA_M_MIN: f32 = 5.0;
        /// The size of a region cell in degrees: towns of one name lie farther apart (11 km of
        /// latitude). A building on the line between two cells may be remembered twice, which costs
        /// it some sessions of learning.
        REGION_DEG: f64 = 0.1;
        /// The part of a cell by which the lines between cells are shifted, so that no round
        /// coordinate lies on one.
        REGION_SHIFT: f64 = 0.371;
    }

    /// Parameters of `score/fingerprint.rs`.
    pub(crate) mod fingerprint {
        /// The number of hashes kept for the positions, and for each channel.
        SLOTS: usize = 32;
        /// The number of displacements in a piece.
        PIECE: usize = 4;
        /// The grid for displacements, metres: above the rounding of local coordinates, below the
        /// noise of fixes.
        GRID_M: f32 = 0.25;
        /// The least length of a piece: standing still looks the same everywhere.
        PIECE_M_MIN: f32 = 3.0;
        /// The longest displacement; a longer one is a gap or a jump.
        STEP_M_MAX: f32 = 500.0;
        /// The least number of pieces for a fingerprint of the positions or a channel.
        PIECES_MIN: u32 = 40;
        /// The share of equal pieces from which a trace is called a copy. Genuine traces share
        /// none: four quantised pairs match by chance once in about 10⁶ even when walking the same
        /// line at the same speed.
        COPY_SHARE: f32 = 0.5;
        /// The number of values in a run of a channel.
        RUN: usize = 8;
        /// The least number of different values in a run: five steps of the last digit in eight
        /// values are noise.
        DIFFERENT_MIN: usize = 5;
        /// The least number of channels that must repeat if positions do not.
        CHANNELS_MIN: usize = 2;
        /// The number of position hashes under which a store finds candidates. A copy shares at
        /// least nine in ten of the hashes, so that it is missed less than once in a thousand.
        POSITION_KEYS: usize = 6;
        /// The number of hashes of each channel under which a store finds candidates.
        CHANNEL_KEYS: usize = 3;
        /// The number of position hashes under which a store keeps a trace.
        POSITION_KEYS_STORED: usize = 3;
        /// The number of hashes of each channel under which a store keeps a trace. A copy repeats
        /// at least two channels, so that one that is cut by a sixth is missed once in a thousand.
        CHANNEL_KEYS_STORED: usize = 2;
    }

    /// Parameters of `score/fingerprint/course.rs`.
    pub(crate) mod course {
        /// The time over which places are averaged for the shape, in milliseconds: a dither of 0.5
        /// m becomes 0.13 m at a fix per second.
        BLOCK_MS: u32 = 16_000;
        /// The number of blocks in a piece of the shape: four displacements between them.
        BLOCKS: usize = 5;
        /// The grid for those displacements, metres: above a dither, so that most pieces keep their
        /// cells, and not above the difference of two trips (5 % of 16 s at 10 m/s are 8 m).
        GRID_M: f64 = 8.0;
        /// The least length of the path in a piece, metres: standing still looks the same
        /// everywhere.
        PIECE_M_MIN: f64 = 40.0;
        /// The longest displacement along an axis, metres; a longer one is a gap or a jump.
        JUMP_M: f64 = 1_000.0;
        /// The least number of pieces of a shape.
        PIECES_MIN: usize = 4;
        /// The number of hashes of the shape on each of two grids, under which a store keeps and
        /// finds a trace.
        SHAPE_KEYS: usize = 4;
        /// The least time between two knots, in milliseconds.
        KNOT_APART_MS: u32 = 4_000;
        /// The least distance between two knots, metres: they lie on the path, not at its stops.
        KNOT_APART_M: f32 = 8.0;
        /// The largest number of knots of a trace.
        KNOTS_MAX: usize = 96;
        /// The least number of knots that are compared.
        KNOTS_MIN: usize = 12;
        /// The least time between the first and the last compared knot, seconds.
        OVERLAP_SEC_MIN: f64 = 60.0;
        /// The least time between the first and the last compared knot, as a share of the shorter
        /// trace: one straight street that two couriers walk at one pace is not a copy.
        OVERLAP_SHARE: f64 = 1.0 / 3.0;
        /// The mean difference of the displacements above which no shift in time is examined
        /// further, metres. A copy that is half a second off differs by 60 m at most, between paths
        /// in opposite directions at 60 m/s.
        COARSE_M_MAX: f64 = 60.0;
        /// The longest time between two fixes that are joined by a line, in milliseconds.
        FIX_GAP_MS: u32 = 15_000;
        /// The number of knots that are examined for each shift in time.
        PROBES: usize = 16;
        /// The least number of displacements between the examined knots.
        PROBES_MIN: usize = 8;
        /// The number of fits of the shift in time.
        FITS: usize = 4;
        /// The root mean square distance up to which a trace is a copy, metres. A dither of 0.5 m
        /// on each axis gives 0.6 to 1.0 m. Two receivers that are carried along one course at the
        /// same times, more alike than any two trips, give 3.3 m and more; two of the 146
        /// recordings 8.4 m and more.
        COPY_RESIDUAL_M: f64 = 1.5;
        /// The number of knots for which one uniform straight motion is fitted: about 50 s of a
        /// walk. Such motions follow a straight street, a corner and a halt.
        LINE_KNOTS: usize = 8;
        /// The least number of knots for which it is fitted: any motion goes through two.
        PIECE_PLACES_MIN: usize = 3;
        /// The mean square difference up to which a trace is a copy, as a share of the mean square
        /// deviation of each trace from such motions. Independent traces give a share of 2 or more.
        DEVIATION_SHARE: f64 = 0.5;
    }
}
