//! Isotonic regression with few knots.

use super::rows::{Rows, SETS, SIMULATED};

/// The maximum number of knots of a table.
pub const KNOTS_MAX: usize = 4;
/// The least weight of a block of events, so that no knot rests on a handful of them.
const BLOCK_MIN: f64 = 10.0;
/// The weight of the prior of each block, in events, and its share of correct events.
const PRIOR: f64 = 4.0;
const PRIOR_SHARE: f64 = 0.75;
/// The number of recorded events from which recordings support more than [`UNRECORDED_MAX`].
const RECORDED_MIN: f64 = 20.0;
/// The highest confidence in thousandths, which no number of recorded events exceeds.
const RECORDED_MAX: u16 = 970;
/// The highest confidence of sensors that no recording contains.
const UNRECORDED_MAX: u16 = 930;
/// The set of stairs that only the stride shows, and its highest confidence: the recordings contain
/// only one phone in one pocket for it.
pub const STRIDE: usize = 13;
const STRIDE_MAX: u16 = 690;
/// The minimum confidence, in thousandths.
const CONFIDENCE_MIN: u16 = 20;
/// The confidence of sensors without any event.
const UNKNOWN: u16 = 500;

/// A knot: a strength in hundredths, and a confidence in thousandths.
pub type Knot = (i32, u16);

/// The tables of all sensor sets, fitted on all sources or without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// The source that was left out, if any.
    pub left_out: Option<String>,
    /// The knots of each sensor set.
    pub knots: Vec<Vec<Knot>>,
}

/// Fits the tables on all sources, and without each recorded source.
#[must_use]
pub fn folds(rows: &Rows) -> Vec<Fold> {
    let left_out = rows.sources().into_iter().map(Some);
    std::iter::once(None)
        .chain(left_out)
        .map(|left_out| Fold {
            knots: (0..SETS)
                .map(|set| knots(&events(rows, set, left_out.as_deref()), set))
                .collect(),
            left_out,
        })
        .collect()
}

/// The events of one sensor set.
struct Events {
    /// The blocks of equal strength, in rising order.
    blocks: Vec<Block>,
    /// The number of recorded events.
    recorded: f64,
}

/// Neighbouring events.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Block {
    /// The sum of the weights of the events.
    weight: f64,
    /// The sum of the weights of the correct events.
    right: f64,
    /// The weighted sum of the strengths.
    strength: f64,
}

impl Block {
    fn share(self) -> f64 {
        self.right / self.weight
    }

    fn with(self, other: Self) -> Self {
        Self {
            weight: self.weight + other.weight,
            right: self.right + other.right,
            strength: self.strength + other.strength,
        }
    }
}

/// Returns the events of a set without a source. If there are recorded events, all simulated ones
/// together weigh as much as [`RECORDED_MIN`] of them.
fn events(rows: &Rows, set: usize, left_out: Option<&str>) -> Events {
    let own = || {
        let own = rows.0.iter();
        own.filter(move |(group, _)| group.set == set && Some(group.source.as_str()) != left_out)
    };
    let count = |is_simulated: bool| {
        own()
            .filter(|(group, _)| (group.source == SIMULATED) == is_simulated)
            .map(|(_, (_, all))| f64::from(*all))
            .sum::<f64>()
    };
    let (recorded, simulated) = (count(false), count(true));
    let weight_of_simulated = if recorded > 0.0 {
        (RECORDED_MIN / simulated).min(1.0)
    } else {
        1.0
    };
    let mut blocks: Vec<(i32, Block)> = own()
        .map(|(group, (right, all))| {
            let weight = if group.source == SIMULATED {
                weight_of_simulated
            } else {
                1.0
            };
            let all = weight * f64::from(*all);
            let block = Block {
                weight: all,
                right: weight * f64::from(*right),
                strength: all * f64::from(group.strength),
            };
            (group.strength, block)
        })
        .collect();
    blocks.sort_by_key(|(strength, _)| *strength);
    Events {
        blocks: blocks.into_iter().map(|(_, block)| block).collect(),
        recorded,
    }
}

/// Pools neighbours until each block is heavy enough.
fn heavy(blocks: &[Block]) -> Vec<Block> {
    let mut heavy: Vec<Block> = Vec::new();
    for &block in blocks {
        match heavy.last_mut() {
            Some(last) if last.weight < BLOCK_MIN => *last = last.with(block),
            _ => heavy.push(block),
        }
    }
    if let [.., before, last] = &mut heavy[..]
        && last.weight < BLOCK_MIN
    {
        *before = before.with(*last);
        heavy.pop();
    }
    heavy
}

