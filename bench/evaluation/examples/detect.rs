//! Runs recordings and prints events next to labels: `detect PREFIX [-v] [--without KIND]...`.
#![expect(
    clippy::unwrap_used,
    reason = "a tool for developers may stop on an error"
)]

#[path = "../tests/it/load.rs"]
mod load;

use porchlight_evaluation::{Evaluation, text};
use porchlight_schema::sample::Kind;

fn main() {
    let mut prefixes = Vec::new();
    let (mut is_verbose, mut without) = (false, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-v" => is_verbose = true,
            "--without" => {
                let name = arguments.next().unwrap();
                without.extend(Kind::ALL.into_iter().filter(|kind| kind.as_str() == name));
            }
            _ => prefixes.push(argument),
        }
    }
    let folder = load::folder().unwrap();
    if prefixes.is_empty() {
        prefixes.push(String::new());
    }
    let mut all = Evaluation::default();
    for prefix in &prefixes {
        let mut evaluation = Evaluation::default();
        for name in load::names(&folder, prefix) {
            let recording = load::load(&folder, &name);
            let detected = load::run(&recording, &without);
            if is_verbose {
                println!("== {} {:?}", name, recording.labels.labelled_spans);
                let mut lines: Vec<(f64, String)> = Vec::new();
                for one in &recording.labels.segments {
                    let to = one.t_end.unwrap_or(one.t_start);
                    let line = format!(
                        "  L {:<13} {:8.1} {:8.1} {:?}",
                        one.event_type.as_str(),
                        one.t_start,
                        to,
                        one.metadata
                    );
                    lines.push((one.t_start, line));
                }
                for one in &detected {
                    let event = &one.event;
                    let from = f64::from(event.t_start_ms) / 1000.0;
                    let to = f64::from(event.t_end_ms.unwrap_or(event.t_start_ms)) / 1000.0;
                    let opened = f64::from(one.opened_at_ms.unwrap_or(0)) / 1000.0;
                    let line = format!(
                        "      D {:<13} {:8.1} {:8.1} at {:.0} {:.2} {:?}",
                        event.event_type.as_str(),
                        from,
                        to,
                        opened,
                        event.confidence.as_probability(),
                        event.metadata
                    );
                    lines.push((from, line));
                }
                lines.sort_by(|a, b| a.0.total_cmp(&b.0));
                for (_, line) in lines {
                    println!("{line}");
                }
            }
            evaluation.add(&recording.labels, &detected);
            all.add(&recording.labels, &detected);
        }
        println!("--- {prefix}\n{}", text(&evaluation));
    }
    if prefixes.len() > 1 {
        println!("--- all\n{}", text(&all));
    }
}
