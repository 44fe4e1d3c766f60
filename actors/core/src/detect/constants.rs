//! Every threshold of the detectors, with its unit in its name and where it comes from: the contract, a published or
//! measured figure, or a fit.

// --- GPS quality ------------------------------------------------------------------------------------------------

/// A fix this many times worse than the session's usual is degraded (contract 4).
pub(super) const DEGRADED_RATIO: f32 = 2.5;
/// The session's usual accuracy is the median of its usable fixes, in bins from this, metres …
pub(super) const USUAL_BIN_M: f32 = 1.0;
/// … each this much wider than the one before, so that the last reaches 50 m.
pub(super) const USUAL_BIN_RATIO: f32 = 1.064;
/// Fixes before which nothing is usual.
pub(super) const USUAL_FIXES_MIN: u16 = 8;

// --- Gait and rest ----------------------------------------------------------------------------------------------

/// Share of the most that a second can say for a gait from which on steps were seen in it.
pub(super) const CLEAR_GAIT_SHARE: f32 = 0.5;
/// Above this spread a phone is shaken and not carried, m/s²: 99 % of the walking seconds of the recordings lie below
/// 7.5.
pub(super) const SHAKE_STD_MPS2: f32 = 8.5;
/// Log-odds of gait by the phone's step counter, where it has risen lately …
pub(super) const STEPS_LOG_ODDS: f32 = 0.6;
/// … and where not. Counters run up to 10 s late (research 2), so both are small beside acceleration.
pub(super) const STEPS_SILENT_LOG_ODDS: f32 = -0.4;
/// How long a rise of the counter is lately, at most …
pub(super) const STEPS_WITHIN_MS: u32 = 4_000;
/// … and at least, where it speaks on change.
pub(super) const STEPS_WITHIN_MS_MIN: u32 = 2_000;
/// Seconds running without a rise by which a counter shows that it speaks each second.
pub(super) const STEPS_IDLE_SEC_MIN: u8 = 3;
/// Share of the variance of acceleration that is quicker than 100 ms, from which on a phone lies in a trouser pocket.
/// Measured on the labelled walks (5 % to 95 %): front and back pockets 0.39 to 0.75, hand, arm, bag and neck 0.06 to
/// 0.38 (and those swing little), a swinging hand below 0.1.
pub(super) const POCKET_IMPACT_SHARE: f32 = 0.28;
/// Weight of a new second in that share.
pub(super) const IMPACT_NEW: f32 = 0.25;
/// Swing of the acceleration along gravity with the stride, as a share of the spread, at which stairs and level ground
/// are equally likely in a trouser pocket. Measured (medians of six and four people): going up 0.36 to 0.40, on the
/// level 0.10 to 0.20.
pub(super) const CLIMB_SWING_SHARE: f32 = 0.285;
/// The same swing, m/s²: going up 1.4 to 1.7, on the level 0.5 to 1.0.
pub(super) const CLIMB_SWING_MPS2: f32 = 1.1;
/// Log-odds for each factor of e in either …
pub(super) const CLIMB_SWING_SLOPE: f32 = 5.0;
/// … of which one second says no more than this.
pub(super) const CLIMB_SWING_MAX: f32 = 1.0;
/// Log-odds of the phone's recogniser at full confidence. It lags by tens of seconds (research 2): a hint.
pub(super) const ACTIVITY_WEIGHT: f32 = 0.3;

// --- Height -----------------------------------------------------------------------------------------------------

