//! Reads the text index of a file to select the blocks that a query has to scan.

use std::collections::BTreeSet;
use std::sync::{Arc, Once};

use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use object_store::{ObjectMeta, ObjectStore};
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use weir_datafile::DataFile;
use weir_datafile::text_index::{
    BLOCK_ROWS, FilterKey, KeyBits, KeyKind, METADATA_KEY, SLOT_BYTES, TextIndex, mask, turned,
};

use super::key_conditions::IndexProbe;
use crate::file_reader::read_footer;

/// Numbers of selected and skipped blocks; attached to the file in the plan, for its metrics.
#[derive(Clone, Debug)]
pub(crate) struct BlockCounts {
    pub(crate) kept: usize,
    pub(crate) left_out: usize,
    /// A file may be opened several times, for parts of it, but counts once.
    pub(crate) counted: Arc<Once>,
}

/// Part of a file that a query has to scan.
#[derive(Debug)]
pub(crate) enum BlockSelection {
    /// The index rules out no block, or does not cover the query.
    Everything,
    Nothing,
    Rows(RowSelection, BlockCounts),
}

/// Selects the rows of `file` that may match.
///
/// # Errors
/// When the file cannot be read.
pub(crate) async fn select(
    file: &DataFile,
    probe: &IndexProbe,
    store: &dyn ObjectStore,
    footers: &Arc<FileMetadataCache>,
) -> Result<BlockSelection> {
    let meta = PartitionedFile::new(file.location(), file.byte_count).object_meta;
    let Some(index) = index_of(file, &meta, store, footers).await? else {
        return Ok(BlockSelection::Everything);
    };
    let keys: Vec<FilterKey> = keys_of(probe, index).into_iter().collect();
    if keys.is_empty() {
        return Ok(BlockSelection::Everything);
    }
    let groups = groups_with(probe, index, &keys, &meta, store).await?;
    if groups.is_empty() {
        return Ok(BlockSelection::Nothing);
    }
    let range = |at: usize, key: &FilterKey| index.group(key.kind).sheets[at].range(key.hash);
    let ranges = groups.iter().flat_map(|at| keys.iter().map(move |key| range(*at, key)));
    let answers = store.get_ranges(&meta.location, &ranges.collect::<Vec<_>>()).await?;
    let mut asked = groups.iter().zip(answers.chunks(keys.len())).peekable();
    let mut kept = Vec::new();
    for (at, rows) in index.group_rows.iter().enumerate() {
        let matching = match asked.next_if(|(group, _)| **group == at) {
            None => 0,
            Some((_, answers)) => {
                let holding = |key: &FilterKey| {
                    let bytes = &answers[keys.binary_search(key).ok()?];
                    let bits = index.bits(key.kind);
                    let slots = slots_with(key.hash, bits, bytes).enumerate();
                    Some(slots.fold(0, |blocks, (block, is_in)| blocks | u32::from(is_in) << block))
                };
                evaluate(probe, &holding).unwrap_or(u32::MAX)
            }
        };
        let blocks = (0..*rows).step_by(BLOCK_ROWS).enumerate();
        kept.extend(
            blocks
                .map(|(block, start)| (BLOCK_ROWS.min(rows - start), matching & (1 << block) != 0)),
        );
    }
    Ok(selection(&kept))
}

/// Row groups whose filters do not rule out a match.
async fn groups_with(
    probe: &IndexProbe,
    index: &TextIndex,
    keys: &[FilterKey],
    meta: &ObjectMeta,
    store: &dyn ObjectStore,
) -> Result<Vec<usize>> {
    let all = 0..index.group_rows.len();
    let ids: Vec<&FilterKey> = keys.iter().filter(|key| key.kind == KeyKind::Whole).collect();
    let Some(sheet) = index.groups.filter(|_| !ids.is_empty()) else { return Ok(all.collect()) };
    let ranges: Vec<_> = ids.iter().map(|key| sheet.range(turned(key.hash))).collect();
    let answers = store.get_ranges(&meta.location, &ranges).await?;
    let holding: Vec<Vec<bool>> = ids
        .iter()
        .zip(&answers)
        .map(|(key, bytes)| slots_with(turned(key.hash), KeyBits::Eight, bytes).collect())
        .collect();
    Ok(all
        .filter(|group| {
            let found = |key: &FilterKey| {
                let at = ids.binary_search(&key).ok()?;
                Some(u32::from(holding[at][*group]))
            };
            evaluate(probe, &found) != Some(0)
        })
        .collect())
}

