//! Gathers the keys of rows as they are written, and makes the filters of each row group.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use arrow_array::cast::AsArray;
use arrow_array::{RecordBatch, StringArray};
use weir_tables::TableSpec;

use super::key::{Kind, bucket, hash, is_telling, mask, part_hash, seed, slot, word_hash, words};
use super::{BLOCK_ROWS, Group, SHEET_BLOCKS, SLOT_BYTES, Sheet, TextIndex};

/// Bits of a filter for each id of the fullest block: of a hundred blocks without it, one or two are read for nothing.
const BITS_PER_ID: usize = 10;
/// And for each word or part: nine in a hundred, but most questions ask for several.
const BITS_PER_WORD: usize = 6;
/// A filter grows up to this, 64 KiB; blocks with more keys are told apart less well.
const SLOTS_MAX: usize = 2048;

/// The index of a file that is being written.
pub(crate) struct IndexBuilder {
    ids: Gatherer,
    words: Gatherer,
    /// Rows of the block under way.
    rows: usize,
}

/// Gathers the keys of a group of columns.
struct Gatherer {
    columns: Vec<Column>,
    bits_per_key: usize,
    group: Group,
    /// Keys of the row group's blocks; the last is under way.
    blocks: Vec<Vec<u64>>,
}

/// A column whose keys are gathered.
struct Column {
    place: usize,
    has_words: bool,
    seeds: Seeds,
    seen: Seen,
}

struct Seeds {
    whole: u64,
    word: u64,
    part: u64,
}

/// What of the block is known already, so that nothing is hashed or kept twice.
struct Seen {
    values: Hashes,
    words: Hashes,
    /// A bit for each bucket.
    parts: Vec<u64>,
    /// The value in small letters.
    text: Vec<u8>,
}

type Hashes = HashSet<u64, BuildHasherDefault<Ready>>;

/// The hash of a hash.
#[derive(Default)]
struct Ready(u64);

impl Hasher for Ready {
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
    /// `None` for a table that has nothing to be searched.
    pub(crate) fn new(table: &TableSpec) -> Option<Self> {
        let ids = Gatherer::new(table, table.ids, false, BITS_PER_ID);
        let words = Gatherer::new(table, table.words, true, BITS_PER_WORD);
        let is_needed = !ids.columns.is_empty() || !words.columns.is_empty();
        is_needed.then_some(Self { ids, words, rows: 0 })
    }

    /// Takes the next rows of the file; gives filters, each time that a row group is complete, to `write`, which says where
    /// it put them.
    pub(crate) fn push<E>(
        &mut self,
        rows: &RecordBatch,
        mut write: impl FnMut(&[u8]) -> Result<u64, E>,
    ) -> Result<(), E> {
        let mut done = 0;
        while done < rows.num_rows() {
            let in_block = self.rows % BLOCK_ROWS;
            if self.rows == SHEET_BLOCKS * BLOCK_ROWS {
                self.end_sheets(&mut write)?;
            } else if self.rows > 0 && in_block == 0 {
                self.ids.next_block();
                self.words.next_block();
            }
            let count = (BLOCK_ROWS - in_block).min(rows.num_rows() - done);
            let part = rows.slice(done, count);
            self.ids.gather(&part);
            self.words.gather(&part);
            (self.rows, done) = (self.rows + count, done + count);
        }
        Ok(())
    }

    /// Writes what is left, and says where everything is.
    pub(crate) fn finish<E>(
        mut self,
        mut write: impl FnMut(&[u8]) -> Result<u64, E>,
    ) -> Result<TextIndex, E> {
        if self.rows > 0 {
            self.end_sheets(&mut write)?;
        }
        Ok(TextIndex { ids: self.ids.group, words: self.words.group })
    }

    fn end_sheets<E>(&mut self, write: &mut impl FnMut(&[u8]) -> Result<u64, E>) -> Result<(), E> {
        self.rows = 0;
        self.ids.end_sheet(write)?;
        self.words.end_sheet(write)
    }
}

impl Gatherer {
    fn new(table: &TableSpec, names: &[&str], has_words: bool, bits_per_key: usize) -> Self {
        let place = |name: &&str| table.columns.iter().position(|column| column.name == *name);
        let places = || names.iter().filter_map(place);
        let group = Group {
            columns: places().map(|place| table.columns[place].id).collect(),
            sheets: Vec::new(),
        };
        let column = |place: usize| Column::new(place, table.columns[place].id, has_words);
        let columns = places().map(column).collect();
        Self { columns, bits_per_key, group, blocks: vec![Vec::new()] }
    }

    fn gather(&mut self, rows: &RecordBatch) {
        let keys = self.blocks.last_mut().expect("a block is always under way");
        for column in &mut self.columns {
            column.gather(rows.column(column.place).as_string::<i32>(), keys);
        }
    }

    fn next_block(&mut self) {
        let capacity = self.blocks.last().map_or(0, Vec::len);
        self.blocks.push(Vec::with_capacity(capacity));
        self.columns.iter_mut().for_each(|column| column.seen.clear());
    }