/// Pools adjacent violators: neighbours of which the stronger has the smaller share of correct
/// events.
fn rising(blocks: &[Block]) -> Vec<Block> {
    let mut rising: Vec<Block> = Vec::new();
    for &block in blocks {
        let mut block = block;
        while let Some(last) = rising.last().copied()
            && last.share() >= block.share()
        {
            block = last.with(block);
            rising.pop();
        }
        rising.push(block);
    }
    rising
}

/// Pools the neighbours that differ least until there are few blocks.
fn few(mut blocks: Vec<Block>) -> Vec<Block> {
    while blocks.len() > KNOTS_MAX {
        let loss = |pair: &[Block]| match pair {
            [a, b] => (b.share() - a.share()).powi(2) * a.weight * b.weight / (a.weight + b.weight),
            _ => f64::INFINITY,
        };
        let losses: Vec<f64> = blocks.windows(2).map(loss).collect();
        let least = losses
            .iter()
            .enumerate()
            .min_by(|a, b| a.1.total_cmp(b.1))
            .map_or(0, |(place, _)| place);
        let next = blocks.remove(least + 1);
        blocks[least] = blocks[least].with(next);
    }
    blocks
}

fn knots(events: &Events, set: usize) -> Vec<Knot> {
    let most = if set == STRIDE {
        STRIDE_MAX
    } else if events.recorded >= RECORDED_MIN {
        RECORDED_MAX
    } else {
        UNRECORDED_MAX
    };
    let mut knots: Vec<Knot> = Vec::new();
    for block in few(rising(&heavy(&events.blocks))) {
        let share = (block.right + PRIOR * PRIOR_SHARE) / (block.weight + PRIOR);
        let permille = ((share * 1_000.0).round() as u16).clamp(CONFIDENCE_MIN, most);
        let strength = (block.strength / block.weight).round() as i32;
        // The prior weighs more in a light block, which could break the order.
        let permille = knots.last().map_or(permille, |last| last.1.max(permille));
        knots.push((strength, permille));
    }
    if knots.is_empty() {
        knots.push((0, UNKNOWN));
    }
    knots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(events: &[(&str, i32, u32, u32)]) -> Rows {
        let mut rows = Rows::default();
        for &(source, strength, right, all) in events {
            for number in 0..all {
                rows.add(source, 0, strength, number < right);
            }
        }
        rows
    }

    fn shipped(rows: &Rows) -> Vec<Knot> {
        folds(rows)[0].knots[0].clone()
    }

    #[test]
    fn stronger_events_that_are_less_often_right_are_pooled() {
        let rows = rows(&[
            ("a", 100, 60, 100),
            ("a", 200, 40, 100),
            ("a", 300, 95, 100),
        ]);
        let knots = shipped(&rows);
        assert_eq!(knots.len(), 2, "{knots:?}");
        assert_eq!((knots[0].0, knots[1].0), (150, 300));
        assert!(
            knots[0].1.abs_diff(505) <= 5 && knots[1].1.abs_diff(942) <= 5,
            "{knots:?}"
        );
    }

    #[test]
    fn there_are_few_knots_and_each_rests_on_many_events() {
        let many: Vec<(&str, i32, u32, u32)> = (1..60)
            .map(|step| ("a", step * 10, step as u32, 60))
            .collect();
        let knots = shipped(&rows(&many));
        assert!(knots.len() <= KNOTS_MAX, "{knots:?}");
        assert!(
            knots.windows(2).all(|pair| pair[0].1 < pair[1].1),
            "{knots:?}"
        );
        assert_eq!(
            shipped(&rows(&[("a", 100, 1, 1), ("a", 200, 1, 1)])).len(),
            1
        );
    }

    #[test]
    fn simulated_events_alone_claim_less() {
        let simulated = rows(&[(SIMULATED, 100, 500, 500)]);
        assert_eq!(shipped(&simulated), [(100, UNRECORDED_MAX)]);
        let both = rows(&[(SIMULATED, 100, 500, 500), ("a", 100, 200, 200)]);
        assert_eq!(shipped(&both), [(100, RECORDED_MAX)]);
    }

    #[test]
    fn a_left_out_source_changes_its_own_fold_only() {
        let rows = rows(&[("a", 100, 100, 100), ("b", 100, 10, 100)]);
        let folds = folds(&rows);
        let of = |source: Option<&str>| {
            let fold = folds.iter().find(|fold| fold.left_out.as_deref() == source);
            fold.map(|fold| fold.knots[0][0].1)
        };
        assert!(of(Some("b")) > of(None) && of(None) > of(Some("a")));
    }

    #[test]
    fn sensors_without_events_are_unknown() {
        assert_eq!(folds(&Rows::default())[0].knots[5], [(0, UNKNOWN)]);
    }
}