/// Height over which pressure falls by a factor of e at 15 °C, metres: R·T/(M·g), US Standard Atmosphere.
pub(super) const SCALE_HEIGHT_M: f32 = 8_434.0;
/// More than this in a second is no movement of a person, metres: the fastest office elevators run 5 to 6 m/s.
pub(super) const HEIGHT_LEAP_M: f32 = 6.0;
/// A silence of the barometer up to which heights are compared (research 6.3).
pub(super) const HEIGHT_GAP_MS: u32 = 20_000;
/// A second whose acceleration spreads less can be in a cabin, m/s².
pub(super) const RIDE_QUIET_STD_MPS2: f32 = 0.40;
/// A push under way may spread it up to this, m/s² (half of a change from 1.5 up to 1.5 down within a second) …
pub(super) const RIDE_LOUD_STD_MPS2: f32 = 1.2;
/// … for so many seconds running.
pub(super) const RIDE_LOUD_SEC_MAX: u8 = 2;
/// Less than this off the value at rest is noise, m/s² (elevators: 0.3 to 1.5, research 2.5).
pub(super) const RIDE_DEAD_MPS2: f32 = 0.09;
/// Weight of a quiet second in the value at rest.
pub(super) const RIDE_BASE_NEW: f32 = 0.15;
/// Quiet seconds after which the value at rest has settled.
pub(super) const RIDE_SETTLE_SEC: u8 = 2;
/// More than this off the value at rest in those seconds is a push, m/s²: twice what another grip changes it by.
pub(super) const RIDE_SETTLE_MPS2: f32 = 0.3;
/// No push is longer: at 1 m/s² (research 2.5) it would give 7 m/s.
pub(super) const RIDE_PUSH_MS_MAX: u32 = 7_000;
/// A ride has ended when its speed has fallen to this share of what the first push gave.
pub(super) const RIDE_STOPPED_SHARE: f32 = 0.45;
/// Beyond this share of the first push the other way it was no ride: an elevator stops where it stops.
pub(super) const RIDE_OVERSHOOT: f32 = 0.8;
/// A ride told by acceleration alone is no longer than this: the error of the speed grows.
pub(super) const RIDE_ALONE_MS_MAX: u32 = 100_000;

// --- Position ---------------------------------------------------------------------------------------------------

/// Fixes worse than this say nothing of movement, metres.
pub(super) const FIX_ACCURACY_M_MAX: f32 = 60.0;
/// A phone's own speed is believed up to this accuracy, metres: indoors it freezes (measured: Falcon & Schulzrinne).
pub(super) const SPEED_ACCURACY_M_MAX: f32 = 40.0;
/// Fixes this far apart are compared for a speed.
pub(super) const FIX_BASELINE_MS_MIN: u32 = 4_000;
/// Fixes further apart than this are not.
pub(super) const FIX_BASELINE_MS_MAX: u32 = 40_000;
/// No delivery vehicle is faster, m/s: 216 km/h.
pub(super) const FIX_LEAP_MPS: f32 = 60.0;
/// What a leap exceeds by, beside that speed: so many times the accuracy of both fixes.
pub(super) const FIX_LEAP_ACCURACIES: f32 = 1.0;
/// So many leaps running, and the place is another.
pub(super) const FIX_LEAPS_MAX: u8 = 4;
/// Share of the accuracy of both fixes that is taken off a displacement.
pub(super) const FIX_NOISE_SHARE: f32 = 0.7;
/// Rest by positions is judged over this time.
pub(super) const REST_BASELINE_MS: u32 = 14_000;
/// Slower than this over that time is staying, m/s: half of a walk.
pub(super) const REST_SPEED_MPS: f32 = 0.6;
/// A displacement holds for seconds up to this long before its end: the middle of the time over which it is taken.
pub(super) const REST_HOLDS_MS: u32 = 6_000;
/// Speed at which walking and rest are equally likely where the phone's own speed is good, m/s.
pub(super) const GAIT_BY_SPEED_MPS: f32 = 0.5;
/// Log-odds of gait for each m/s more.
pub(super) const GAIT_BY_SPEED_SLOPE: f32 = 2.0;
/// A second says no more than this of gait by positions.
pub(super) const GAIT_BY_POSITION_MAX: f32 = 0.8;
/// Within this a phone at rest strays in that time, metres (research 2.2: max(8 m, 1.5 times the accuracy)).
pub(super) const REST_RADIUS_M: f32 = 8.0;

// --- Movement: evidence -----------------------------------------------------------------------------------------