    fn end_sheet<E>(&mut self, write: &mut impl FnMut(&[u8]) -> Result<u64, E>) -> Result<(), E> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let most = self.blocks.iter().map(Vec::len).max().unwrap_or_default();
        let slots = (most * self.bits_per_key).div_ceil(SLOT_BYTES * 8).clamp(1, SLOTS_MAX);
        let offset = write(&sheet(&self.blocks, slots))?;
        self.group.sheets.push(Sheet { offset, blocks: self.blocks.len(), slots });
        self.blocks.clear();
        self.next_block();
        Ok(())
    }
}

/// The filters of blocks, crosswise.
fn sheet(blocks: &[Vec<u64>], slots: usize) -> Vec<u8> {
    let mut words = vec![0_u32; slots * blocks.len() * SLOT_BYTES / 4];
    for (block, keys) in blocks.iter().enumerate() {
        for key in keys {
            let start = (slot(*key, slots) * blocks.len() + block) * SLOT_BYTES / 4;
            for (word, bit) in words[start..start + 8].iter_mut().zip(mask(*key)) {
                *word |= bit;
            }
        }
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Column {
    fn new(place: usize, id: i32, has_words: bool) -> Self {
        let seeds = Seeds {
            whole: seed(id, Kind::Whole),
            word: seed(id, Kind::Word),
            part: seed(id, Kind::Part),
        };
        let parts = if has_words { vec![0; 65_536 / 64] } else { Vec::new() };
        let (values, words) = (Hashes::default(), Hashes::default());
        let seen = Seen { values, words, parts, text: Vec::new() };
        Self { place, has_words, seeds, seen }
    }

    fn gather(&mut self, texts: &StringArray, keys: &mut Vec<u64>) {
        let mut last = None;
        for text in texts.iter().flatten() {
            // Neighbours are often equal.
            if last.replace(text) == Some(text) {
                continue;
            }
            let value = hash(self.seeds.whole, text.as_bytes());
            if !self.seen.values.insert(value) {
                continue;
            }
            if self.has_words {
                self.seen.gather_words(text, &self.seeds, keys);
            } else {
                keys.push(value);
            }
        }
    }
}

impl Seen {
    fn gather_words(&mut self, text: &str, seeds: &Seeds, keys: &mut Vec<u64>) {
        self.text.clear();
        self.text.extend_from_slice(text.as_bytes());
        self.text.make_ascii_lowercase();
        for word in words(&self.text).map(|word| &self.text[word]) {
            let key = word_hash(seeds.word, word);
            if is_telling(word) && self.words.insert(key) {
                keys.push(key);
            }
        }
        for three in self.text.array_windows::<3>() {
            let Some(bucket) = bucket(*three) else { continue };
            let (at, bit) = (usize::from(bucket >> 6), 1 << (bucket & 63));
            if self.parts[at] & bit == 0 {
                self.parts[at] |= bit;
                keys.push(part_hash(seeds.part, bucket));
            }
        }
    }

    fn clear(&mut self) {
        self.values.clear();
        self.words.clear();
        self.parts.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use weir_tables::{Log, LogRows, Rows};

    use super::super::key::Key;
    use super::*;

    fn has(bytes: &[u8], sheet: &Sheet, key: Key) -> Vec<bool> {
        let range = sheet.range(key.hash);
        let start = usize::try_from(range.start - sheet.offset).unwrap();
        (0..sheet.blocks)
            .map(|block| {
                let slot = &bytes[start + block * 32..start + block * 32 + 32];
                let words = slot.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
                words.zip(mask(key.hash)).all(|(word, bit)| word & bit == bit)
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
            builder.push(&part, |_| -> Result<u64, Infallible> { unreachable!() }).unwrap();
        }
        let write = |sheet: &[u8]| -> Result<u64, Infallible> {
            bytes.extend_from_slice(sheet);
            Ok(4)
        };
        let index = builder.finish(write).unwrap();
        let body = Log::SPEC.column("body").unwrap().id;
        assert_eq!((&index.ids, &index.words.columns[..]), (&Group::default(), &[body][..]));
        let [sheet] = index.words.sheets[..] else { panic!("20,000 rows are less than a group") };
        assert_eq!((sheet.blocks, sheet.byte_count()), (3, bytes.len() as u64));
        assert_eq!(index.byte_count(), sheet.byte_count());
        let ask = |word: &str| has(&bytes, &sheet, Key::word(body, word.as_bytes()));
        assert_eq!(ask("order"), [true, true, true]);
        assert_eq!(ask("block1"), [false, true, false]);
        assert_eq!(ask("19999"), [false, false, true]);
        assert_eq!(ask("absent"), [false, false, false]);
        let part = |text: &[u8; 3]| has(&bytes, &sheet, Key::part(body, bucket(*text).unwrap()));
        assert_eq!(part(b"sen"), [true, true, true]);
        assert_eq!(part(b"xyz"), [false, false, false]);
        assert_eq!(ask("999"), [false, false, false], "short numbers are not kept");
    }
}
