//! Labels under construction, and the effect of each command on them.

use std::collections::BTreeMap;

use porchlight_evaluation::Labels;
use porchlight_schema::event::EventType;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::signals::Signals;

/// The seconds before and after a time that `show` prints.
const SHOWN_SEC: f64 = 20.0;
/// The facts that a person can set.
const FACTS: [&str; 11] = [
    "entranceAtSec",
    "doorFromSec",
    "doorToSec",
    "rightDoorstep",
    "floorsChange",
    "elevatorUsed",
    "attemptCycles",
    "outcome",
    "added",
    "fraudulent",
    "phoneCarried",
];
const HELP: &str = "\
show T                            prints the signals 20 s around T
add TYPE FROM TO [NAME=VALUE ...]  adds a segment, such as: add STAIRS 151.5 174 floors=2 direction=up
remove NUMBER                     removes a segment
list                              lists segments, spans, complete types and facts
span FROM TO                      adds a span in which the labels are valid
unspan NUMBER                     removes a span
complete TYPE ...                 names the types that are labelled without exception in the spans
fact NAME VALUE                   sets a fact, such as: fact floorsChange 2
fact added CODE ...               sets the reason codes besides the outcome
save                              writes the file
quit                              exits";

/// The action that a command requests of the shell.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reply {
    /// Print this text.
    Text(String),
    /// Write the labels.
    Save,
    /// Quit the shell.
    Quit,
}

