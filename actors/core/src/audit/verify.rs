//! Checks a chain of the audit log, group by group.

use porchlight_schema::hex;
use porchlight_schema::time::TimestampMs;
use serde::{Deserialize, Serialize};

use super::{Group, Head, line_hash};

/// The fault that breaks a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Groups are missing before this one, and they are too young to have expired.
    #[error("lines before group {group} are missing")]
    MissingBefore {
        /// The number of the group.
        group: u64,
    },
    /// The group does not continue the previous group.
    #[error("group {group} does not follow the line before it")]
    NotFollowing {
        /// The number of the group.
        group: u64,
    },
    /// A line was changed, removed or inserted.
    #[error("line {line} of group {group} does not match its hash")]
    Line {
        /// The number of the group.
        group: u64,
        /// The place of the line.
        line: usize,
    },
    /// The newest lines are missing.
    #[error("the chain ends before group {expected}, which was written")]
    Cut {
        /// The number that the chain should have reached.
        expected: u64,
    },
    /// The last lines of the group differ from the lines that were written.
    #[error("group {group} does not end with the lines that were written")]
    OtherEnd {
        /// The number of the group.
        group: u64,
    },
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    /// The number of lines.
    pub lines: u64,
    /// The hash of the newest line in hexadecimal digits. Note it to recognise a chain that was
    /// replaced as a whole.
    pub hash: String,
}

/// Checks the groups of a chain in order.
#[derive(Debug)]
pub struct Verifier {
    expired_until: TimestampMs,
    noted: Head,
    head: Option<Head>,
    lines: u64,
}

impl Verifier {
    /// Begins a check. Groups whose lines are not younger than `expired_until` may be missing at
    /// the beginning. `noted` is a head that the chain has reached; the chain may have grown since.
    #[must_use]
    pub fn new(expired_until: TimestampMs, noted: Head) -> Self {
        Self {
            expired_until,
            noted,
            head: None,
            lines: 0,
        }
    }

    /// Checks the next group.
    ///
    /// # Errors
    ///
    /// Returns an error if the chain is broken at this group.
    pub fn check(&mut self, group: &Group) -> Result<(), Fault> {
        let number = group.number;
        match self.head {
            // Older groups expire as a whole. The group itself says how old the line before it is.
            None if number > 0 && group.previous_at > self.expired_until => {
                return Err(Fault::MissingBefore { group: number });
            }
            // No hash covers the number of a group, so a later group may claim to be the first.
            None if number == 0
                && (group.previous, group.previous_at) != (Head::EMPTY.hash, Head::EMPTY.at) =>
            {
                return Err(Fault::NotFollowing { group: number });
            }
            None => {}
            Some(head) if head.next != number => {
                return Err(Fault::MissingBefore { group: number });
            }
            Some(head) if (head.hash, head.at) != (group.previous, group.previous_at) => {
                return Err(Fault::NotFollowing { group: number });
            }
            Some(_) => {}
        }
        let (mut hash, mut at) = (group.previous, group.previous_at);
        for (line, stored) in group.lines.iter().enumerate() {
            hash = line_hash(&hash, &stored.line());
            if hash != stored.hash || stored.at < at {
                return Err(Fault::Line {
                    group: number,
                    line,
                });
            }
            at = stored.at;
        }
        let head = group.head();
        if head.next == self.noted.next && head.hash != self.noted.hash {
            return Err(Fault::OtherEnd { group: number });
        }
        self.lines = self.lines.saturating_add(group.lines.len() as u64);
        self.head = Some(head);
        Ok(())
    }

    /// Ends the check after the last group.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Cut`] if the chain ends before the noted head.
    pub fn finish(self) -> Result<Verified, Fault> {
        // A chain whose groups have all expired has nothing left to check.
        let has_expired = self.head.is_none() && self.noted.at <= self.expired_until;
        let head = self.head.unwrap_or(Head::EMPTY);
        if head.next < self.noted.next && !has_expired {
            return Err(Fault::Cut {
                expected: self.noted.next,
            });
        }
        Ok(Verified {
            lines: self.lines,
            hash: hex::encode(&head.hash),
        })
    }
}