/// Seconds by which evidence is weighed late, so that a slope can be taken around it.
pub(super) const DELAY_MIN: usize = 3;
/// The same where positions are all there is and come seldom.
pub(super) const DELAY_MAX: usize = 13;
/// Vertical speed that is still level ground, m/s: 8 % of a walk (ramps end at 8 %, EN 17210).
pub(super) const LEVEL_MPS: f32 = 0.07;
/// How quickly a faster one speaks against level ground, m/s.
pub(super) const LEVEL_SPREAD_MPS: f32 = 0.08;
/// The same for who walks, m/s: a steady 0.2 m/s would be a street of 15 %, and half a staircase in the hand of somebody
/// who goes slowly (measured in a museum: 0.16 to 0.24 m/s on flights of 1.2 to 1.7 m).
pub(super) const WALK_LEVEL_SPREAD_MPS: f32 = 0.06;
/// Vertical speed on stairs, m/s, slowest (research 2.0: 0.2 to 0.35; with a turn on each landing less) …
pub(super) const CLIMB_SLOW_MPS: f32 = 0.15;
/// … and fastest.
pub(super) const CLIMB_FAST_MPS: f32 = 0.60;
/// How quickly another speed speaks against it, m/s.
pub(super) const CLIMB_SPREAD_MPS: f32 = 0.09;
/// Vertical speed of a slow elevator, m/s (research 2.5: hydraulic ones 0.15 to 0.3).
pub(super) const RIDE_MPS: f32 = 0.22;
/// Where no body is measured, slower than this is more likely stairs, m/s: the slowest traction elevators run 0.63 …
pub(super) const RIDE_USUAL_MPS: f32 = 0.5;
/// … by so much in each second: there are slow hydraulic ones, so that it decides only where nothing else does.
pub(super) const RIDE_SLOW_COST: f32 = 0.15;
/// A second's height says no more than this.
pub(super) const RATE_COST_MAX: f32 = 3.0;
/// Without a barometer: vertical speed by acceleration that is a ride, m/s.
pub(super) const RIDE_ALONE_MPS: f32 = 0.40;
/// Without a barometer: what speaks against a change of height in every second without a sign of one.
pub(super) const UNMEASURED_RIDE_COST: f32 = 1.5;
/// Speed over ground at which walking and driving are equally likely, m/s (measured: couriers walk up to 2, their
/// drives between stops begin at 3).
pub(super) const DRIVE_SPEED_MPS: f32 = 2.6;
/// Log-odds for each m/s more.
pub(super) const DRIVE_SLOPE: f32 = 0.9;
/// A second's speed says no more than this.
pub(super) const DRIVE_LOG_ODDS_MAX: f32 = 1.8;

// --- Movement: changes ------------------------------------------------------------------------------------------

/// Log-odds that a change of state costs, from row to column: still, walk, climb, ride, drive. A pause and its end cost
/// 8, so that at full evidence pauses under 4 to 5 s belong to the walk (contract 4).
pub(super) const CHANGE_COST: [[f32; 5]; 5] = [
    [0.0, 4.0, 7.0, 5.0, 4.0],
    [4.0, 0.0, 4.0, 7.0, 4.0],
    [5.0, 3.0, 0.0, 8.0, 9.0],
    [4.0, 5.0, 8.0, 0.0, 12.0],
    [4.0, 4.0, 14.0, 14.0, 0.0],
];

// --- Movement: what is an event -----------------------------------------------------------------------------------

