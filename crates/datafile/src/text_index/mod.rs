//! Index of ids, words and trigrams inside a data file; queries use it to skip blocks of rows.
//! Layout: `docs/formats/data-file.md`.
//!
//! Each block of 8,192 rows has a split-block Bloom filter (Parquet's, BloomFilter.md) over its
//! keys. The filters of a row group are interleaved by slot: the first 32 bytes of each filter,
//! then the second 32 bytes of each, and so on. A key needs the same slot of every filter, so one
//! short read checks a whole row group, and no part of the index has to stay in memory.
//!
//! Ids also have a filter per row group, interleaved in the same way, so one read tells which row
//! groups of the file to check.
//!
//! Example: three blocks with filters A, B, C of two slots are stored as A0 B0 C0 A1 B1 C1. A key
//! in slot 1 needs only the last 96 bytes.

mod build;
mod group_filters;
mod key;

use std::borrow::Cow;

use crate::data_file::DataFile;

pub(crate) use build::IndexBuilder;
pub use group_filters::turned;
pub(crate) use key::hash;
pub use key::{FilterKey, KeyBits, KeyKind, bucket, folded, is_telling, is_word, mask, words};

/// Metadata key of the index description.
pub const METADATA_KEY: &str = "weir.text_index";
/// Rows per filter and per data page.
pub const BLOCK_ROWS: usize = 8192;
/// Filters in a full row group, stored together as a sheet.
const SHEET_BLOCKS: usize = 16;
/// Rows in a full row group.
const FULL_ROWS: usize = SHEET_BLOCKS * BLOCK_ROWS;
/// Bytes per filter slot; a key sets bits in one slot.
pub const SLOT_BYTES: usize = 32;

/// Description of a file's index: location, columns and format.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TextIndex {
    /// Filter format.
    pub version: IndexVersion,
    /// Rows of each row group; block numbers start at 0 in each.
    pub group_rows: Vec<usize>,
    /// Row group filters of ids, one "block" per row group; `None` in older files and without ids.
    pub groups: Option<FilterBlock>,
    /// Columns indexed by whole value.
    pub ids: FilterGroup,
    /// Columns indexed by word and trigram.
    pub words: FilterGroup,
}

/// Format versions of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IndexVersion {
    /// Words have as many filter bits as ids.
    One,
    /// Row groups have no filters.
    Two,
    #[default]
    /// Row groups have id filters.
    Three,
}

/// Columns that share filters.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FilterGroup {
    /// Field ids of the columns.
    pub columns: Vec<i32>,
    /// One sheet per row group; empty without columns.
    pub sheets: Vec<FilterBlock>,
}

/// Sheet of interleaved filters: up to `SHEET_BLOCKS` blocks, or all row groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterBlock {
    /// Offset in the file.
    pub offset: u64,
    /// Number of blocks.
    pub blocks: usize,
    /// Slots (32 bytes) per filter.
    pub slots: usize,
}

impl TextIndex {
    /// Total size of the filters.
    pub fn byte_count(&self) -> u64 {
        self.sheets().map(FilterBlock::byte_count).sum()
    }

    /// All sheets of the index.
    pub fn sheets(&self) -> impl Iterator<Item = &FilterBlock> {
        self.ids.sheets.iter().chain(&self.words.sheets).chain(&self.groups)
    }

    /// Whether the index has the current format.
    pub(crate) fn is_current(&self) -> bool {
        self.version == IndexVersion::default()
    }

    /// Serialized form in the file's metadata.
    pub(crate) fn to_text(&self) -> String {
        let of_blocks = format!("{} {}", self.ids.to_text(), self.words.to_text());
        let rows: Vec<_> = self.group_rows.iter().map(usize::to_string).collect();
        let rows = rows.join(",");
        match self.version {
            IndexVersion::One => format!("1 {BLOCK_ROWS} {of_blocks}"),
            IndexVersion::Two => format!("2 {BLOCK_ROWS} {rows} {of_blocks}"),
            IndexVersion::Three => {
                let groups = self.groups.map_or_else(|| "-".to_owned(), FilterBlock::to_text);
                format!("3 {BLOCK_ROWS} {rows} {groups} {of_blocks}")
            }
        }
    }

