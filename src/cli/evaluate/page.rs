//! Writes a page that shows labels and detections of each recording above its signals. The page
//! loads no other resources and needs no script: anchors select the visible parts.

mod drawing;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use porchlight_core::window::Window;
use porchlight_evaluation::{Facts, Judged, Verdict};
use porchlight_schema::event::EventType;
use porchlight_schema::insight::Score;

/// One recording with everything that its drawing shows.
pub(super) struct DrawnRecording {
    pub(super) name: String,
    pub(super) judged: Vec<Judged>,
    /// The labelled spans, in seconds.
    pub(super) spans: Vec<(f64, f64)>,
    pub(super) windows: Vec<Window>,
    pub(super) score: Score,
    pub(super) facts: Facts,
}

impl DrawnRecording {
    /// Returns the part of the name before the first `_`, which names the source.
    fn family(&self) -> &str {
        self.name.split('_').next().unwrap_or(&self.name)
    }

    /// Returns the types of events with errors.
    fn types_with_errors(&self) -> BTreeSet<EventType> {
        let wrong = self
            .judged
            .iter()
            .filter(|one| one.verdict == Verdict::Wrong);
        wrong.map(|one| one.event_type).collect()
    }
}

/// The page under construction.
#[derive(Default)]
pub(super) struct Page {
    tables: String,
    figures: String,
    families: BTreeMap<String, u32>,
    wrong: BTreeMap<EventType, u32>,
    count: u32,
}

impl Page {
    /// Adds a table of figures.
    pub(super) fn table(&mut self, title: &str, text: &str) {
        // Writing to a string cannot fail, here and below.
        let _ = write!(
            self.tables,
            "<details open><summary>{}</summary><pre>{}</pre></details>",
            escaped(title),
            escaped(text)
        );
    }

    /// Adds a recording.
    pub(super) fn add(&mut self, drawn: &DrawnRecording) {
        self.count += 1;
        let family = drawn.family().to_owned();
        let wrong = drawn.types_with_errors();
        let mut classes = format!("f-{}", escaped(&family));
        for event_type in &wrong {
            *self.wrong.entry(*event_type).or_default() += 1;
            let _ = write!(classes, " w-{}", event_type.as_str());
        }
        *self.families.entry(family).or_default() += 1;
        let verdict = if wrong.is_empty() {
            "<b class=ok>no errors</b>".to_owned()
        } else {
            let names: Vec<&str> = wrong.iter().map(|one| one.as_str()).collect();
            format!("<b class=no>errors: {}</b>", names.join(", "))
        };
        let name = escaped(&drawn.name);
        let _ = write!(
            self.figures,
            "<figure class=\"{classes}\" id=\"r-{name}\"><figcaption><a href=\"#r-{name}\">{name}</a> {verdict} \
             <span>{}</span></figcaption>{}</figure>",
            escaped(&insight_line(drawn)),
            drawing::svg(drawn)
        );
    }

    /// Returns the complete page.
    pub(super) fn html(&self) -> String {
        let mut choices = Choices::default();
        for (family, count) in &self.families {
            let family = escaped(family);
            choices.add(
                &format!("only-{family}"),
                &family,
                *count,
                &format!("f-{family}"),
            );
        }
        let families = std::mem::take(&mut choices.links);
        for (event_type, count) in &self.wrong {
            let name = event_type.as_str();
            choices.add(&format!("wrong-{name}"), name, *count, &format!("w-{name}"));
        }
        let Choices {
            targets,
            rules,
            links,
        } = choices;
        format!(
            "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
             <title>Evaluation</title><style>{STYLE}{rules}</style><body>{targets}<h1>Evaluation</h1>{}\
             <nav><p><a href=\"#all\">all</a> <small>{}</small> {families}<p>with errors in: {links}\
             <p class=legend>{}</nav>{}",
            self.tables,
            self.count,
            drawing::legend(),
            self.figures
        )
    }
}

/// Anchors that select the visible parts: a target, and a rule that hides the others.
#[derive(Default)]
struct Choices {
    targets: String,
    rules: String,
    links: String,
}

