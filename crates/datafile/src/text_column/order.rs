//! Order of dictionary entries: by descending frequency class, then by text.
//!
//! Similar neighbours compress better, and so do codes that are mostly small.
//!
//! Example: `/cart` and `/cart/2` have about 1,000 rows each, `/about` has 3. They are stored in
//! this order: the first two share a class and sort by text within it.

use std::ops::Range;

use super::NULL;
use super::distinct::DistinctTexts;

/// Smaller dictionaries keep insertion order.
const TEXTS_MIN: usize = 256;
/// Bytes compared per sort pass.
const STEP: usize = 8;
/// Maximum number of sort passes after the common prefix; texts that still tie are similar enough.
const STEPS_MAX: usize = 8;

/// Sorted order of a dictionary.
pub(super) struct TextOrder {
    /// Original code of each entry.
    pub(super) texts: Vec<u32>,
    /// New code by original code.
    places: Vec<u32>,
    /// Whether most rows have one of the first 256 codes.
    pub(super) is_skewed: bool,
}

impl TextOrder {
    /// Orders the dictionary by its use in `rows`; `None` if it is small.
    pub(super) fn new(distinct: &DistinctTexts, rows: &[u32]) -> Option<Self> {
        if distinct.len() < TEXTS_MIN {
            return None;
        }
        let mut counts = vec![0_u32; distinct.len()];
        rows.iter()
            .filter(|number| **number != NULL)
            .for_each(|number| counts[*number as usize] += 1);
        let common = common_prefix(distinct);
        // Rare texts have the larger class numbers, so they sort last.
        let mut keys: Vec<u128> = (0_u32..)
            .zip(&counts)
            .map(|(number, count)| class_of(*count) << 96 | key(distinct, number, common))
            .collect();
        sort(&mut keys, distinct, common..common + STEPS_MAX * STEP);
        #[expect(clippy::cast_possible_truncation, reason = "the number is the lowest part")]
        let texts: Vec<u32> = keys.into_iter().map(|key| key as u32).collect();
        let mut places = vec![0; texts.len()];
        for (place, number) in (0_u32..).zip(&texts) {
            places[*number as usize] = place;
        }
        let of_first: u32 = texts[..256].iter().map(|number| counts[*number as usize]).sum();
        let is_skewed = of_first as usize * 2 > rows.len();
        Some(Self { texts, places, is_skewed })
    }

    /// Translates row codes to the new order.
    pub(super) fn numbers(&self, rows: &[u32]) -> Vec<u32> {
        rows.iter()
            .map(|number| self.places.get(*number as usize).copied().unwrap_or(NULL))
            .collect()
    }
}

fn class_of(count: u32) -> u128 {
    u128::from(count.max(1).leading_zeros())
}

/// Length of the prefix that all texts share.
fn common_prefix(distinct: &DistinctTexts) -> usize {
    let first = distinct.text(0);
    let numbers = 1..u32::try_from(distinct.len()).unwrap_or(u32::MAX);
    numbers.fold(first.len(), |length, number| {
        let other = distinct.text(number);
        first[..length].iter().zip(other).take_while(|(one, other)| one == other).count()
    })
}

/// Sort key: eight big-endian bytes of the text starting at `from`, then its code.
fn key(distinct: &DistinctTexts, number: u32, from: usize) -> u128 {
    let rest = distinct.text(number).get(from..).unwrap_or_default();
    let mut bytes = [0; STEP];
    let length = rest.len().min(STEP);
    bytes[..length].copy_from_slice(&rest[..length]);
    u128::from(u64::from_be_bytes(bytes)) << 32 | u128::from(number)
}

/// Sorts by class and text; ties in the first bytes of `range` are sorted by its next bytes.
fn sort(keys: &mut [u128], distinct: &DistinctTexts, range: Range<usize>) {
    keys.sort_unstable();
    if range.is_empty() {
        return;
    }
    let next = range.start + STEP;
    for alike in keys.chunk_by_mut(|one, other| one >> 32 == other >> 32) {
        if alike.len() > 1 {
            #[expect(clippy::cast_possible_truncation, reason = "the number is the lowest part")]
            alike.iter_mut().for_each(|place| *place = key(distinct, *place as u32, next));
            sort(alike, distinct, next..range.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn often_used_texts_come_first_and_alike_ones_side_by_side() {
        let (mut distinct, mut rows) = (DistinctTexts::default(), Vec::new());
        let text =
            |number: u32| format!("/a long way to the page of number {}", number * 7919 % 1009);
        for number in 0..1000 {
            rows.push(distinct.number(text(number).as_bytes()));
            rows.push(NULL);
        }
        let often = distinct.number(text(77).as_bytes());
        rows.extend([often; 5000]);
        let order = TextOrder::new(&distinct, &rows).unwrap();
        assert!(order.is_skewed);
        assert_eq!(order.texts[0], often);
        let in_order = order.texts[1..].iter().map(|number| distinct.text(*number));
        assert!(in_order.is_sorted());
        let numbers = order.numbers(&rows);
        for (before, after) in rows.iter().zip(numbers) {
            assert_eq!(*before == NULL, after == NULL);
            assert!(after == NULL || order.texts[after as usize] == *before);
        }
    }

    #[test]
    fn few_texts_stay_as_they_came() {
        let mut distinct = DistinctTexts::default();
        let rows: Vec<u32> =
            (0..255_u32).map(|number| distinct.number(&number.to_le_bytes())).collect();
        assert!(TextOrder::new(&distinct, &rows).is_none());
    }
}
