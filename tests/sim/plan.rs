//! The plan of a seed: the sender and time of each request, the faults of the store and the
//! network, and the time of the node's death.

use crate::chance::Chance;
use crate::corpus::CORPUS;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// The purposes of the streams of chance.
const PLAN: u64 = 1;

/// The plan of a whole world.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) idle_ms: i64,
    pub(crate) max_ms: i64,
    pub(crate) scripts: Vec<Script>,
    pub(crate) fault_rates: FaultRates,
    /// The lives of the node that end before everything is done; one more follows, in the end
    /// without faults.
    pub(crate) lives: Vec<Life>,
    /// The times at which the wall clock jumps (milliseconds of the world's age), and the size of
    /// each jump.
    pub(crate) jumps: Vec<(i64, i64)>,
}

/// The rates of the injected faults, in thousandths of the calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FaultRates {
    pub(crate) refuse: u64,
    pub(crate) lose_answer: u64,
    pub(crate) panic: u64,
    pub(crate) slow: u64,
    pub(crate) slow_ms_max: i64,
    pub(crate) bad_snapshot: u64,
    pub(crate) hand_over_lost: u64,
    pub(crate) hand_over_doubled: u64,
    pub(crate) hand_over_ms_max: i64,
}

/// One life of the node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    pub(crate) length_ms: i64,
    pub(crate) death: Death,
    /// The time without a running node afterwards, by the wall clock.
    pub(crate) outage_ms: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// The process is killed; the operating system keeps the written data.
    Killed,
    /// Unsynced data is lost.
    PowerLost,
    /// The disk fails after this many more groups; the process exits when it notices.
    DiskFails(u64),
    /// The process drains on request, and ends.
    Drained,
}

/// The script of one phone.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) recording: usize,
    pub(crate) start_at_ms: i64,
    pub(crate) acts: Vec<Act>,
    /// The number of a batch that was quarantined before it arrived.
    pub(crate) quarantined: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Act {
    /// The world's age at the act, in milliseconds.
    pub(crate) at_ms: i64,
    pub(crate) action: PhoneAction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PhoneAction {
    /// Sends a batch, repeatedly until it is acknowledged or permanently refused.
    Batch(u32),
    /// Sends another body with the number of a batch.
    Imposter(u32),
    /// Attaches a PoD of this number.
    Pod(u32),
    /// Stops the session, with the time of its end or without it.
    Stop { has_time: bool },
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let mut chance = Chance::of(&[seed, PLAN]);
        let (idle_ms, max_ms) = lifetime(&mut chance);
        let first = chance.draw() as usize;
        let count = chance.between(1, 4) as usize;
        let scripts = (0..count)
            .map(|place| script((first + place) % CORPUS.len(), &mut chance))
            .collect();
        Self {
            seed,
            idle_ms,
            max_ms,
            scripts,
            fault_rates: fault_rates(&mut chance),
            lives: lives(&mut chance),
            jumps: jumps(&mut chance),
        }
    }
}

fn lifetime(chance: &mut Chance) -> (i64, i64) {
    match chance.between(0, 3) {
        // The session outlives its telemetry.
        0 | 1 => (30 * MINUTE, 12 * HOUR),
        // The session reaches its maximum age in the middle of its telemetry.
        2 => (30 * MINUTE, chance.between(1, 5) * MINUTE),
        // The session times out during a pause.
        _ => (chance.between(20, 90) * SECOND, HOUR),
    }
}

fn script(recording: usize, chance: &mut Chance) -> Script {
    let batches = &CORPUS[recording].batches;
    let count = chance.between(0, batches.len() as i64) as usize;
    let start_at_ms = chance.between(0, 60 * SECOND);
    // Batches are sent as they are recorded, or all together by a phone that was offline.
    let pace = chance.choose(&[0, 100, 1000, 1000, 1000]);
    let straggler = chance.choose(&[0, 0, 50, 200]);
    let mut acts = Vec::new();
    let mut last_ms = start_at_ms;
    for (seq, batch) in (0..).zip(batches.iter().take(count)) {
        let ready_ms = start_at_ms + i64::from(batch.t_max_ms()) * pace / 1000;
        last_ms = last_ms.max(ready_ms);
        let late_ms = if chance.permille(straggler) {
            chance.between(5 * SECOND, 5 * MINUTE)
        } else {
            chance.between(0, chance.clone().between(0, 3 * SECOND))
        };
        // A few batches are never sent, and leave gaps.
        if !chance.permille(straggler / 4) {
            acts.push(Act {
                at_ms: ready_ms + late_ms,
                action: PhoneAction::Batch(seq),
            });
        }
        if chance.permille(80) {
            acts.push(Act {
                at_ms: ready_ms + late_ms + chance.between(0, 20 * SECOND),
                action: PhoneAction::Batch(seq),
            });
        }
        if chance.permille(30) {
            acts.push(Act {
                at_ms: ready_ms + chance.between(0, 20 * SECOND),
                action: PhoneAction::Imposter(seq),
            });
        }
    }
    if chance.permille(600) {
        acts.push(Act {
            at_ms: last_ms + chance.between(-30 * SECOND, 10 * SECOND).max(0),
            action: PhoneAction::Stop {
                has_time: chance.permille(500),
            },
        });
    }
    for number in 0..chance.choose(&[0, 0, 1, 2]) {
        acts.push(Act {
            at_ms: start_at_ms + chance.between(0, last_ms - start_at_ms + 15 * MINUTE),
            action: PhoneAction::Pod(number),
        });
    }
    Script {
        recording,
        start_at_ms,
        acts,
        quarantined: (count > 0 && chance.permille(150))
            .then(|| chance.between(0, count as i64 - 1) as u32),
    }
}

fn fault_rates(chance: &mut Chance) -> FaultRates {
    let bad = chance.choose(&[0, 0, 5, 30, 150]);
    FaultRates {
        refuse: bad,
        lose_answer: bad / 2,
        panic: chance.choose(&[0, 0, 3, 20]),
        slow: chance.choose(&[0, 100, 300]),
        slow_ms_max: chance.choose(&[20, 500, 8_000]),
        bad_snapshot: chance.choose(&[0, 200, 500]),
        hand_over_lost: chance.choose(&[0, 0, 100, 500, 1000]),
        hand_over_doubled: chance.choose(&[0, 100]),
        hand_over_ms_max: chance.choose(&[0, 0, 50, 5_000]),
    }
}

fn lives(chance: &mut Chance) -> Vec<Life> {
    let count = chance.choose(&[0, 1, 1, 2, 4]);
    let one = |_| Life {
        length_ms: chance.between(0, 4 * MINUTE),
        death: match chance.between(0, 3) {
            0 => Death::Killed,
            1 => Death::PowerLost,
            2 => Death::DiskFails(chance.between(0, 120) as u64),
            _ => Death::Drained,
        },
        outage_ms: if chance.permille(200) {
            chance.between(10 * MINUTE, 3 * HOUR)
        } else {
            chance.between(0, 20 * SECOND)
        },
    };
    (0..count).map(one).collect()
}

fn jumps(chance: &mut Chance) -> Vec<(i64, i64)> {
    let count = chance.choose(&[0, 0, 1, 2]);
    let one = |_| {
        let at_ms = chance.between(0, 8 * MINUTE);
        let by_ms = chance.choose(&[2 * SECOND, 40 * MINUTE, 5 * HOUR]);
        let back = chance.permille(400);
        (at_ms, if back { -by_ms } else { by_ms })
    };
    (0..count).map(one).collect()
}
