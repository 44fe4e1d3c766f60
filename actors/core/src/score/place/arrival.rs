//! Distinguishes stays at a door from those in or at the courier's own vehicle.

use porchlight_schema::event::EventType;

use super::stays::{Stay, origin, walked_ms};
use crate::score::parameters::door::attempts::LEFT_M;
use crate::score::parameters::place::stays::WAY_TO_WAIT_MS;
use crate::score::scoring_context::{ScoringContext, silences};

/// Returns whether a stay may have been at the vehicle: where the period on foot began, or where a
/// drive ended.
pub(crate) fn is_at_vehicle(ctx: &ScoringContext<'_>, stay: &Stay) -> bool {
    let origin = super::foot_period_at(ctx, stay.from_ms).and_then(|foot| origin(ctx, foot));
    let is_near = stay.estimate.zip(origin).is_some_and(|(estimate, origin)| {
        estimate.place.distance_m(origin) <= LEFT_M + estimate.sigma_m
    });
    is_near || is_driven_to(ctx, stay)
}

/// Returns whether a vehicle brought the phone to a stay: a drive ended before it, and the body did
/// not walk since the drive began. A short drive does not end a period on foot, but the vehicle
/// halts after it as well.
pub(crate) fn is_driven_to(ctx: &ScoringContext<'_>, stay: &Stay) -> bool {
    let drives = ctx.input.events.iter();
    let last_ms = drives
        .filter(|event| event.event_type == EventType::Driving)
        .filter(|event| ctx.end_of(event) <= stay.from_ms)
        .map(|event| event.t_start_ms)
        .max();
    last_ms.is_some_and(|drive_ms| {
        let windows = ctx.windows(drive_ms, stay.from_ms);
        let measured = windows.iter().filter(|window| window.has_body_data());
        // Without body sensors, or in a silence, a short walk remains unknown.
        measured.count() * 2 >= windows.len()
            && silences(ctx.input.windows, drive_ms, stay.from_ms).is_empty()
            && walked_ms(ctx, (drive_ms, stay.from_ms)) < WAY_TO_WAIT_MS
    })
}
