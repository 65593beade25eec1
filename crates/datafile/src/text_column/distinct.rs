//! Dictionary builder: the distinct texts of a row group, each with a code.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use crate::text_index::hash;

/// Distinct texts, coded from 0 in order of first occurrence.
pub(crate) struct DistinctTexts {
    /// Length-prefixed texts, in the layout of a dictionary page.
    page: Vec<u8>,
    /// Byte range of each text in `page`.
    places: Vec<Range<u32>>,
    /// Open-addressing hash table of (part of the hash, code); the size is a power of two, at most
    /// half full.
    slots: Vec<(u32, u32)>,
    /// Random hash seed: request contents are untrusted and must not force collisions.
    seed: u64,
    last: Option<u32>,
}

const FREE: u32 = u32::MAX;
const SLOTS_MIN: usize = 64;

impl Default for DistinctTexts {
    fn default() -> Self {
        let slots = vec![(0, FREE); SLOTS_MIN];
        let seed = RandomState::new().hash_one(0);
        Self { page: Vec::new(), places: Vec::new(), slots, seed, last: None }
    }
}

impl DistinctTexts {
    /// Returns the code of `text`, and inserts it if new.
    #[inline]
    pub(crate) fn number(&mut self, text: &[u8]) -> u32 {
        // Neighbouring rows often have the same text.
        if let Some(last) = self.last
            && self.text(last) == text
        {
            return last;
        }
        let number = self.find(text);
        self.last = Some(number);
        number
    }

    fn find(&mut self, text: &[u8]) -> u32 {
        let hash = hash(self.seed, text);
        #[expect(clippy::cast_possible_truncation, reason = "parts of a hash")]
        let (part, mut at) = ((hash >> 32) as u32, hash as usize & (self.slots.len() - 1));
        loop {
            let (other, number) = self.slots[at];
            if number == FREE {
                return self.add(text, part, at);
            }
            if other == part && self.text(number) == text {
                return number;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    fn add(&mut self, text: &[u8], part: u32, at: usize) -> u32 {
        let number = short(self.places.len());
        self.page.extend_from_slice(&short(text.len()).to_le_bytes());
        let start = short(self.page.len());
        self.page.extend_from_slice(text);
        self.places.push(start..short(self.page.len()));
        self.slots[at] = (part, number);
        if self.places.len() * 2 > self.slots.len() {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        let count = self.slots.len() * 4;
        let mut slots = vec![(0, FREE); count];
        for number in 0..short(self.places.len()) {
            let hash = hash(self.seed, self.text(number));
            #[expect(clippy::cast_possible_truncation, reason = "parts of a hash")]
            let (part, mut at) = ((hash >> 32) as u32, hash as usize & (count - 1));
            while slots[at].1 != FREE {
                at = (at + 1) & (count - 1);
            }
            slots[at] = (part, number);
        }
        self.slots = slots;
    }

    #[inline]
    pub(crate) fn text(&self, number: u32) -> &[u8] {
        let place = &self.places[number as usize];
        &self.page[place.start as usize..place.end as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// All texts in code order, as a dictionary page.
    pub(crate) fn page(&self) -> &[u8] {
        &self.page
    }

    /// Dictionary page with the texts in the order of `numbers`.
    pub(crate) fn page_of(&self, numbers: &[u32]) -> Vec<u8> {
        let mut page = Vec::with_capacity(self.page.len());
        for number in numbers {
            let place = &self.places[*number as usize];
            page.extend_from_slice(
                &self.page[place.start as usize - size_of::<u32>()..place.end as usize],
            );
        }
        page
    }

    /// Smallest and largest text in byte order.
    pub(crate) fn range(&self) -> Option<(&[u8], &[u8])> {
        let texts = || (0..short(self.places.len())).map(|number| self.text(number));
        Some((texts().min()?, texts().max()?))
    }
}

/// Sizes fit `u32`: a batch holds less than 2 GiB of text.
fn short(count: usize) -> u32 {
    u32::try_from(count).expect("texts of a row group take less than 4 GiB")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::DistinctTexts;

    #[test]
    fn each_text_has_one_number_in_order_of_first_coming() {
        arbtest::arbtest(|u| {
            let (mut distinct, mut known) = (DistinctTexts::default(), HashMap::new());
            let many = u.ratio(1, 2)?;
            while !u.is_empty() {
                let text = if many { u.arbitrary::<u16>()?.to_string() } else { u.arbitrary()? };
                let next = known.len();
                let number = *known.entry(text.clone()).or_insert(next);
                assert_eq!(distinct.number(text.as_bytes()) as usize, number);
                assert_eq!(distinct.text(u32::try_from(number).unwrap()), text.as_bytes());
            }
            assert_eq!(distinct.len(), known.len());
            let range = distinct.range();
            assert_eq!(range.map(|(first, _)| first), known.keys().map(String::as_bytes).min());
            assert_eq!(range.map(|(_, last)| last), known.keys().map(String::as_bytes).max());
            Ok(())
        });
    }
}
