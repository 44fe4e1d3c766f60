//! The keys of samples, in the order in which a phone writes them, for comparison with the next
//! samples.
//!
//! A phone writes the samples of a kind alike, and its kinds in a regular order. Each kind
//! therefore has its own layout, and the predicted layout of the next sample is the layout that
//! last followed the current one. If the prediction is wrong, the layout that fits so far is found
//! by its next key or by the text of its kind. A layout is only a prediction: the text decides.

use super::Slot;
use super::scanner::{Expected, Scanner};
use crate::sample::Kind;

/// Maximum number of remembered keys of a layout: more than any kind has.
const MEMBERS_MAX: usize = 16;
/// Maximum number of layouts: one for each kind, an unknown kind, and two more.
const LAYOUTS_MAX: usize = Kind::ALL.len() + 3;

/// A key at its position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Member {
    /// The key with its quotes and colon.
    pub(super) key: Expected,
    /// The place in which its value is stored; `None` if the field is unknown.
    pub(super) slot: Option<Slot>,
    /// The text of the kind, if this is the kind, and the kind; `None` if unknown.
    kind: Option<(Expected, Option<Kind>)>,
}

impl Member {
    pub(super) fn new(key: Expected, slot: Option<Slot>) -> Self {
        Self {
            key,
            slot,
            kind: None,
        }
    }
}

/// The members of a sample, in order.
#[derive(Debug, Default)]
struct Layout {
    members: Vec<Member>,
    /// The position in [`Layouts::all`] of the layout that followed this one.
    follower: usize,
}

/// The layouts of a batch's samples.
#[derive(Debug)]
pub(super) struct Layouts {
    /// The list is never empty.
    all: Vec<Layout>,
    /// The layout of the current sample, and of the previous one.
    current: usize,
    previous: usize,
}

impl Default for Layouts {
    fn default() -> Self {
        Self {
            all: vec![Layout::default()],
            current: 0,
            previous: 0,
        }
    }
}

impl Layouts {
    /// Starts the next sample with the layout that is likely to be its own.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.current = self.follower_of(self.previous);
    }

    /// Ends a sample.
    #[inline(always)]
    pub(super) fn end(&mut self) {
        if let Some(previous) = self.all.get_mut(self.previous) {
            previous.follower = self.current;
        }
        self.previous = self.current;
    }

    fn follower_of(&self, place: usize) -> usize {
        self.all.get(place).map_or(0, |layout| layout.follower)
    }

    /// Returns the member that is likely to stand at a position.
    #[inline(always)]
    pub(super) fn expected(&self, place: usize) -> Option<Member> {
        self.all.get(self.current)?.members.get(place).copied()
    }

    /// Consumes the text of the kind if it is the expected one, or that of another layout that fits
    /// so far. Returns the kind; the inner `None` means that it is unknown.
    #[inline(always)]
    pub(super) fn pass_kind(
        &mut self,
        scanner: &mut Scanner<'_>,
        place: usize,
    ) -> Option<Option<Kind>> {
        let (text, kind) = self.expected(place)?.kind?;
        if scanner.pass_expected(text) {
            return Some(kind);
        }
        self.select(place, |member| {
            let (text, kind) = member.kind?;
            scanner.pass_expected(text).then_some(kind)
        })
    }

    /// Consumes the key of another layout that fits so far.
    #[inline(never)]
    pub(super) fn select_by_key(
        &mut self,
        scanner: &mut Scanner<'_>,
        place: usize,
    ) -> Option<Member> {
        self.select(place, |member| {
            scanner.pass_expected(member.key).then_some(*member)
        })
    }

    /// Selects the first other layout that equals this one before a position and whose member there
    /// `passes` accepts.
    #[inline(never)]
    fn select<T>(
        &mut self,
        place: usize,
        mut passes: impl FnMut(&Member) -> Option<T>,
    ) -> Option<T> {
        let so_far = self.all.get(self.current)?.members.get(..place)?;
        let mut found = None;
        for (other, layout) in self.all.iter().enumerate() {
            if other == self.current || layout.members.get(..place) != Some(so_far) {
                continue;
            }
            if let Some(passed) = layout.members.get(place).and_then(&mut passes) {
                found = Some((other, passed));
                break;
            }
        }
        let (other, passed) = found?;
        self.current = other;
        Some(passed)
    }

    /// Records the member at a position, in a layout of its own.
    pub(super) fn put(&mut self, place: usize, member: Member) {
        self.split_at(place);
        if let Some(layout) = self.all.get_mut(self.current)
            && layout.members.len() == place
            && place < MEMBERS_MAX
        {
            layout.members.push(member);
        }
    }

    /// Records the text of the kind at a position, in a layout of its own.
    pub(super) fn put_kind(&mut self, place: usize, text: Expected, kind: Option<Kind>) {
        let Some(mut member) = self.expected(place) else {
            return;
        };
        if member.kind.is_some() {
            self.split_at(place);
        }
        member.kind = Some((text, kind));
        if let Some(layout) = self.all.get_mut(self.current) {
            layout.members.truncate(place);
            layout.members.push(member);
        }
    }

    /// Removes the members from a position on.
    pub(super) fn cut(&mut self, place: usize) {
        self.split_at(place);
    }

    /// Cuts the current layout at a position: selects a new layout with the members before it or,
    /// if there are too many layouts, truncates the current one.
    fn split_at(&mut self, place: usize) {
        let has_room = self.all.len() < LAYOUTS_MAX;
        let Some(layout) = self.all.get_mut(self.current) else {
            return;
        };
        if layout.members.len() <= place {
            return;
        }
        if !has_room {
            layout.members.truncate(place);
            return;
        }
        let mut members = Vec::with_capacity(MEMBERS_MAX);
        members.extend_from_slice(layout.members.get(..place).unwrap_or_default());
        self.current = self.all.len();
        self.all.push(Layout {
            members,
            follower: self.current,
        });
    }
}