/// Staying is an event from here on (contract 4) …
pub(super) const STOPPED_MS_MIN: u32 = 8_000;
/// … and where positions are all there is, from here on (contract 4).
pub(super) const STOPPED_BY_POSITION_MS_MIN: u32 = 20_000;
/// Walking is an event from here on: three to five steps.
pub(super) const WALK_MS_MIN: u32 = 3_000;
/// A pause shorter than this belongs to the walk (contract 4).
pub(super) const PAUSE_MS_MAX: u32 = 5_000;
/// Stairs are an event from here on …
pub(super) const CLIMB_MS_MIN: u32 = 4_000;
/// … from here on where only the stride tells: a flight of a dozen steps …
pub(super) const CLIMB_BY_STRIDE_MS_MIN: u32 = 8_000;
/// … and from this height on, metres: half a storey of a dwelling (research 2.4).
pub(super) const CLIMB_HEIGHT_M_MIN: f32 = 1.5;
/// Height from which on it shows which way a climb goes on, metres: four steps, or the noise of pressure.
pub(super) const SAME_WAY_M_MIN: f32 = 0.7;
/// Level walking between two flights that belongs to the stairs.
pub(super) const LANDING_MS_MAX: u32 = 10_000;
/// A ride is an event from this height on, metres: less than the lowest storey (2.7 m), more than a door's pressure
/// step.
pub(super) const RIDE_HEIGHT_M_MIN: f32 = 1.8;
/// The same where the body is measured and no push was felt, metres: phones that reduce their motion smooth it away,
/// and only a storm moves the air of a building by as much as a storey (research 2.0: drift of 0.1 hPa in 10 min).
pub(super) const RIDE_UNFELT_HEIGHT_M_MIN: f32 = 2.3;
/// The same where no body is measured and the phone goes on seeing the sky, metres: in a cabin it does not (of 37 rides in
/// New York the best fix in one was of 50 m), and wind moves the pressure by more than a storey.
pub(super) const RIDE_UNDER_SKY_HEIGHT_M_MIN: f32 = 10.0;
/// A fix this exact sees the sky, metres …
pub(super) const SKY_ACCURACY_M: f32 = 12.0;
/// … for so long.
pub(super) const SKY_HOLDS_MS: u32 = 5_000;
/// A ride told by acceleration alone is an event from here on.
pub(super) const RIDE_ALONE_MS_MIN: u32 = 4_000;
/// The same: somebody walked into the cabin, this long before at most. A vehicle goes over bumps for longer.
pub(super) const CAME_ON_FOOT_MS_MAX: u32 = 120_000;
/// A session that begins in a vehicle shows no speed until its first fix: time to it under open sky with some margin
/// (research 2.0: 5 s for a warm receiver).
pub(super) const FIRST_FIX_MS: u32 = 20_000;
/// The same for a cold receiver, which the decoder waits for (GPS interface specification: the orbit data of a satellite
/// are sent each 30 s).
pub(super) const COLD_FIX_MS: u32 = 30_000;
/// A stop at a floor between that belongs to the ride (research 2.5).
pub(super) const DOOR_STOP_MS_MAX: u32 = 25_000;
/// Driving is an event from here on.
pub(super) const DRIVE_MS_MIN: u32 = 8_000;
/// The same after a walk, where the body goes on walking: fixes that jump behind a door claim vehicles of ten seconds and
/// more. Who rides a bicycle is believed after this long.
pub(super) const DRIVE_IN_GAIT_MS_MIN: u32 = 30_000;
/// Driving leads at least this far, metres: less is a fix that jumped.
pub(super) const DRIVE_LENGTH_M_MIN: f32 = 25.0;
/// A halt up to this long belongs to the drive where nobody walks away: traffic lights and queues; the labels of the
/// recordings draw the same line.
pub(super) const HALT_MS_MAX: u32 = 140_000;
/// The same where positions are all there is: nobody could be seen to walk away, and couriers park more often for a
/// minute than they wait in traffic for one (measured: hops of delivery agents).
pub(super) const HALT_BY_POSITION_MS_MAX: u32 = 45_000;
/// A vehicle still rolls at this speed, m/s.
pub(super) const ROLLING_MPS: f32 = 0.6;
/// Moving slowly for this long says the same where positions are all there is: shorter ones are manoeuvres.
pub(super) const PARKED_MOVE_MS_MIN: u32 = 25_000;
/// The same where the phone's own speed is good enough to tell walking.
pub(super) const PARKED_SEEN_MS_MIN: u32 = 12_000;
/// … with so many fixes in it, where they come seldom.
pub(super) const PARKED_MOVE_FIXES: u16 = 4;
/// Standard deviation of a walk's speed, as a share of its mean, at most: who walks does so at one speed (measured: 0.15
/// to 0.35 for walks, 0.4 and more for queues).
pub(super) const WALK_UNSTEADY_SHARE: f32 = 0.4;
/// Mean speed of a walk to a door, m/s, at most: a faster one may as well be a queue's.
pub(super) const WALK_USUAL_MPS_MAX: f32 = 1.6;
/// A slow move that long has left the vehicle, however unsteady.
pub(super) const PARKED_UNSTEADY_MS_MIN: u32 = 60_000;
/// Walking this long says that the vehicle was left.
pub(super) const PARKED_WALK_MS_MIN: u32 = 5_000;

