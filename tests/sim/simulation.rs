//! Runs seeds of the simulation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};

use porchlight_store::engine::memory::MemoryEngine;

use crate::plan::{Death, Plan};
use crate::store::INJECTED;
use crate::world::World;
use crate::{judge, node};

/// The default number of seeds.
const SEEDS: u64 = 500;
/// Additional seeds that once found a fault.
const REGRESSION_SEEDS: [u64; 6] = [661, 779, 1584, 1656, 1696, 2988];
/// The number of threads that run the seeds.
const THREADS: usize = 2;
/// The number of failed seeds after which the remaining ones are skipped.
const FAILURES_MAX: usize = 5;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Silences the output of injected panics.
fn silence_injected_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let text = panic.payload_as_str().unwrap_or_default();
            // A damaged snapshot panics in the machine itself.
            let in_machine = panic
                .location()
                .is_some_and(|place| place.file().contains("actors/core/src/session.rs"));
            if !text.contains(INJECTED) && !in_machine {
                default_hook(panic);
            }
        }));
    });
}

/// The result of a seed.
struct SeedOutcome {
    /// The violated invariants.
    violations: Vec<String>,
    /// The record of all actions, observations and stored data: identical in each run.
    trace: String,
}

/// Runs one seed.
fn run_seed(seed: u64) -> SeedOutcome {
    let world = Arc::new(World::new(Plan::of(seed)));
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut engine = MemoryEngine::new();
        let lives = world.plan.lives.clone();
        for (number, life) in lives.iter().enumerate() {
            if let Death::DiskFails(groups) = life.death {
                engine.fail_after(groups);
            }
            node::live(&world, number as u64, engine.clone(), Some(*life));
            if matches!(life.death, Death::PowerLost | Death::DiskFails(_)) {
                engine = engine.after_power_loss();
            }
            world.clock.jump(life.outage_ms);
        }
        node::live(&world, lives.len() as u64, engine.clone(), None);
        let written = engine.applied_and_synced();
        judge::judge(&world, engine);
        written
    }));
    let mut violations = world.take_violations();
    let written = outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        violations.push(text.unwrap_or_else(|| "a panic, reported above".to_owned()));
        (0, 0)
    });
    let logs = (0..world.plan.scripts.len()).map(|index| {
        let log = world.log(index);
        (log.polls, log.acknowledged.len(), log.seen.clone())
    });
    let trace = format!("{written:?} {:?}", logs.collect::<Vec<_>>());
    SeedOutcome { violations, trace }
}

#[test]
fn a_seed_is_reproducible() {
    silence_injected_panics();
    for seed in [4, 23, 95] {
        assert_eq!(run_seed(seed).trace, run_seed(seed).trace, "seed {seed}");
    }
}

#[test]
fn invariants_hold_for_every_seed() {
    silence_injected_panics();
    let one = variable("PORCHLIGHT_SIM_SEED");
    let seeds: Vec<u64> = match one {
        Some(seed) => vec![seed],
        None => {
            let count = variable("PORCHLIGHT_SIM_SEEDS").unwrap_or(SEEDS);
            let beyond = REGRESSION_SEEDS.into_iter().filter(|&seed| seed >= count);
            (0..count).chain(beyond).collect()
        }
    };
    if let Some(seed) = one {
        println!("{:#?}", Plan::of(seed));
    }
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&seed) = seeds.get(place) else {
                        return;
                    };
                    if failures.lock().unwrap().len() >= FAILURES_MAX {
                        return;
                    }
                    let SeedOutcome { violations, .. } = run_seed(seed);
                    if !violations.is_empty() {
                        failures.lock().unwrap().push((seed, violations));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    for (seed, violations) in &failures {
        println!(
            "seed {seed} failed; run it again with: PORCHLIGHT_SIM_SEED={seed} cargo test -p porchlight-actors --test sim -- --nocapture"
        );
        for violation in violations {
            println!("  {violation}");
        }
    }
    assert!(failures.is_empty(), "{} seeds failed", failures.len());
}
