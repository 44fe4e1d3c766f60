//! Parameters of the decoder of movement: the evidence of a second, the cost of a change, and the
//! runs of seconds that become events. Each has its unit in its name and states its basis.

crate::parameters::table! {
    /// The evidence of a second for each state of movement.
    pub(in crate::detect) mod evidence {
        /// The delay in seconds before evidence is weighed, so that a slope can be taken around it.
        DELAY_MIN: usize = 3;
        /// The delay in seconds where positions are the only source and come rarely.
        DELAY_MAX: usize = 13;
        /// The vertical speed that is still level ground, m/s: 8 % of a walk (ramps end at 8 %, EN
        /// 17210).
        LEVEL_MPS: f32 = 0.07;
        /// The scale on which a faster vertical speed counts against level ground, m/s.
        LEVEL_SPREAD_MPS: f32 = 0.08;
        /// The scale of vertical speed for a walk, m/s: a steady 0.2 m/s is a street of 15 %, or
        /// the half of a staircase that a slow walker's phone shows. Measured in a museum: 0.16 to
        /// 0.24 m/s on flights of 1.2 to 1.7 m.
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
        /// The vertical speed below which stairs are more likely than a ride if no body is
        /// measured, m/s: the slowest traction elevators run at 0.63.
        RIDE_USUAL_MPS: f32 = 0.5;
        /// The cost of a ride in each second below [`RIDE_USUAL_MPS`]. There are slow hydraulic
        /// elevators, so it decides only where nothing else does.
        RIDE_SLOW_COST: f32 = 0.15;
        /// The maximum that the height of one second contributes to the evidence.
        RATE_COST_MAX: f32 = 3.0;
        /// The vertical speed by acceleration that is a ride without a barometer, m/s.
        RIDE_ALONE_MPS: f32 = 0.40;
        /// The cost of each second of a ride without a measured height, and of a climb unless the
        /// stride shows one.
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
        /// The speed that no pedestrian keeps up without steps, m/s, if the step counter reports
        /// each second and has counted nothing for [`SHAKEN_SILENT_MS`]. Couriers walk up to 2.1
        /// and jog from 2.5 on, and a counter counts a jog.
        SHAKEN_SILENT_MPS: f32 = 2.5;
        /// The number of consecutive fixes at [`SHAKEN_MPS`] that show a vehicle.
        SHAKEN_FIXES: u8 = 3;
        /// The time without a rise after which the step counter is silent: counters run up to 10 s
        /// late (sources: phones).
        SHAKEN_SILENT_MS: u32 = 10_000;
        /// The time for which a fix at [`SHAKEN_MPS`] counts.
        SHAKEN_HOLDS_MS: u32 = 15_000;
        /// The time over which the distance between two fixes shows the speed of a phone that
        /// reports none. A bicycle moves several accuracy radii in it.
        SHAKEN_WAY_MS: u32 = 5_000;
        /// The longest time between two fixes that shows a speed, as a multiple of
        /// [`SHAKEN_WAY_MS`].
        SHAKEN_WAYS_MAX: u32 = 3;
        /// The speed by satellites up to which the phone stands, m/s: half of the slowest walk less
        /// the claimed error of a receiver's speed.
        STANDS_MPS: f32 = 0.3;
        /// The steepest street that vehicles take (public roads of 15 to 20 % are rare enough to
        /// bear signs).
        STREET_GRADE_MAX: f32 = 0.15;
    }

    /// The changes between states of movement.
    pub(in crate::detect) mod changes {
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
    pub(in crate::detect) mod runs {
        /// The shortest stay that is an event (contract 4).
        STOPPED_MS_MIN: u32 = 8_000;
        /// The shortest stay that is an event where positions are the only source (contract 4).
        STOPPED_BY_POSITION_MS_MIN: u32 = 20_000;
        /// The shortest walk that is an event: three to five steps.
        WALK_MS_MIN: u32 = 3_000;
        /// The duration below which a pause belongs to the walk (contract 4).
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
        /// The smallest height of a ride where the body is measured and shows no push, metres.
        /// Phones that reduce their motion smooth it away, and only a storm moves the air of a
        /// building by a storey (sources: phones, drift of 0.1 hPa in 10 min).
        RIDE_UNFELT_HEIGHT_M_MIN: f32 = 2.3;
        /// The smallest height of a ride where the phone keeps seeing the sky and the body shows no
        /// push, metres. In a cabin the phone does not see the sky (in 37 rides in New York the
        /// best fix had an accuracy of 50 m), and wind moves the pressure by more than a storey.
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
        /// The longest halt that belongs to the drive if positions are the only source, which
        /// cannot show whether the courier walked away. Couriers park for a minute more often than
        /// they wait that long in traffic (measured: hops of delivery agents).
        HALT_BY_POSITION_MS_MAX: u32 = 45_000;
        /// The speed at which a vehicle still rolls, m/s.
        ROLLING_MPS: f32 = 0.6;
        /// The speed below which a rider steps off a vehicle, m/s. A bicycle that slows down and
        /// rides on stays above 1.2 (measured: ten bends and crossings in four public sources).
        STEP_OFF_MPS: f32 = 1.0;
        /// The deceleration that gives the earliest standstill of a vehicle without reception,
        /// m/s²: hard braking in traffic.
        BRAKE_MPS2: f32 = 4.0;
        /// The number of consecutive seconds faster than a walk, with the body at rest, after which
        /// a vehicle that halted in traffic has moved on: the speed of a parked phone wanders for
        /// less.
        CREEP_SEC_MIN: u8 = 3;
        /// The shortest slow move that shows that the vehicle was left, if positions are the only
        /// source: shorter ones are manoeuvres.
        PARKED_MOVE_MS_MIN: u32 = 25_000;
        /// The shortest slow move that shows that the vehicle was left, if the phone's own speed is
        /// good enough to distinguish walking.
        PARKED_SEEN_MS_MIN: u32 = 12_000;
        /// The least number of fixes in a slow move that shows that the vehicle was left, for
        /// phones that send fixes rarely.
        PARKED_MOVE_FIXES: u16 = 4;
        /// The maximum standard deviation of a walk's speed, as a share of its mean: walkers keep
        /// one speed (measured: 0.15 to 0.35 for walks, 0.4 and more for queues).
        WALK_UNSTEADY_SHARE: f32 = 0.4;
        /// The maximum mean speed of a walk to a door, m/s: a faster one may as well be a queue's.
        WALK_USUAL_MPS_MAX: f32 = 1.6;
        /// The shortest slow move that shows that the vehicle was left, however unsteady the speed.
        PARKED_UNSTEADY_MS_MIN: u32 = 60_000;
        /// The shortest walk that shows that the vehicle was left.
        PARKED_WALK_MS_MIN: u32 = 5_000;
        /// The log-odds of driving in a second without a speed: a vehicle must have been seen to
        /// move.
        DRIVE_UNSEEN_LOG_ODDS: f32 = -0.15;
        /// The cost of entering a vehicle in a second without a speed: it must have been seen to
        /// move.
        DRIVE_UNSEEN_ENTRY_COST: f32 = 60.0;
        /// The log-odds by which a drive without a speed may lag behind a new one: as much as a
        /// pause and its end cost. A drive that lags more would only delay the decisions of all
        /// seconds since the last fix.
        DRIVE_UNSEEN_LAG_MAX: f32 = 8.0;
        /// The usual time between two fixes from which a vehicle may be moving unseen between them.
        SPARSE_FIX_MS: f32 = 3_000.0;
        /// The time after a vehicle's speed for which the vehicle may still be moving, in usual
        /// intervals between fixes.
        DRIVE_HOLDS_INTERVALS: f32 = 1.5;
        /// The highest speed over ground of climbing and riding, m/s: couriers take stairs at 0.5.
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
        CLIMB_SPEED_HOLDS_MS: u32 = 12_000;
        /// The longest time for which a speed counts against climbing, in usual intervals between
        /// fixes, plus 2 s for the delay of a fix. When a second fix is missing, the courier is
        /// behind a door, where the speed of the street says nothing.
        CLIMB_SPEED_HOLDS_INTERVALS: f32 = 2.0;
        /// The accuracy up to which the phone's own speed distinguishes walking from rest, metres.
        WALK_ACCURACY_M_MAX: f32 = 20.0;
        /// The speed that a pedestrian does not exceed for long, m/s.
        WALK_SPEED_MPS_MAX: f32 = 2.1;
        /// The speed that no courier runs, m/s (22 km/h, a sprint).
        RUN_SPEED_MPS_MAX: f32 = 6.0;
        /// The divisor for the duration of a slow move: one second in this many that is faster than
        /// a walk shows a vehicle (measured: queues creep and stop).
        FAST_SECONDS_SHARE: u32 = 6;
        /// The smallest net height of a climb or ride, as a share of the height climbed up and down
        /// in it: less is wind.
        CLIMB_STRAIGHT_MIN: f32 = 0.6;
        /// The smallest net height of a climb or ride, per m/s of the mean standard error of its
        /// slope, and of a ride per m/s of the usual deviation of the slope before it. It is four
        /// times the roughness of the height from which this error comes.
        CLIMB_ROUGH_SEC: f32 = 20.0;
        /// The weight of a new second in the usual slope of the height and in the deviation from
        /// it: 20 s contain several gusts, of 3 s each (World Meteorological Organization).
        SWAY_NEW: f32 = 0.05;
        /// The least mean evidence of the seconds of a walk or a rest, in log-odds.
        RUN_EVIDENCE_MIN: f32 = 0.25;
    }
}
