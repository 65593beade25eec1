//! Collects keys of rows during writing and builds the filters of each row group.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use weir_tables::TableSpec;

use super::group_filters::{GroupFilters, GroupPlace};
use super::key::{
    KeyBits, KeyKind, bucket, hash, is_telling, mask, part_hash, seed, slot, word_hash, words,
};
use super::{BLOCK_ROWS, FULL_ROWS, FilterBlock, FilterGroup, IndexVersion, SLOT_BYTES, TextIndex};
use crate::text_column::{DistinctTexts, TextPart, TextValues};

/// Filter bits per id in the fullest block: four to five of a thousand blocks are read needlessly
/// if the row group passes its own filter.
const BITS_PER_ID: usize = 12;
/// Filter bits per word or trigram: 9 % false positives, but most queries combine several keys.
const BITS_PER_WORD: usize = 5;
/// Maximum filter size, 64 KiB; blocks with more keys have more false positives.
const SLOTS_MAX: usize = 2048;

/// Builder of a file's text index.
pub(crate) struct IndexBuilder {
    ids: KeyCollector,
    words: KeyCollector,
    /// Rows of the current row group.
    rows: usize,
    /// Row counts of finished row groups.
    group_rows: Vec<usize>,
    /// Id filters of finished row groups; empty without id columns.
    group_ids: GroupFilters,
}

/// Key collector of a group of columns.
struct KeyCollector {
    columns: Vec<KeyColumn>,
    bits_per_key: usize,
    bits: KeyBits,
    group: FilterGroup,
    /// Keys of each block of the row group; the last block is current.
    blocks: Vec<Vec<u64>>,
}

/// A column with collected keys.
struct KeyColumn {
    place: usize,
    has_words: bool,
    seeds: KeySeeds,
    seen: SeenTexts,
    known: KeyBuffer,
    /// Input forms of the current block's texts: plain, coded.
    came: [bool; 2],
}

struct KeySeeds {
    whole: u64,
    word: u64,
    part: u64,
}

/// Duplicate filter of the current block: avoids hashing and storing keys twice.
struct SeenTexts {
    values: KeySet,
    words: KeySet,
    /// Bitmap of trigram buckets.
    parts: Vec<u64>,
    /// Buffer for the lower-case value.
    text: Vec<u8>,
}

/// Keys of the coded texts of a row group, computed once per distinct text.
#[derive(Default)]
struct KeyBuffer {
    /// Word number by hash, for all texts so far.
    words: HashMap<u64, u32, BuildHasherDefault<HashedKey>>,
    /// Hash of each word, and the block of its last occurrence, counted from 1.
    word_blocks: Vec<(u64, u32)>,
    /// Distinct texts by code.
    texts: Vec<KnownText>,
    /// Words and buckets, concatenated over the texts.
    text_words: Vec<u32>,
    text_parts: Vec<u16>,
}

/// Ends of a text's words and buckets; they start at the ends of the previous text.
struct KnownText {
    words_end: u32,
    parts_end: u32,
    /// Block of the last occurrence, counted from 1.
    block: u32,
}

type KeySet = HashSet<u64, BuildHasherDefault<HashedKey>>;

/// Identity hasher: the keys are hashes already.
#[derive(Default)]
struct HashedKey(u64);

impl Hasher for HashedKey {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

impl IndexBuilder {
    /// `None` if the table has no indexed columns.
    pub(crate) fn new(table: &TableSpec) -> Option<Self> {
        let ids = KeyCollector::new(table, table.ids, false, BITS_PER_ID);
        let words = KeyCollector::new(table, table.words, true, BITS_PER_WORD);
        let is_needed = !ids.columns.is_empty() || !words.columns.is_empty();
        let (group_rows, group_ids) = (Vec::new(), GroupFilters::default());
        is_needed.then_some(Self { ids, words, rows: 0, group_rows, group_ids })
    }

