//! Interns pairs of ids, in order of first occurrence.
//!
//! Uses a table of all first ids by all second ids while it fits, else a hash table.

use super::group_ids::NumberedInts;

/// Ids to intern as one.
#[derive(Clone, Copy)]
pub(super) struct IdPair {
    pub(super) first: u32,
    pub(super) second: u32,
}

impl IdPair {
    /// Both ids as one number.
    fn joined(self) -> i64 {
        i64::from(self.first) << 32 | i64::from(self.second)
    }
}

/// No id yet.
const NONE: u32 = u32::MAX;

/// Ids of pairs.
#[derive(Debug, Default)]
pub(super) struct PairInterner {
    pub(super) firsts: Vec<u32>,
    pub(super) seconds: Vec<u32>,
    /// Pair ids by first and second id, as long as the table fits.
    table: Vec<u32>,
    /// Second ids per first id in the table.
    width: usize,
    hashed: Option<NumberedInts>,
}

/// Most pairs in the table: 16 MiB.
const TABLE_MAX: usize = 4 << 20;

impl PairInterner {
    pub(super) fn byte_count(&self) -> usize {
        let lists = self.firsts.capacity() + self.seconds.capacity() + self.table.capacity();
        lists * 4 + self.hashed.as_ref().map_or(0, NumberedInts::byte_count)
    }

    /// Grows the table for second ids below `seconds`.
    pub(super) fn reserve(&mut self, seconds: usize) {
        if seconds <= self.width || self.hashed.is_some() {
            return;
        }
        let width = seconds.next_power_of_two().max(16);
        let firsts = self.table.len().checked_div(self.width).unwrap_or_default();
        if firsts * width > TABLE_MAX {
            self.hash();
            return;
        }
        self.width = width;
        self.table = vec![NONE; firsts * width];
        for (pair, (first, second)) in (0..).zip(self.firsts.iter().zip(&self.seconds)) {
            self.table[*first as usize * width + *second as usize] = pair;
        }
    }

    #[inline]
    pub(super) fn number(&mut self, ids: IdPair) -> u32 {
        if let Some(hashed) = &mut self.hashed {
            let pair = hashed.number(Some(ids.joined()));
            if pair as usize == self.firsts.len() {
                self.firsts.push(ids.first);
                self.seconds.push(ids.second);
            }
            return pair;
        }
        let at = ids.first as usize * self.width + ids.second as usize;
        match self.table.get(at) {
            Some(&NONE) | None => self.add(ids, at),
            Some(pair) => *pair,
        }
    }

    #[cold]
    fn add(&mut self, ids: IdPair, at: usize) -> u32 {
        if at >= self.table.len() {
            let length = ((ids.first as usize + 1) * self.width).max(self.table.len() * 2);
            if length > TABLE_MAX {
                self.hash();
                return self.number(ids);
            }
            self.table.resize(length, NONE);
        }
        let pair = u32::try_from(self.firsts.len()).expect("fewer groups than rows");
        self.table[at] = pair;
        self.firsts.push(ids.first);
        self.seconds.push(ids.second);
        pair
    }

    fn hash(&mut self) {
        let mut hashed = NumberedInts::default();
        for (&first, &second) in self.firsts.iter().zip(&self.seconds) {
            hashed.number(Some(IdPair { first, second }.joined()));
        }
        (self.table, self.hashed) = (Vec::new(), Some(hashed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Interns pairs of ids below `below`.
    fn check(below: IdPair, is_hashed: bool) {
        let mut pairs = PairInterner::default();
        let mut known = std::collections::HashMap::new();
        for at in 0..20_000 {
            let first = u32::wrapping_mul(at, 7919) % below.first;
            let second = u32::wrapping_mul(at, 104_729) % below.second;
            pairs.reserve(second as usize + 1);
            let next = u32::try_from(known.len()).unwrap();
            let expected = *known.entry((first, second)).or_insert(next);
            assert_eq!(pairs.number(IdPair { first, second }), expected, "{at}");
            assert_eq!(
                (pairs.firsts[expected as usize], pairs.seconds[expected as usize]),
                (first, second)
            );
        }
        assert_eq!(pairs.hashed.is_some(), is_hashed);
    }

    #[test]
    fn pairs_have_numbers_in_order_in_a_table_and_without() {
        check(IdPair { first: 1, second: 1 }, false);
        check(IdPair { first: 1440, second: 12 }, false);
        check(IdPair { first: 3, second: 5000 }, false);
        check(IdPair { first: 100_000, second: 300 }, true);
        check(IdPair { first: 9000, second: 19_000 }, true);
    }
}
