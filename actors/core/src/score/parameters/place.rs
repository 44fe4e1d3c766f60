//! Parameters of scoring: positions, jumps, stays and the entrance. Each name includes the unit,
//! and each comment the source.

crate::parameters::table! {
    /// Parameters of `score/place.rs`.
    pub(crate) mod drop_off {
        /// A mark this close to a stay still belongs to it (sources: entrances and doors).
        MARK_NEAR_MS: u32 = 20_000;
        /// A mark on the stairs this soon after a stay upstairs belongs to it: the tap of a courier
        /// who already goes down (simulated: up to 4 s).
        JUST_LEFT_MS: u32 = 10_000;
        /// The most by which the phone's clock and the service's may differ at the end, because of
        /// data in transit.
        CLOCKS_APART_MS: u32 = 60_000;
        /// A stay at the address within this time before the drop-off explains a tap after
        /// departure (sources: trust).
        LATE_TAP_MS: u32 = 300_000;
        /// A stay within this time after the drop-off explains a tap in the vehicle. Judgement:
        /// parking and a walk, with a stay.
        EARLY_TAP_MS: u32 = 600_000;
        /// The number of uncertainties within which a place is at the address.
        LATE_TAP_SIGMAS: f32 = 2.0;
        /// The distance in metres within which a place is at the address.
        LATE_TAP_M: f32 = 20.0;
        /// The time around an instant from which its position is taken.
        INSTANT_MS: u32 = 3_000;
    }

    /// Parameters of `score/place/entrance.rs`.
    pub(crate) mod entrance {
        /// An accuracy worse than this on the way in indicates walls (sources: entrances and doors).
        WORSENED_M: f32 = 35.0;
        /// An accuracy this many times worse than usual also indicates walls, on phones that are
        /// usually exact.
        WORSENED_TIMES: f32 = 2.5;
        /// The lower limit of an accuracy that counts as worse than usual.
        WORSENED_M_MIN: f32 = 25.0;
        /// An accuracy that is not even this many times worse than usual indicates no walls, on
        /// phones that are usually vague: the ratio of [`WORSENED_M`] to the usual 25 m of the
        /// recordings.
        VAGUE_TIMES: f32 = 1.4;
        /// The least accuracy radius that walls cause, metres: under the open sky beside houses,
        /// phones claim up to 12 m (Merry and Bettinger 2019: errors of 7 to 13 m in towns).
        WALL_M_MIN: f32 = 12.0;
        /// The time before an instant over which the usual accuracy is taken.
        USUAL_MS: u32 = 60_000;
        /// The minimum number of fixes from which the usual accuracy under the open sky is known:
        /// receivers settle for about 20 s (as `SETTLING_MS`).
        USUAL_FIXES: usize = 20;
        /// A phone at rest sends nothing new and resumes within this distance of its last position.
        STOOD_M: f32 = 20.0;
        /// The maximum accuracy of the fix with which a resting phone resumes (contract 4:
        /// `GPS_DEGRADED`): reception fades after it.
        STOOD_ACCURACY_M: f32 = 50.0;
        /// The time from the door to the first worsened fix (median over 62 entries).
        LAG_MS: u32 = 7_000;
        /// The part of a rest after which the courier has certainly come to a stop: the shortest
        /// pause at a door (contract 4).
        REST_MS_MIN: u32 = 3_000;
        /// The longest wait at a door (contract 4).
        REST_MS_MAX: u32 = 90_000;
        /// The most by which the first worsened fix may precede the event.
        DECAY_LOOK_BACK_MS: u32 = 20_000;
        /// A known entrance counts as passed within this distance, plus half the fix's accuracy.
        PASSED_M: f32 = 12.0;
        /// Good reception for up to this time indoors comes from a window.
        WINDOW_VIEW_MS: u32 = 12_000;
        /// The time to cross a hall from the entrance to stairs or elevator (5 to 14 m, judgement).
        HALL_MS: u32 = 8_000;
        /// The longest part of a stay before an elevator that counts as the wait for it.
        WAIT_MS_MAX: u32 = 30_000;
        /// The maximum accuracy of fixes at a gate under the open sky, metres: half of the value at
        /// a doorway ([`WORSENED_M`]).
        GATE_ACCURACY_M: f32 = 17.0;
        /// The minimum number of exact fixes at a gate.
        GATE_FIXES: usize = 3;
        /// A time without a fix of up to this many usual intervals indicates no walls: two fixes are
        /// missing (as `GATE_SILENT_INTERVALS`).
        PAUSE_INTERVALS: f32 = 3.0;
        /// The shortest time between two fixes that is an interval, in milliseconds: half of the
        /// usual second. Fixes that are closer arrived together.
        PAUSE_MS_MIN: f32 = 500.0;
        /// Signs this close to each other indicate the same door.
        AGREE_MS: u32 = 25_000;
        /// The time before the first steps in which the entry may lie: the start of a period on
        /// foot is known to some seconds.
        BEFORE_FOOT_MS: u32 = 5_000;
        /// The time from the last fix of a new place to the entry, if reception ended without a
        /// warning: the usual interval.
        AFTER_FIX_MS: u32 = 1_000;
    }

    /// Parameters of `score/place/entrance/doorway.rs`.
    pub(crate) mod doorway {
        /// The time around the first guess that is searched.
        AROUND_MS: u32 = 12_000;
        /// The typical error of reception and of a known place.
        PLACED_MS: f32 = 3_000.0;
        /// The maximum cost of reception and of a known place.
        PLACED_MAX: f32 = 4.0;
        /// The time to cross a hall.
        HALL_MS: f32 = 8_500.0;
        /// The standard deviation of the time to cross a hall.
        HALL_SPREAD_MS: f32 = 3_000.0;
        /// The maximum cost of an unusual time in the hall.
        HALL_MAX: f32 = 3.0;
        /// The gain of a second close to the end of a passage.
        GATE_GAIN: f32 = 1.5;
        /// The time around the end of a passage in which a second gains.
        GATE_NEAR_MS: u32 = 1_000;
        /// A gait that falls to this share of the usual is a pause, in which a door is pulled open.
        PAUSE_SHARE: f32 = 0.6;
        /// The minimum share of the usual gait after a pause.
        RESUMED_SHARE: f32 = 0.6;
        /// The gain of the second in which a full pause ends.
        PAUSE_GAIN: f32 = 2.0;
        /// The seconds on each side over which the pressure level is averaged.
        LEVEL_SEC: u32 = 4;
        /// The preceding seconds whose successive differences give the pressure noise.
        NOISE_SEC: u32 = 15;
        /// The minimum noise, metres: a hundredth of a hectopascal is 8 cm.
        NOISE_M_MIN: f32 = 0.017;
        /// The change of the level during a walk on level ground, metres.
        LEVEL_CHANGE_M: f32 = 0.05;
        /// The number of deviations from which a change of pressure indicates a doorway.
        STEP_FROM: f32 = 2.0;
        /// The gain per deviation of a change of pressure.
        STEP_GAIN: f32 = 0.6;
        /// The maximum number of deviations that count for a change of pressure.
        STEP_MAX: f32 = 4.0;
        /// The number of deviations from which a leap of pressure within a second indicates a
        /// doorway.
        LEAP_FROM: f32 = 3.0;
        /// The gain per deviation of a leap of pressure.
        LEAP_GAIN: f32 = 0.2;
        /// The maximum number of deviations that count for a leap of pressure.
        LEAP_MAX: f32 = 6.0;
        /// The seconds before the first guess from which the usual gait is taken.
        GAIT_BEFORE_SEC: u32 = 20;
        /// The seconds after the first guess from which the usual gait is taken.
        GAIT_AFTER_SEC: u32 = 10;
        /// The minimum number of seconds of walking that show the usual gait.
        GAIT_SEC_MIN: usize = 6;
        /// The minimum number of differences that show the pressure noise.
        NOISE_STEPS_MIN: usize = 5;
        /// The median absolute difference of two normal values, in their standard deviations
        /// (textbook).
        NORMAL_MEDIAN: f32 = 0.95;
        /// The standard deviation of the change between two levels, in that of one second's height:
        /// the square root of two over the number of averaged seconds.
        LEVEL_NOISE_SHARE: f32 = 0.7;
        /// The minimum number of seconds whose mean is a level.
        LEVEL_SEC_MIN: usize = 3;
    }

    /// Parameters of `score/handling.rs`.
    pub(crate) mod handling {
        /// The time between two rides that no elevator's doors allow (as `stops::STOP_SECONDS`).
        DOORS_MS: u32 = 4_000;
        /// The greatest number of steps in a ride: two on entering the cabin.
        STEPS_MAX: u16 = 2;
    }

    /// Parameters of `score/place/halt.rs`.
    pub(crate) mod halt {
        /// The distance from the address, plus its uncertainty, within which a vehicle at rest
        /// counts as arrived.
        FENCE_M: f32 = 150.0;
        /// A halt of this length near the address is enough to bring a parcel to a door.
        HALT_MS: u32 = 30_000;
        /// A halt within a drive that lasts this long is more than a traffic light.
        HALT_IN_TRAFFIC_MS: u32 = 60_000;
        /// The minimum length of a halt in which the app reported the drop-off: enough to reach out
        /// of the window.
        HALT_PROVED_MS: u32 = 10_000;
        /// A vehicle at rest moves less than this, or less than the accuracy of its fix.
        STANDS_M: f32 = 15.0;
    }

    /// Parameters of `score/place/open_way.rs`.
    pub(crate) mod open_way {
        /// The accuracy up to which a fix shows the open sky, metres (as
        /// `entrance::GATE_ACCURACY_M`).
        ACCURACY_M: f32 = 17.0;
        /// The longest way from the stairs to a door, metres: the German model building code (§ 35)
        /// allows this way to the stairs or into the open at most.
        WAY_M: f32 = 35.0;
    }

    /// Parameters of `score/place/stays.rs`.
    pub(crate) mod stays {
        /// The gap below which two stops without a change of place count as one stay: the courier
        /// shifts the parcel or rings again.
        MERGED_MS: u32 = 6_000;
        /// The longest walk between two stops of one stay: four steps.
        MERGED_WALK_M: f32 = 3.0;
        /// The minimum length of a stay that is known from a mark and a body at rest.
        MARKED_MS_MIN: u32 = 3_000;
        /// The time around a mark that is searched for a stay.
        MARKED_SPAN_MS: u32 = 120_000;
        /// Steps for this long lead away from a door.
        STEPS_AWAY_MS: u32 = 2_000;
        /// The time between a ride and a stay in its cabin: the ends of both are known to a second
        /// or two.
        CABIN_MS: u32 = 3_000;
        /// Steps of up to this time within a stay do not end it.
        FIDGET_MS: u32 = 2_000;
        /// The least confidence of a `GATE` whose pause is not a stay at the door.
        GATE_CONFIDENCE_MIN: f64 = 0.3;
        /// Levels closer than this are on the same floor.
        SAME_FLOOR_M: f32 = 1.6;
        /// The usual length of a stay at a door.
        USUAL_MS: core::ops::RangeInclusive<u32> = 5_000..=120_000;
        /// The longest time from the end of the wait for an elevator to its start: walking into the
        /// cabin, and the doors (as `GATE_TO_CABIN_MS`).
        ELEVATOR_WAIT_MS: u32 = 16_000;
        /// The minimum length of a stay at a door before the wait for the elevator: nobody rings
        /// and gives a parcel in less (the lower limit of [`USUAL_MS`]).
        DOOR_MS_MIN: u32 = 5_000;
        /// The minimum time of walking from a door to the place of the wait for an elevator: four
        /// or five steps, past the reach of somebody who only steps aside at the door.
        WAY_TO_WAIT_MS: u32 = 3_000;
        /// The time from the beginning of a period on foot over which the initial level is taken.
        BEFORE_MS: u32 = 10_000;
        /// A courier who comes this much nearer to the vehicle is going back.
        REVERSAL_M: f32 = 8.0;
        /// An event separates a stay from an instant if it overlaps the time between them by more
        /// than this: event and stay are known to a second.
        SEPARATED_MS: u32 = 1_000;
        /// A ride may begin this much before the end of the wait for it, since both times are whole
        /// seconds of different detectors.
        RIDE_EARLY_MS: u32 = 2_000;
        /// The maximum length of a stay that is longer than usual and may still be one at a door.
        /// Judgement: ten minutes.
        LONG_MS: u32 = 600_000;
        /// The number of uncertainties from the address at which the points for being near fall to
        /// 0.
        NEAR_SIGMAS: f32 = 3.0;
        /// The minimum distance in metres at which those points fall to 0: two houses and a garden.
        NEAR_M_MIN: f32 = 50.0;
        /// The time before the vehicle was parked from which its place is taken.
        PARKED_BEFORE_MS: u32 = 5_000;
        /// The time from the first steps on in which the vehicle's place is still the courier's.
        PARKED_AFTER_MS: u32 = 2_000;
    }

    /// Parameters of `score/place/ascent.rs`.
    pub(crate) mod ascent {
        /// A climb may end this much after the start of the stay that it leads to, since both times
        /// are whole seconds of different detectors.
        SLACK_MS: u32 = 3_000;
        /// The height of a ride that was not measured, metres: at least one storey of a dwelling.
        STOREY_M: f32 = 2.9;
    }

    /// Parameters of `score/place/upstairs.rs`.
    pub(crate) mod upstairs {
        /// The minimum length of a stay: a shorter one may be a landing, or a cabin that turns
        /// back.
        STAY_MS_MIN: u32 = 10_000;
        /// The minimum height difference of another floor, metres: the lowest storey (2.7 m), less
        /// the noise of two levels.
        FLOOR_M_MIN: f32 = 2.4;
        /// Levels farther apart in time than this belong to two stays.
        GAP_MS: u32 = 5_000;
        /// The shortest rest at a door from which the courier turns round: to put a parcel down
        /// (as `MARKED_MS_MIN`).
        RESTS_MS_MIN: u32 = 3_000;
    }

    /// Parameters of `score/scoring_context.rs`.
    pub(crate) mod scene {
        /// The longest walk before the first drop-off mark at which the session still began at the
        /// door: steps at the door.
        BEGIN_WALK_MS: u32 = 8_000;
        /// A fix worse than this carries no information about the place (contract 4: `GPS_LOST`).
        USABLE_ACCURACY_M: f32 = 150.0;
        /// A fix this exact is an anchor from which a path on foot may be counted.
        ANCHOR_ACCURACY_M: f32 = 35.0;
        /// An anchor farther away in time is not used.
        ANCHOR_AGE_MS: u32 = 600_000;
        /// The number of anchors that are tried: reception fades over some seconds, and an earlier
        /// fix may be the better one.
        ANCHORS: usize = 30;
        /// The time around bad reception or a change of floors that counts as indoors, where a
        /// phone's own accuracy is too optimistic (recorded: some claim 4 m in a basement).
        INDOOR_NEAR_MS: u32 = 30_000;
        /// The factor by which a phone's own accuracy is too optimistic indoors.
        INDOOR_FACTOR: f32 = 2.0;
        /// The share of the distance walked on stairs that leads away from them.
        STAIRS_SHARE: f32 = 0.15;
        /// The length of a step (textbook, 0.6 to 0.8 m).
        STEP_M: f32 = 0.7;
        /// The least share of the walked distance that counted steps amount to. Judgement: a
        /// counter that misses more than two thirds of the steps has stopped.
        COUNTED_SHARE: f32 = 0.3;
        /// The time between two reports of the counter from which a report may leave out a walk
        /// (as `STEPS_COARSE_MS` of the detectors).
        COUNTER_SILENT_MS: u32 = 5_000;
        /// The walking speed where steps are not counted.
        WALK_MPS: f32 = 1.3;
        /// A phone with less than one fix in this time on average has rare fixes: a hop between two
        /// addresses takes less.
        RARE_FIX_MS: u32 = 60_000;
        /// The speed of a vehicle in a town, m/s: the speed limit.
        TOWN_MPS: f32 = 14.0;
        /// The share of the walked distance that separates start and end: indoor paths turn.
        WAY_TO_DISTANCE: f32 = 0.6;
        /// Below this spread of acceleration (m/s²) a body does not walk: the gait of a carried
        /// phone spreads 1 and more.
        STILL_ACCEL_STD: f32 = 0.45;
        /// Less time on foot between two drives means that the phone was moved about in the
        /// vehicle.
        ON_FOOT_MS_MIN: u32 = 8_000;
        /// A time without data of this length may hide a walk (contract 5: an interruption near the
        /// drop-off).
        SILENCE_MS: u32 = 10_000;
        /// The time before and after the start or end of a drive from which the place of the parked
        /// vehicle is taken.
        AT_DRIVE_MS: u32 = 3_000;
        /// A stop with a drop-off mark is not in the vehicle if it is farther away than this (as
        /// `stays::REVERSAL_M`).
        MARKED_AWAY_M: f32 = 8.0;
        /// A shorter drive is doubtful: delivery hops last 15 to 40 s, but so do periods of
        /// positions that jump.
        DOUBTFUL_DRIVE_MS: u32 = 30_000;
        /// The time of a doubtful drive per second of gait up to which the drive is dropped: half
        /// of its seconds have a gait.
        STEP_OF_DRIVE_MS: u32 = 2_000;
        /// A doubtful drive is dropped if it lies between two walks that are closer to it than
        /// this.
        NO_PAUSE_MS: u32 = 1_500;
        /// The minimum cadence of walking (textbook).
        GAIT_HZ: f32 = 1.0;
        /// The maximum cadence of a courier, steps per second: a run.
        CADENCE_HZ_MAX: f32 = 3.0;
    }

    /// Parameters of `score/position.rs`.
    pub(crate) mod position {
        /// A phone's error is rarely below this, regardless of the accuracy that it reports (Merry
        /// and Bettinger 2019: 7 to 13 m in towns).
        SIGMA_M_MIN: f32 = 8.0;
        /// The errors of two sources of one place are partly correlated: no mean of them is more
        /// exact than this part of the best one.
        FUSED_MIN: f32 = 0.75;
        /// Sources that are this many common uncertainties apart contradict each other.
        CONTRADICT_SIGMAS: f32 = 2.5;
    }

    /// Parameters of `score/jumps.rs`.
    pub(crate) mod jumps {
        /// Stale fixes at the start jump, so no earlier jump counts (40 false alarms over 63
        /// genuine traces without this).
        SETTLING_MS: u32 = 20_000;
        /// The number of uncertainties (68 % radius, both fixes) that a jump must exceed.
        JUMP_SIGMAS: f32 = 2.5;
        /// The maximum speed of a delivery vehicle.
        JUMP_MPS: f32 = 50.0;
        /// The distance from which a jump between accurate positions is not an error of a receiver,
        /// metres. Reflections in streets reach a few hundred metres.
        FAR_M: f32 = 1_000.0;
        /// The largest accuracy radius of both positions of such a jump, metres. Positions by Wi-Fi
        /// or cells claim more, and may be in another city.
        FAR_ACCURACY_M: f32 = 15.0;
        /// The number of fixes that must stay at the target of a jump.
        STAYS_FIXES: usize = 3;
        /// The shortest time within which the fixes must stay at the target of a jump. Where they
        /// are rarer, it is [`STAYS_FIXES`] usual intervals: two follow the first one, and a late one
        /// has a whole interval.
        STAYS_MS: u32 = 15_000;
        /// The assumed accuracy of a fix without one: it may be anywhere in a street.
        UNKNOWN_ACCURACY_M: f32 = 60.0;
        /// After a jump, positions are trusted again within this distance of the last trusted
        /// position, plus a walk.
        RETURN_M: f32 = 100.0;
        /// The speed of the walk that is allowed since the last trusted position.
        RETURN_MPS: f32 = 3.0;
        /// Nine tenths of the seconds are below this spread of acceleration (m/s²) if a phone lies,
        /// or its bearer sits: the softest recorded car has 0.17 and more.
        REST_ACCEL_STD: f32 = 0.085;
        /// The minimum accuracy by which a jump is judged, metres: receivers that claim less are
        /// wrong.
        ACCURACY_M_MIN: f32 = 5.0;
        /// The minimum number of seconds with data of the body that show rest.
        REST_SEC_MIN: usize = 3;
        /// The minimum share of the seconds with such data, as a fraction.
        REST_HEARD_SHARE: (usize, usize) = (4, 5);
        /// The share of those seconds that must be below [`REST_ACCEL_STD`], as a fraction.
        REST_SHARE: (usize, usize) = (9, 10);
    }
}
