//! An index of ids, words and parts of words inside a data file, by which a query leaves out blocks of rows. Layout:
//! `docs/formats/data-file.md`.
//!
//! For each block of 8,192 rows there is a split-block Bloom filter (Parquet's, BloomFilter.md) over the keys of the
//! block. The filters of a row group are stored crosswise: the first 32 bytes of each, then the second 32 bytes of each, and
//! so on. One key needs the same 32 bytes of every filter, so it is asked of a whole row group with one short read,
//! and nothing of the index has to be kept in memory.

mod ask;
mod build;
mod key;
mod read;

pub(crate) use ask::{Probe, probe_of};
pub(crate) use build::IndexBuilder;
pub(crate) use key::{hash, is_word};
pub(crate) use read::{BlockCounts, Selected, select};

/// Under this key of the file's metadata stands where the index is.
pub(crate) const METADATA_KEY: &str = "weir.text_index";
/// Rows that one filter is for; a data page has as many.
pub(crate) const BLOCK_ROWS: usize = 8192;
/// Filters that are stored together: those of a row group.
const SHEET_BLOCKS: usize = 16;
/// Bytes of a filter that one key is in.
const SLOT_BYTES: usize = 32;

/// Where the index of a file is, and what it can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct TextIndex {
    /// Columns whose whole values are keys.
    pub(crate) ids: Group,
    /// Columns whose words and parts are keys.
    pub(crate) words: Group,
}

/// Columns whose keys share filters.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Group {
    /// Their field ids.
    pub(crate) columns: Vec<i32>,
    /// In the order of rows; none without columns.
    pub(crate) sheets: Vec<Sheet>,
}

/// The filters of up to [`SHEET_BLOCKS`] blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sheet {
    /// Where it begins in the file.
    pub(crate) offset: u64,
    /// How many blocks it has.
    pub(crate) blocks: usize,
    /// How many times 32 bytes each filter has.
    pub(crate) slots: usize,
}

impl TextIndex {
    /// Bytes of all filters.
    pub(crate) fn byte_count(&self) -> u64 {
        self.ids.sheets.iter().chain(&self.words.sheets).map(Sheet::byte_count).sum()
    }

    /// As it stands in the file's metadata.
    pub(crate) fn to_text(&self) -> String {
        format!("1 {BLOCK_ROWS} {} {}", self.ids.to_text(), self.words.to_text())
    }

    /// `None` for an index of another version, which is not used, and for one that is not of so many rows.
    pub(crate) fn from_text(text: &str, rows: u64) -> Option<Self> {
        let text = text.strip_prefix(&format!("1 {BLOCK_ROWS} "))?;
        let (ids, words) = text.split_once(' ')?;
        let blocks = usize::try_from(rows).ok()?.div_ceil(BLOCK_ROWS);
        Some(Self { ids: Group::from_text(ids, blocks)?, words: Group::from_text(words, blocks)? })
    }

    fn group(&self, kind: key::Kind) -> &Group {
        if kind == key::Kind::Whole { &self.ids } else { &self.words }
    }
}

impl Group {
    fn to_text(&self) -> String {
        let columns: Vec<_> = self.columns.iter().map(i32::to_string).collect();
        let sheet = |sheet: &Sheet| format!("{}:{}:{}", sheet.offset, sheet.blocks, sheet.slots);
        let sheets: Vec<_> = self.sheets.iter().map(sheet).collect();
        format!("{};{}", columns.join(","), sheets.join(","))
    }

    fn from_text(text: &str, blocks: usize) -> Option<Self> {
        let (columns, sheets) = text.split_once(';')?;
        let columns = parts(columns).map(|id| id.parse().ok()).collect::<Option<Vec<i32>>>()?;
        let sheets = parts(sheets).map(Sheet::from_text).collect::<Option<Vec<_>>>()?;
        let (last, full) =
            sheets.split_last().map_or((0, &[][..]), |(last, full)| (last.blocks, full));
        let fits = full.iter().all(|sheet| sheet.blocks == SHEET_BLOCKS)
            && full.len() * SHEET_BLOCKS + last == blocks;
        (fits || columns.is_empty()).then_some(Self { columns, sheets })
    }
}

impl Sheet {
    fn from_text(text: &str) -> Option<Self> {
        let mut numbers = text.split(':').map(|number| number.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        let offset = next()?;
        let blocks = usize::try_from(next()?).ok().filter(|blocks| *blocks <= SHEET_BLOCKS)?;
        let slots = usize::try_from(next()?).ok().filter(|slots| *slots > 0)?;
        Some(Self { offset, blocks, slots })
    }

    /// Bytes of its filters.
    pub(crate) fn byte_count(&self) -> u64 {
        (self.blocks * self.slots * SLOT_BYTES) as u64
    }

    /// The bytes that say for every block whether it may hold the key.
    fn range(&self, key: u64) -> std::ops::Range<u64> {
        let length = (self.blocks * SLOT_BYTES) as u64;
        let start = self.offset + key::slot(key, self.slots) as u64 * length;
        start..start + length
    }
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Group, Sheet, TextIndex};

    #[test]
    fn directory_comes_back_from_its_text() {
        let sheets = vec![
            Sheet { offset: 4, blocks: 16, slots: 900 },
            Sheet { offset: 500_000, blocks: 3, slots: 1 },
        ];
        let index =
            TextIndex { ids: Group { columns: vec![8, 11], sheets }, words: Group::default() };
        assert_eq!(index.to_text(), "1 8192 8,11;4:16:900,500000:3:1 ;");
        let rows = 16 * 8192 + 2 * 8192 + 1;
        assert_eq!(TextIndex::from_text(&index.to_text(), rows), Some(index));
        let text = "1 8192 8,11;4:16:900,500000:3:1 ;";
        assert_eq!(TextIndex::from_text(text, rows - 1), None, "one block too many");
        for broken in
            ["", "2 8192 8;4:16:9 ;", "1 8192 8;4:17:9 ;", "1 8192 8;4:16:0 ;", "1 8192 ;"]
        {
            assert_eq!(TextIndex::from_text(broken, 16 * 8192), None, "{broken}");
        }
    }
}
