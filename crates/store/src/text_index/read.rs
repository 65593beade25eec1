//! Asks the index of a file which of its blocks a query has to read.

use std::collections::BTreeSet;
use std::sync::{Arc, Once};

use datafusion::common::Result;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use object_store::{ObjectMeta, ObjectStore};
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

use super::ask::Probe;
use super::key::{Key, mask};
use super::{BLOCK_ROWS, METADATA_KEY, SLOT_BYTES, TextIndex};
use crate::file_reader::read_footer;
use crate::manifest::DataFile;

/// How many blocks of a file are read; kept with the file in the plan, for its metrics.
#[derive(Clone, Debug)]
pub(crate) struct BlockCounts {
    pub(crate) kept: usize,
    pub(crate) left_out: usize,
    /// A file may be opened several times, for parts of it.
    pub(crate) counted: Arc<Once>,
}

/// What a query has to read of a file.
#[derive(Debug)]
pub(crate) enum Selected {
    /// The index says nothing, or that every block may match.
    Everything,
    Nothing,
    Rows(RowSelection, BlockCounts),
}

/// Which rows of `file` may match.
///
/// # Errors
/// When the file cannot be read.
pub(crate) async fn select(
    file: &DataFile,
    probe: &Probe,
    store: &dyn ObjectStore,
    footers: &Arc<FileMetadataCache>,
) -> Result<Selected> {
    let meta = PartitionedFile::new(file.location(), file.byte_count).object_meta;
    let Some(index) = index_of(file, &meta, store, footers).await? else {
        return Ok(Selected::Everything);
    };
    let keys: Vec<Key> = keys_of(probe, index).into_iter().collect();
    if keys.is_empty() {
        return Ok(Selected::Everything);
    }
    let groups = 0..index.group_rows.len();
    let range = |at: usize, key: &Key| index.group(key.kind).sheets[at].range(key.hash);
    let ranges = groups.flat_map(|at| keys.iter().map(move |key| range(at, key)));
    let answers = store.get_ranges(&meta.location, &ranges.collect::<Vec<_>>()).await?;
    let mut kept = Vec::new();
    for (rows, answers) in index.group_rows.iter().zip(answers.chunks(keys.len())) {
        let holding: Vec<u32> =
            keys.iter().zip(answers).map(|(key, bytes)| blocks_with(key, index, bytes)).collect();
        let found = |key: &Key| keys.binary_search(key).ok().map(|at| holding[at]);
        let matching = evaluate(probe, &found).unwrap_or(u32::MAX);
        kept.extend(
            (0..*rows)
                .step_by(BLOCK_ROWS)
                .enumerate()
                .map(|(block, start)| (BLOCK_ROWS.min(rows - start), matching & (1 << block) != 0)),
        );
    }
    Ok(selection(&kept))
}

/// The index of a file, read with its footer at the first need.
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

/// The keys of a probe that this file was indexed for, sorted.
fn keys_of(probe: &Probe, index: &TextIndex) -> BTreeSet<Key> {
    let is_known = |key: &Key| index.group(key.kind).columns.contains(&key.column);
    match probe {
        Probe::Key(key) => Some(*key).filter(is_known).into_iter().collect(),
        Probe::All(probes) | Probe::Any(probes) => {
            probes.iter().flat_map(|probe| keys_of(probe, index)).collect()
        }
    }
}

/// A bit for each block of a sheet whose filter has the key.
fn blocks_with(key: &Key, index: &TextIndex, bytes: &[u8]) -> u32 {
    let mask = mask(key.hash, index.bits(key.kind));
    let slots = bytes.chunks_exact(SLOT_BYTES).enumerate();
    slots.fold(0, |blocks, (block, slot)| {
        let words = slot.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
        let is_in = words.zip(mask).all(|(word, bit)| word & bit == bit);
        blocks | u32::from(is_in) << block
    })
}

/// A bit for each block that may match; `None` where the file does not know.
fn evaluate(probe: &Probe, found: &impl Fn(&Key) -> Option<u32>) -> Option<u32> {
    match probe {
        Probe::Key(key) => found(key),
        Probe::All(probes) => probes
            .iter()
            .filter_map(|probe| evaluate(probe, found))
            .reduce(|one, other| one & other),
        Probe::Any(probes) => {
            probes.iter().try_fold(0, |blocks, probe| Some(blocks | evaluate(probe, found)?))
        }
    }
}

/// Blocks with their rows, and whether they are read.
fn selection(blocks: &[(usize, bool)]) -> Selected {
    let kept = blocks.iter().filter(|(_, is_kept)| *is_kept).count();
    let left_out = blocks.len() - kept;
    match (kept, left_out) {
        (_, 0) => return Selected::Everything,
        (0, _) => return Selected::Nothing,
        _ => {}
    }
    let selectors = blocks.iter().map(|(rows, is_kept)| {
        if *is_kept { RowSelector::select(*rows) } else { RowSelector::skip(*rows) }
    });
    let counts = BlockCounts { kept, left_out, counted: Arc::new(Once::new()) };
    Selected::Rows(selectors.collect(), counts)
}

#[cfg(test)]
mod tests {
    use super::super::key::{Bits, Kind};
    use super::*;

    #[test]
    fn files_of_the_first_version_are_asked_as_they_were_written() {
        let rows = 2 * 8192;
        let of = |head: &str| format!("{head} 8;4:2:1 15;68:2:1");
        let heads = ["1 8192", "2 8192 16384"];
        let [one, two] = heads.map(|head| TextIndex::from_text(&of(head), rows).unwrap());
        let word = Key::word(15, b"cart");
        let slot = |bits: Bits| mask(word.hash, bits).map(u32::to_le_bytes).concat();
        let [eight, four] = [Bits::Eight, Bits::Four].map(slot);
        let answers = [[0; 32].as_slice(), &eight].concat();
        assert_eq!(blocks_with(&word, &one, &answers), 0b10);
        assert_eq!(blocks_with(&word, &two, &answers), 0b10);
        let answers = [[0; 32].as_slice(), &four].concat();
        assert_eq!(blocks_with(&word, &one, &answers), 0, "four bits are not enough for it");
        assert_eq!(blocks_with(&word, &two, &answers), 0b10);
        assert_eq!((one.bits(Kind::Whole), two.bits(Kind::Whole)), (Bits::Eight, Bits::Eight));
    }
}