    /// Parses the metadata value; `None` for an unknown version or if the row counts do not add up
    /// to `rows`.
    pub fn from_text(text: &str, rows: u64) -> Option<Self> {
        let rows = usize::try_from(rows).ok()?;
        let (version, text) = text.split_once(' ')?;
        let text = text.strip_prefix(&format!("{BLOCK_ROWS} "))?;
        let (version, (group_rows, text)) = match version {
            "1" => (IndexVersion::One, (full_groups(rows), text)),
            "2" => (IndexVersion::Two, group_rows_from(text)?),
            "3" => (IndexVersion::Three, group_rows_from(text)?),
            _ => return None,
        };
        let all = group_rows.iter().try_fold(0_usize, |all, rows| all.checked_add(*rows));
        if all != Some(rows) {
            return None;
        }
        let (groups, text) = match version {
            IndexVersion::One | IndexVersion::Two => (None, text),
            IndexVersion::Three => match text.split_once(' ')? {
                ("-", text) => (None, text),
                (groups, text) => (Some(FilterBlock::from_text(groups)?), text),
            },
        };
        let (ids, words) = text.split_once(' ')?;
        let (ids, words) = (
            FilterGroup::from_text(ids, &group_rows)?,
            FilterGroup::from_text(words, &group_rows)?,
        );
        let is_right = match groups {
            Some(groups) => groups.blocks == group_rows.len(),
            None => version != IndexVersion::Three || ids.columns.is_empty(),
        };
        is_right.then_some(Self { version, group_rows, groups, ids, words })
    }

    /// Filter bits per key of this kind.
    pub fn bits(&self, kind: KeyKind) -> KeyBits {
        match (self.version, kind) {
            (IndexVersion::One, _) | (_, KeyKind::Whole) => KeyBits::Eight,
            (_, KeyKind::Word | KeyKind::Part) => KeyBits::Four,
        }
    }

    /// Columns and filters for keys of this kind.
    pub fn group(&self, kind: KeyKind) -> &FilterGroup {
        if kind == KeyKind::Whole { &self.ids } else { &self.words }
    }
}

impl FilterGroup {
    fn to_text(&self) -> String {
        let columns: Vec<_> = self.columns.iter().map(i32::to_string).collect();
        let sheets: Vec<_> = self.sheets.iter().copied().map(FilterBlock::to_text).collect();
        format!("{};{}", columns.join(","), sheets.join(","))
    }

    fn from_text(text: &str, group_rows: &[usize]) -> Option<Self> {
        let (columns, sheets) = text.split_once(';')?;
        let columns = parts(columns).map(|id| id.parse().ok()).collect::<Option<Vec<i32>>>()?;
        let sheets = parts(sheets).map(FilterBlock::from_text).collect::<Option<Vec<_>>>()?;
        let blocks = group_rows.iter().map(|rows| rows.div_ceil(BLOCK_ROWS));
        let fits = sheets.iter().map(|sheet| sheet.blocks).eq(blocks)
            && sheets.iter().all(|sheet| sheet.blocks <= SHEET_BLOCKS);
        (fits || columns.is_empty()).then_some(Self { columns, sheets })
    }
}

impl FilterBlock {
    fn to_text(self) -> String {
        format!("{}:{}:{}", self.offset, self.blocks, self.slots)
    }

    fn from_text(text: &str) -> Option<Self> {
        let mut numbers = text.split(':').map(|number| number.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        let offset = next()?;
        let blocks = usize::try_from(next()?).ok()?;
        let slots = usize::try_from(next()?).ok().filter(|slots| *slots > 0)?;
        Some(Self { offset, blocks, slots })
    }

    /// Size of the sheet.
    pub fn byte_count(&self) -> u64 {
        (self.blocks * self.slots * SLOT_BYTES) as u64
    }

    /// Byte range with the key's slot of every block (or row group).
    pub fn range(&self, key: u64) -> std::ops::Range<u64> {
        let length = (self.blocks * SLOT_BYTES) as u64;
        let start = self.offset + key::slot(key, self.slots) as u64 * length;
        start..start + length
    }
}

/// Rows of each row group, from the index if it is loaded; otherwise as in an unmerged file.
pub fn group_rows(file: &DataFile) -> Cow<'_, [usize]> {
    match file.index.get() {
        Some(Some(index)) => Cow::Borrowed(&index.group_rows),
        _ => Cow::Owned(full_groups(usize::try_from(file.row_count).unwrap_or_default())),
    }
}