/// Log-odds of driving in a second without a speed: a vehicle must have been seen to move.
pub(super) const DRIVE_UNSEEN_LOG_ODDS: f32 = -0.15;
/// What entering a vehicle costs in a second without a speed: it must have been seen to move.
pub(super) const DRIVE_UNSEEN_ENTRY_COST: f32 = 60.0;
/// Climbing and riding go with a speed over ground of at most this, m/s: stairs are taken at 0.5.
pub(super) const CLIMB_GROUND_SPEED_MPS: f32 = 1.1;
/// What each m/s more speaks against them, up to [`RATE_COST_MAX`].
pub(super) const CLIMB_GROUND_SPEED_COST: f32 = 2.0;
/// The same under the sky, where the phone's own speed is good: nobody takes stairs so quickly over ground, m/s …
pub(super) const STREET_SPEED_MPS: f32 = 0.8;
/// … and so much each m/s more speaks against them: a street of 15 % is none.
pub(super) const STREET_SPEED_COST: f32 = 5.0;
/// Share of the slope's squared standard error that is added to those spreads: swings of the air last some seconds, so
/// that neighbouring seconds are not independent.
pub(super) const RATE_ERROR_SHARE: f32 = 4.0;
/// How long a speed over ground speaks against climbing after it was seen.
pub(super) const SPEED_HOLDS_MS: u32 = 12_000;
/// A phone's own speed tells walking from rest up to this accuracy, metres.
pub(super) const WALK_ACCURACY_M_MAX: f32 = 20.0;
/// Nobody walks faster for long, m/s …
pub(super) const WALK_SPEED_MPS_MAX: f32 = 2.1;
/// … and a slow move in which one second of this many is faster is a vehicle's (measured: queues creep and stop).
pub(super) const FAST_SECONDS_SHARE: u32 = 6;
/// Height that a climb or ride gains, of the height gone up and down in it: less is wind.
pub(super) const CLIMB_STRAIGHT_MIN: f32 = 0.6;
/// Height that a climb or ride gains, of the mean standard error of its slope in m/s: four times the roughness of the
/// height that this error comes from.
pub(super) const CLIMB_ROUGH_SEC: f32 = 20.0;

// --- Backtracking (contract 4, research 2.3) ------------------------------------------------------------------------

/// Distance between two crumbs of the path, metres.
pub(super) const CRUMB_M: f32 = 5.0;
/// Fixes worse than this leave no crumb, metres.
pub(super) const CRUMB_ACCURACY_M_MAX: f32 = 20.0;
/// Weight of a new fix in the smoothed place.
pub(super) const CRUMB_NEW: f32 = 0.4;
/// Weight of a new course over ground in that of late: that of one fix is off by 10 to 30 degrees on foot.
pub(super) const COURSE_NEW: f32 = 0.5;
/// The way back runs within this of the way there, metres …
pub(super) const RETRACE_NEAR_M: f32 = 8.0;
/// … or within so many times the accuracy, of which each of the two ways has its own …
pub(super) const RETRACE_ACCURACIES: f32 = 1.4;
/// … but no more than this: the other side of the street.
pub(super) const RETRACE_NEAR_M_MAX: f32 = 18.0;
/// Where no body is measured it is an event from this length on, metres: positions wander.
pub(super) const RETRACE_UNSEEN_M_MIN: f32 = 25.0;
/// Evidence of a second that counts as walking, or against it as rest.
pub(super) const REST_LOG_ODDS: f32 = 0.3;
/// Seconds at rest from which on the path stands still.
pub(super) const REST_SEC_MIN: u8 = 3;
/// It runs against it: the cosine is at most this.
pub(super) const RETRACE_COSINE_MAX: f32 = -0.6;
/// It is gone within this of the way there.
pub(super) const RETRACE_WITHIN_MS: u32 = 180_000;
/// It is an event from this length on, metres, or from the accuracy on.
pub(super) const RETRACE_M_MIN: f32 = 15.0;
/// Crumbs running that do not lie on the way there end it.
pub(super) const RETRACE_MISSES_MAX: u8 = 3;
/// A stay of this length at the turn makes it a visit to a door, and the way after it the way to the vehicle.
pub(super) const VISIT_MS_MIN: u32 = 14_000;
/// Walking from one crumb to the next takes about this: longer is staying.
pub(super) const VISIT_STRIDE_MS: u32 = 5_000;
/// The stay may end this long before the turn, and begin this long after it, as the path has it.
pub(super) const VISIT_NEAR_MS: u32 = 12000;
/// A stay this near to the address, metres, may be the drop-off: the way after it is the way to the vehicle.
pub(super) const RETURN_NEAR_M: f32 = 35.0;
