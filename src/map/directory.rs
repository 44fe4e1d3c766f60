//! Directories of a PMTiles file, and the order of its tiles along a Hilbert curve.

use porchlight_schema::limits::MAP_DIRECTORY_ENTRIES_MAX;

use super::projection::TileId;
use super::wire::{Damaged, Reader};

/// One entry: a run of tiles with the same content, or a leaf directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) first: u64,
    /// The number of tiles; 0 for a leaf directory.
    pub(super) run: u32,
    pub(super) offset: u64,
    pub(super) length: u32,
}

/// The entries of a directory, in order of their first tile.
#[derive(Debug, Default)]
pub(super) struct Directory(Vec<Entry>);

impl Directory {
    /// Reads an unpacked directory.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Damaged> {
        let mut reader = Reader::new(bytes);
        let count = usize::try_from(reader.integer()?).map_err(|_| Damaged)?;
        // Every entry takes at least four bytes.
        if count > MAP_DIRECTORY_ENTRIES_MAX || count > reader.left() / 4 {
            return Err(Damaged);
        }
        let mut entries = Vec::with_capacity(count);
        let mut first = 0_u64;
        for _ in 0..count {
            first = first.checked_add(reader.integer()?).ok_or(Damaged)?;
            entries.push(Entry {
                first,
                run: 0,
                offset: 0,
                length: 0,
            });
        }
        let small = |value: u64| u32::try_from(value).map_err(|_| Damaged);
        for entry in &mut entries {
            entry.run = small(reader.integer()?)?;
        }
        for entry in &mut entries {
            entry.length = small(reader.integer()?)?;
        }
        let mut next = 0_u64;
        for (index, entry) in entries.iter_mut().enumerate() {
            entry.offset = match reader.integer()? {
                0 if index == 0 => return Err(Damaged),
                0 => next,
                offset => offset - 1,
            };
            next = entry
                .offset
                .checked_add(u64::from(entry.length))
                .ok_or(Damaged)?;
        }
        Ok(Self(entries))
    }

    /// Returns the entry that holds the tile, or the leaf directory that may.
    pub(super) fn find(&self, number: u64) -> Option<Entry> {
        let index = self.0.partition_point(|entry| entry.first <= number);
        let entry = *self.0.get(index.checked_sub(1)?)?;
        let holds = entry.run == 0 || number - entry.first < u64::from(entry.run);
        holds.then_some(entry)
    }
}

/// Returns the number of a tile: tiles are ordered by zoom, then along a Hilbert curve.
pub(super) fn number(id: TileId) -> u64 {
    let below: u64 = (0..id.zoom).map(|zoom| 1_u64 << (2 * zoom)).sum();
    let (mut x, mut y) = (u64::from(id.x), u64::from(id.y));
    let mut along = 0_u64;
    for level in (0..id.zoom).rev() {
        let side = 1_u64 << level;
        let (right, low) = (u64::from(x & side > 0), u64::from(y & side > 0));
        along += side * side * ((3 * right) ^ low);
        if low == 0 {
            if right == 1 {
                x = (side - 1).wrapping_sub(x) & (side - 1);
                y = (side - 1).wrapping_sub(y) & (side - 1);
            }
            (x, y) = (y, x);
        }
        x &= side.wrapping_sub(1);
        y &= side.wrapping_sub(1);
    }
    below + along
}
