//! Bloom filters of ids per row group, checked before the filters of blocks: one short read rules
//! out most files.
//!
//! The slot count is a power of two: a merge doubles smaller filters to the size of the largest in
//! the file, and a later copy halves them to their original size.
//!
//! Example: a filter of two slots `a b` doubles to `a a b b`. Since both slots of every pair are
//! equal, a copy restores `a b`.

use super::SLOT_BYTES;
use super::key::{KeyBits, mask, slot};

/// Minimum filter bits per id; up to twice as many after rounding. At the 8 bits of a full row
/// group, 3 % false positives.
const BITS_PER_ID: usize = 6;
/// Maximum filter size, 512 KiB.
const SLOTS_MAX: usize = 1 << 14;

type FilterSlot = [u32; 8];

/// Filters of a file being written, one per finished row group.
#[derive(Default)]
pub(super) struct GroupFilters(Vec<Vec<FilterSlot>>);

/// Rotated key for row group filters: makes their false positives independent of those of block
/// filters.
#[inline]
pub fn turned(key: u64) -> u64 {
    key.rotate_left(32)
}

/// Number of a row group, and of all row groups of its file.
#[derive(Clone, Copy)]
pub(super) struct GroupPlace {
    pub(super) group: usize,
    pub(super) groups: usize,
}

impl GroupFilters {
    /// Adds a row group with these keys in its blocks.
    pub(super) fn push(&mut self, blocks: &[Vec<u64>]) {
        let count: usize = blocks.iter().map(Vec::len).sum();
        let slots = (count * BITS_PER_ID).div_ceil(SLOT_BYTES * 8).next_power_of_two();
        let mut filter = vec![FilterSlot::default(); slots.min(SLOTS_MAX)];
        for key in blocks.iter().flatten().map(|key| turned(*key)) {
            let at = slot(key, filter.len());
            for (word, bit) in filter[at].iter_mut().zip(mask(key, KeyBits::Eight)) {
                *word |= bit;
            }
        }
        self.0.push(filter);
    }

    /// Adds a row group of a file with the interleaved filters `sheet`.
    pub(super) fn push_copy(&mut self, sheet: &[u8], place: GroupPlace) {
        let GroupPlace { group, groups } = place;
        let slots = sheet.as_chunks::<SLOT_BYTES>().0.iter().skip(group).step_by(groups.max(1));
        let mut filter: Vec<FilterSlot> = slots
            .map(|bytes| {
                let words = bytes.as_chunks::<4>().0;
                std::array::from_fn(|at| u32::from_le_bytes(words[at]))
            })
            .collect();
        while filter.len() > 1 && filter.as_chunks::<2>().0.iter().all(|[one, two]| one == two) {
            filter = filter.into_iter().step_by(2).collect();
        }
        self.0.push(filter);
    }

    /// Interleaved filters, in the layout of block filters, and slots per filter.
    pub(super) fn sheet(&self) -> (Vec<u8>, usize) {
        let slots = self.0.iter().map(Vec::len).max().unwrap_or_default();
        let mut bytes = Vec::with_capacity(slots * self.0.len() * SLOT_BYTES);
        for at in 0..slots {
            for filter in &self.0 {
                let words = filter[at * filter.len() / slots];
                bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            }
        }
        (bytes, slots)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copied_filters_are_those_that_were_made() {
        let keys = |seed: u64, count: u64| -> Vec<Vec<u64>> {
            vec![
                (0..count)
                    .map(|number| (number + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15))
                    .collect(),
                Vec::new(),
            ]
        };
        let all = [keys(1, 9000), keys(20_000, 70), keys(0, 0), keys(40_000, 3000)];
        let made = |which: &[usize]| {
            let mut filters = GroupFilters::default();
            which.iter().for_each(|at| filters.push(&all[*at]));
            filters
        };
        let (sheet, slots) = made(&[0, 1, 2, 3]).sheet();
        assert_eq!((slots, sheet.len()), (256, 256 * 4 * SLOT_BYTES));
        let mut copied = GroupFilters::default();
        copied.push_copy(&sheet, GroupPlace { group: 3, groups: 4 });
        copied.push_copy(&sheet, GroupPlace { group: 1, groups: 4 });
        copied.push(&all[2]);
        assert_eq!(copied.sheet(), made(&[3, 1, 2]).sheet());
        assert_eq!(copied.sheet().1, 128, "as many slots as the largest needs");
    }
}