    /// Collects keys of texts in the current block; ignores columns without an index.
    pub(crate) fn push_texts(&mut self, place: usize, texts: &TextValues<'_>) {
        for gatherer in [&mut self.ids, &mut self.words] {
            gatherer.with(place, |column, _, keys| column.gather(texts, keys));
        }
    }

    /// Collects keys of coded texts; codes stay valid until the end of the row group.
    pub(crate) fn push_numbers(
        &mut self,
        place: usize,
        distinct: &DistinctTexts,
        numbers: impl Iterator<Item = u32> + Clone,
    ) {
        for gatherer in [&mut self.ids, &mut self.words] {
            gatherer.with(place, |column, block, keys| {
                column.gather_numbers(distinct, numbers.clone(), block, keys);
            });
        }
    }

    /// Ends `count` rows of one block, pushed for every column. A complete row group's filters go
    /// to `write`, which returns their file offset.
    pub(crate) fn end_rows<E>(
        &mut self,
        count: usize,
        write: impl FnMut(&[u8]) -> Result<u64, E>,
    ) -> Result<(), E> {
        self.rows += count;
        if self.rows == FULL_ROWS {
            return self.end_group(write);
        }
        if self.rows.is_multiple_of(BLOCK_ROWS) {
            self.ids.next_block();
            self.words.next_block();
        }
        Ok(())
    }

    /// Indexes a batch with all columns of a file whose row groups have `group_rows` rows; later
    /// row groups are full.
    pub(crate) fn push<E>(
        &mut self,
        rows: &RecordBatch,
        group_rows: &[usize],
        mut write: impl FnMut(&[u8]) -> Result<u64, E>,
    ) -> Result<(), E> {
        let mut done = 0;
        while done < rows.num_rows() {
            let group = group_rows.get(self.group_rows.len()).copied().unwrap_or(FULL_ROWS);
            let room = (BLOCK_ROWS - self.rows % BLOCK_ROWS).min(group - self.rows);
            let count = room.min(rows.num_rows() - done);
            for (place, column) in rows.columns().iter().enumerate() {
                if let Some(texts) = column.as_string_opt() {
                    let texts = texts.slice(done, count);
                    self.push_texts(place, &TextValues::All(TextPart::Plain(&texts)));
                }
            }
            self.end_rows(count, &mut write)?;
            if self.rows == group {
                self.end_group(&mut write)?;
            }
            done += count;
        }
        Ok(())
    }

    /// Ends the current row group, if any.
    pub(crate) fn end_group<E>(
        &mut self,
        mut write: impl FnMut(&[u8]) -> Result<u64, E>,
    ) -> Result<(), E> {
        if self.rows == 0 {
            return Ok(());
        }
        self.group_rows.push(self.rows);
        let blocks = std::mem::take(&mut self.rows).div_ceil(BLOCK_ROWS);
        if !self.ids.columns.is_empty() {
            self.ids.end_blocks(blocks);
            self.group_ids.push(&self.ids.blocks);
            self.ids.end_sheet(&mut write)?;
        }
        if !self.words.columns.is_empty() {
            self.words.end_blocks(blocks);
            self.words.end_sheet(&mut write)?;
        }
        Ok(())
    }

    /// Whether `index` covers the same columns in the same format.
    pub(crate) fn is_like(&self, index: &TextIndex) -> bool {
        index.is_current()
            && self.ids.group.columns == index.ids.columns
            && self.words.group.columns == index.words.columns
    }

    /// Copies the filters of a row group from another file whose index [`is_like`](Self::is_like)
    /// this one; `copy` returns the offset of the filters.
    pub(crate) fn copy_group<E>(
        &mut self,
        index: &TextIndex,
        group: usize,
        groups: &[u8],
        mut copy: impl FnMut(&FilterBlock) -> Result<u64, E>,
    ) -> Result<(), E> {
        debug_assert_eq!(self.rows, 0, "between two row groups");
        self.group_rows.push(index.group_rows[group]);
        if index.groups.is_some() {
            let place = GroupPlace { group, groups: index.group_rows.len() };
            self.group_ids.push_copy(groups, place);
        }
        let of = [(&mut self.ids.group, &index.ids), (&mut self.words.group, &index.words)];
        for (own, other) in of {
            if let Some(sheet) = other.sheets.get(group) {
                own.sheets.push(FilterBlock { offset: copy(sheet)?, ..*sheet });
            }
        }
        Ok(())
    }