/// Parses the row group sizes; returns them and the rest of the text.
fn group_rows_from(text: &str) -> Option<(Vec<usize>, &str)> {
    let (group_rows, text) = text.split_once(' ')?;
    let group_rows = parts(group_rows).map(|rows| rows.parse().ok().filter(|rows| *rows > 0));
    Some((group_rows.collect::<Option<_>>()?, text))
}

/// Row group sizes of a file that was written in one pass.
fn full_groups(rows: usize) -> Vec<usize> {
    (0..rows).step_by(FULL_ROWS).map(|start| FULL_ROWS.min(rows - start)).collect()
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{FilterBlock, FilterGroup, IndexVersion, TextIndex};

    #[test]
    fn directory_comes_back_from_its_text() {
        let sheets = vec![
            FilterBlock { offset: 4, blocks: 16, slots: 900 },
            FilterBlock { offset: 500_000, blocks: 3, slots: 1 },
        ];
        let group_rows = vec![16 * 8192, 2 * 8192 + 1];
        let rows = 16 * 8192 + 2 * 8192 + 1;
        let groups = Some(FilterBlock { offset: 700_000, blocks: 2, slots: 64 });
        for (version, groups, head) in [
            (IndexVersion::One, None, "1 8192"),
            (IndexVersion::Two, None, "2 8192 131072,16385"),
            (IndexVersion::Three, groups, "3 8192 131072,16385 700000:2:64"),
        ] {
            let ids = FilterGroup { columns: vec![8, 11], sheets: sheets.clone() };
            let group_rows = group_rows.clone();
            let index =
                TextIndex { version, group_rows, groups, ids, words: FilterGroup::default() };
            let text = format!("{head} 8,11;4:16:900,500000:3:1 ;");
            assert_eq!(index.to_text(), text);
            assert_eq!(TextIndex::from_text(&text, rows), Some(index));
            assert_eq!(TextIndex::from_text(&text, rows - 1), None, "one block too many");
        }
        for broken in [
            "",
            "4 8192 8;4:16:9 ;",
            "3 8192 131072 8;4:16:9 ;",
            "1 8192 8;4:17:9 ;",
            "1 8192 8;4:16:0 ;",
            "1 8192 ;",
        ] {
            assert_eq!(TextIndex::from_text(broken, 16 * 8192), None, "{broken}");
        }
    }

    #[test]
    fn directory_of_row_groups_of_any_size_comes_back_from_its_text() {
        let ids = FilterGroup {
            columns: vec![8],
            sheets: vec![filter_block(4, 2), filter_block(900, 1)],
        };
        let (version, group_rows) = (IndexVersion::Two, vec![9000, 8192]);
        let index =
            TextIndex { version, group_rows, groups: None, ids, words: FilterGroup::default() };
        let text = "2 8192 9000,8192 8;4:2:7,900:1:7 ;";
        assert_eq!(index.to_text(), text);
        assert_eq!(TextIndex::from_text(text, 17_192), Some(index));
        for broken in [
            "2 8192 9000,8191 8;4:2:7,900:1:7 ;",
            "2 8192 9000,8192 8;4:2:7,900:2:7 ;",
            "2 8192 9000,8192 8;4:2:7 ;",
            "2 8192 17192 8;4:2:7,900:1:7 ;",
            "2 8192 9000,0,8192 8;4:2:7,800:0:7,900:1:7 ;",
            "2 8192 9000,x 8;4:2:7,900:1:7 ;",
            "2 8192 8;4:3:7 ;",
            "3 8192 9000,8192 8;4:2:7,900:1:7 ;",
            "3 8192 9000,8192 950:1:7 8;4:2:7,900:1:7 ;",
            "3 8192 9000,8192 - 8;4:2:7,900:1:7 ;",
            "4 8192 9000,8192 950:2:7 8;4:2:7,900:1:7 ;",
        ] {
            assert_eq!(TextIndex::from_text(broken, 17_192), None, "{broken}");
        }
    }

    fn filter_block(offset: u64, blocks: usize) -> FilterBlock {
        FilterBlock { offset, blocks, slots: 7 }
    }
}