/// The reason why a command had no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CommandError {
    /// The command is unknown.
    #[error("unknown command `{0}`; type `help` for the commands")]
    Unknown(String),
    /// The command does not accept these arguments.
    #[error("usage: {0}")]
    Usage(&'static str),
    /// The word is not an event type.
    #[error("unknown event type `{0}`; one of {list}", list = EventType::ALL.map(EventType::as_str).join(", "))]
    Type(String),
    /// The word is not a fact.
    #[error("unknown fact `{0}`; one of {list}", list = FACTS.join(", "))]
    Fact(String),
    /// The segment number does not exist.
    #[error("segment {0} does not exist")]
    Number(usize),
    /// The span number does not exist.
    #[error("span {0} does not exist")]
    Span(usize),
    /// The member of the file must be a list, and is not.
    #[error("`{0}` of the labels is not a list; correct the file")]
    NotAList(&'static str),
    /// `evaluate` would refuse the labels.
    #[error("the labels would be invalid: {0}")]
    Invalid(String),
    /// The member of the file must be an object, and is not.
    #[error("`{0}` of the labels is not an object; correct the file")]
    NotAnObject(&'static str),
}

/// The labels, as the object that is written to the file.
#[derive(Debug)]
pub(super) struct Draft {
    labels: Map<String, Value>,
    changed: bool,
}

impl Draft {
    /// Creates labels for a recording that has none.
    pub(super) fn new(name: &str, streams: &BTreeMap<String, u32>) -> Self {
        let mut labels = Map::new();
        labels.insert("recording".to_owned(), json!(name));
        labels.insert("streams".to_owned(), json!(streams));
        for list in ["complete", "labelledSpans", "segments"] {
            labels.insert(list.to_owned(), json!([]));
        }
        labels.insert("facts".to_owned(), json!({}));
        Self {
            labels,
            changed: false,
        }
    }

    /// Reads existing labels; entries that this program does not know are preserved.
    pub(super) fn read(bytes: &[u8]) -> serde_json::Result<Self> {
        let labels = serde_json::from_slice(bytes)?;
        Ok(Self {
            labels,
            changed: false,
        })
    }

    /// Executes a line. A change after which `evaluate` would refuse the labels has no effect, unless
    /// it refuses them already: their faults may be removed one by one.
    pub(super) fn apply(&mut self, line: &str, signals: &Signals) -> Result<Reply, CommandError> {
        let (before, was_changed) = (self.labels.clone(), self.changed);
        let reply = self.execute(line, signals)?;
        if let Err(fault) = check(&self.labels)
            && check(&before).is_ok()
        {
            (self.labels, self.changed) = (before, was_changed);
            return Err(CommandError::Invalid(fault.to_string()));
        }
        Ok(reply)
    }

    fn execute(&mut self, line: &str, signals: &Signals) -> Result<Reply, CommandError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((&command, rest)) = words.split_first() else {
            return Ok(Reply::Text(String::new()));
        };
        match command {
            "help" => Ok(Reply::Text(HELP.to_owned())),
            _ if command.starts_with('#') => Ok(Reply::Text(String::new())),
            "show" => {
                let t_sec = number(rest.first(), "show T")?;
                Ok(Reply::Text(signals.table(t_sec, SHOWN_SEC)))
            }
            "add" => self.add(rest),
            "remove" => self.remove(rest),
            "unspan" => self.unspan(rest),
            "list" => Ok(Reply::Text(self.list())),
            "span" => {
                let (from, to) = span(rest, "span FROM TO")?;
                self.push("labelledSpans", json!([from, to]))?;
                Ok(Reply::Text(String::new()))
            }
            "complete" => self.complete(rest),
            "fact" => self.fact(rest),
            "save" => Ok(Reply::Save),
            "quit" => Ok(Reply::Quit),
            other => Err(CommandError::Unknown(other.to_owned())),
        }
    }

    fn add(&mut self, words: &[&str]) -> Result<Reply, CommandError> {
        const USAGE: &str = "add TYPE FROM TO [NAME=VALUE ...]";
        let (Some(name), Some(times)) = (words.first(), words.get(1..3)) else {
            return Err(CommandError::Usage(USAGE));
        };
        let event_type = event_type(name)?;
        let (from, to) = span(times, USAGE)?;
        let mut metadata = Map::new();
        for word in words.iter().skip(3) {
            let Some((name, value)) = word.split_once('=') else {
                return Err(CommandError::Usage(USAGE));
            };
            metadata.insert(name.to_owned(), value_of(value));
        }
        self.push(
            "segments",
            json!({
                "type": event_type.as_str(),
                "tStart": from,
                "tEnd": to,
                "metadata": metadata,
                "origin": "labelled by a person",
            }),
        )?;
        let start = |segment: &Value| segment["tStart"].as_f64().unwrap_or(0.0);
        self.array("segments")?
            .sort_by(|a, b| start(a).total_cmp(&start(b)));
        Ok(Reply::Text(String::new()))
    }

    fn remove(&mut self, words: &[&str]) -> Result<Reply, CommandError> {
        let number = place(words, "remove NUMBER")?;
        self.remove_from("segments", number, CommandError::Number(number))
    }

    fn unspan(&mut self, words: &[&str]) -> Result<Reply, CommandError> {
        let number = place(words, "unspan NUMBER")?;
        self.remove_from("labelledSpans", number, CommandError::Span(number))
    }

    /// Removes an entry of a list by its number from 1 on, or fails with `missing`.
    fn remove_from(
        &mut self,
        list: &'static str,
        number: usize,
        missing: CommandError,
    ) -> Result<Reply, CommandError> {
        let entries = self.array(list)?;
        let index = number.checked_sub(1).filter(|&index| index < entries.len());
        entries.remove(index.ok_or(missing)?);
        self.changed = true;
        Ok(Reply::Text(String::new()))
    }

    fn complete(&mut self, words: &[&str]) -> Result<Reply, CommandError> {
        let types: Vec<&str> = words
            .iter()
            .map(|name| event_type(name).map(EventType::as_str))
            .collect::<Result<_, _>>()?;
        self.labels.insert("complete".to_owned(), json!(types));
        self.changed = true;
        Ok(Reply::Text(String::new()))
    }

    fn fact(&mut self, words: &[&str]) -> Result<Reply, CommandError> {
        let [name, values @ ..] = words else {
            return Err(CommandError::Usage("fact NAME VALUE"));
        };
        let value = match (*name, values) {
            ("added", codes) => json!(codes),
            (_, [value]) => value_of(value),
            _ => return Err(CommandError::Usage("fact NAME VALUE")),
        };
        if !FACTS.contains(name) {
            return Err(CommandError::Fact((*name).to_owned()));
        }
        let facts = self
            .labels
            .entry("facts")
            .or_insert_with(|| json!({}))
            .as_object_mut()
            .ok_or(CommandError::NotAnObject("facts"))?;
        facts.insert((*name).to_owned(), value);
        self.changed = true;
        Ok(Reply::Text(String::new()))
    }

    fn list(&self) -> String {
        let mut lines: Vec<String> = self
            .labels
            .get("segments")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(index, segment)| {
                format!(
                    "{:>4}  {:<14} {:>8} {:>8}  {}",
                    index + 1,
                    segment["type"].as_str().unwrap_or_default(),
                    segment["tStart"],
                    segment["tEnd"],
                    segment["metadata"],
                )
            })
            .collect();
        for name in ["labelledSpans", "complete", "facts"] {
            let value = self.labels.get(name).cloned().unwrap_or_default();
            lines.push(format!("{name}: {value}"));
        }
        lines.join("\n")
    }

    fn push(&mut self, name: &'static str, value: Value) -> Result<(), CommandError> {
        self.array(name)?.push(value);
        self.changed = true;
        Ok(())
    }

    fn array(&mut self, name: &'static str) -> Result<&mut Vec<Value>, CommandError> {
        self.labels
            .entry(name)
            .or_insert_with(|| json!([]))
            .as_array_mut()
            .ok_or(CommandError::NotAList(name))
    }

    /// Returns the number of segments.
    pub(super) fn segments(&self) -> usize {
        self.labels
            .get("segments")
            .and_then(Value::as_array)
            .map_or(0, Vec::len)
    }

    /// Returns whether the labels changed since they were read or written.
    pub(super) fn is_changed(&self) -> bool {
        self.changed
    }

    /// Marks the labels as saved.
    pub(super) fn mark_saved(&mut self) {
        self.changed = false;
    }

    /// Returns the content of the file.
    pub(super) fn json(&self) -> String {
        let labels = Value::Object(self.labels.clone());
        format!("{labels:#}\n")
    }
}

