//! Times, states and icons: the recurring parts of pages.

use maud::{Markup, PreEscaped, html};
use porchlight_core::plural;
use porchlight_ports::DeliveryStatus;
use porchlight_schema::time::{DAY_MS, HOUR_MS, TimestampMs};

const SECOND_MS: i64 = 1_000;
const MINUTE_MS: i64 = 60 * SECOND_MS;
const YEAR_MS: i64 = 365 * DAY_MS;

/// A drawing of 16 by 16 units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Icon {
    Overview,
    Sessions,
    Deliveries,
    Webhook,
    Keys,
    Phone,
    Privacy,
    Check,
    Cross,
    Info,
    Wait,
    Again,
    Skip,
    Minus,
    Live,
}

impl Icon {
    fn path(self) -> &'static str {
        match self {
            Self::Overview => {
                "M2.5 2.5h4.500v4.500h-4.500zM9 2.500h4.500v4.500h-4.500zM2.500 9h4.500v4.500h-4.500zM9 9h4.500v4.500h-4.500z"
            }
            Self::Sessions => {
                "M4 13.500a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3zM12 5.500a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3zM5.500 12h4.500a2 2 0 0 0 0-4h-4a2 2 0 0 1 0-4h4.500"
            }
            Self::Deliveries => "M2.500 4h11M2.500 8h11M2.500 12h7",
            Self::Webhook => {
                "M8 2.500v7M5 6.500l3 3 3-3M2.500 10.500v2a1 1 0 0 0 1 1h9a1 1 0 0 0 1-1v-2"
            }
            Self::Keys => {
                "M5.500 13a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zM7.500 8.500l5.500-5.500M10.500 5.500l2 2"
            }
            Self::Phone => {
                "M5 1.500h6a1 1 0 0 1 1 1v11a1 1 0 0 1-1 1h-6a1 1 0 0 1-1-1v-11a1 1 0 0 1 1-1zM7 12.500h2"
            }
            Self::Privacy => {
                "M8 1.800l5 2v4c0 3.200-2.100 5.400-5 6.400-2.900-1-5-3.200-5-6.400v-4zM5.800 8l1.700 1.700L10.500 6.500"
            }
            Self::Check => "M3 8.500l3.200 3.200L13 5",
            Self::Cross => "M4 4l8 8M12 4l-8 8",
            Self::Info => {
                "M8 7.500v4M8 4.800v.1M8 14.200a6.200 6.200 0 1 0 0-12.400 6.200 6.200 0 0 0 0 12.400z"
            }
            Self::Wait => {
                "M8 14.200a6.200 6.200 0 1 0 0-12.400 6.200 6.200 0 0 0 0 12.400zM8 4.500V8l2.500 1.500"
            }
            Self::Again => "M13 8a5 5 0 1 1-1.600-3.700M13 2.500v3h-3",
            Self::Skip => "M3 4l5 4-5 4zM12.500 4v8",
            Self::Live => {
                "M8 9.500a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3zM4.500 11.500a5 5 0 0 1 0-7M11.500 4.500a5 5 0 0 1 0 7"
            }
            Self::Minus => "M3.500 8h9",
        }
    }
}

