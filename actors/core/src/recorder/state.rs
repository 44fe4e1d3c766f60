//! Assigns each reading to a session, and each push to a `seq`.
//!
//! The state is stored before any effect, and the same push always leads to the same session and
//! `seq`: a numbered push by its number, any other by its digest. So a process may be killed at
//! any point; the app received no response and sends the push again.

use porchlight_schema::ids::SessionId;
use porchlight_schema::limits::{
    BATCH_SEQ_MAX, CLOCK_AHEAD_MS_MAX, RECORDER_PUSHES_KNOWN_MAX, RECORDER_RUNS_MAX,
    RECORDER_SESSIONS_KNOWN_MAX, RECORDER_STARTED_AT_BACK_MS_MAX,
};
use porchlight_schema::sample::Kind;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use super::plan::{Append, Opening, Plan, Stop};
use super::push::{Measurement, Push, PushNumber, Reading};
use super::rates::{self, PushCounts};

/// The maximum number of missing first pushes of a recording for which the recorder waits: they
/// are in flight concurrently with the first one to arrive.
const FIRST_PUSHES_AWAITED_MAX: u32 = 8;
/// The readings of awaited pushes lie at most this long before the first push to arrive.
const FIRST_PUSHES_AWAITED_MS_MAX: i64 = 60_000;
/// The time, in milliseconds, for which the arrival of a push without a step is not stored again.
const ARRIVAL_STORED_MS: i64 = 1_000;
/// The number of recent pushes from which the received rates are computed.
const RATE_PUSHES_MAX: usize = 8;

/// A run of pushes of one recording that are stored under consecutive numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    recording: u64,
    first_number: u32,
    first_seq: u32,
    /// The first `seq` after the run. `None` for the last run.
    end_seq: Option<u32>,
}

impl Run {
    fn seq_of(&self, number: PushNumber) -> Option<u32> {
        let place = number.number.checked_sub(self.first_number)?;
        let seq = self.first_seq.checked_add(place)?;
        let is_within = self.end_seq.is_none_or(|end| seq < end) && seq <= BATCH_SEQ_MAX;
        (self.recording == number.recording && is_within).then_some(seq)
    }
}

/// A session opened by a recorder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedSession {
    /// The session's position among the recorder's sessions, from 0.
    pub ordinal: u32,
    /// The session's ID. `None` until the service has created the session.
    pub session_id: Option<SessionId>,
    /// The start by the phone's wall clock, milliseconds since 1970: `t` = 0.
    pub started_at_ms: i64,
    /// The start by the service's clock, if the phone's clock was further ahead of it than allowed.
    #[serde(default)]
    began_at_ms: Option<i64>,
    /// The end by the phone's wall clock. `None` while the session is in progress.
    pub ended_at_ms: Option<i64>,
    /// The time of the newest reading.
    last_at_ms: i64,
    /// Whether the service ended the session because of silence; it still accepts the data that the
    /// phone has buffered.
    is_idle: bool,
    /// Whether the session began with awaited pushes, which precede the first one to arrive.
    awaits_first: bool,
    next_seq: u32,
    runs: Vec<Run>,
    /// The digest and `seq` of pushes without a usable number, oldest first.
    known: Vec<(u64, u32)>,
}

impl RecordedSession {
    /// Moves the session to its start by the service's clock if a reading at `at_ms` shows that
    /// only the time of the first reading was wrong. Such a reading lies far before the session,
    /// and the phone's clock is right.
    fn correct_start(&mut self, at_ms: i64, now: TimestampMs) {
        let Some(began_at_ms) = self.began_at_ms else {
            return;
        };
        let before_ms = self.started_at_ms.saturating_sub(at_ms);
        if before_ms > CLOCK_AHEAD_MS_MAX && at_ms <= now.plus_ms(CLOCK_AHEAD_MS_MAX).0 {
            let ahead_ms = self.started_at_ms.saturating_sub(began_at_ms);
            let corrected = |time_ms: i64| time_ms.saturating_sub(ahead_ms);
            self.started_at_ms = began_at_ms;
            self.ended_at_ms = self.ended_at_ms.map(corrected);
            self.last_at_ms = corrected(self.last_at_ms);
            self.began_at_ms = None;
        }
    }

