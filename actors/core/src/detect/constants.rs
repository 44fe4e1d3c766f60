//! The thresholds of the detectors. Each has its unit in its name and states its source: the
//! contract, a published or measured figure, or a fit.

pub(super) use backtracking::*;
pub(super) use changes::*;
pub(super) use confidence::*;
pub(super) use evidence::*;
pub(super) use gait::*;
pub(super) use gps_quality::*;
pub(super) use height::*;
pub(super) use position::*;
pub(super) use runs::*;

crate::parameters::table! {
    /// The usual accuracy of the positions.
    pub(crate) mod gps_quality {
        /// A fix this many times worse than the session's usual accuracy is degraded (contract 4).
        DEGRADED_RATIO: f32 = 2.5;
        /// The upper edge of the first accuracy bin, metres. The session's usual accuracy is the
        /// median of its usable fixes.
        USUAL_BIN_M: f32 = 1.0;
        /// The ratio of each accuracy bin's edge to the previous one, so that the last bin reaches
        /// 50 m.
        USUAL_BIN_RATIO: f32 = 1.064;
        /// The number of fixes before which no accuracy is usual.
        USUAL_FIXES_MIN: u16 = 8;
    }

    /// The evidence for gait and rest.
    pub(crate) mod gait {
        /// The share of the maximum gait evidence of a second from which steps count as seen in it.
        CLEAR_GAIT_SHARE: f32 = 0.5;
        /// The spread above which a phone is shaken and not carried, m/s²: 99 % of the walking
        /// seconds of the recordings lie below 7.5.
        SHAKE_STD_MPS2: f32 = 8.5;
        /// The share of a gait's evidence that counts while only the shaken phone shows a gait.
        SHAKEN_GAIT_SHARE: f32 = 0.5;
        /// The log-odds of gait by the phone's step counter if it has risen recently.
        STEPS_LOG_ODDS: f32 = 0.6;
        /// The log-odds of gait if the counter has not risen recently. Counters run up to 10 s late
        /// (sources: phones), so both values are small compared with acceleration.
        STEPS_SILENT_LOG_ODDS: f32 = -0.4;
        /// The longest time for which a rise of the counter counts as recent.
        STEPS_WITHIN_MS: u32 = 4_000;
        /// The shortest time for which a rise counts as recent: a counter that reports on change.
        STEPS_WITHIN_MS_MIN: u32 = 2_000;
        /// The time between two reports of a counter from which a report covers a walk and a stay:
        /// the shortest stay takes 8 s.
        STEPS_COARSE_MS: u32 = 5_000;
        /// The number of prompt reports in a row after which a coarse counter is prompt again. A
        /// counter that waits 2 to 10 s before each report sometimes reports twice within 4 s.
        STEPS_PROMPT_MIN: u8 = 2;
        /// The lowest rate of steps on a walk without pauses, per second. Slow walkers take 1.3
        /// (sources: walking).
        STEPS_WALK_HZ_MIN: f32 = 1.0;
        /// The consecutive seconds without a rise that show that a counter reports each second.
        STEPS_IDLE_SEC_MIN: u8 = 3;
        /// The longest delay of a step counter, seconds (up to 10 s, sources: phones).
        COUNTER_LAG_SEC_MAX: usize = 10;
        /// The number of seconds by which another delay must agree better with the speed over
        /// ground to replace the one in use: three clear boundaries of a walk at one second each.
        COUNTER_LAG_CLEAR: i16 = 3;
        /// The number of seconds after which the counts of agreement are halved, so that newer ones
        /// decide.
        COUNTER_LAG_SCORE_MAX: u16 = 240;
        /// The share of the variance of acceleration faster than 100 ms from which a phone lies in
        /// a trouser pocket. Measured on the labelled walks (5 % to 95 %): front and back pockets
        /// 0.39 to 0.75; hand, arm, bag and neck 0.06 to 0.38 (and those swing little); a swinging
        /// hand below 0.1.
        POCKET_IMPACT_SHARE: f32 = 0.28;
        /// The weight of a new second in the share of impacts.
        IMPACT_NEW: f32 = 0.25;
        /// The swing of the acceleration along gravity with the stride, as a share of the spread,
        /// at which stairs and level ground are equally likely in a trouser pocket. Measured
        /// (medians of six and four people): going up 0.36 to 0.40, on the level 0.10 to 0.20.
        CLIMB_SWING_SHARE: f32 = 0.285;
        /// The swing of a climb in m/s²: 1.4 to 1.7 going up, 0.5 to 1.0 on level ground.
        CLIMB_SWING_MPS2: f32 = 1.1;
        /// The log-odds for each factor of e in the relative or the absolute swing.
        CLIMB_SWING_SLOPE: f32 = 5.0;
        /// The maximum log-odds that one second of swing contributes.
        CLIMB_SWING_MAX: f32 = 1.0;
        /// The log-odds of the phone's recogniser at full confidence. It lags by tens of seconds
        /// (sources: phones), so it is a hint.
        ACTIVITY_WEIGHT: f32 = 0.3;
    }

    /// Heights from air pressure, and rides.
    pub(crate) mod height {
        /// The height over which pressure falls by a factor of e at 15 °C, metres: R·T/(M·g), US
        /// Standard Atmosphere.
        SCALE_HEIGHT_M: f32 = 8_434.0;
        /// The height change in one second above which no person moves out of rest, metres: most
        /// elevators run up to 5 or 6 m/s, and accelerate at 1.5 m/s² at most (sources: elevators).
        HEIGHT_LEAP_M: f32 = 6.0;
        /// The largest height change in one second that is possible for a person, metres: the
        /// elevators of the Burj Khalifa run 10 m/s, with 20 % for the noise of pressure.
        HEIGHT_LEAP_M_MAX: f32 = 12.0;
        /// The height change in the second before from which a larger one is a cabin's: four times
        /// the noise of a barometer, and less than a cabin gains in the two seconds before it runs
        /// 6 m/s.
        HEIGHT_BEFORE_LEAP_M: f32 = 2.0;
        /// The longest silence of the barometer across which heights are compared (sources: phones).
        HEIGHT_GAP_MS: u32 = 20_000;
        /// The distance from a whole hectopascal up to which a reading counts as whole.
        WHOLE_HPA: f32 = 0.002;
        /// The share of whole readings, as numerator and denominator, from which the barometer is
        /// coarse: a fine one gives a whole reading in every hundredth.
        COARSE_SHARE: (u16, u16) = (4, 5);
        /// The number of seconds with pressure before which no barometer counts as coarse.
        COARSE_SEC_MIN: u16 = 5;
        /// The longest time between two whole readings that differ, for which they count as a leap:
        /// no body rises 8 m in it, so the barometer rounds.
        COARSE_LEAP_MS: u32 = 2_000;
        /// The number of seconds after which the counts are halved, so that newer readings decide.
        COARSE_SEC_MAX: u16 = 240;
        /// The longest time between two readings of a barometer that are joined by a line, for
        /// phones that report pressure rarely. In a longer time an elevator can go and come back.
        HEIGHT_BRIDGE_MS: u32 = 12_000;
        /// The usual interval between two heights from which on a second waits for the next height,
        /// milliseconds.
        SPARSE_HEIGHT_MS: f32 = 1_500.0;
        /// The weight of a new interval in the usual time between two heights.
        HEIGHT_INTERVAL_NEW: f32 = 0.2;
        /// The spread of acceleration below which a second can be in a cabin, m/s².
        RIDE_QUIET_STD_MPS2: f32 = 0.40;
        /// The spread of acceleration that a push in progress may reach, m/s² (half of a change
        /// from 1.5 up to 1.5 down within a second).
        RIDE_LOUD_STD_MPS2: f32 = 1.2;
        /// The number of consecutive seconds for which a push may raise the spread.
        RIDE_LOUD_SEC_MAX: u8 = 2;
        /// The deviation from the value at rest below which all is noise, m/s² (elevators: 0.3 to
        /// 1.5, sources: elevators).
        RIDE_DEAD_MPS2: f32 = 0.09;
        /// The weight of a quiet second in the value at rest.
        RIDE_BASE_NEW: f32 = 0.15;
        /// The number of quiet seconds after which the value at rest has settled.
        RIDE_SETTLE_SEC: u8 = 2;
        /// The deviation from the value at rest that is a push while that value settles, m/s²:
        /// twice the change by another grip.
        RIDE_SETTLE_MPS2: f32 = 0.3;
        /// The longest push: at 1 m/s² (sources: elevators) it would give 7 m/s.
        RIDE_PUSH_MS_MAX: u32 = 7_000;
        /// The share of the speed after the first push at which a ride has ended.
        RIDE_STOPPED_SHARE: f32 = 0.45;
        /// The least strength of the weaker of a ride's two pushes, as a share of the stronger one.
        /// Elevators start and brake within the same limits of comfort, and two seconds contain
        /// eight tenths or more of a push that lasts up to three.
        RIDE_BRAKE_SHARE: f32 = 0.6;
        /// The largest opposite push, as a share of the first: an elevator stops and does not
        /// reverse.
        RIDE_OVERSHOOT: f32 = 0.8;
        /// The longest ride detected by acceleration alone: the error of the speed grows.
        RIDE_ALONE_MS_MAX: u32 = 100_000;
    }

    /// Speeds and distances from positions.
    pub(crate) mod position {
        /// The accuracy beyond which a fix shows nothing about movement, metres.
        FIX_ACCURACY_M_MAX: f32 = 60.0;
        /// The accuracy up to which the phone's own speed is trusted at any speed, metres: indoors
        /// it freezes (measured: Falcon & Schulzrinne).
        SPEED_ACCURACY_M_MAX: f32 = 40.0;
        /// The accuracy up to which the phone's own speed shows a vehicle, metres (contract: useless).
        DOPPLER_ACCURACY_M_MAX: f32 = 150.0;
        /// The shortest time between two fixes that are compared for a speed.
        FIX_BASELINE_MS_MIN: u32 = 4_000;
        /// The longest time between two fixes that are compared for a speed.
        FIX_BASELINE_MS_MAX: u32 = 40_000;
        /// The speed that no delivery vehicle exceeds, m/s: 216 km/h.
        FIX_LEAP_MPS: f32 = 60.0;
        /// The accuracies of both fixes by which a leap exceeds the way at [`FIX_LEAP_MPS`].
        FIX_LEAP_ACCURACIES: f32 = 1.0;
        /// The number of consecutive leaps after which the place is a different one.
        FIX_LEAPS_MAX: u8 = 4;
        /// The time within which the same place is the same fix by a second provider: half a second.
        FIX_AGAIN_MS: u32 = 500;
        /// The weight of a new interval in the usual time between two fixes.
        INTERVAL_NEW: f32 = 0.15;
        /// The share of the accuracy of both fixes that is subtracted from a displacement.
        FIX_NOISE_SHARE: f32 = 0.7;
        /// The share of the accuracy that is subtracted from a displacement between fixes that are
        /// vague or not from satellites, whose errors change within seconds. Two independent fixes
        /// at one place are farther apart than this in 5 % of the cases, and than 0.7 in 57 %: the
        /// distance follows a Rayleigh distribution, and the accuracy is its 68 % radius.
        NON_SATELLITE_NOISE_SHARE: f32 = 1.6;
        /// The time over which rest by positions is judged.
        REST_BASELINE_MS: u32 = 14_000;
        /// The speed over [`REST_BASELINE_MS`] below which the phone stays, m/s: half of a walk.
        REST_SPEED_MPS: f32 = 0.6;
        /// The time before its end for which a displacement holds: up to the middle of the time
        /// over which it is taken.
        REST_HOLDS_MS: u32 = 6_000;
        /// The speed at which walking and rest are equally likely where the phone's own speed is
        /// good, m/s.
        GAIT_BY_SPEED_MPS: f32 = 0.5;
        /// The log-odds of gait for each further m/s.
        GAIT_BY_SPEED_SLOPE: f32 = 2.0;
        /// The maximum log-odds that the positions of one second contribute to gait.
        GAIT_BY_POSITION_MAX: f32 = 0.8;
        /// The radius within which a phone at rest strays during [`REST_BASELINE_MS`], metres
        /// (sources: stops).
        REST_RADIUS_M: f32 = 8.0;
    }

    /// The evidence of a second for each state of movement.
    pub(crate) mod evidence {
        /// The delay in seconds before evidence is weighed, so that a slope can be taken around it.
        DELAY_MIN: usize = 3;
        /// The delay in seconds where positions are the only source and come rarely.
        DELAY_MAX: usize = 13;
        /// The vertical speed that is still level ground, m/s: 8 % of a walk (ramps end at 8 %, EN
        /// 17210).
        LEVEL_MPS: f32 = 0.07;
        /// The scale on which a faster vertical speed counts against level ground, m/s.
        LEVEL_SPREAD_MPS: f32 = 0.08;
        /// The scale of vertical speed for a walk, m/s: a steady 0.2 m/s would be a street of 15 %,
        /// and half a staircase in the hand of a slow walker (measured in a museum: 0.16 to 0.24
        /// m/s on flights of 1.2 to 1.7 m).
        WALK_LEVEL_SPREAD_MPS: f32 = 0.06;
        /// The slowest vertical speed on stairs, m/s (sources: stairs, 0.2 to 0.35; with a turn on
        /// each landing less).
        CLIMB_SLOW_MPS: f32 = 0.15;
        /// The fastest vertical speed on stairs, m/s.
        CLIMB_FAST_MPS: f32 = 0.60;
        /// The scale on which another vertical speed counts against stairs, m/s.
        CLIMB_SPREAD_MPS: f32 = 0.09;
        /// The vertical speed of a slow elevator, m/s (sources: elevators, hydraulic ones 0.15 to 0.3).
        RIDE_MPS: f32 = 0.22;
        /// The speed below which stairs are more likely where no body is measured, m/s: the slowest
        /// traction elevators run 0.63.
        RIDE_USUAL_MPS: f32 = 0.5;
        /// The cost of a ride in each second below [`RIDE_USUAL_MPS`]. There are slow hydraulic
        /// elevators, so it decides only where nothing else does.
        RIDE_SLOW_COST: f32 = 0.15;
        /// The maximum that the height of one second contributes to the evidence.
        RATE_COST_MAX: f32 = 3.0;
        /// The vertical speed by acceleration that is a ride without a barometer, m/s.
        RIDE_ALONE_MPS: f32 = 0.40;
        /// The cost of a change of height in every second without a sign of one, without a
        /// barometer.
        UNMEASURED_RIDE_COST: f32 = 1.5;
        /// The speed over ground at which walking and driving are equally likely, m/s (measured:
        /// couriers walk up to 2, their drives between stops begin at 3).
        DRIVE_SPEED_MPS: f32 = 2.6;
        /// The log-odds of driving for each further m/s.
        DRIVE_SLOPE: f32 = 0.9;
        /// The maximum log-odds that the speed of one second contributes.
        DRIVE_LOG_ODDS_MAX: f32 = 1.8;
        /// The cost of staying and riding for each m/s above the fastest walk, up to
        /// [`RATE_COST_MAX`], where satellites show this speed without doubt. The claimed error of
        /// a receiver's speed outdoors is 0.1 to 0.5 m/s, so that 1 m/s is two of its deviations or
        /// more.
        CARRIED_SPEED_COST: f32 = 2.0;
        /// The share of a speed that the displacement in the same time must show to confirm it: a
        /// vehicle that starts evenly has gone half of the way.
        CONFIRMING_SHARE: f32 = 0.5;
        /// The speed that no pedestrian keeps up without steps, m/s (13 km/h); bicycles and
        /// scooters do.
        SHAKEN_MPS: f32 = 3.6;
        /// The speed that no pedestrian keeps up without steps, if the step counter reports each
        /// second and has counted nothing for [`SHAKEN_SILENT_MS`], m/s: couriers walk up to 2.1
        /// and jog from 2.5 on, and a counter counts a jog.
        SHAKEN_SILENT_MPS: f32 = 2.5;
        /// The number of consecutive fixes at [`SHAKEN_MPS`] that show a vehicle.
        SHAKEN_FIXES: u8 = 3;
        /// The time without a rise after which the step counter is silent: counters run up to 10 s
        /// late (sources: phones).
        SHAKEN_SILENT_MS: u32 = 10_000;
        /// The time for which a fix at [`SHAKEN_MPS`] counts.
        SHAKEN_HOLDS_MS: u32 = 15_000;
        /// The time over which the way shows the speed of a phone that reports none. A bicycle goes
        /// several accuracy radii in it.
        SHAKEN_WAY_MS: u32 = 5_000;
        /// The speed by satellites up to which the phone stands, m/s: half of the slowest walk less
        /// the claimed error of a receiver's speed.
        STANDS_MPS: f32 = 0.3;
        /// The steepest street that vehicles take (public roads of 15 to 20 % are rare enough to
        /// bear signs).
        STREET_GRADE_MAX: f32 = 0.15;
    }

    /// The changes between states of movement.
    pub(crate) mod changes {
        /// The log-odds that a change of state costs, from row to column: still, walk, climb, ride,
        /// drive. A pause and its end cost 8, so that at full evidence pauses under 4 to 5 s belong
        /// to the walk (contract 4).
        CHANGE_COST: [[f32; 5]; 5] = [
            [0.0, 4.0, 7.0, 5.0, 4.0],
            [4.0, 0.0, 4.0, 7.0, 4.0],
            [5.0, 3.0, 0.0, 8.0, 9.0],
            [4.0, 5.0, 8.0, 0.0, 12.0],
            [4.0, 4.0, 14.0, 14.0, 0.0],
        ];
    }

    /// The runs of states that become events.
    pub(crate) mod runs {
        /// The shortest stay that is an event (contract 4).
        STOPPED_MS_MIN: u32 = 8_000;
        /// The shortest stay that is an event where positions are the only source (contract 4).
        STOPPED_BY_POSITION_MS_MIN: u32 = 20_000;
        /// The shortest walk that is an event: three to five steps.
        WALK_MS_MIN: u32 = 3_000;
        /// The pause below which it belongs to the walk (contract 4).
        PAUSE_MS_MAX: u32 = 5_000;
        /// The shortest climb that is an event.
        CLIMB_MS_MIN: u32 = 4_000;
        /// The shortest climb that is an event where only the stride shows it: a flight of a dozen
        /// steps.
        CLIMB_BY_STRIDE_MS_MIN: u32 = 8_000;
        /// The smallest height of a climb that is an event, metres: half a storey of a dwelling
        /// (sources: stairs).
        CLIMB_HEIGHT_M_MIN: f32 = 1.5;
        /// The height from which the direction of a climb is clear, metres: four steps, or the
        /// noise of pressure.
        SAME_WAY_M_MIN: f32 = 0.7;
        /// The longest level walk between two flights that belongs to the stairs.
        LANDING_MS_MAX: u32 = 10_000;
        /// The smallest height of a ride that is an event, metres: less than the lowest storey (2.7
        /// m), more than a door's pressure step.
        RIDE_HEIGHT_M_MIN: f32 = 1.8;
        /// The smallest height of a ride where the body is measured and no push was felt, metres.
        /// Phones that reduce their motion smooth it away, and only a storm moves the air of a
        /// building by a storey (sources: phones, drift of 0.1 hPa in 10 min).
        RIDE_UNFELT_HEIGHT_M_MIN: f32 = 2.3;
        /// The smallest height of a ride where the phone keeps seeing the sky and no push was felt,
        /// metres. In a cabin it does not (of 37 rides in New York the best fix in one was of 50
        /// m), and wind moves the pressure by more than a storey.
        RIDE_UNDER_SKY_HEIGHT_M_MIN: f32 = 10.0;
        /// The fastest change of height on a ramp of a garage, m/s: 15 % (the limit of the German
        /// model regulation for garages, § 3) at 4 m/s.
        RAMP_MPS: f32 = 0.6;
        /// The accuracy up to which a fix shows that the phone sees the sky, metres.
        SKY_ACCURACY_M: f32 = 12.0;
        /// The time for which a fix under open sky counts.
        SKY_HOLDS_MS: u32 = 5_000;
        /// The shortest ride by acceleration alone that is an event.
        RIDE_ALONE_MS_MIN: u32 = 4_000;
        /// The longest time from walking into the cabin to a ride by acceleration alone. A vehicle
        /// goes over bumps for longer.
        CAME_ON_FOOT_MS_MAX: u32 = 120_000;
        /// The time to the first fix under open sky with some margin (sources: phones, 5 s for a warm
        /// receiver). A session that begins in a vehicle shows no speed until then.
        FIRST_FIX_MS: u32 = 20_000;
        /// The time to the first fix of a cold receiver, for which the decoder waits (GPS interface
        /// specification: the orbit data of a satellite are sent each 30 s).
        COLD_FIX_MS: u32 = 30_000;
        /// The longest stop at an intermediate floor that belongs to the ride (sources: elevators).
        DOOR_STOP_MS_MAX: u32 = 25_000;
        /// The shortest drive that is an event.
        DRIVE_MS_MIN: u32 = 8_000;
        /// The shortest drive after a walk while the body continues to walk: fixes that jump behind
        /// a door claim vehicles for ten seconds and more. A bicycle ride is trusted after this
        /// time.
        DRIVE_IN_GAIT_MS_MIN: u32 = 30_000;
        /// The shortest distance of a drive, metres: less is a fix that jumped.
        DRIVE_LENGTH_M_MIN: f32 = 25.0;
        /// The longest halt that belongs to the drive if the courier does not walk away: traffic
        /// lights and queues. The labels of the recordings use the same limit.
        HALT_MS_MAX: u32 = 140_000;
        /// The longest halt that belongs to the drive if positions are the only source: they cannot
        /// show whether the courier walked away, and couriers park for a minute more often than
        /// they wait that long in traffic (measured: hops of delivery agents).
        HALT_BY_POSITION_MS_MAX: u32 = 45_000;
        /// The speed at which a vehicle still rolls, m/s.
        ROLLING_MPS: f32 = 0.6;
        /// The number of consecutive seconds faster than a walk, with the body at rest, after which
        /// a vehicle that halted in traffic has moved on: the speed of a parked phone wanders for
        /// less.
        CREEP_SEC_MIN: u8 = 3;
        /// The slow move that shows that the vehicle was left where positions are the only source:
        /// shorter ones are manoeuvres.
        PARKED_MOVE_MS_MIN: u32 = 25_000;
        /// The slow move that shows this where the phone's own speed is good enough to distinguish
        /// walking.
        PARKED_SEEN_MS_MIN: u32 = 12_000;
        /// The fixes that a slow move must contain where they come rarely.
        PARKED_MOVE_FIXES: u16 = 4;
        /// The maximum standard deviation of a walk's speed, as a share of its mean: walkers keep
        /// one speed (measured: 0.15 to 0.35 for walks, 0.4 and more for queues).
        WALK_UNSTEADY_SHARE: f32 = 0.4;
        /// The maximum mean speed of a walk to a door, m/s: a faster one may as well be a queue's.
        WALK_USUAL_MPS_MAX: f32 = 1.6;
        /// The slow move that shows that the vehicle was left, however unsteady the speed.
        PARKED_UNSTEADY_MS_MIN: u32 = 60_000;
        /// The walk that shows that the vehicle was left.
        PARKED_WALK_MS_MIN: u32 = 5_000;
        /// The log-odds of driving in a second without a speed: a vehicle must have been seen to
        /// move.
        DRIVE_UNSEEN_LOG_ODDS: f32 = -0.15;
        /// The cost of entering a vehicle in a second without a speed: it must have been seen to
        /// move.
        DRIVE_UNSEEN_ENTRY_COST: f32 = 60.0;
        /// The log-odds by which a drive without a speed may lag behind a new one: as much as a
        /// pause and its end cost. One that lags more would only delay the decisions of all seconds
        /// since the last fix.
        DRIVE_UNSEEN_LAG_MAX: f32 = 8.0;
        /// The usual time between two fixes from which a vehicle may be moving unseen between them.
        SPARSE_FIX_MS: f32 = 3_000.0;
        /// The number of usual intervals after a vehicle's speed for which it may still be moving.
        DRIVE_HOLDS_INTERVALS: f32 = 1.5;
        /// The highest speed over ground of climbing and riding, m/s: stairs are taken at 0.5.
        CLIMB_GROUND_SPEED_MPS: f32 = 1.1;
        /// The cost of climbing and riding for each further m/s, up to `RATE_COST_MAX`.
        CLIMB_GROUND_SPEED_COST: f32 = 2.0;
        /// The highest speed over ground on stairs under the sky, where the phone's own speed is
        /// good, m/s.
        STREET_SPEED_MPS: f32 = 0.8;
        /// The cost of stairs for each further m/s under the sky: a street of 15 % is not a
        /// staircase.
        STREET_SPEED_COST: f32 = 5.0;
        /// The share of the slope's squared standard error that is added to the spreads of vertical
        /// speed: swings of the air last some seconds, so neighbouring seconds are not independent.
        RATE_ERROR_SHARE: f32 = 4.0;
        /// The longest time for which a speed over ground counts against climbing.
        SPEED_HOLDS_MS: u32 = 12_000;
        /// The longest time for which a speed counts against climbing, in usual intervals between
        /// fixes, plus 2 s for the delay of a fix: when a second fix is missing, the courier is
        /// behind a door, where the speed of the street says nothing.
        SPEED_HOLDS_INTERVALS: f32 = 2.0;
        /// The accuracy up to which the phone's own speed distinguishes walking from rest, metres.
        WALK_ACCURACY_M_MAX: f32 = 20.0;
        /// The speed that a pedestrian does not exceed for long, m/s.
        WALK_SPEED_MPS_MAX: f32 = 2.1;
        /// The speed that no courier runs, m/s (22 km/h, a sprint).
        RUN_SPEED_MPS_MAX: f32 = 6.0;
        /// The number of seconds of a slow move of which one faster second shows a vehicle
        /// (measured: queues creep and stop).
        FAST_SECONDS_SHARE: u32 = 6;
        /// The smallest net height of a climb or ride, as a share of the height climbed up and down
        /// in it: less is wind.
        CLIMB_STRAIGHT_MIN: f32 = 0.6;
        /// The smallest net height of a climb or ride, per m/s of the mean standard error of its
        /// slope, and of a ride per m/s of the usual deviation of the slope before it: four times
        /// the roughness of the height from which this error comes.
        CLIMB_ROUGH_SEC: f32 = 20.0;
        /// The weight of a new second in the usual slope of the height and in the deviation from
        /// it: 20 s contain several gusts, of 3 s each (World Meteorological Organization).
        SWAY_NEW: f32 = 0.05;
    }

    /// The path that the courier walks back (contract 4; sources: backtracking).
    pub(crate) mod backtracking {
        /// The distance between two crumbs of the path, metres.
        CRUMB_M: f32 = 5.0;
        /// The accuracy beyond which a fix leaves no crumb, metres.
        CRUMB_ACCURACY_M_MAX: f32 = 20.0;
        /// The weight of a new fix in the smoothed place.
        CRUMB_NEW: f32 = 0.4;
        /// The weight of a new course over ground in the recent one: the course of one fix is off
        /// by 10 to 30 degrees on foot.
        COURSE_NEW: f32 = 0.5;
        /// The distance from the outbound path within which the return path runs, metres.
        RETRACE_NEAR_M: f32 = 8.0;
        /// The retrace distance as a multiple of the accuracy; each of the two paths has its own
        /// accuracy.
        RETRACE_ACCURACIES: f32 = 1.4;
        /// The maximum retrace distance, metres: the other side of the street.
        RETRACE_NEAR_M_MAX: f32 = 18.0;
        /// The shortest return path that is an event where no body is measured, metres: positions
        /// wander.
        RETRACE_UNSEEN_M_MIN: f32 = 25.0;
        /// The evidence of a second that counts as walking, or as rest if negative.
        REST_LOG_ODDS: f32 = 0.3;
        /// The number of seconds at rest from which the path stands still.
        REST_SEC_MIN: u8 = 3;
        /// The maximum cosine at which a step runs against the outbound path.
        RETRACE_COSINE_MAX: f32 = -0.6;
        /// The time after the outbound path within which the return path is walked.
        RETRACE_WITHIN_MS: u32 = 180_000;
        /// The shortest return path that is an event, metres; the accuracy if that is larger.
        RETRACE_M_MIN: f32 = 15.0;
        /// The number of consecutive crumbs off the outbound path that end the return path.
        RETRACE_MISSES_MAX: u8 = 3;
        /// The stay at the turn that makes it a visit to a door, and the path after it the way to
        /// the vehicle.
        VISIT_MS_MIN: u32 = 14_000;
        /// The usual time for walking from one crumb to the next: longer is a stay.
        VISIT_STRIDE_MS: u32 = 5_000;
        /// The time by which the stay may end before the turn, or begin after it, as measured along
        /// the path.
        VISIT_NEAR_MS: u32 = 12000;
        /// The distance to the address, metres, within which a stay may be the drop-off and the
        /// path after it the way to the vehicle.
        RETURN_NEAR_M: f32 = 35.0;
    }

    /// The rates of fixes by which the confidence of an event is looked up.
    pub(crate) mod confidence {
        /// The longest mean interval between fixes that can follow a walk, seconds.
        DENSE_SEC: f32 = 3.0;
        /// The longest mean interval between fixes that can follow a drive, seconds.
        MIDDLING_SEC: f32 = 7.0;
        /// The mean interval between fixes beyond which they add nothing to a measured body,
        /// seconds.
        SELDOM_SEC: f32 = 20.0;
    }
}