/// Parses the labels as `evaluate` does.
fn check(labels: &Map<String, Value>) -> serde_json::Result<Labels> {
    Labels::deserialize(Value::Object(labels.clone()))
}

fn event_type(name: &str) -> Result<EventType, CommandError> {
    EventType::ALL
        .into_iter()
        .find(|event_type| event_type.as_str().eq_ignore_ascii_case(name))
        .ok_or_else(|| CommandError::Type(name.to_owned()))
}

/// Parses the number of an entry of a list.
fn place(words: &[&str], usage: &'static str) -> Result<usize, CommandError> {
    let number = words.first().and_then(|word| word.parse().ok());
    number.ok_or(CommandError::Usage(usage))
}

fn number(word: Option<&&str>, usage: &'static str) -> Result<f64, CommandError> {
    word.and_then(|word| word.parse::<f64>().ok())
        .filter(|value| value.is_finite() && *value >= 0.0)
        .ok_or(CommandError::Usage(usage))
}

fn span(words: &[&str], usage: &'static str) -> Result<(f64, f64), CommandError> {
    let (from, to) = (number(words.first(), usage)?, number(words.get(1), usage)?);
    (from <= to)
        .then_some((from, to))
        .ok_or(CommandError::Usage(usage))
}

/// Parses a number, `true` or `false`; any other word is a text.
fn value_of(word: &str) -> Value {
    match serde_json::from_str(word) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => Value::String(word.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft(lines: &[&str]) -> Draft {
        let signals = Signals::default();
        let mut draft = Draft::new("home_01", signals.streams());
        for line in lines {
            draft.apply(line, &signals).unwrap();
        }
        draft
    }

    fn refused(line: &str) -> CommandError {
        let signals = Signals::default();
        let mut draft = Draft::new("home_01", signals.streams());
        let error = draft.apply(line, &signals).unwrap_err();
        assert!(!draft.is_changed(), "{line} is refused as a whole");
        error
    }

    #[test]
    fn segments_are_listed_in_time_order_with_their_details() {
        let draft = draft(&[
            "add STAIRS 151.5 174 floors=2 direction=up",
            "add walking 96 151.5",
            "span 0 410",
            "complete WALKING STAIRS GATE",
            "fact floorsChange 2",
            "fact rightDoorstep true",
        ]);
        let labels: Value = serde_json::from_str(&draft.json()).unwrap();
        assert_eq!(labels["segments"][0]["type"], "WALKING");
        assert_eq!(labels["segments"][1]["metadata"]["floors"], 2);
        assert_eq!(labels["segments"][1]["metadata"]["direction"], "up");
        assert_eq!(labels["labelledSpans"], json!([[0.0, 410.0]]));
        assert_eq!(labels["complete"], json!(["WALKING", "STAIRS", "GATE"]));
        assert_eq!(
            labels["facts"],
            json!({ "floorsChange": 2, "rightDoorstep": true })
        );
    }

    #[test]
    fn a_segment_is_removed_by_its_number() {
        let draft = draft(&["add GATE 10 20", "add GATE 30 40", "remove 1"]);
        let labels: Value = serde_json::from_str(&draft.json()).unwrap();
        assert_eq!(draft.segments(), 1);
        assert_eq!(labels["segments"][0]["tStart"], 30.0);
        assert_eq!(refused("remove 3"), CommandError::Number(3));
    }

    #[test]
    fn a_span_is_removed_by_its_number() {
        let draft = draft(&["span 0 100", "span 200 300", "unspan 1"]);
        let labels: Value = serde_json::from_str(&draft.json()).unwrap();
        assert_eq!(labels["labelledSpans"], json!([[200.0, 300.0]]));
        assert_eq!(refused("unspan 1"), CommandError::Span(1));
    }

    #[test]
    fn an_invalid_line_changes_nothing_and_gives_a_reason() {
        assert!(matches!(refused("jump 3"), CommandError::Unknown(_)));
        assert!(matches!(refused("add FLYING 1 2"), CommandError::Type(_)));
        assert!(matches!(refused("add GATE 9 2"), CommandError::Usage(_)));
        assert!(matches!(refused("add GATE -1 2"), CommandError::Usage(_)));
        assert!(matches!(refused("fact weather 3"), CommandError::Fact(_)));
    }

    /// Otherwise `evaluate` would refuse the whole folder.
    #[test]
    fn a_value_that_evaluate_refuses_is_refused() {
        for line in [
            "fact attemptCycles 1.5",
            "fact floorsChange abc",
            "fact outcome FOO",
            "fact fraudulent maybe",
            "fact added FOO",
            "add STAIRS 10 20 floors=two",
            "add STAIRS 10 20 direction=upward",
        ] {
            let error = refused(line);
            assert!(matches!(error, CommandError::Invalid(_)), "{line}: {error}");
        }
        let draft = draft(&[
            "fact outcome FULL_ATTEMPT",
            "fact added DELIVERED_TO_RIGHT_DOORSTEP SESSION_TIMEOUT",
            "fact fraudulent false",
            "fact phoneCarried true",
        ]);
        let facts = check(&draft.labels).unwrap().facts;
        assert_eq!(facts.added.map(|codes| codes.len()), Some(2));
        assert_eq!(
            (facts.fraudulent, facts.phone_carried),
            (Some(false), Some(true))
        );
        // A file with two faults is corrected fact by fact.
        let faults = br#"{"facts": {"outcome": "FOO", "attemptCycles": 1.5}}"#;
        let mut draft = Draft::read(faults).unwrap();
        for line in ["fact outcome NO_ATTEMPT", "fact attemptCycles 0"] {
            draft.apply(line, &Signals::default()).unwrap();
        }
        check(&draft.labels).unwrap();
    }

    #[test]
    fn a_member_of_the_wrong_type_is_an_error_and_not_a_silent_success() {
        let labels = br#"{"segments": null, "labelledSpans": {}, "facts": 1}"#;
        let mut draft = Draft::read(labels).unwrap();
        for (line, error) in [
            ("add GATE 10 20", CommandError::NotAList("segments")),
            ("remove 1", CommandError::NotAList("segments")),
            ("span 0 10", CommandError::NotAList("labelledSpans")),
            ("fact floorsChange 2", CommandError::NotAnObject("facts")),
        ] {
            assert_eq!(draft.apply(line, &Signals::default()), Err(error), "{line}");
        }
        assert!(!draft.is_changed());
    }

    #[test]
    fn unknown_members_are_preserved() {
        let mut draft = Draft::read(br#"{"licence": "MIT", "segments": []}"#).unwrap();
        draft.apply("add GATE 10 20", &Signals::default()).unwrap();
        let labels: Value = serde_json::from_str(&draft.json()).unwrap();
        assert_eq!(labels["licence"], "MIT");
        assert_eq!(draft.segments(), 1);
    }
}
