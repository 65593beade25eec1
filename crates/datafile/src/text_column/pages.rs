//! Compressed pages of one column chunk, and the chunk's metadata.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, EncodingMask, PageType, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, OffsetIndexBuilder, PageEncodingStats};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{self, InBuffer, OutBuffer, ResetDirective};

use super::runs::push_runs;

/// Page compressor; its tables are large, so one is reused for the whole file.
pub(crate) struct PagePacker {
    level: ZstdLevel,
    compressor: Compressor<'static>,
    /// Fast level, for codes of few bits: the higher level gains little there and takes twice as
    /// long.
    fast: Compressor<'static>,
    /// Uncompressed page.
    scratch: Vec<u8>,
}

/// Compression method of a page.
#[derive(Clone, Copy)]
enum PageCodec {
    Hard,
    Fast,
    /// Fast level, with the first bytes (the given count) in a separate block. Hexadecimal digits
    /// compress to half a byte each only if the block's entropy code has no other symbols.
    Apart(usize),
}

impl PagePacker {
    pub(crate) fn new(level: ZstdLevel) -> std::io::Result<Self> {
        let compressor = Compressor::new(level.compression_level())?;
        Ok(Self { level, compressor, fast: Compressor::new(1)?, scratch: Vec::new() })
    }

    fn packed(&mut self, way: PageCodec) -> Result<Bytes> {
        let packed = match way {
            PageCodec::Hard => self.compressor.compress(&self.scratch),
            PageCodec::Fast => self.fast.compress(&self.scratch),
            PageCodec::Apart(begin) => self.packed_apart(begin),
        };
        packed.map(Bytes::from).map_err(|error| ParquetError::External(Box::new(error)))
    }

    /// One zstd frame with a block boundary after `begin` bytes.
    fn packed_apart(&mut self, begin: usize) -> std::io::Result<Vec<u8>> {
        let (begin, rest) = self.scratch.split_at(begin);
        // Reserve for the extra block and its header, which the bound does not cover.
        let mut packed = Vec::with_capacity(zstd_safe::compress_bound(self.scratch.len()) + 64);
        let context = self.fast.context_mut();
        context.reset(ResetDirective::SessionOnly).map_err(zstd_error)?;
        context.set_pledged_src_size(Some(self.scratch.len() as u64)).map_err(zstd_error)?;
        let mut out = OutBuffer::around(&mut packed);
        let directives = [ZSTD_EndDirective::ZSTD_e_flush, ZSTD_EndDirective::ZSTD_e_end];
        for (bytes, directive) in [begin, rest].into_iter().zip(directives) {
            let mut bytes = InBuffer::around(bytes);
            let left =
                context.compress_stream2(&mut out, &mut bytes, directive).map_err(zstd_error)?;
            if left > 0 {
                return Err(std::io::Error::other("a page does not become smaller"));
            }
        }
        Ok(packed)
    }
}

fn zstd_error(code: usize) -> std::io::Error {
    std::io::Error::other(zstd_safe::get_error_name(code))
}

/// Pages of a chunk, with offsets relative to its start.
pub(crate) struct PageBuffer {
    sink: TrackedWrite<Vec<u8>>,
    offsets: OffsetIndexBuilder,
    has_dictionary: bool,
    first_data_page: i64,
    /// Data page counts: dictionary-encoded, then plain.
    data_pages: [i32; 2],
    /// Encoding of plain pages.
    whole: Encoding,
    rows: u64,
    nulls: u64,
    /// Uncompressed size, with page headers.
    unpacked_bytes: i64,
}

impl PageBuffer {
    /// A chunk without pages.
    pub(crate) fn new() -> Self {
        Self {
            sink: TrackedWrite::new(Vec::new()),
            offsets: OffsetIndexBuilder::new(),
            has_dictionary: false,
            first_data_page: 0,
            data_pages: [0; 2],
            whole: Encoding::PLAIN,
            rows: 0,
            nulls: 0,
            unpacked_bytes: 0,
        }
    }