/// Text index of a file, loaded with its footer on first use.
async fn index_of<'a>(
    file: &'a DataFile,
    meta: &ObjectMeta,
    store: &dyn ObjectStore,
    footers: &Arc<FileMetadataCache>,
) -> Result<Option<&'a TextIndex>> {
    if let Some(known) = file.index.get() {
        return Ok(known.as_ref());
    }
    let footer = read_footer(meta, store, footers).await?;
    let pairs = footer.file_metadata().key_value_metadata();
    let pair = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == METADATA_KEY));
    let index = pair.and_then(|pair| TextIndex::from_text(pair.value.as_deref()?, file.row_count));
    Ok(file.index.get_or_init(|| index).as_ref())
}

/// Keys of a probe that this file was indexed for, sorted.
fn keys_of(probe: &IndexProbe, index: &TextIndex) -> BTreeSet<FilterKey> {
    match probe {
        IndexProbe::Key(key) => Some(*key)
            .filter(|key| index.group(key.kind).columns.contains(&key.column))
            .into_iter()
            .collect(),
        IndexProbe::All(probes) | IndexProbe::Any(probes) => {
            probes.iter().flat_map(|probe| keys_of(probe, index)).collect()
        }
    }
}

/// For each block or row group, whether its filter may contain the key.
fn slots_with(key: u64, bits: KeyBits, bytes: &[u8]) -> impl Iterator<Item = bool> {
    let mask = mask(key, bits);
    bytes.as_chunks::<SLOT_BYTES>().0.iter().map(move |slot| {
        let words = slot.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        words.zip(mask).all(|(word, bit)| word & bit == bit)
    })
}

/// Bitmap of the blocks that may match; `None` where the index does not cover the probe.
fn evaluate(probe: &IndexProbe, found: &impl Fn(&FilterKey) -> Option<u32>) -> Option<u32> {
    match probe {
        IndexProbe::Key(key) => found(key),
        IndexProbe::All(probes) => probes
            .iter()
            .filter_map(|probe| evaluate(probe, found))
            .reduce(|one, other| one & other),
        IndexProbe::Any(probes) => {
            probes.iter().try_fold(0, |blocks, probe| Some(blocks | evaluate(probe, found)?))
        }
    }
}

/// Row selection from blocks, each with its rows and whether it is selected.
fn selection(blocks: &[(usize, bool)]) -> BlockSelection {
    let kept = blocks.iter().filter(|(_, is_kept)| *is_kept).count();
    let left_out = blocks.len() - kept;
    match (kept, left_out) {
        (_, 0) => return BlockSelection::Everything,
        (0, _) => return BlockSelection::Nothing,
        _ => {}
    }
    let selectors = blocks.iter().map(|(rows, is_kept)| {
        if *is_kept { RowSelector::select(*rows) } else { RowSelector::skip(*rows) }
    });
    let counts = BlockCounts { kept, left_out, counted: Arc::new(Once::new()) };
    BlockSelection::Rows(selectors.collect(), counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_first_version_are_asked_as_they_were_written() {
        let rows = 2 * 8192;
        let heads = ["1 8192", "2 8192 16384"];
        let [one, two] = heads.map(|head| TextIndex::from_text(&entry(head), rows).unwrap());
        let word = FilterKey::word(15, b"cart");
        let [eight, four] = [KeyBits::Eight, KeyBits::Four]
            .map(|bits| mask(word.hash, bits).map(u32::to_le_bytes).concat());
        let found = |index: &TextIndex, bytes: &[u8]| {
            slots_with(word.hash, index.bits(KeyKind::Word), bytes).collect::<Vec<_>>()
        };
        let answers = [[0; 32].as_slice(), &eight].concat();
        assert_eq!(found(&one, &answers), [false, true]);
        assert_eq!(found(&two, &answers), [false, true]);
        let answers = [[0; 32].as_slice(), &four].concat();
        assert_eq!(found(&one, &answers), [false, false], "four bits are not enough for it");
        assert_eq!(found(&two, &answers), [false, true]);
        assert_eq!(
            (one.bits(KeyKind::Whole), two.bits(KeyKind::Whole)),
            (KeyBits::Eight, KeyBits::Eight)
        );
    }

    fn entry(head: &str) -> String {
        format!("{head} 8;4:2:1 15;68:2:1")
    }
}
