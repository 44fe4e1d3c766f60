//! Parameters of the signals that the detectors read: usual accuracy, gait, height and position. Each
//! has its unit in its name and states its basis.

crate::parameters::table! {
    /// The usual accuracy of the positions.
    pub(in crate::detect) mod gps_quality {
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
    pub(in crate::detect) mod gait {
        /// The evidence of a second that counts as walking, or as rest if negative.
        REST_LOG_ODDS: f32 = 0.3;
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
        /// The weight of the newest interval between two rises of the counter in its usual interval.
        STEPS_INTERVAL_NEW: f32 = 0.2;
        /// The least spread of acceleration of which a share is computed, m/s².
        CLIMB_SPREAD_MPS2_MIN: f32 = 0.1;
        /// The least swing of acceleration, and the least share of it in the spread, of which a
        /// logarithm is computed.
        CLIMB_SWING_MIN: f32 = 0.01;
    }

    /// Heights from air pressure, and rides.
    pub(in crate::detect) mod height {
        /// The largest height change in one second of a person who was at rest before it, metres:
        /// most elevators run at up to 5 or 6 m/s, and accelerate at 1.5 m/s² at most (sources:
        /// elevators).
        HEIGHT_LEAP_M: f32 = 6.0;
        /// The largest height change in one second that is possible for a person, metres: the
        /// elevators of the Burj Khalifa run at 10 m/s, with 20 % for the noise of pressure.
        HEIGHT_LEAP_M_MAX: f32 = 12.0;
        /// The least height change in the second before that makes a large one that of a cabin,
        /// metres. It is four times the noise of a barometer, and less than a cabin gains in the
        /// two seconds before it runs at 6 m/s.
        HEIGHT_BEFORE_LEAP_M: f32 = 2.0;
        /// The longest silence of the barometer across which heights are compared (sources: phones).
        HEIGHT_GAP_MS: u32 = 20_000;
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
    pub(in crate::detect) mod position {
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
        /// The number of accuracies, of both fixes, by which a jump exceeds the distance at
        /// [`FIX_LEAP_MPS`].
        FIX_LEAP_ACCURACIES: f32 = 1.0;
        /// The number of consecutive fixes that jump after which the phone is at another place.
        FIX_LEAPS_MAX: u8 = 4;
        /// The time within which a fix at the same place is the same fix by a second provider.
        FIX_AGAIN_MS: u32 = 500;
        /// The usual intervals between two places of a moving phone for which an app may read the
        /// last fix again. A later repetition comes from a receiver that froze: one missed fix, and
        /// half an interval for the times of the readings.
        REPEATED_INTERVALS: f32 = 2.5;
        /// The weight of a new interval in the usual time between two fixes.
        INTERVAL_NEW: f32 = 0.15;
        /// The share of the accuracy of both fixes that is subtracted from a displacement.
        FIX_NOISE_SHARE: f32 = 0.7;
        /// The share of the accuracy that is subtracted from a displacement between fixes that are
        /// vague or not from satellites, whose errors change within seconds. Two independent fixes
        /// at one place are farther apart than this in 5 % of the cases, and than 0.7 in 57 %. The
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
        /// The longest interval between two fixes that counts towards the usual one: a longer one is
        /// a loss.
        INTERVAL_MS_MAX: f32 = 20_000.0;
        /// The shortest and the longest time for which a fix with a speed is evidence, if that is
        /// the usual interval between fixes.
        SPEED_AGE_MS: (u32, u32) = (1_000, 10_000);
        /// The share of the accuracy within which the places of a body at rest stray.
        REST_ACCURACY_SHARE: f32 = 0.8;
        /// The share of the radius of a rest by which a place must be farther away for one unit of
        /// log-odds.
        REST_SLOPE_SHARE: f32 = 0.6;
    }
}
