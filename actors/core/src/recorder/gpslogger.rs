//! GPSLogger (Android): a custom URL, with its parameters as a query or a form.
//!
//! The accepted names are those of the app's own example and of its `%ALL` parameter, and the usual
//! longer ones. Speeds are in metres per second, times in seconds since 1970 or ISO 8601.

use porchlight_schema::sample::Location;

use super::push::{Measurement, PayloadError, Push, fix, not_negative, provider};
use super::time::time_ms;
use super::traccar::Fields;

/// Reads a push of GPSLogger from its query or form; `payload` is the text. A payload without a
/// position shows only that the app runs.
///
/// # Errors
///
/// Returns an error if a position has no time.
pub fn read(payload: &[u8], fields: &Fields) -> Result<Push, PayloadError> {
    let mut push = Push::of(payload);
    let field = |names: &[&str]| {
        let mut fields = fields.iter();
        fields
            .find(|(name, _)| names.iter().any(|known| known.eq_ignore_ascii_case(name)))
            .map(|(_, value)| value.as_str())
    };
    let number = |names: &[&str]| {
        let value: f64 = field(names)?.trim().parse().ok()?;
        value.is_finite().then_some(value)
    };
    let lng = number(&["lon", "lng", "longitude"]);
    let place = number(&["lat", "latitude"]).zip(lng);
    let word = field(&["desc", "annotation", "event"]).filter(|word| !word.trim().is_empty());
    if place.is_none() && word.is_none() {
        return Ok(push);
    }
    let stamps = [field(&["timestamp"]), field(&["time"])];
    let mut times_ms = stamps.into_iter().flatten().filter_map(time_ms);
    let at_ms = times_ms
        .next()
        .ok_or_else(|| PayloadError::no_time("timestamp", stamps.iter().any(Option::is_some)))?;
    if let Some((lat, lng)) = place {
        let location = Location {
            accuracy_m: not_negative(number(&["acc", "accuracy"])),
            altitude_m: number(&["alt", "altitude"]).map(|altitude| altitude as f32),
            speed_mps: not_negative(number(&["spd", "s", "speed"])),
            bearing_deg: not_negative(number(&["dir", "bearing", "heading"])),
            provider: field(&["prov", "provider"]).and_then(provider),
            ..fix(lat, lng)
        };
        push.add(at_ms, Measurement::Location(location));
    }
    if let Some(word) = word {
        push.add_word(at_ms, word);
    }
    Ok(push.sorted())
}