    /// Writes the dictionary page, which must precede all data pages.
    pub(crate) fn push_dictionary(
        &mut self,
        texts: &[u8],
        count: usize,
        packer: &mut PagePacker,
    ) -> Result<()> {
        packer.scratch.clear();
        packer.scratch.extend_from_slice(texts);
        let page = Page::DictionaryPage {
            buf: packer.packed(PageCodec::Fast)?,
            num_values: u32::try_from(count)?,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        self.has_dictionary = true;
        self.write(page, texts.len())?;
        self.first_data_page = i64::try_from(self.sink.bytes_written())?;
        Ok(())
    }

    /// Writes a data page with one row per entry of `has_text`; columns that are not nullable get
    /// no definition levels. `push_texts` appends the values (codes, length-prefixed texts, or
    /// lengths and then texts) and returns where the texts start in the last case.
    pub(crate) fn push_data(
        &mut self,
        has_text: &[u32],
        is_nullable: bool,
        encoding: Encoding,
        push_texts: impl FnOnce(&mut Vec<u8>) -> Option<usize>,
        packer: &mut PagePacker,
    ) -> Result<()> {
        packer.scratch.clear();
        if is_nullable {
            packer.scratch.extend_from_slice(&[0; 4]);
            push_runs(has_text, 1, &mut packer.scratch);
            let length = u32::try_from(packer.scratch.len() - 4)?;
            packer.scratch[..4].copy_from_slice(&length.to_le_bytes());
        }
        let texts_begin = push_texts(&mut packer.scratch);
        let way = match (encoding, texts_begin) {
            (Encoding::RLE_DICTIONARY, _) => PageCodec::Fast,
            (_, Some(begin)) => PageCodec::Apart(begin),
            _ => PageCodec::Hard,
        };
        let page = Page::DataPage {
            buf: packer.packed(way)?,
            num_values: u32::try_from(has_text.len())?,
            encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let (offset, length) = self.write(page, packer.scratch.len())?;
        self.offsets.append_row_count(i64::try_from(has_text.len())?);
        self.offsets.append_offset_and_size(offset, i32::try_from(length)?);
        if encoding == Encoding::RLE_DICTIONARY {
            self.data_pages[0] += 1;
        } else {
            self.data_pages[1] += 1;
            self.whole = encoding;
        }
        self.rows += has_text.len() as u64;
        self.nulls += has_text.iter().filter(|has| **has == 0).count() as u64;
        Ok(())
    }

    /// Writes a page; returns its offset and its length with the header.
    fn write(&mut self, page: Page, unpacked: usize) -> Result<(i64, usize)> {
        let page = CompressedPage::new(page, unpacked);
        let written = SerializedPageWriter::new(&mut self.sink).write_page(page)?;
        self.unpacked_bytes += i64::try_from(written.uncompressed_size)?;
        Ok((i64::try_from(written.offset)?, written.compressed_size))
    }

    /// Chunk bytes and metadata; `range` holds the smallest and largest text.
    pub(crate) fn finish(
        self,
        column: ColumnDescPtr,
        range: Option<(&[u8], &[u8])>,
        packer: &PagePacker,
    ) -> Result<(Bytes, ColumnCloseResult)> {
        let bytes = Bytes::from(self.sink.into_inner()?);
        let [numbered, whole] = self.data_pages;
        let pages = [
            page_count(PageType::DICTIONARY_PAGE, Encoding::PLAIN, i32::from(self.has_dictionary)),
            page_count(PageType::DATA_PAGE, Encoding::RLE_DICTIONARY, numbered),
            page_count(PageType::DATA_PAGE, self.whole, whole),
        ];
        let pages: Vec<_> = pages.into_iter().filter(|pages| pages.count > 0).collect();
        let encodings = pages.iter().map(|pages| &pages.encoding).chain([&Encoding::RLE]);
        let metadata = ColumnChunkMetaData::builder(column)
            .set_compression(Compression::ZSTD(packer.level))
            .set_encodings_mask(EncodingMask::new_from_encodings(encodings))
            .set_page_encoding_stats(pages.clone())
            .set_total_compressed_size(i64::try_from(bytes.len())?)
            .set_total_uncompressed_size(self.unpacked_bytes)
            .set_num_values(i64::try_from(self.rows)?)
            .set_data_page_offset(self.first_data_page)
            .set_dictionary_page_offset(self.has_dictionary.then_some(0))
            .set_statistics(statistics(range, self.nulls))
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: self.rows,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: Some(self.offsets.build()),
        };
        Ok((bytes, close))
    }
}

fn page_count(page_type: PageType, encoding: Encoding, count: i32) -> PageEncodingStats {
    PageEncodingStats { page_type, encoding, count }
}

/// Statistics bounds are truncated to this length to keep footers small: they are read often.
const BOUND_BYTES_MAX: usize = 64;

fn statistics(range: Option<(&[u8], &[u8])>, nulls: u64) -> Statistics {
    let least = range.map(|(least, _)| lower_bound(least));
    let greatest = range.and_then(|(_, greatest)| upper_bound(greatest));
    let statistics = ValueStatistics::new(
        least.map(ByteArray::from),
        greatest.map(ByteArray::from),
        None,
        Some(nulls),
        false,
    );
    let statistics = statistics
        .with_min_is_exact(range.is_some_and(|(least, _)| is_whole(least)))
        .with_max_is_exact(range.is_some_and(|(_, greatest)| is_whole(greatest)));
    Statistics::ByteArray(statistics)
}

fn is_whole(text: &[u8]) -> bool {
    text.len() <= BOUND_BYTES_MAX
}

/// Truncated lower bound of all texts.
fn lower_bound(least: &[u8]) -> Vec<u8> {
    let mut end = least.len().min(BOUND_BYTES_MAX);
    // Cut only at a character boundary.
    while end < least.len() && least[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    least[..end].to_vec()
}

/// Truncated upper bound of all texts; `None` if no short text is an upper bound.
fn upper_bound(greatest: &[u8]) -> Option<Vec<u8>> {
    if greatest.len() <= BOUND_BYTES_MAX {
        return Some(greatest.to_vec());
    }
    let last = greatest[..BOUND_BYTES_MAX].iter().rposition(|byte| *byte < 0x7f)?;
    let mut bound = greatest[..=last].to_vec();
    bound[last] += 1;
    Some(bound)
}

#[cfg(test)]
mod tests {
    use super::{BOUND_BYTES_MAX, lower_bound, upper_bound};

    #[test]
    fn bounds_are_short_texts_that_hold_what_they_say() {
        arbtest::arbtest(|u| {
            let mut text = String::new();
            for _ in 0..u.int_in_range(0..=100)? {
                text.push(character(u)?);
            }
            let lower = lower_bound(text.as_bytes());
            assert!(lower.as_slice() <= text.as_bytes() && lower.len() <= BOUND_BYTES_MAX);
            assert!(std::str::from_utf8(&lower).is_ok());
            match upper_bound(text.as_bytes()) {
                Some(upper) => {
                    assert!(upper.as_slice() >= text.as_bytes() && upper.len() <= BOUND_BYTES_MAX);
                    assert!(std::str::from_utf8(&upper).is_ok());
                }
                None => assert!(!text.as_bytes()[..BOUND_BYTES_MAX].contains(&b'a')),
            }
            Ok(())
        });
    }

    fn character(u: &mut arbtest::arbitrary::Unstructured<'_>) -> arbtest::arbitrary::Result<char> {
        u.choose(&['a', '\u{7f}', '\u{e4}', '\u{20ac}', '\u{1f600}']).copied()
    }
}
