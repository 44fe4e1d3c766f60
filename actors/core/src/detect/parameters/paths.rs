//! Parameters of paths: the way back, and the rates of fixes by which a confidence is looked up. Each
//! has its unit in its name and states its basis.

crate::parameters::table! {
    /// The path that the courier walks back (contract 4; sources: backtracking).
    pub(in crate::detect) mod backtracking {
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
        /// The number of seconds at rest from which the path stands still.
        REST_SEC_MIN: u8 = 3;
        /// The maximum cosine at which a step runs against the outbound path.
        RETRACE_COSINE_MAX: f32 = -0.6;
        /// The longest time from a place on the outbound path to the return path next to it.
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
        VISIT_NEAR_MS: u32 = 12_000;
        /// The distance to the address, metres, within which a stay may be the drop-off and the
        /// path after it the way to the vehicle.
        RETURN_NEAR_M: f32 = 35.0;
        /// The shortest return path that is an event, in accuracies, if no body sensor shows the
        /// walk.
        RETRACE_UNSEEN_ACCURACIES: f32 = 1.5;
        /// The shortest distance between two crumbs by which a direction is divided, metres.
        CRUMB_APART_M_MIN: f32 = 0.1;
    }

    /// The rates of fixes by which the confidence of an event is looked up.
    pub(in crate::detect) mod confidence {
        /// The longest mean interval between fixes that can follow a walk, seconds.
        DENSE_SEC: f32 = 3.0;
        /// The longest mean interval between fixes that can follow a drive, seconds.
        MIDDLING_SEC: f32 = 7.0;
        /// The mean interval between fixes beyond which they add nothing to a measured body,
        /// seconds.
        SELDOM_SEC: f32 = 20.0;
    }
}