/// Renders the drawing. It is hidden from screen readers, so callers put text next to it.
pub(crate) fn icon(glyph: Icon) -> Markup {
    html! { svg.icon viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" { path d=(glyph.path()) {} } }
}

/// Renders a delivery's status as a shape, a colour and a word.
pub(crate) fn status(status: DeliveryStatus) -> Markup {
    let (class, glyph) = match status {
        DeliveryStatus::Pending => ("wait", Icon::Wait),
        DeliveryStatus::Retrying => ("again", Icon::Again),
        DeliveryStatus::Delivered => ("good", Icon::Check),
        DeliveryStatus::Failed => ("bad", Icon::Cross),
        DeliveryStatus::Superseded => ("dim", Icon::Skip),
        DeliveryStatus::Cancelled => ("dim", Icon::Minus),
    };
    html! { span class={ "state " (class) } { (icon(glyph)) (status.as_str()) } }
}

/// Renders the name of the time zone in which the times next to it are shown. The script replaces
/// it if the visitor chose local time.
pub(crate) fn zone() -> Markup {
    html! { span data-zone="" { "UTC" } }
}

/// Renders a time in UTC, to the second, without its zone.
pub(crate) fn clock(time: TimestampMs) -> Markup {
    html! { time datetime=(time) title=(time) { (written(time, "%d %b %H:%M:%S")) } }
}

/// Renders a time with its zone and its distance from now, past or future. From half a year away,
/// the year is shown and the hour is not.
pub(crate) fn time(at: TimestampMs, now: TimestampMs) -> Markup {
    let format = if now.since_ms(at).abs() < YEAR_MS / 2 {
        "%d %b %H:%M:%S"
    } else {
        "%d %b %Y"
    };
    html! { time datetime=(at) title=(at) { (written(at, format)) } " " (zone()) " " span.faint.nobr { (ago(at, now)) } }
}

fn written(time: TimestampMs, format: &str) -> String {
    let time = jiff::Timestamp::from_millisecond(time.0).unwrap_or(jiff::Timestamp::MAX);
    time.strftime(format).to_string()
}

/// Formats the time elapsed since, or remaining until, a given time.
pub(crate) fn ago(at: TimestampMs, now: TimestampMs) -> String {
    let since_ms = now.since_ms(at);
    if since_ms.abs() < SECOND_MS {
        return "now".into();
    }
    let length = duration(since_ms.abs());
    if since_ms > 0 {
        format!("{length} ago")
    } else {
        format!("in {length}")
    }
}

/// Formats a duration in its largest one or two units.
pub(crate) fn duration(length_ms: i64) -> String {
    let two = |large: i64, large_name, small: i64, small_name| {
        let (whole, rest) = (length_ms / large, length_ms % large / small);
        if rest == 0 {
            format!("{whole} {large_name}")
        } else {
            format!("{whole} {large_name} {rest} {small_name}")
        }
    };
    if length_ms < MINUTE_MS {
        format!("{} s", length_ms / SECOND_MS)
    } else if length_ms < HOUR_MS {
        two(MINUTE_MS, "min", SECOND_MS, "s")
    } else if length_ms < DAY_MS {
        two(HOUR_MS, "h", MINUTE_MS, "min")
    } else if length_ms < 2 * YEAR_MS {
        two(DAY_MS, "d", HOUR_MS, "h")
    } else {
        format!(
            "{} years",
            thousands(usize::try_from(length_ms / YEAR_MS).unwrap_or(usize::MAX))
        )
    }
}

/// Formats a count with separated thousands.
pub(crate) fn thousands(count: usize) -> String {
    let digits = count.to_string();
    let mut written = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            written.push(',');
        }
        written.push(digit);
    }
    written
}

/// Formats a count with its noun, in the plural unless it is one.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{} {}", thousands(count), plural::noun(count as u64, noun))
}

/// Renders the placeholder for an empty list.
pub(crate) fn empty(title: &str, words: Markup) -> Markup {
    html! { div.empty { h2 { (title) } p { (words) } } }
}

/// Renders a text to copy, with a button that the script activates.
pub(crate) fn copy(label: &str, text: &str) -> Markup {
    html! {
        div.copy {
            pre tabindex="0" aria-label=(label) { code { (text) } }
            button.quiet type="button" hidden data-copy="" { "Copy" }
        }
    }
}

/// Renders the link to the next page of a list.
pub(crate) fn next_page(address: Option<String>, first: Option<String>) -> Markup {
    html! {
        @if address.is_some() || first.is_some() {
            nav.pages aria-label="Pages" {
                @if let Some(first) = first { a.button.quiet href=(first) { "Newest" } }
                @if let Some(address) = address { a.button.quiet href=(address) rel="next" { "Older" (PreEscaped("&nbsp;→")) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_in_at_most_two_units() {
        for (length_ms, words) in [
            (0, "0 s"),
            (59_999, "59 s"),
            (60_000, "1 min"),
            (61_000, "1 min 1 s"),
            (3_600_000, "1 h"),
            (90_060_000, "1 d 1 h"),
            (729 * DAY_MS, "729 d"),
            (2_069 * YEAR_MS + DAY_MS, "2,069 years"),
        ] {
            assert_eq!(duration(length_ms), words);
        }
        assert_eq!(ago(TimestampMs(0), TimestampMs(120_000)), "2 min ago");
        assert_eq!(ago(TimestampMs(120_000), TimestampMs(0)), "in 2 min");
    }

    #[test]
    fn a_distant_time_shows_its_year() {
        let now = TimestampMs(1_795_000_000_000);
        let near = time(TimestampMs(now.0 + DAY_MS), now).into_string();
        assert!(near.contains(">19 Nov "), "{near}");
        assert!(near.contains("in 1 d"), "{near}");
        let far = time(TimestampMs(now.0 + 400 * DAY_MS), now).into_string();
        assert!(far.contains(">23 Dec 2027<"), "{far}");
    }

    #[test]
    fn large_numbers_are_readable() {
        for (count, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(thousands(count), text);
        }
    }

    #[test]
    fn a_single_thing_is_in_the_singular() {
        assert_eq!(counted(1, "event"), "1 event");
        assert_eq!(counted(0, "event"), "0 events");
        assert_eq!(counted(1_200, "event"), "1,200 events");
    }

    #[test]
    fn texts_are_escaped() {
        let shown = copy("a", "</code><script>alert(1)</script>").into_string();
        assert!(!shown.contains("<script"));
    }
}