    /// Writes the remaining filters and returns the index description.
    pub(crate) fn finish<E>(
        mut self,
        mut write: impl FnMut(&[u8]) -> Result<u64, E>,
    ) -> Result<TextIndex, E> {
        self.end_group(&mut write)?;
        let Self { group_rows, group_ids, ids, words, .. } = self;
        let groups = match group_ids.len() {
            0 => None,
            blocks => {
                let (bytes, slots) = group_ids.sheet();
                Some(FilterBlock { offset: write(&bytes)?, blocks, slots })
            }
        };
        let (version, ids, words) = (IndexVersion::default(), ids.group, words.group);
        Ok(TextIndex { version, group_rows, groups, ids, words })
    }
}

impl KeyCollector {
    fn new(table: &TableSpec, names: &[&str], has_words: bool, bits_per_key: usize) -> Self {
        let place = |name: &&str| table.columns.iter().position(|column| column.name == *name);
        let places = || names.iter().filter_map(place);
        let group = FilterGroup {
            columns: places().map(|place| table.columns[place].id).collect(),
            sheets: Vec::new(),
        };
        let columns = places()
            .map(|place| KeyColumn::new(place, table.columns[place].id, has_words))
            .collect();
        let bits = if has_words { KeyBits::Four } else { KeyBits::Eight };
        Self { columns, bits_per_key, bits, group, blocks: vec![Vec::new()] }
    }

    fn with(&mut self, place: usize, gather: impl FnOnce(&mut KeyColumn, u32, &mut Vec<u64>)) {
        let block = u32::try_from(self.blocks.len()).expect("a row group has few blocks");
        let keys = self.blocks.last_mut().expect("a block is always under way");
        if let Some(column) = self.columns.iter_mut().find(|column| column.place == place) {
            gather(column, block, keys);
        }
    }

    /// Ends the block. Plain and coded input each skip duplicates only among themselves, so a block
    /// with both has to be deduplicated.
    fn end_block(&mut self) {
        let is_mixed = self.columns.iter().any(|column| column.came == [true; 2]);
        if let (true, Some(keys)) = (is_mixed, self.blocks.last_mut()) {
            keys.sort_unstable();
            keys.dedup();
        }
        self.columns.iter_mut().for_each(|column| column.came = [false; 2]);
    }

    fn next_block(&mut self) {
        self.end_block();
        let capacity = self.blocks.last().map_or(0, Vec::len);
        self.blocks.push(Vec::with_capacity(capacity));
        self.columns.iter_mut().for_each(|column| column.seen.clear());
    }

    /// Limits the row group to `count` blocks; one more may have been started.
    fn end_blocks(&mut self, count: usize) {
        self.end_block();
        self.blocks.truncate(count);
    }