    /// Returns the `seq` of a push, the same on every arrival.
    fn seq_of(&mut self, push: &Push) -> u32 {
        let numbered = push.number.and_then(|number| {
            let known = self.runs.iter().rev().find_map(|run| run.seq_of(number));
            known.or_else(|| self.begin_run(number))
        });
        let seq = numbered.unwrap_or_else(|| self.seq_of_digest(push.digest));
        self.next_seq = self.next_seq.max(seq.saturating_add(1));
        seq
    }

    /// Begins a run at a number that is higher than those of the recording's existing runs.
    fn begin_run(&mut self, number: PushNumber) -> Option<u32> {
        let mut of_recording = self
            .runs
            .iter()
            .filter(|run| run.recording == number.recording);
        if of_recording.any(|run| number.number < run.first_number) {
            return None;
        }
        let (first_number, first_seq) = if self.next_seq == 0 && self.awaits_first {
            (0, 0)
        } else {
            (number.number, self.next_seq)
        };
        self.close_run();
        if self.runs.len() >= RECORDER_RUNS_MAX {
            self.runs.remove(0);
        }
        let run = Run {
            recording: number.recording,
            first_number,
            first_seq,
            end_seq: None,
        };
        self.runs.push(run);
        run.seq_of(number)
    }

    /// Ends the last run, because a push without its next number follows.
    fn close_run(&mut self) {
        if let Some(run) = self.runs.last_mut()
            && run.end_seq.is_none()
        {
            run.end_seq = Some(self.next_seq);
        }
    }

    /// Returns the `seq` of a push without a usable number, by its digest.
    fn seq_of_digest(&mut self, digest: u64) -> u32 {
        if let Some(&(_, seq)) = self.known.iter().find(|(known, _)| *known == digest) {
            return seq;
        }
        self.close_run();
        if self.known.len() >= RECORDER_PUSHES_KNOWN_MAX {
            self.known.remove(0);
        }
        let seq = self.next_seq.min(BATCH_SEQ_MAX);
        self.known.push((digest, seq));
        seq
    }
}

/// The way in which the service ended a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndOfSession {
    /// The session ended because of silence, and still accepts the data that the phone has
    /// buffered.
    Idle,
    /// The session was stopped or stopped accepting data at this time of the phone's clock.
    At(i64),
}

/// The known state of a recorder's sessions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecorderState {
    /// The sessions, newest last.
    sessions: Vec<RecordedSession>,
    opened: u32,
    /// The arrival time of the last push, by the service's clock.
    pub last_heard_at: Option<TimestampMs>,
    #[serde(rename = "heard")]
    counts: Vec<PushCounts>,
}

impl RecorderState {
    /// Returns the newest session.
    #[must_use]
    pub fn newest(&self) -> Option<&RecordedSession> {
        self.sessions.last()
    }

    /// Returns the session with this ordinal.
    #[must_use]
    pub fn session(&self, ordinal: u32) -> Option<&RecordedSession> {
        self.sessions
            .iter()
            .find(|session| session.ordinal == ordinal)
    }

    fn session_mut(&mut self, ordinal: u32) -> Option<&mut RecordedSession> {
        self.sessions
            .iter_mut()
            .find(|session| session.ordinal == ordinal)
    }

    /// Records that the service has ended the newest session.
    pub fn mark_newest_ended(&mut self, end: EndOfSession) {
        if let Some(session) = self.sessions.last_mut()
            && session.ended_at_ms.is_none()
        {
            match end {
                EndOfSession::Idle => session.is_idle = true,
                EndOfSession::At(ended_at_ms) => session.ended_at_ms = Some(ended_at_ms),
            }
        }
    }

    /// Records that the service has created the session with this ordinal; it began at
    /// `started_at_ms` of the phone's clock.
    pub fn mark_created(&mut self, ordinal: u32, session_id: SessionId, started_at_ms: i64) {
        if let Some(session) = self.session_mut(ordinal) {
            let later_ms = started_at_ms.saturating_sub(session.started_at_ms);
            let began_at_ms = session.began_at_ms;
            session.began_at_ms = began_at_ms.map(|at_ms| at_ms.saturating_add(later_ms));
            session.session_id = Some(session_id);
            session.started_at_ms = started_at_ms;
        }
    }

    /// Returns whether the state must be stored for a plan. The arrival of pushes without a step,
    /// which cost their sender little, is stored once a second. `heard_at` is the
    /// [`last_heard_at`](Self::last_heard_at) before the plan.
    #[must_use]
    pub fn must_store(&self, plan: &Plan<'_>, heard_at: Option<TimestampMs>) -> bool {
        let heard = heard_at.zip(self.last_heard_at);
        let is_recent = heard.is_some_and(|(before, now)| now.since_ms(before) < ARRIVAL_STORED_MS);
        !(plan.is_empty() && is_recent)
    }

