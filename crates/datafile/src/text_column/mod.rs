//! Encodes a text column as Parquet, with a dictionary where the texts repeat.
//!
//! Log texts repeat. Each text is looked up once in place; from then on the dictionary, pages,
//! statistics and text index work on its code. Parquet's own writer would first copy every text
//! into sort order, then compare and hash it again for each of these.
//!
//! Example: the rows `GET`, `POST`, NULL, `GET` become a dictionary of `GET` and `POST`, the codes
//! 0, 1, 0, and the definition levels 1, 1, 0, 1.

mod distinct;
mod lengths;
mod numbered;
mod order;
mod pages;
mod runs;
mod texts;

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::schema::types::ColumnDescPtr;

pub(crate) use distinct::DistinctTexts;
use lengths::push_lengths;
use numbered::TextNumbering;
use order::TextOrder;
use pages::PageBuffer;
pub(crate) use pages::PagePacker;
use runs::push_runs;
pub(crate) use texts::{TextPart, TextValues, parts};

/// Rows in a data page.
const PAGE_ROWS: usize = crate::file_maker::PAGE_ROWS;
/// A page of plain texts is closed at this size.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Dictionary limit, checked at block boundaries; the rest of the row group is plain. Reading even
/// a few rows decodes the whole dictionary, so it must stay small.
const DICTIONARY_BYTES_MAX: usize = 3 << 19;
/// Hard dictionary limit, checked inside a block as well.
const DICTIONARY_BYTES_END: usize = 16 << 20;
/// If the dictionary fills up within this many rows, the next row group has none.
const NUMBERED_MIN: usize = 4 * PAGE_ROWS;
/// Code of a NULL row.
const NULL: u32 = u32::MAX;

/// A column of the current row group.
pub(crate) struct TextColumn {
    column: ColumnDescPtr,
    state: ColumnState,
}

enum ColumnState {
    /// Dictionary encoding, with a code per row.
    Numbers { texts: TextNumbering, rows: Vec<u32> },
    /// Plain encoding, after the dictionary filled up at `numbered` rows.
    Whole { numbered: usize, pages: PageBuffer, page: PageRows },
}

/// Current data page of plain texts.
#[derive(Default)]
struct PageRows {
    /// Definition levels: 1, or 0 for NULL.
    has_text: Vec<u32>,
    /// Lengths of ids, whose bytes are stored back to back; other texts are length-prefixed.
    lengths: Option<Vec<u32>>,
    texts: Vec<u8>,
}

impl TextColumn {
    /// An empty column; `repeats` is whether its texts are expected to repeat.
    pub(crate) fn new(column: ColumnDescPtr, repeats: bool) -> Self {
        let state = if repeats {
            ColumnState::Numbers { texts: TextNumbering::default(), rows: Vec::new() }
        } else {
            ColumnState::Whole { numbered: 0, pages: PageBuffer::new(), page: PageRows::default() }
        };
        Self { column, state }
    }

    /// A column of ids, which are expected to be unique.
    pub(crate) fn of_ids(column: ColumnDescPtr) -> Self {
        let page = PageRows { lengths: Some(Vec::new()), ..PageRows::default() };
        Self { column, state: ColumnState::Whole { numbered: 0, pages: PageBuffer::new(), page } }
    }

    /// Whether dictionary encoding paid off.
    pub(crate) fn repeats(&self) -> bool {
        match &self.state {
            ColumnState::Numbers { .. } => true,
            ColumnState::Whole { numbered, .. } => *numbered > NUMBERED_MIN,
        }
    }

    /// Appends rows of one block. Returns the distinct texts and the non-NULL codes of the rows, or
    /// `None` for plain encoding.
    pub(crate) fn push(
        &mut self,
        texts: &TextValues<'_>,
        packer: &mut PagePacker,
    ) -> Result<Option<(&DistinctTexts, impl Iterator<Item = u32> + Clone)>> {
        self.give_up_numbers(packer)?;
        match &mut self.state {
            ColumnState::Numbers { texts: known, rows } => {
                let start = rows.len();
                known.push(texts, rows);
                let new = rows[start..].iter().copied().filter(|number| *number != NULL);
                Ok(Some((&known.distinct, new)))
            }
            ColumnState::Whole { pages, page, .. } => {
                let mut outcome = Ok(());
                texts.each(|text| {
                    if outcome.is_ok() {
                        outcome = page.push(text, pages, &self.column, packer);
                    }
                });
                outcome.map(|()| None)
            }
        }
    }

    /// Switches to plain encoding if the dictionary is too large.
    fn give_up_numbers(&mut self, packer: &mut PagePacker) -> Result<()> {
        let ColumnState::Numbers { texts: TextNumbering { distinct, .. }, rows } = &self.state
        else {
            return Ok(());
        };
        let (bytes, is_between) = (distinct.page().len(), rows.len().is_multiple_of(PAGE_ROWS));
        if bytes > DICTIONARY_BYTES_END || bytes > DICTIONARY_BYTES_MAX && is_between {
            let numbered = rows.len();
            let pages = self.numbered_pages(distinct, rows, packer)?;
            self.state = ColumnState::Whole { numbered, pages, page: PageRows::default() };
        }
        Ok(())
    }

