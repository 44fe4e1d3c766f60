//! The weights of scores, in points.
//!
//! Log-odds without a measured origin are starting values by judgement, to be fitted once sessions with a known
//! truth exist; until then `fraudScore` is a risk index and not a calibrated probability.

crate::parameters::table! {
    /// Fraud: log-odds.
    pub(crate) mod fraud {
        /// Before anything is seen: about 1 % of couriers spoof (Incognia, food delivery report 2022).
        PRIOR: f64 = -4.6;
        /// Most that a group of correlated signals may add. Judgement: no statistical ground alone reaches 0.5 …
        GROUP_CAP: f64 = 4.5;
        /// … but the body's: two sensors of it, or one over walks and drives alike, tell that it never moved.
        BODY_CAP: f64 = 5.2;
        /// Most that flags of the platform, and an exact replay, may add: these are statements of fact, not inferences,
        /// and one that persists must be able to convict alone (contract 5).
        FACT_CAP: f64 = 6.0;
        /// One or two fixes marked as simulated. Judgement.
        MOCK_ONCE: f64 = 1.5;
        /// Three fixes or more marked as simulated. Judgement: honest phones hardly ever do it.
        MOCK_SEVERAL: f64 = 4.0;
        /// The flag persists. Judgement.
        MOCK_PERSISTING: f64 = 6.0;
        /// The platform's integrity check failed. Judgement: custom systems fail it too.
        INTEGRITY: f64 = 2.5;
        /// A jump that the accuracies do not explain, and that stays. 0 of 97 honest traces show one (measured on the
        /// recordings of Falcon and Schulzrinne, 2018; ungated speed rules: 57 to 65 %).
        TELEPORT: f64 = 2.5;
        /// Three such jumps or more.
        TELEPORTS: f64 = 3.5;
        /// A single fix far off, followed by a return: phones do that.
        OUTLIER: f64 = 0.3;
        /// A path on foot without noise and at constant speed. Judgement; road snapping does it in vehicles.
        SMOOTH_PATH: f64 = 2.0;
        /// The same in a vehicle. Judgement: less, because maps draw positions to the road, though no recorded phone does it.
        SMOOTH_DRIVE: f64 = 1.5;
        /// Errors on foot that are thrown anew for each fix. None of 21 recordings with walks of a fix a second has them.
        WHITE_NOISE: f64 = 1.5;
        /// Positions that leap to and fro, each on its own, while the told speed is none. None of 17 recordings that hold a rest
        /// does it.
        WHITE_NOISE_AT_REST: f64 = 2.5;
        /// Told speed and change of place are the same to 5 cm/s in half of the steps on foot. None of 37 recordings with 30
        /// steps does it; a receiver measures the two apart.
        SPEED_FROM_ROUTE: f64 = 2.5;
        /// Altitude and accuracy both constant over a hundred metres. Of the recordings that hold both none does it for more
        /// than 24 m on foot, or 16 fixes in a vehicle. Constant accuracy alone: 20 % of honest traces, one over 16 km.
        CONSTANT_FIX: f64 = 1.5;
        /// The same over three minutes and three hundred metres.
        CONSTANT_FIX_LONG: f64 = 2.5;
        /// Altitude constant over sixty places and a hundred metres, whatever the accuracy says. None of 15 recordings that tell
        /// heights does it over more than 28 places and 20 m on foot, or 16 places in a vehicle.
        CONSTANT_ALTITUDE: f64 = 2.0;
        /// The position walks, the body rests. Judgement; a cart or a lift on wheels does it.
        GPS_WALKS: f64 = 3.5;
        /// The same over 150 m.
        GPS_WALKS_FAR: f64 = 4.0;
        /// The same over 150 m while the phone lies as on a table: no cart rolls that smoothly, and no step is counted.
        /// Judgement: more likely untrue than true, which is all that one ground can say.
        GPS_WALKS_LYING: f64 = 5.0;
        /// The position walks and no step is counted, by a phone that tells nothing else of its motion. Judgement: less,
        /// because a cart, a scooter and a sleeping counter do it.
        GPS_WALKS_UNCOUNTED: f64 = 2.5;
        /// The position walks and no gait is felt, by a phone without a step counter. Judgement: less, likewise.
        GPS_WALKS_UNFELT: f64 = 2.5;
        /// The position turns corners that the phone does not turn with. Judgement: no honest way to do it is known but a
        /// broken gyroscope.
        TURNS_UNFELT: f64 = 2.5;
        /// The same at four corners and more.
        TURNS_UNFELT_MANY: f64 = 3.5;
        /// The same of a phone whose bearer walks in step with the positions: then a broken gyroscope is likelier. Judgement.
        TURNS_UNFELT_CARRIED: f64 = 0.7;
        /// The position drives, the phone lies perfectly still: no road is that smooth.
        GPS_DRIVES: f64 = 3.5;
        /// The same of a phone that lies nearly still, as with someone who sits: soft cars on good roads do it too, so
        /// that it is no ground by itself.
        GPS_DRIVES_NEARLY: f64 = 0.7;
        /// The body walks outdoors, the position is frozen and claims to be exact. 21 % of honest outdoor fixes repeat.
        GPS_FROZEN: f64 = 1.0;
        /// Height by position and height by pressure disagree over a drive. Judgement.
        ALTITUDE: f64 = 1.5;
        /// The wall clock was changed once.
        CLOCK_ONCE: f64 = 1.0;
        /// The wall clock was changed more than once.
        CLOCK_REPEATED: f64 = 2.0;
        /// The same trace came in another session. Judgement: position noise does not repeat itself.
        REPLAY: f64 = 5.5;
        /// Handed over far from the address.
        POD_FAR: f64 = 2.5;
        /// Handed over very far from the address.
        POD_VERY_FAR: f64 = 3.5;
        /// Handed over very far from an address that the phone never came near. Judgement: short of what convicts alone,
        /// because one address in some hundred is set down in another part of the town.
        POD_NEVER_NEAR: f64 = 4.2;
        /// Handed over while driving.
        POD_DRIVING: f64 = 2.0;
        /// Location was taken away by hand just before the hand-over.
        LOCATION_WITHDRAWN: f64 = 1.0;
        /// Consistent evidence of a hand-over at the door acquits.
        DOOR: f64 = -2.5;
        /// A signal of this strength puts the positions in doubt, so that a door that they show does not acquit.
        DOUBT: f64 = 2.0;
        /// A group counts as a ground of its own from this on: the least weight of an inference, less what a tenth of the
        /// visibility takes off.
        GROUND: f64 = 0.9;
        /// From this score on, and on two grounds or a persisting flag, behaviour is called suspicious (contract 5).
        SUSPICIOUS: f64 = 0.5;
    }

    /// Visibility: shares of the channels, by what scoring loses without them. Judgement.
    pub(crate) mod visibility {
        /// Position.
        POSITION: f64 = 0.30;
        /// Body motion: steps, `motion` or `imu`.
        MOTION: f64 = 0.30;
        /// Pressure.
        PRESSURE: f64 = 0.20;
        /// The stream itself: anything at all, and a clock that was left alone.
        STREAM: f64 = 0.10;
        /// Marks, where the app is declared to send them.
        MARKS: f64 = 0.10;
        /// What counts of a channel's share where the device does not say what it has, and nothing of it was seen.
        UNDECLARED: f64 = 0.5;
        /// With fewer seconds of data than this the score falls in proportion: no delivery is shorter than to park, walk to a
        /// door and hand a parcel over.
        WHOLE_SEC: f64 = 60.0;
        /// What of a bin is covered by having been heard in it at all; the rest is by how often.
        HEARD: f64 = 0.4;
        /// Share of the whole session.
        WHOLE: f64 = 0.4;
        /// Share of the time around the drop-off.
        CRITICAL: f64 = 0.6;
        /// Highest value where the phone was not carried.
        NOT_CARRIED_CAP: f64 = 0.4;
        /// Each change of the wall clock takes this part of the stream's coverage.
        CLOCK_CHANGE: f64 = 0.25;
        /// Each batch left out because it could not be processed.
        QUARANTINED: f64 = 0.02;
        /// Most that batches left out take.
        QUARANTINED_CAP: f64 = 0.10;
        /// Below this nothing is concluded.
        INSUFFICIENT: f64 = 0.30;
        /// From this on the data counts as good.
        GOOD: f64 = 0.60;
    }

    /// Friction: points of 1. Judgement, after what courier pay by difficulty looks at (TransFloor, IMWUT 2023).
    pub(crate) mod friction {
        /// Waiting at door and gates, saturating.
        WAIT: f64 = 0.25;
        /// Waiting of this many seconds counts as 63 % of [`WAIT`].
        WAIT_SCALE_SEC: f64 = 180.0;
        /// Waiting that every hand-over has.
        WAIT_FREE_SEC: f64 = 30.0;
        /// Each controlled passage.
        GATE: f64 = 0.08;
        /// Most for passages.
        GATE_CAP: f64 = 0.20;
        /// Each 50 m gone twice.
        BACKTRACKING_PER_50_M: f64 = 0.10;
        /// Most for ways gone twice.
        BACKTRACKING_CAP: f64 = 0.20;
        /// Each storey on foot.
        STAIRS_PER_FLOOR: f64 = 0.04;
        /// Most for storeys on foot.
        STAIRS_CAP: f64 = 0.25;
        /// Each elevator ride.
        ELEVATOR: f64 = 0.05;
        /// Most for elevator rides.
        ELEVATOR_CAP: f64 = 0.10;
        /// From entrance to door, saturating.
        WAY_IN: f64 = 0.20;
        /// A way of this many seconds counts as 63 % of [`WAY_IN`].
        WAY_IN_SCALE_SEC: f64 = 240.0;
        /// On foot before the drop-off, saturating.
        APPROACH: f64 = 0.15;
        /// An approach of this many seconds counts as 63 % of [`APPROACH`].
        APPROACH_SCALE_SEC: f64 = 300.0;
        /// Each visit to the door beyond the first.
        ATTEMPT: f64 = 0.20;
        /// Most for visits.
        ATTEMPT_CAP: f64 = 0.40;
    }

    /// The stay that is taken for the one at the door: points.
    pub(crate) mod stay {
        /// A mark of the hand-over within the stay, or within 20 s of it.
        MARK: f64 = 4.0;
        /// The mark `arrived` likewise.
        ARRIVED: f64 = 1.5;
        /// Farthest from the vehicle, of all stays.
        FARTHEST: f64 = 1.0;
        /// At the highest or lowest place reached.
        EXTREME: f64 = 1.0;
        /// Followed by going back.
        REVERSAL: f64 = 0.5;
        /// 5 to 120 s long.
        LENGTH: f64 = 1.0;
        /// Near the address, falling to 0 at three times the uncertainty.
        NEAR: f64 = 3.0;
        /// A pause at a gate.
        GATE: f64 = -2.0;
        /// Waiting for an elevator.
        ELEVATOR: f64 = -1.5;
        /// Less than this is no stay at a door.
        LEAST: f64 = 1.5;
    }
}