    /// Processes a push that arrived at `now`. `idle_ms` is `session.idle_timeout`.
    pub fn plan<'m>(&mut self, push: &'m Push, idle_ms: i64, now: TimestampMs) -> Plan<'m> {
        self.record_arrival(push, now);
        let mut plan = Plan::default();
        let mut skipped = push.skipped;
        let mut ends = push.ends_at_ms.iter().copied().peekable();
        let (mut begin, mut current) = (0, None);
        for (place, reading) in push.readings.iter().enumerate() {
            while let Some(ended_at_ms) = ends.next_if(|&end| end < reading.at_ms) {
                self.end(ended_at_ms, &mut plan);
            }
            let target = self.session_of(reading, push, idle_ms, now, &mut plan);
            if target != current {
                self.append(current, push, begin..place, &mut skipped, &mut plan);
                (begin, current) = (place, target);
            }
            if let Some(session) = target.and_then(|ordinal| self.session_mut(ordinal)) {
                session.last_at_ms = session.last_at_ms.max(reading.at_ms);
            }
        }
        let rest = begin..push.readings.len();
        self.append(current, push, rest, &mut skipped, &mut plan);
        if let Some(last) = plan.appends.last_mut() {
            last.skipped = last.skipped.saturating_add(skipped);
        }
        for ended_at_ms in ends {
            self.end(ended_at_ms, &mut plan);
        }
        plan
    }

    /// Returns the ordinal of a reading's session, and opens the session if necessary. Returns
    /// `None` for a mark that belongs to no session, and for a reading after the sessions that one
    /// push may open. A reading from before the first session, or from between two sessions,
    /// belongs to the later session, which counts it as skipped.
    fn session_of(
        &mut self,
        reading: &Reading,
        push: &Push,
        idle_ms: i64,
        now: TimestampMs,
        plan: &mut Plan<'_>,
    ) -> Option<u32> {
        let at_ms = reading.at_ms;
        if let Some(newest) = self.sessions.last_mut() {
            newest.correct_start(at_ms, now);
        }
        self.close_if_idle(at_ms, idle_ms);
        if let Some(ordinal) = self.find(at_ms) {
            return Some(ordinal);
        }
        // A mark alone does not open a session, because apps often send it twice. A push that opened
        // more sessions than are known would leave the first ones without an end.
        let is_mark = matches!(reading.measurement, Measurement::Mark(_));
        let may_open = !is_mark && plan.openings.len() < RECORDER_SESSIONS_KNOWN_MAX;
        may_open.then(|| self.open(at_ms, push, now, plan))
    }

    /// Ends the session that began before a reading at `at_ms` if the service has ended it because
    /// of silence, and the reading is too late for it.
    fn close_if_idle(&mut self, at_ms: i64, idle_ms: i64) {
        let mut sessions = self.sessions.iter_mut().rev();
        if let Some(session) = sessions.find(|session| session.started_at_ms <= at_ms)
            && session.ended_at_ms.is_none()
            && session.is_idle
            && at_ms.saturating_sub(session.last_at_ms) > idle_ms
        {
            session.ended_at_ms = Some(session.last_at_ms);
        }
    }

    /// Returns the ordinal of the known session to which a reading at `at_ms` belongs, or `None` if
    /// the reading is newer than all of them.
    fn find(&self, at_ms: i64) -> Option<u32> {
        let mut sessions = self.sessions.iter();
        let before = sessions.rfind(|session| session.started_at_ms <= at_ms);
        match before {
            Some(session) if session.ended_at_ms.is_none_or(|end| at_ms <= end) => {
                Some(session.ordinal)
            }
            Some(session) if session.ordinal.saturating_add(1) == self.opened => None,
            _ => {
                let mut sessions = self.sessions.iter();
                let after = sessions.find(|session| session.started_at_ms > at_ms);
                after.map(|session| session.ordinal)
            }
        }
    }

    /// Opens a session with a reading at `at_ms`, and returns its ordinal.
    fn open(&mut self, at_ms: i64, push: &Push, now: TimestampMs, plan: &mut Plan<'_>) -> u32 {
        let ordinal = self.opened;
        self.opened = self.opened.saturating_add(1);
        let awaited_ms = self.awaited_ms(at_ms, push);
        let started_at_ms = at_ms.saturating_sub(awaited_ms);
        // The phone's clock may be wrong, but the times within the session are still right.
        let is_ahead = started_at_ms > now.plus_ms(CLOCK_AHEAD_MS_MAX).0;
        let earliest = now.plus_ms(-RECORDER_STARTED_AT_BACK_MS_MAX);
        let begins_at = if is_ahead {
            now
        } else {
            TimestampMs(started_at_ms).max(earliest)
        };
        if self.sessions.len() >= RECORDER_SESSIONS_KNOWN_MAX {
            self.sessions.remove(0);
        }
        self.sessions.push(RecordedSession {
            ordinal,
            session_id: None,
            started_at_ms,
            began_at_ms: is_ahead.then_some(begins_at.0),
            ended_at_ms: None,
            last_at_ms: at_ms,
            is_idle: false,
            awaits_first: awaited_ms > 0,
            next_seq: 0,
            runs: Vec::new(),
            known: Vec::new(),
        });
        plan.openings.push(Opening {
            ordinal,
            started_at_ms,
            begins_at,
        });
        ordinal
    }

    /// Returns the time from the start of a recording to its first push to arrive: the duration
    /// of the missing pushes, if they are few and no session has any push of the recording.
    fn awaited_ms(&self, at_ms: i64, push: &Push) -> i64 {
        let Some(number) = push.number else {
            return 0;
        };
        let is_known = |session: &RecordedSession| {
            let mut runs = session.runs.iter();
            runs.any(|run| run.recording == number.recording)
        };
        if number.number > FIRST_PUSHES_AWAITED_MAX || self.sessions.iter().any(is_known) {
            return 0;
        }
        let last_ms = push.readings.last().map_or(at_ms, |last| last.at_ms);
        let length_ms = last_ms.saturating_sub(at_ms).max(0);
        // The interval to the next push equals the interval between readings.
        let between = i64::try_from(push.readings.len().saturating_sub(1)).unwrap_or(i64::MAX);
        let period_ms = length_ms.saturating_add(length_ms / between.max(1));
        period_ms
            .saturating_mul(i64::from(number.number))
            .min(FIRST_PUSHES_AWAITED_MS_MAX)
    }

    /// Adds a range of the push's readings to the plan, as a batch of a session.
    fn append<'m>(
        &mut self,
        ordinal: Option<u32>,
        push: &'m Push,
        range: std::ops::Range<usize>,
        skipped: &mut u32,
        plan: &mut Plan<'m>,
    ) {
        let readings = push.readings.get(range).unwrap_or_default();
        if readings.is_empty() {
            return;
        }
        let Some(session) = ordinal.and_then(|ordinal| self.session_mut(ordinal)) else {
            let is_measured =
                |reading: &&Reading| !matches!(reading.measurement, Measurement::Mark(_));
            let count = readings.iter().filter(is_measured).count();
            *skipped = skipped.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
            return;
        };
        plan.appends.push(Append {
            ordinal: session.ordinal,
            seq: session.seq_of(push),
            readings,
            skipped: std::mem::take(skipped),
        });
    }

    /// Ends a session at the courier's request. Repeating the request repeats the stop, which
    /// changes nothing.
    fn end(&mut self, ended_at_ms: i64, plan: &mut Plan<'_>) {
        let session = self
            .sessions
            .iter_mut()
            .rev()
            .find(|session| session.started_at_ms <= ended_at_ms);
        if let Some(session) = session
            && *session.ended_at_ms.get_or_insert(ended_at_ms) == ended_at_ms
        {
            plan.stops.push(Stop {
                ordinal: session.ordinal,
                ended_at_ms,
            });
        }
    }

    /// Records the arrival of a push, and counts its values.
    fn record_arrival(&mut self, push: &Push, now: TimestampMs) {
        self.last_heard_at = self.last_heard_at.max(Some(now));
        let Some(counts) = PushCounts::of(push) else {
            return;
        };
        if self.counts.len() >= RATE_PUSHES_MAX {
            self.counts.remove(0);
        }
        self.counts.push(counts);
    }

    /// Returns the received values per second, by kind, over the last pushes.
    #[must_use]
    pub(super) fn rates_hz(&self) -> Vec<(Kind, f64)> {
        rates::rates_hz(&self.counts)
    }
}