    fn numbered_pages(
        &self,
        distinct: &DistinctTexts,
        rows: &[u32],
        packer: &mut PagePacker,
    ) -> Result<PageBuffer> {
        let (mut pages, is_nullable) = (PageBuffer::new(), is_nullable(&self.column));
        if distinct.len() == 0 {
            for rows in rows.chunks(PAGE_ROWS) {
                let has_text = vec![0; rows.len()];
                pages.push_data(&has_text, is_nullable, Encoding::PLAIN, |_| None, packer)?;
            }
            return Ok(pages);
        }
        let order = TextOrder::new(distinct, rows);
        let Some(order) = order else {
            pages.push_dictionary(distinct.page(), distinct.len(), packer)?;
            for rows in rows.chunks(PAGE_ROWS) {
                push_numbers(rows, false, &mut pages, is_nullable, packer)?;
            }
            return Ok(pages);
        };
        pages.push_dictionary(&distinct.page_of(&order.texts), distinct.len(), packer)?;
        for rows in order.numbers(rows).chunks(PAGE_ROWS) {
            push_numbers(rows, order.is_skewed, &mut pages, is_nullable, packer)?;
        }
        Ok(pages)
    }

    /// Encoded column chunk and its metadata.
    pub(crate) fn finish(mut self, packer: &mut PagePacker) -> Result<(Bytes, ColumnCloseResult)> {
        let column = Arc::clone(&self.column);
        match &mut self.state {
            ColumnState::Numbers { texts, rows } => {
                let distinct = std::mem::take(&mut texts.distinct);
                let rows = std::mem::take(rows);
                let pages = self.numbered_pages(&distinct, &rows, packer)?;
                pages.finish(column, distinct.range(), packer)
            }
            ColumnState::Whole { pages, page, .. } => {
                page.end(pages, &column, packer)?;
                std::mem::replace(pages, PageBuffer::new()).finish(column, None, packer)
            }
        }
    }
}

impl PageRows {
    fn push(
        &mut self,
        text: Option<&[u8]>,
        pages: &mut PageBuffer,
        column: &ColumnDescPtr,
        packer: &mut PagePacker,
    ) -> Result<()> {
        self.has_text.push(u32::from(text.is_some()));
        if let Some(text) = text {
            let length = u32::try_from(text.len())?;
            match &mut self.lengths {
                Some(lengths) => lengths.push(length),
                None => self.texts.extend_from_slice(&length.to_le_bytes()),
            }
            self.texts.extend_from_slice(text);
        }
        if self.has_text.len() == PAGE_ROWS || self.texts.len() >= PAGE_BYTES_MAX {
            self.end(pages, column, packer)?;
        }
        Ok(())
    }

    fn end(
        &mut self,
        pages: &mut PageBuffer,
        column: &ColumnDescPtr,
        packer: &mut PagePacker,
    ) -> Result<()> {
        if !self.has_text.is_empty() {
            let push_texts = |out: &mut Vec<u8>| {
                self.lengths.iter().for_each(|lengths| push_lengths(lengths, out));
                let begin = out.len();
                out.extend_from_slice(&self.texts);
                self.lengths.is_some().then_some(begin)
            };
            let encoding = match self.lengths {
                Some(_) => Encoding::DELTA_LENGTH_BYTE_ARRAY,
                None => Encoding::PLAIN,
            };
            pages.push_data(&self.has_text, is_nullable(column), encoding, push_texts, packer)?;
            self.has_text.clear();
            self.lengths.iter_mut().for_each(Vec::clear);
            self.texts.clear();
        }
        Ok(())
    }
}

/// Writes dictionary codes. If most codes are small (`is_skewed`), byte-aligned codes compress
/// better than bit-packed ones.
fn push_numbers(
    rows: &[u32],
    is_skewed: bool,
    pages: &mut PageBuffer,
    is_nullable: bool,
    packer: &mut PagePacker,
) -> Result<()> {
    let has_text: Vec<u32> = rows.iter().map(|number| u32::from(*number != NULL)).collect();
    let numbers = || rows.iter().copied().filter(|number| *number != NULL);
    let greatest = numbers().max().unwrap_or_default();
    // At least one bit: some readers reject a bit width of zero.
    let bits = (u32::BITS - greatest.leading_zeros()).max(1);
    let bits = if is_skewed && bits > 12 { bits.next_multiple_of(8) } else { bits };
    let push_texts = |out: &mut Vec<u8>| {
        out.extend_from_slice(&bits.to_le_bytes()[..1]);
        if has_text.contains(&0) {
            push_runs(&numbers().collect::<Vec<_>>(), bits, out);
        } else {
            push_runs(rows, bits, out);
        }
        None
    };
    pages.push_data(&has_text, is_nullable, Encoding::RLE_DICTIONARY, push_texts, packer)
}

/// Whether the column is nullable; pages then have a definition level per row.
fn is_nullable(column: &ColumnDescPtr) -> bool {
    column.max_def_level() > 0
}
