//! Parameters of scoring: where the courier was: positions, jumps, stays, entrance. Each says its unit in its name and what it rests on.

crate::parameters::table! {
    /// Of `score/place.rs`.
    pub(crate) mod drop_off {
        /// A mark this far from a stay still belongs to it (research: 20 s).
        MARK_NEAR_MS: u32 = 20_000;
        /// The phone's clock and the service's may be this far apart at the end: what was under way.
        CLOCKS_APART_MS: u32 = 60_000;
        /// A stay at the address this long before explains a hand-over that is tapped on the way on (research 4: 5 min).
        LATE_TAP_MS: u32 = 300_000;
        /// And one this long after explains a tap in the vehicle. Judgement: parking and a walk, with a stay.
        EARLY_TAP_MS: u32 = 600_000;
        /// At the address: within this many uncertainties of it, or these metres.
        LATE_TAP_SIGMAS: f32 = 2.0;
        /// See the one above.
        LATE_TAP_M: f32 = 20.0;
        /// Around an instant, what its position is taken from.
        INSTANT_MS: u32 = 3_000;
    }

    /// Of `score/place/entrance.rs`.
    pub(crate) mod entrance {
        /// An accuracy worse than this on the way in is a sign of walls (research 8: chosen on the recordings).
        WORSENED_M: f32 = 35.0;
        /// So many times the usual accuracy is worse, too, on phones that are usually exact, but not below this.
        WORSENED_TIMES: f32 = 2.5;
        /// See the one above.
        WORSENED_LEAST_M: f32 = 25.0;
        /// The usual is that of this time before.
        USUAL_MS: u32 = 60_000;
        /// A phone that stands sends nothing new, and begins again where it ended …
        STOOD_M: f32 = 20.0;
        /// … with a fix that is not yet bad (contract 4: `GPS_DEGRADED`): reception fades after it.
        STOOD_ACCURACY_M: f32 = 50.0;
        /// From the door to the first worsened fix (median over 62 entries).
        LAG_MS: u32 = 7_000;
        /// How long before the event the first worsened fix may lie.
        DECAY_LOOK_BACK_MS: u32 = 20_000;
        /// A known entrance counts as passed within this, plus half the fix's accuracy.
        PASSED_M: f32 = 12.0;
        /// Good reception for this long, indoors, is that of a window.
        WINDOW_VIEW_MS: u32 = 12_000;
        /// From the entrance to stairs or elevator one crosses a hall (5 to 14 m, judgement).
        HALL_MS: u32 = 8_000;
        /// Of a stay before an elevator, no more than this is taken for the wait for it.
        WAIT_MOST_MS: u32 = 30_000;
        /// At a gate under the open sky fixes are this good, metres: half of what a doorway makes of them ([`WORSENED_M`]) …
        GATE_ACCURACY_M: f32 = 17.0;
        /// … and there are so many of them.
        GATE_FIXES: usize = 3;
        /// Signs this close to each other speak of the same door.
        AGREE_MS: u32 = 25_000;
    }

    /// Of `score/place/entrance/doorway.rs`.
    pub(crate) mod doorway {
        /// Seconds around the first guess that are looked at.
        AROUND_MS: u32 = 12_000;
        /// Reception, and a known place, are off by about this …
        PLACED_MS: f32 = 3_000.0;
        /// … and cost no more than this.
        PLACED_MOST: f32 = 4.0;
        /// A hall is crossed in this …
        HALL_MS: f32 = 8_500.0;
        /// … give or take this, as a standard deviation; and says no more than that.
        HALL_SPREAD_MS: f32 = 3_000.0;
        /// See the one above.
        HALL_MOST: f32 = 3.0;
        /// The end of a passage speaks for the second of it and the next ones by this.
        GATE_GAIN: f32 = 1.5;
        /// See the one above.
        GATE_NEAR_MS: u32 = 1_000;
        /// A gait that falls to this share of the usual is a pause: a door is pulled open.
        PAUSE_SHARE: f32 = 0.6;
        /// After it the gait is at least this share of the usual.
        RESUMED_SHARE: f32 = 0.6;
        /// What a full pause speaks for the second in which it ends.
        PAUSE_GAIN: f32 = 2.0;
        /// Seconds on both sides of which the air's level is the mean.
        LEVEL_SEC: u32 = 4;
        /// Seconds before, of which the air's noise is that of neighbouring seconds.
        NOISE_SEC: u32 = 15;
        /// The least noise, metres: a hundredth of a hectopascal is 8 cm.
        NOISE_LEAST_M: f32 = 0.017;
        /// What a walk on level ground changes in those seconds, metres.
        LEVEL_CHANGE_M: f32 = 0.05;
        /// A change of the air from so many deviations on speaks for a doorway, each more by this, up to so many.
        STEP_FROM: f32 = 2.0;
        /// See the one above.
        STEP_GAIN: f32 = 0.6;
        /// See the one above.
        STEP_MOST: f32 = 4.0;
        /// The same of a single leap of a second.
        LEAP_FROM: f32 = 3.0;
        /// See the one above.
        LEAP_GAIN: f32 = 0.2;
        /// See the one above.
        LEAP_MOST: f32 = 6.0;
    }

    /// Of `score/place/halt.rs`.
    pub(crate) mod halt {
        /// The vehicle stands within this of the address (with its uncertainty) when it is said to have come.
        FENCE_M: f32 = 150.0;
        /// A halt of this length near the address is enough to bring a parcel to a door.
        HALT_MS: u32 = 30_000;
        /// Within a drive a halt this long is more than a traffic light.
        HALT_IN_TRAFFIC_MS: u32 = 60_000;
        /// One in which the app said that the parcel was handed over need only be long enough to reach out of the window.
        HALT_PROVED_MS: u32 = 10_000;
        /// A vehicle that stands moves less than this, or than its fix is exact.
        STANDS_M: f32 = 15.0;
    }

    /// Of `score/place/stays.rs`.
    pub(crate) mod stays {
        /// Two stops this near in time, without a change of place, are one stay: the parcel is shifted, the bell rung again.
        MERGED_MS: u32 = 6_000;
        /// And with this way between them at most: four steps.
        MERGED_WALK_M: f32 = 3.0;
        /// A stay is at least this long, where a mark says that there was one and the body stood still.
        MARKED_LEAST_MS: u32 = 3_000;
        /// How far a stay around a mark is looked for.
        MARKED_SPAN_MS: u32 = 120_000;
        /// Steps for this long lead away from a door.
        STEPS_AWAY_MS: u32 = 2_000;
        /// A step more within a stay does not end it.
        FIDGET_MS: u32 = 2_000;
        /// Levels closer than this are the same floor.
        SAME_FLOOR_M: f32 = 1.6;
        /// How long a stay at a door usually is.
        USUAL_MS: core::ops::RangeInclusive<u32> = 5_000..=120_000;
        /// How long before an elevator one waits for it.
        ELEVATOR_WAIT_MS: u32 = 10_000;
        /// The level on which one came is that of this time, from the beginning of a period on foot.
        BEFORE_MS: u32 = 10_000;
        /// Going back is going this much nearer to the vehicle.
        REVERSAL_M: f32 = 8.0;
    }

    /// Of `score/place/upstairs.rs`.
    pub(crate) mod upstairs {
        /// Shorter than this it may be a landing, or a cabin that turns back.
        LEAST_MS: u32 = 10_000;
        /// Another floor is this far up or down at least, metres: the lowest storey (2.7 m), less the noise of two levels.
        FLOOR_M_MIN: f32 = 2.4;
        /// Levels farther apart in time than this are two stays.
        GAP_MS: u32 = 5_000;
    }

    /// Of `score/scene.rs`.
    pub(crate) mod scene {
        /// A fix worse than this says nothing of the place (contract 4: `GPS_LOST`).
        USABLE_ACCURACY_M: f32 = 150.0;
        /// A fix this exact is an anchor from which a way on foot may be counted.
        ANCHOR_ACCURACY_M: f32 = 35.0;
        /// An anchor farther away in time is none.
        ANCHOR_AGE_MS: u32 = 600_000;
        /// Anchors that are tried: reception fades over some seconds, and an earlier fix may be the better one.
        ANCHORS: usize = 30;
        /// Indoors (seen by bad reception, or a change of floors, within this time), a phone's own accuracy is too good by this factor (recorded: some claim
        /// 4 m in a basement).
        INDOOR_NEAR_MS: u32 = 30_000;
        /// See the one above.
        INDOOR_FACTOR: f32 = 2.0;
        /// What of the way walked on stairs leads away from where they stand.
        STAIRS_SHARE: f32 = 0.15;
        /// Length of a step (textbook, 0.6 to 0.8 m).
        STEP_M: f32 = 0.7;
        /// Walking, where steps are not counted.
        WALK_MPS: f32 = 1.3;
        /// How far one comes from where one was, of the way walked: indoors ways turn.
        WAY_TO_DISTANCE: f32 = 0.6;
        /// Below this spread of acceleration (m/s²) a body does not walk: the gait of a carried phone spreads 1 and more.
        STILL_ACCEL_STD: f32 = 0.45;
        /// Less time on foot between two drives is a phone that was moved about in the vehicle.
        ON_FOOT_LEAST_MS: u32 = 8_000;
        /// A shorter drive may be none: hops of deliveries are 15 to 40 s long, leaps of positions as well.
        DOUBTFUL_DRIVE_MS: u32 = 30_000;
        /// It is none with a gait in half of its seconds.
        STEP_OF_DRIVE_MS: u32 = 2_000;
        /// It is none between two walks that are nearer to it than this.
        NO_PAUSE_MS: u32 = 1_500;
        /// Walking has at least this cadence (textbook).
        GAIT_HZ: f32 = 1.0;
    }

    /// Of `score/position.rs`.
    pub(crate) mod position {
        /// A phone's error is hardly ever below this, whatever it claims (Merry and Bettinger 2019: 7 to 13 m in towns).
        SIGMA_LEAST_M: f32 = 8.0;
        /// Two sources of one place err together in part: no mean of them is more exact than this part of the best one.
        FUSED_LEAST: f32 = 0.75;
        /// Sources this many common uncertainties apart contradict each other.
        CONTRADICT_SIGMAS: f32 = 2.5;
    }

    /// Of `score/jumps.rs`.
    pub(crate) mod jumps {
        /// Stale fixes at the start jump: nothing counts before (40 false alarms over 63 honest traces without it).
        SETTLING_MS: u32 = 20_000;
        /// Uncertainties (68 % radius, both fixes) that a jump must exceed.
        JUMP_SIGMAS: f32 = 2.5;
        /// No vehicle that delivers is faster.
        JUMP_MPS: f32 = 50.0;
        /// Fixes after a jump that must stay where it led, and how long.
        STAYS_FIXES: usize = 3;
        /// See the one above.
        STAYS_MS: u32 = 15_000;
        /// A fix whose accuracy the phone does not tell may be anywhere in a street.
        UNKNOWN_ACCURACY_M: f32 = 60.0;
        /// Reached by a jump, positions are believed again this near to the last that were believed, with a walk between.
        RETURN_M: f32 = 100.0;
        /// See the one above.
        RETURN_MPS: f32 = 3.0;
        /// Nine tenths of the seconds are below this spread of acceleration (m/s²) where a phone lies, or its bearer sits: the
        /// softest recorded car has 0.17 and more.
        REST_ACCEL_STD: f32 = 0.085;
    }
}
