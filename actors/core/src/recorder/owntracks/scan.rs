//! Reads a push in one pass, as the app writes it. Returns `None` at an irregularity; the
//! push is then read by [`super::read_lenient`], with the same result.

use porchlight_schema::sample::json::Scanner;

use super::Report;
use crate::recorder::json::{number_of, text_of};
use crate::recorder::push::activity;
use crate::recorder::time::time_of_scalar;

/// Reads the fields of a push.
pub(super) fn scan(payload: &[u8]) -> Option<Report<'_>> {
    let mut scanner = Scanner::new(payload);
    let (mut report, mut lists) = (Report::default(), 0);
    scanner.members(|scanner, key| {
        match key {
            b"_type" => report.kind = text_of(scanner.scalar()?),
            b"tst" => report.at_ms = time_of_scalar(scanner.scalar()?),
            b"from" => report.from_ms = time_of_scalar(scanner.scalar()?),
            b"to" => report.to_ms = time_of_scalar(scanner.scalar()?),
            b"lat" => report.lat = number_of(scanner.scalar()?),
            b"lon" => report.lng = number_of(scanner.scalar()?),
            b"acc" => report.accuracy = number_of(scanner.scalar()?),
            b"alt" => report.altitude = number_of(scanner.scalar()?),
            b"vel" => report.speed_kmh = number_of(scanner.scalar()?),
            b"cog" => report.course = number_of(scanner.scalar()?),
            b"p" => report.pressure_kpa = number_of(scanner.scalar()?),
            b"steps" => report.steps = number_of(scanner.scalar()?),
            b"motionactivities" => {
                lists += 1;
                scanner.elements(|scanner| {
                    let name = text_of(scanner.scalar()?);
                    report.activity = report.activity.or_else(|| name.and_then(activity));
                    Some(())
                })?;
            }
            b"poi" => report.poi = text_of(scanner.scalar()?),
            b"desc" => report.desc = text_of(scanner.scalar()?),
            _ => scanner.skip_value()?,
        }
        Some(())
    })?;
    scanner.end()?;
    // A repeated list is left to the lenient reader.
    (lists <= 1).then_some(report)
}
