//! The accuracy at several phases: a session's windows begin at whole seconds, so an event that is
//! found at only one phase is found by chance.

use std::fmt::Write as _;

use porchlight_evaluation::{SecondCounts, Share};
use porchlight_schema::event::EventType;

use super::Report;

/// A share of the labelled seconds.
type Counted = fn(SecondCounts) -> Share;

/// Returns the mean, the lowest and the highest of a figure.
fn of_phases(figures: impl Iterator<Item = Option<f64>>) -> Option<(f64, f64, f64)> {
    let figures: Vec<f64> = figures.collect::<Option<_>>()?;
    let mean = figures.iter().sum::<f64>() / figures.len().max(1) as f64;
    let lowest = figures.iter().copied().reduce(f64::min)?;
    let highest = figures.iter().copied().reduce(f64::max)?;
    Some((mean, lowest, highest))
}

/// Renders the mean and the range of the figures of one report for each phase.
pub(super) fn text(reports: &[&Report]) -> String {
    let mut out = format!("{:<32} {:>6}  lowest to highest\n", "figure", "mean");
    for event_type in EventType::ALL {
        let name = format!("F1 of {}", event_type.as_str());
        line(&mut out, &name, reports, |report| {
            report.events.by_type.get(&event_type)?.f1()
        });
    }
    let seconds: [(&str, Counted); 4] = [
        ("WALKING", |counts| counts.walking),
        ("STOPPED, calm", |counts| counts.calm),
        ("STOPPED, handled", |counts| counts.handled),
        ("all", SecondCounts::all),
    ];
    for (name, of) in seconds {
        let name = format!("seconds right, {name}");
        line(&mut out, &name, reports, |report| {
            of(report.seconds.total()).value()
        });
    }
    out
}

/// Appends a line if the recordings have the figure at each phase.
fn line(out: &mut String, name: &str, reports: &[&Report], of: impl Fn(&Report) -> Option<f64>) {
    if let Some((mean, lowest, highest)) = of_phases(reports.iter().map(|report| of(report))) {
        let _ = writeln!(out, "{name:<32} {mean:>6.4}  {lowest:.3} to {highest:.3}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_a_mean_and_a_range_if_each_phase_has_it() {
        let figures = [Some(0.9), Some(0.95), Some(1.0)];
        let (mean, lowest, highest) = of_phases(figures.into_iter()).unwrap_or_default();
        assert!((mean - 0.95).abs() < 1e-9 && lowest < 0.91 && highest > 0.99);
        assert_eq!(of_phases([Some(0.9), None].into_iter()), None);
        assert_eq!(of_phases(std::iter::empty()), None);
    }
}