    fn end_sheet<E>(&mut self, write: &mut impl FnMut(&[u8]) -> Result<u64, E>) -> Result<(), E> {
        let most = self.blocks.iter().map(Vec::len).max().unwrap_or_default();
        let slots = (most * self.bits_per_key).div_ceil(SLOT_BYTES * 8).clamp(1, SLOTS_MAX);
        let offset = write(&sheet(&self.blocks, slots, self.bits))?;
        self.group.sheets.push(FilterBlock { offset, blocks: self.blocks.len(), slots });
        self.blocks.clear();
        self.next_block();
        self.columns.iter_mut().for_each(|column| column.known = KeyBuffer::default());
        Ok(())
    }
}

/// Filters of the blocks, interleaved by slot.
fn sheet(blocks: &[Vec<u64>], slots: usize, bits: KeyBits) -> Vec<u8> {
    let mut words = vec![0_u32; slots * blocks.len() * SLOT_BYTES / 4];
    for (block, keys) in blocks.iter().enumerate() {
        for key in keys {
            let start = (slot(*key, slots) * blocks.len() + block) * SLOT_BYTES / 4;
            for (word, bit) in words[start..start + 8].iter_mut().zip(mask(*key, bits)) {
                *word |= bit;
            }
        }
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl KeyColumn {
    fn new(place: usize, id: i32, has_words: bool) -> Self {
        let seeds = KeySeeds {
            whole: seed(id, KeyKind::Whole),
            word: seed(id, KeyKind::Word),
            part: seed(id, KeyKind::Part),
        };
        let parts = if has_words { vec![0; 65_536 / 64] } else { Vec::new() };
        let (values, words) = (KeySet::default(), KeySet::default());
        let seen = SeenTexts { values, words, parts, text: Vec::new() };
        Self { place, has_words, seeds, seen, known: KeyBuffer::default(), came: [false; 2] }
    }

    fn gather(&mut self, texts: &TextValues<'_>, keys: &mut Vec<u64>) {
        self.came[0] = true;
        texts.each(|text| {
            let Some(text) = text else { return };
            let value = hash(self.seeds.whole, text);
            if !self.seen.values.insert(value) {
                return;
            }
            if self.has_words {
                self.seen.gather_words(text, &self.seeds, keys);
            } else {
                keys.push(value);
            }
        });
    }

    fn gather_numbers(
        &mut self,
        distinct: &DistinctTexts,
        numbers: impl Iterator<Item = u32>,
        block: u32,
        keys: &mut Vec<u64>,
    ) {
        self.came[1] = true;
        for number in numbers {
            let at = number as usize;
            // Codes are dense and in order of first occurrence, so an unknown one is the next.
            if at == self.known.texts.len() {
                let text = if self.has_words { distinct.text(number) } else { &[] };
                self.known.learn(text, &self.seeds, &mut self.seen.text);
            }
            if std::mem::replace(&mut self.known.texts[at].block, block) == block {
                continue;
            }
            if self.has_words {
                self.seen.gather_known(&mut self.known, at, block, &self.seeds, keys);
            } else {
                keys.push(hash(self.seeds.whole, distinct.text(number)));
            }
        }
    }
}

impl KeyBuffer {
    /// Computes the keys of the next distinct text.
    fn learn(&mut self, text: &[u8], seeds: &KeySeeds, small: &mut Vec<u8>) {
        small.clear();
        small.extend_from_slice(text);
        small.make_ascii_lowercase();
        for word in words(small).map(|word| &small[word]).filter(|word| is_telling(word)) {
            let key = word_hash(seeds.word, word);
            let next = u32::try_from(self.word_blocks.len()).expect("a dictionary is small");
            let number = *self.words.entry(key).or_insert(next);
            if number == next {
                self.word_blocks.push((key, 0));
            }
            self.text_words.push(number);
        }
        self.text_parts.extend(small.array_windows::<3>().filter_map(|three| bucket(*three)));
        let (words_end, parts_end) = (short(self.text_words.len()), short(self.text_parts.len()));
        self.texts.push(KnownText { words_end, parts_end, block: 0 });
    }
}

fn short(length: usize) -> u32 {
    u32::try_from(length).expect("a dictionary is small")
}

impl SeenTexts {
    fn gather_words(&mut self, text: &[u8], seeds: &KeySeeds, keys: &mut Vec<u64>) {
        self.text.clear();
        self.text.extend_from_slice(text);
        self.text.make_ascii_lowercase();
        for word in words(&self.text).map(|word| &self.text[word]) {
            let key = word_hash(seeds.word, word);
            if is_telling(word) && self.words.insert(key) {
                keys.push(key);
            }
        }
        for three in self.text.array_windows::<3>() {
            if let Some(bucket) = bucket(*three) {
                note_part(&mut self.parts, bucket, seeds, keys);
            }
        }
    }

    fn gather_known(
        &mut self,
        known: &mut KeyBuffer,
        at: usize,
        block: u32,
        seeds: &KeySeeds,
        keys: &mut Vec<u64>,
    ) {
        let end = &known.texts[at];
        let (words_start, parts_start) = at.checked_sub(1).map_or((0, 0), |before| {
            let before = &known.texts[before];
            (before.words_end, before.parts_end)
        });
        for word in &known.text_words[words_start as usize..end.words_end as usize] {
            let (key, last) = &mut known.word_blocks[*word as usize];
            if std::mem::replace(last, block) != block {
                keys.push(*key);
            }
        }
        for bucket in &known.text_parts[parts_start as usize..end.parts_end as usize] {
            note_part(&mut self.parts, *bucket, seeds, keys);
        }
    }

    fn clear(&mut self) {
        self.values.clear();
        self.words.clear();
        self.parts.fill(0);
    }
}

#[inline]
fn note_part(parts: &mut [u64], bucket: u16, seeds: &KeySeeds, keys: &mut Vec<u64>) {
    let (at, bit) = (usize::from(bucket >> 6), 1 << (bucket & 63));
    if parts[at] & bit == 0 {
        parts[at] |= bit;
        keys.push(part_hash(seeds.part, bucket));
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use weir_tables::{Log, LogRows, Rows};

    use super::super::key::FilterKey;
    use super::*;

    fn has(bytes: &[u8], sheet: &FilterBlock, key: FilterKey) -> Vec<bool> {
        let range = sheet.range(key.hash);
        let start = usize::try_from(range.start - sheet.offset).unwrap();
        (0..sheet.blocks)
            .map(|block| {
                let slot = &bytes[start + block * 32..start + block * 32 + 32];
                let words = slot.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
                words.zip(mask(key.hash, KeyBits::Four)).all(|(word, bit)| word & bit == bit)
            })
            .collect()
    }

    #[test]
    fn each_block_has_its_own_keys_whatever_the_batches_are() {
        let mut rows = LogRows::default();
        for number in 0..20_000 {
            let body = format!("Order {number} of block{} sent", number / BLOCK_ROWS);
            rows.push(&Log { body: &body, ..Default::default() });
        }
        let rows = rows.finish();
        let mut builder = IndexBuilder::new(&Log::SPEC).unwrap();
        let mut bytes = Vec::new();
        for start in (0..20_000).step_by(3000) {
            let part = rows.slice(start, 3000.min(20_000 - start));
            builder.push(&part, &[], |_| -> Result<u64, Infallible> { unreachable!() }).unwrap();
        }
        let index = builder
            .finish(|sheet: &[u8]| -> Result<u64, Infallible> {
                bytes.extend_from_slice(sheet);
                Ok(4)
            })
            .unwrap();
        let body = Log::SPEC.column("body").unwrap().id;
        assert_eq!((&index.ids, &index.words.columns[..]), (&FilterGroup::default(), &[body][..]));
        let [sheet] = index.words.sheets[..] else { panic!("20,000 rows are less than a group") };
        assert_eq!((sheet.blocks, sheet.byte_count()), (3, bytes.len() as u64));
        assert_eq!(index.byte_count(), sheet.byte_count());
        let ask = |word: &str| has(&bytes, &sheet, FilterKey::word(body, word.as_bytes()));
        assert_eq!(ask("order"), [true, true, true]);
        assert_eq!(ask("block1"), [false, true, false]);
        assert_eq!(ask("19999"), [false, false, true]);
        assert_eq!(ask("absent"), [false, false, false]);
        let part =
            |text: &[u8; 3]| has(&bytes, &sheet, FilterKey::part(body, bucket(*text).unwrap()));
        assert_eq!(part(b"sen"), [true, true, true]);
        assert_eq!(part(b"xyz"), [false, false, false]);
        assert_eq!(ask("999"), [false, false, false], "short numbers are not kept");
    }
}
