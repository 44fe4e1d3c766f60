//! Parameters of the events that follow rules of their own: position quality, gates, and starts of
//! vehicles. Each has its unit in its name and states its basis.

crate::parameters::table! {
    /// Position quality: the limits of the contract.
    pub(in crate::detect) mod gps {
        /// A fix with at least this accuracy value is degraded, in metres (contract 4).
        DEGRADED_ACCURACY_M: f32 = 50.0;
        /// The number of consecutive degraded fixes that make a degradation (contract 4).
        DEGRADED_FIXES: u8 = 2;
        /// Fixes worse than this do not count as fixes for the loss, in metres (contract 4).
        USELESS_ACCURACY_M: f32 = 150.0;
        /// GPS is lost after this long without a useful fix (contract 4).
        LOST_AFTER_MS: u32 = 10_000;
        /// A pause of this length before a useful fix is a silence, not time without a fix: some
        /// phones send a fix and their motion every ten seconds, and nothing in between. Judgement.
        FIX_AFTER_PAUSE_MS: u32 = 5_000;
        /// A fix at least this good restores, in metres (contract 4).
        GOOD_ACCURACY_M: f32 = 35.0;
        /// Three good fixes within this time restore (contract 4).
        RESTORED_WITHIN_MS: u32 = 15_000;
        /// The time to the first fix under open sky with some margin (sources: phones, 5 s for a warm
        /// receiver). A session that begins in a vehicle shows no speed until then.
        FIRST_FIX_MS: u32 = 20_000;
        /// The log-odds of the three GPS events, which follow from the fixes by rule.
        CONFIDENCE_GPS: f32 = 3.5;
    }

    /// Gates, in log-odds unless the name says otherwise. The values are judgement until labelled
    /// recordings exist (sources: gates).
    pub(in crate::detect) mod gate {
        /// The shortest pause that can be a gate, in milliseconds (contract 4).
        GATE_PAUSE_MS_MIN: u32 = 3_000;
        /// The time within which the courier taps the drop-off after leaving a door, in
        /// milliseconds: the first steps. A gate is farther from the door.
        GATE_MARK_MS: u32 = 5_000;
        /// The longest pause that can be a gate, in milliseconds (contract 4).
        GATE_PAUSE_MS_MAX: u32 = 90_000;
        /// The seconds of walking required before a pause, so that it lies on the way.
        GATE_WALK_SEC: u8 = 5;
        /// A pause that begins sooner than this after a drive is inside the vehicle, in
        /// milliseconds.
        GATE_LEFT_MS: u32 = 4_000;
        /// The least speed of a vehicle, in m/s: runners reach 4, and a walk is below 2.1.
        GATE_VEHICLE_MPS: f32 = 4.0;
        /// The greatest mean speed of a walk, in m/s: brisk walkers stay below 2.1. A silence in
        /// which the phone moved faster contains a drive.
        GATE_WALK_MPS_MAX: f32 = 2.1;
        /// The seconds of gait after which the vehicle counts as left.
        GATE_FIRST_STEPS_SEC: u8 = 3;
        /// The number of fixes at rest whose mean is the vehicle's place.
        GATE_VEHICLE_FIXES: u8 = 8;
        /// The time between the places that show the direction of the walk: 5 m at 1.3 m/s, more
        /// than the change of the position's error in that time.
        GATE_PLACES_MS: u32 = 4_000;
        /// The time after a pause in which changes of air, field and direction belong to the door:
        /// the walk through it takes 2 s, and its door closes behind the courier.
        GATE_AFTER_MS: u32 = 4_000;
        /// A door is pulled open within this time after the wait for it has ended.
        GATE_DOOR_MS: u32 = 2_000;
        /// The seconds of walking that lead round a van to its rear doors: 9 m from the driver's
        /// seat at 1.1 m/s.
        GATE_ROUND_VEHICLE_SEC: u8 = 8;
        /// The maximum number of seconds of walking after which positions show whether the courier
        /// is still next to the vehicle.
        GATE_NEAR_VEHICLE_SEC: u8 = 20;
        /// The distance that counts as next to the vehicle, in metres: a van's length of 7 m, with
        /// the 4 m by which the errors of positions within one minute differ.
        GATE_NEAR_VEHICLE_M: f32 = 11.0;
        /// The log-odds of a pause next to the vehicle, where the courier takes the parcel. Only a
        /// door's pressure or a known gate can still make it a gate.
        GATE_AT_VEHICLE_LOG_ODDS: f32 = -2.5;
        /// The sum of evidence for rest that makes a pause: two whole seconds at rest, which every
        /// pause of three seconds contains.
        GATE_PAUSE_EVIDENCE: f32 = 2.0;
        /// The evidence for gait that ends a pause: three seconds of a clear walk. Fidgeting does
        /// not reach it.
        GATE_RESUME_EVIDENCE: f32 = 4.0;
        /// The evidence of a second that counts as walking.
        GATE_GAIT_LOG_ODDS: f32 = 0.3;
        /// The maximum time from the end of the wait for an elevator to its start: walking into the
        /// cabin, and the doors.
        GATE_TO_CABIN_MS: u32 = 16_000;
        /// The maximum time by which stairs seem to begin before their first step, because the
        /// height is smoothed. A pause that ends later after their beginning is on a landing.
        GATE_STAIRS_EARLY_MS: u32 = 3_000;
        /// The maximum time from the entry into a cabin to its start: an assumption of 5 s with
        /// open doors, 3 s to close them, and some seconds to choose the floor.
        GATE_IN_CABIN_MS: u32 = 12_000;
        /// The time from the pause to the decision: the position decays some seconds behind a door
        /// (sources: entrances and doors, 12 s).
        GATE_DECIDE_MS: u32 = 20_000;
        /// The time after a pause within which a rest a few steps from it may be a ride that only
        /// acceleration shows, so that it is known at its end. It includes the doors, and 14 floors
        /// of 3 m at 0.5 m/s.
        GATE_UNSEEN_RIDE_MS: u32 = 90_000;
        /// The log-odds of a pause on foot with nothing else known.
        GATE_BASE_LOG_ODDS: f32 = -0.6;
        /// The minimum log-odds that are reported.
        GATE_LOG_ODDS_MIN: f32 = 0.25;
        /// The log-odds of a pause at a known gate or entrance.
        GATE_KNOWN_LOG_ODDS: f32 = 3.0;
        /// The distance that counts as at a known gate, in metres, or the fix's accuracy if that is
        /// larger.
        GATE_KNOWN_M: f32 = 15.0;
        /// The minimum pressure leap of a door, as height: 5 Pa (sources: gates) are 0.42 m; half of
        /// it shows in the mean of a second.
        GATE_SWING_M: f32 = 0.25;
        /// A pressure leap must be this many times the usual noise.
        GATE_SWING_NOISE: f32 = 4.0;
        /// The weight of a new second in the usual noise: 20 s.
        GATE_NOISE_NEW: f32 = 0.05;
        /// The largest change of a second that counts as noise, in metres: a pocket's swing.
        GATE_NOISE_M_MAX: f32 = 1.0;
        /// The log-odds of a door's pressure leap.
        GATE_SWING_LOG_ODDS: f32 = 2.0;
        /// The log-odds of no pressure leap although there is a barometer: street gates make none.
        GATE_NO_SWING_LOG_ODDS: f32 = -0.3;
        /// The log-odds of a position that decays from the pause on.
        GATE_DECAY_LOG_ODDS: f32 = 1.0;
        /// A position has decayed if its accuracy value is this many times the value before, and at
        /// least `GATE_DECAY_M_MIN`.
        GATE_DECAY_RATIO: f32 = 2.0;
        /// The minimum accuracy value of a decayed position, in metres.
        GATE_DECAY_M_MIN: f32 = 25.0;
        /// A position has also decayed if the phone sends no fix for this long.
        GATE_GPS_SILENT_MS: u32 = 8_000;
        /// The silence that counts as decay, in usual intervals between fixes, if it is longer than
        /// `GATE_GPS_SILENT_MS`: two missing fixes of a phone that reports rarely.
        GATE_SILENT_INTERVALS: f32 = 3.0;
        /// The log-odds of a different magnetic field behind the gate.
        GATE_FIELD_LOG_ODDS: f32 = 0.4;
        /// The change of the magnetic field that counts, in µT: a steel frame at arm's length.
        GATE_FIELD_UT: f32 = 12.0;
        /// The log-odds of a pause near the address.
        GATE_NEAR_LOG_ODDS: f32 = 1.4;
        /// The log-odds of a walk that, by the gyroscope, led straight on after the pause, where no
        /// position is known. It is as much as for a pause near the address: a courier who waits on
        /// the way and then goes on has passed something.
        GATE_ON_LOG_ODDS: f32 = 1.4;
        /// The distance that counts as near the address, in metres.
        GATE_NEAR_M: f32 = 60.0;
        /// The log-odds of a pause far from the address.
        GATE_AWAY_LOG_ODDS: f32 = -1.5;
        /// The distance beyond which a pause is far from the address, in metres.
        GATE_AWAY_M: f32 = 150.0;
        /// The log-odds if the courier reported during the pause that this is the door. No gate is
        /// ahead then, unless one is known or a door's pressure shows it.
        GATE_ARRIVED_LOG_ODDS: f32 = -2.0;
        /// The log-odds of a short pause, which is sometimes a glance at the phone.
        GATE_SHORT_LOG_ODDS: f32 = -0.2;
        /// The duration below which a pause is short, in milliseconds.
        GATE_SHORT_MS: u32 = 5_000;
        /// The log-odds after a climb or ride, where the doors are those of flats.
        GATE_INSIDE_LOG_ODDS: f32 = -1.2;
        /// The accuracy up to which fixes show that the courier is outside, in metres.
        GATE_OUTSIDE_ACCURACY_M: f32 = 15.0;
        /// A fix also shows that if it is at most this many times as inaccurate as usual: behind a
        /// door the accuracy value doubles.
        GATE_OUTSIDE_USUAL: f32 = 1.5;
        /// The largest accuracy value that shows it, in metres: half of `GATE_NEAR_M`.
        GATE_OUTSIDE_ACCURACY_M_MAX: f32 = 30.0;
        /// The weight of a new fix in the usual accuracy: 20 s at one fix a second.
        GATE_OUTSIDE_NEW: f32 = 0.05;
        /// The distance from the door of a building at which it was left, in metres, or the fix's
        /// accuracy if that is larger: more than a hall.
        GATE_OUTSIDE_M: f32 = 15.0;
        /// The distance within which the courier is still at the place of a pause, in metres:
        /// pacing leads two or three steps away, and the errors of positions within one minute
        /// differ by 3 m.
        GATE_PACED_M: f32 = 5.0;
        /// The distance back towards the door after which the walk is an approach again, in metres,
        /// but at most half of the distance from the door: twice the 3 m of `GATE_PACED_M`.
        GATE_AGAIN_M: f32 = 6.0;
        /// The least distance from the door that is a return, in metres: to a van at the kerb.
        GATE_RETURN_M: f32 = 8.0;
        /// The difference of height that is still the level outside, in metres: less than a storey,
        /// more than the pressure drifts in some minutes.
        GATE_LEVEL_M: f32 = 2.0;
        /// The weight of a new second in the height outside. It lags by ten seconds, so that the
        /// first steps of a staircase hardly count.
        GATE_LEVEL_NEW: f32 = 0.1;
        /// The height change since the pause, in metres, that makes it a wait for an elevator or
        /// the foot of a staircase.
        GATE_CLIMBED_M: f32 = 1.5;
        /// The seconds for which the height must stay that different: the pressure leap of a door
        /// lasts up to 2.5 s.
        GATE_CLIMBED_SEC: u8 = 3;
        /// The time from the start of an elevator to the last of these seconds: it accelerates at
        /// 0.7 m/s² to 1 m/s.
        GATE_CLIMBED_MS: u32 = 4_000;
        /// The maximum seconds of walking from the wait for an elevator into its cabin.
        GATE_CABIN_SEC: u8 = 9;
        /// The accuracy value before the pause, in metres, from which the courier was already
        /// inside.
        GATE_INSIDE_ACCURACY_M: f32 = 40.0;
        /// The least turn that is turning back, in radians: 180° less nearly half of a right angle.
        /// The greatest one is as far beyond 180°.
        GATE_BACK_RAD: f32 = 2.4;
        /// The maximum cosine of the angle between the path to the pause and the path after it that
        /// counts as turning back, by positions.
        GATE_BACK_COSINE: f32 = -0.5;
        /// The minimum cosine of that angle that counts as going on, by positions: less than 73° to
        /// the side.
        GATE_ON_COSINE: f32 = 0.3;
        /// Paths of at least this many times their position error show a way back although the
        /// gyroscope shows none. Two errors, each within the accuracy two times out of three, turn
        /// such paths by less than a right angle.
        GATE_CLEAR_ACCURACIES: f32 = 2.0;
        /// A walk after the pause that is shorter than this share of the walk to it cannot be the
        /// way back: both durations are known to a few seconds, and a walk takes twenty or more.
        GATE_SHORTER_SHARE: f32 = 0.7;
        /// Paths shorter than this have no direction, in metres.
        GATE_LEG_M: f32 = 8.0;
        /// The maximum log-odds without a door's pressure or a known gate: a confidence of 0.6
        /// (sources: gates).
        GATE_CAP_LOG_ODDS: f32 = 0.405;
    }

    /// Starts of vehicles, by the receiver's speed.
    pub(in crate::detect) mod start {
        /// The least acceleration over ground of a vehicle that starts, m/s²: a loaded cargo bicycle
        /// reaches 3.5 m/s in 8 s. A walker has reached the final speed after 3 s.
        START_MPS2_MIN: f32 = 0.4;
        /// The time after which a vehicle that starts is faster than a walk.
        START_MS_MAX: u32 = 8_000;
        /// The error of a receiver's speed while it rises, m/s: the claimed error outdoors is 0.1 to
        /// 0.5.
        START_ERROR_MPS: f32 = 0.3;
    }

    /// Vehicles that shake the phone less than a run.
    pub(in crate::detect) mod soft {
        /// The spread of acceleration that every run exceeds, m/s². A runner leaves the ground at
        /// each step, so that the acceleration swings between 0 and 2 g; an arm or a bag takes half
        /// of it. Walks are slower.
        SOFT_STD_MPS2: f32 = 3.0;
        /// The speed that no walk reaches, m/s: walkers begin to run at 2 to 2.2 m/s. Judgement.
        SOFT_MPS_MIN: f32 = 3.0;
        /// The number of consecutive seconds above [`SOFT_STD_MPS2`] that may be a run.
        SOFT_STRONG_SEC_MIN: u8 = 2;
        /// The time for which the receiver's speed must be that of a run.
        SOFT_MS_MIN: u32 = 3_000;
        /// The time for which the way must show that speed on a phone that reports none, because its
        /// places wander.
        SOFT_BY_WAY_MS_MIN: u32 = 5_000;
        /// The longest time for which a fix at that speed counts.
        SOFT_HOLDS_MS_MAX: u32 = 8_000;
    }
}