impl Choices {
    fn add(&mut self, id: &str, text: &str, count: u32, class: &str) {
        let _ = write!(self.targets, "<i id=\"{id}\"></i>");
        let _ = write!(
            self.rules,
            "body:has(#{id}:target) figure:not(.{class}){{display:none}}\
             body:has(#{id}:target) a[href='#{id}']{{font-weight:700;text-decoration:none}}"
        );
        let _ = write!(
            self.links,
            "<a href=\"#{id}\">{text}</a> <small>{count}</small> "
        );
    }
}

/// Formats the insight, with the truth in brackets.
fn insight_line(drawn: &DrawnRecording) -> String {
    let summary = &drawn.score.summary;
    let (facts, codes) = (&drawn.facts, &drawn.score.reason_codes);
    let codes: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    let mut line = codes.join(" ");
    let truth = |known: Option<String>| known.map_or(String::new(), |known| format!(" [{known}]"));
    let found = |known: Option<String>| known.unwrap_or_else(|| "?".to_owned());
    line += &truth(facts.outcome.map(|outcome| outcome.as_str().to_owned()));
    let _ = write!(
        line,
        " · floors {}{} · elevator {}{} · fraud {}{} · visibility {}",
        found(summary.floors_climbed.map(|floors| floors.to_string())),
        truth(facts.floors_change.map(|floors| floors.to_string())),
        found(summary.elevator_used.map(|used| used.to_string())),
        truth(facts.elevator_used.map(|used| used.to_string())),
        summary.fraud_score,
        truth(
            facts
                .fraudulent
                .filter(|&untrue| untrue)
                .map(|_| "untrue".to_owned())
        ),
        summary.visibility_score,
    );
    line
}

/// Escapes text for HTML, including attributes.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2328;--soft:#66707a;--line:#d5dade;--back:#fff;--card:#f7f8f9;--out:#e9ecef;--bad:#c8102e;--good:#1f7a3d;--trace:#2f6fab;}\
@media(prefers-color-scheme:dark){:root{--ink:#e4e7ea;--soft:#98a2ab;--line:#3a4249;--back:#14181b;--card:#1b2024;--out:#262c31;--bad:#ff6b6b;--good:#6fcf8b;--trace:#7fb5e6;}}\
body{font:14px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--back);margin:0 auto;padding:1rem 1.5rem;max-width:1320px}\
h1{font-size:1.3rem;margin:.2rem 0 .6rem}pre{font:12px/1.4 ui-monospace,monospace;overflow-x:auto;background:var(--card);padding:.6rem;border-radius:6px;margin:.4rem 0}\
summary{cursor:pointer;font-weight:600}nav{position:sticky;top:0;background:var(--back);border-bottom:1px solid var(--line);padding:.2rem 0;z-index:1}\
nav p{margin:.2rem 0}a{color:inherit}small{color:var(--soft)}i[id]{position:fixed;top:0}\
figure{margin:1rem 0;padding:.6rem .8rem .3rem;background:var(--card);border:1px solid var(--line);border-radius:8px;scroll-margin-top:9rem}\
figure:target{outline:2px solid var(--trace)}figcaption{margin-bottom:.3rem}figcaption a{font-weight:600;text-decoration:none}figcaption span{color:var(--soft);font-size:12px}\
.ok{color:var(--good);font-weight:500}.no{color:var(--bad);font-weight:600}svg{display:block;width:100%;height:auto}\
svg text{font:11px system-ui,sans-serif;fill:var(--soft)}svg text.on{fill:#fff;font-weight:600;pointer-events:none}\
.base{fill:var(--out)}.out{fill:var(--out);opacity:.8}.grid{stroke:var(--line);stroke-width:1}.trace{fill:none;stroke:var(--trace);stroke-width:1.2;vector-effect:non-scaling-stroke}\
.open{opacity:.45}.bad{stroke:var(--bad);stroke-width:2.5}.legend{font-size:12px}.key{display:inline-block;width:.9em;height:.9em;border-radius:2px;margin:0 .25em 0 .8em;vertical-align:-.1em}\
.key.red{border:2px solid var(--bad);background:none;box-sizing:border-box}";
