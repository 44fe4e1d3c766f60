//! Parameters of scoring: the climb, the door, the outcome, visibility, and what is learned. Each says its unit in its name and what it rests on.

crate::parameters::table! {
    /// Of `score/climb.rs`.
    pub(crate) mod climb {
        /// Before the way in, what the ground's level is taken from.
        GROUND_MS: u32 = 20_000;
        /// After the entrance the level still counts as the ground's: halls are level.
        HALL_MS: u32 = 5_000;
        /// A door's gust is gone after this, and the first step of a climb may lie this long before it shows.
        DOOR_MS: u32 = 2_000;
        /// See the one above.
        FOOT_MS: u32 = 1_000;
        /// Around a hand-over without a stay.
        INSTANT_MS: u32 = 5_000;
        /// The sum of the climbs and the difference of the levels agree within this, metres.
        AGREE_M: f32 = 1.5;
        /// On foot a street of one in ten makes less than this in that time; stairs make twice as much.
        STEEP_M: f32 = 2.8;
        /// See the one above.
        STEEP_MS: u32 = 20_000;
        /// Stairs are not climbed faster, m/s (research 2.0: 0.2 to 0.35, the quickest half a metre).
        STAIRS_MPS: f32 = 0.5;
        /// An event below this is not counted on.
        CONFIDENCE_LEAST: f64 = 0.4;
        /// This much of the time must be heard before "none" may be said.
        HEARD_SHARE: f64 = 0.8;
        /// A shorter time shows no ride, nor that there was none (contract 5: nothing is concluded from a session that short).
        HEARD_LEAST_SEC: f64 = 20.0;
        /// Pressure no rarer than this shows every climb: the slope of a height is taken over seven seconds.
        PRESSURE_GAP_MS: u32 = 2_000;
        /// Standard deviation of the height of one climb, metres: its first and last steps may be missing.
        CLIMB_SIGMA_M: f32 = 0.8;
        /// A rise of this much that no event explains leaves open how it was made.
        UNEXPLAINED_M: f32 = 2.2;
        /// Within this time.
        UNEXPLAINED_MS: u32 = 60_000;
    }

    /// Of `score/climb/stops.rs`.
    pub(crate) mod stops {
        /// A level that lasts this long is a stop. Judgement: doors of elevators stay open for 3 s and more.
        STOP_SECONDS: usize = 4;
        /// A level changes by less than this each second, metres: elevators start with 0.3 m/s² and more.
        LEVEL_M: f32 = 0.1;
        /// A stop this near to where the climb began or ended is its beginning or end, metres: half of a low storey.
        END_M: f32 = 1.5;
        /// Stops that are looked at.
        STOPS_MOST: usize = 12;
        /// Of the seconds on stairs, this share must have been told by a gyroscope.
        TURN_SHARE: f32 = 0.8;
    }

    /// Of `score/height.rs`.
    pub(crate) mod height {
        /// R·T/g of the standard atmosphere at 15 °C, metres: height = this · ln(p0 / p).
        SCALE_HEIGHT_M: f64 = 8_434.0;
        /// Seconds of pressure below which a level is not measured.
        SECONDS_LEAST: usize = 3;
        /// Weather moves the pressure by about 0.1 hPa in ten minutes: metres a minute (judgement, as fronts do more).
        DRIFT_M_PER_MIN: f32 = 0.08;
        /// After this long, two levels can no longer be compared.
        COMPARABLE_MS: u32 = 45 * 60_000;
        /// Noise of one level: a phone's barometer averages to 0.03 to 0.1 m within seconds (Falcon and Schulzrinne 2018).
        LEVEL_SIGMA_M: f32 = 0.3;
        /// So near to a whole hectopascal is one; of a barometer that tells hundredths, one second in a hundred is.
        WHOLE_HPA: f32 = 0.002;
        /// Seconds of pressure from which that can be said.
        COARSE_SECONDS_LEAST: usize = 20;
    }

    /// Of `score/doorstep.rs`.
    pub(crate) mod doorstep {
        /// Within this many combined uncertainties (68 % radius) the stay is at the address: 99 % of honest ones are.
        ACROSS_SIGMAS: f32 = 2.0;
        /// A door lies this far from the middle of its roof, which is what geocoders answer.
        ACROSS_LEAST_M: f32 = 20.0;
        /// A position less exact than this is no evidence for the right door.
        RIGHT_SIGMA_M: f32 = 35.0;
        /// A position less exact than this is no evidence for a stay at the address at all.
        FULL_SIGMA_M: f32 = 60.0;
        /// A stay this far, and farther than three uncertainties, is at another address (contract 5).
        WRONG_LEAST_M: f32 = 50.0;
        /// See the one above.
        WRONG_SIGMAS: f32 = 3.0;
        /// Weight from which a learned drop-off point stands beside the address: that of three fresh sessions.
        LEARNED_WEIGHT_LEAST: f32 = 2.5;
        /// From this fraud score on, positions are no evidence for the right door.
        DOUBT_SCORE: f64 = 0.5;
    }

    /// Of `score.rs`: what a session must show to teach.
    pub(crate) mod learning {
        /// The highest fraud score of a session that teaches. Honest sessions have 0.05 and less.
        FRAUD_MOST: f64 = 0.1;
    }

    /// Of `score/attempts.rs`.
    pub(crate) mod attempts {
        /// Leaving, across (contract 5).
        LEFT_M: f32 = 15.0;
        /// Leaving, up or down: more than half of the lowest storey.
        LEFT_HEIGHT_M: f32 = 2.2;
        /// Leaving and coming back on foot takes this many metres at least.
        LEFT_WALK_M: f32 = 2.0 * LEFT_M;
        /// Steps aside at a door lead no farther than this, metres: four steps; a garden gate is farther from the door.
        ASIDE_M: f32 = 3.0;
        /// Seconds away on another level before it counts: doors and gusts move the pressure for a moment.
        LEFT_SECONDS: usize = 3;
    }

    /// Of `score/outcome.rs`.
    pub(crate) mod outcome {
        /// The address's surroundings (contract 5), to which the uncertainty is added.
        SURROUNDINGS_M: f32 = 75.0;
        /// A fix less exact than this shows nothing about the surroundings.
        NEAR_ACCURACY_M: f32 = 100.0;
        /// Near the address for less than this is passing by.
        NEAR_LEAST_MS: u32 = 10_000;
        /// Shorter sessions show nothing (research 5).
        SESSION_LEAST_MS: u32 = 20_000;
        /// Silence that interrupts a stream, anywhere (contract 5).
        SILENCE_MS: u32 = 30_000;
        /// Silence that interrupts it around the drop-off (contract 5).
        SILENCE_AT_DROP_OFF_MS: u32 = 10_000;
        /// Around the drop-off.
        AROUND_MS: u32 = 30_000;
        /// Near the entrance: walked from there to the drop-off (research 3).
        LOBBY_M: f32 = 30.0;
        /// Less than this is no height gained.
        LEVEL_M: f32 = 1.6;
        /// Without a mark, a longer stay elsewhere is a break rather than a hand-over.
        DOOR_STAY_MS: core::ops::RangeInclusive<u32> = 5_000..=300_000;
        /// On the address's floor a hand-over within this many combined uncertainties of it may be at its door (contract 5: what is
        /// farther is at another).
        BESIDE_SIGMAS: f32 = 3.0;
        /// And one farther away is an errand: wrong doors are in the same or the next street.
        DOOR_STAY_M: f32 = 400.0;
    }

    /// Of `score/visibility.rs`.
    pub(crate) mod visibility {
        /// See the one above.
        BIN_MS: u32 = 5_000;
        /// The critical time reaches this far before the entrance and beyond the drop-off (research 5).
        CRITICAL_MARGIN_MS: u32 = 30_000;
        /// Without an entrance it is the last three minutes up to there.
        CRITICAL_BEFORE_MS: u32 = 150_000;
    }

    /// Of `score/visibility/silence.rs`.
    pub(crate) mod silence {
        /// Reception that is lost this near the address, or the drop-off, is lost to a building.
        BUILDING_M: f32 = 100.0;
        /// Of the readings of a counter that speaks on change, hardly one tells no rise: the first, and this share of the others.
        REPEATED_SHARE: usize = 10;
    }

    /// Of `score/knowledge.rs`.
    pub(crate) mod knowledge {
        /// After this many days a session counts half.
        HALF_LIFE_DAYS: f64 = 180.0;
        /// Weight without which no place is learned: two fresh sessions.
        WEIGHT_LEAST: f64 = 1.5;
        /// Weight without which no height is learned: a session of a year ago.
        FLOOR_WEIGHT_LEAST: f64 = 0.25;
        /// Of what the others weigh, one courier weighs this much at most: less than half of all.
        ONE_COURIER_SHARE: f64 = 0.9;
        /// What lies farther from the address is no place of it.
        PLACE_MOST_M: f32 = 150.0;
        /// The least uncertainty of a learned place, metres.
        PLACE_SIGMA_LEAST_M: f32 = 5.0;
        /// Towns of one name lie farther apart than this, degrees: 11 km of latitude. A building on the line between two cells may
        /// be remembered twice, which costs it some sessions of learning …
        REGION_DEG: f64 = 0.1;
        /// … and no round coordinate lies on such a line: they are shifted by this part of a cell.
        REGION_SHIFT: f64 = 0.371;
    }

    /// Of `score/fingerprint.rs`.
    pub(crate) mod fingerprint {
        /// Hashes kept of positions, and of each channel.
        SLOTS: usize = 32;
        /// Displacements in a piece.
        PIECE: usize = 4;
        /// Displacements are brought to this, metres: above the rounding of local coordinates, below the noise of fixes.
        GRID_M: f32 = 0.25;
        /// A piece that leads no farther says nothing: standing still looks the same everywhere.
        PIECE_LEAST_M: f32 = 3.0;
        /// A displacement beyond this is a gap or a jump.
        STEP_MOST_M: f32 = 500.0;
        /// Pieces below which positions, or a channel, have no fingerprint.
        PIECES_LEAST: u32 = 40;
        /// Share of equal pieces from which a trace is called a copy. Honest traces share none: four quantised pairs hit by
        /// chance once in about 10⁶ even when walking the same line at the same speed.
        COPY_SHARE: f32 = 0.5;
        /// Values in a run of a channel.
        RUN: usize = 8;
        /// Different values that a run must hold: five steps of the last digit in eight values are noise.
        DIFFERENT_LEAST: usize = 5;
        /// Channels that must repeat where positions do not.
        CHANNELS_LEAST: usize = 2;
        /// Hashes of positions, and of each channel, under which a store finds candidates. A copy shares nine in ten of them
        /// at least, so that it is missed less than once in a thousand.
        POSITION_KEYS: usize = 6;
        /// See the one above.
        CHANNEL_KEYS: usize = 3;
    }
}
