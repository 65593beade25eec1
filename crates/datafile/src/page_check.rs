//! Checks a file's page index against its pages: queries trust it to skip pages.

use arrow_array::RecordBatch;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::PageLocation;

use crate::memtable::timestamps;

/// Compares page bounds with the rows of a file, pushed in order.
pub(crate) struct PageCheck {
    /// Page bounds of `ts`.
    pages: Vec<PageBounds>,
    /// Rows pushed so far.
    rows: u64,
    /// Page of the next row, or an earlier one.
    at: usize,
}

/// Bounds of one page of `ts`.
struct PageBounds {
    /// Row number in the file at which the page ends.
    end: u64,
    /// Minimum and maximum from the index.
    said: (i64, i64),
    found: (i64, i64),
}

impl PageCheck {
    /// Checks the page locations of all columns.
    ///
    /// # Errors
    /// The mismatch found; a file without a page index passes.
    pub(crate) fn new(footer: &ParquetMetaData) -> Result<Self, String> {
        let mut check = Self { pages: Vec::new(), rows: 0, at: 0 };
        let (Some(columns), Some(offsets)) = (footer.column_index(), footer.offset_index()) else {
            return Ok(check);
        };
        let mut begin = 0;
        for (number, group) in footer.row_groups().iter().enumerate() {
            let rows = group.num_rows();
            for (at, chunk) in group.columns().iter().enumerate() {
                let name = chunk.column_path().string();
                let wrong = || format!("has a page index that does not match its column `{name}`");
                let pages = offsets.get(number).and_then(|group| group.get(at));
                let pages = pages.ok_or_else(wrong)?.page_locations();
                if !is_of(pages, chunk, rows) {
                    return Err(wrong());
                }
                let index = columns.get(number).and_then(|group| group.get(at));
                if name == "ts" {
                    let of_ts = pages_of(pages, index.ok_or_else(wrong)?, begin, rows);
                    check.pages.extend(of_ts.ok_or_else(wrong)?);
                }
            }
            begin += rows.cast_unsigned();
        }
        Ok(check)
    }

    pub(crate) fn push(&mut self, rows: &RecordBatch) {
        for ts in timestamps(rows) {
            while self.pages.get(self.at).is_some_and(|page| page.end <= self.rows) {
                self.at += 1;
            }
            if let Some(page) = self.pages.get_mut(self.at) {
                page.found = (page.found.0.min(*ts), page.found.1.max(*ts));
            }
            self.rows += 1;
        }
    }

    /// Call after the last row.
    ///
    /// # Errors
    /// The times of a page differ from the index.
    pub(crate) fn finish(&self) -> Result<(), String> {
        match self.pages.iter().all(|page| page.found == page.said) {
            true => Ok(()),
            false => Err("has a page index with other times than its rows".to_owned()),
        }
    }
}

/// Whether the pages are contiguous up to the end of the column chunk and cover all rows.
fn is_of(pages: &[PageLocation], chunk: &ColumnChunkMetaData, rows: i64) -> bool {
    let (start, length) = chunk.byte_range();
    let follow = pages.windows(2).all(|pair| {
        end_of(&pair[0]) == pair[1].offset && pair[0].first_row_index < pair[1].first_row_index
    });
    let (Some(first), Some(last)) = (pages.first(), pages.last()) else { return rows == 0 };
    follow
        && first.first_row_index == 0
        && first.offset.cast_unsigned() >= start
        && last.first_row_index < rows
        && end_of(last).cast_unsigned() == start + length
}

fn end_of(page: &PageLocation) -> i64 {
    page.offset + i64::from(page.compressed_page_size)
}

/// Page bounds of a row group that starts at row `begin`; `None` if the index does not match.
fn pages_of(
    pages: &[PageLocation],
    index: &ColumnIndexMetaData,
    begin: u64,
    rows: i64,
) -> Option<Vec<PageBounds>> {
    let ColumnIndexMetaData::INT64(index) = index else { return None };
    if index.num_pages() != pages.len() as u64 {
        return None;
    }
    let ends = pages.iter().skip(1).map(|page| page.first_row_index).chain([rows]);
    ends.enumerate()
        .map(|(at, end)| {
            let said = (*index.min_value(at)?, *index.max_value(at)?);
            Some(PageBounds { end: begin + end.cast_unsigned(), said, found: (i64::MAX, i64::MIN) })
        })
        .collect()
}
