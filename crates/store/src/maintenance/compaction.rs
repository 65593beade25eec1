//! Compaction: merges the many small files of a day into few, in the table's sort order, without
//! holding them in memory.
//!
//! Every file is sorted, so a merge reads each one sequentially and keeps one batch per file.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_datafile::{COPY_ROWS_MIN, DataFile, FileMaker, FileMerge, StoreError, Tier};
use weir_sql::QueryEngine;
use weir_tables::{Micros, TableSpec};
use weir_tier::FileLocations;

use crate::options::StoreOptions;

/// Maximum number of files per merge: each holds a batch and a file handle.
const MERGE_FILES_MAX: usize = 64;
/// Maximum input bytes of a merge, so that it ends within seconds.
const MERGE_BYTES_MAX: u64 = 256 << 20;

/// Groups files of one day that are to be merged into one file each.
pub(crate) fn plan(files: &[Arc<DataFile>], options: &StoreOptions) -> Vec<Vec<Arc<DataFile>>> {
    small_files(files, options)
        .into_values()
        .filter(|small| small.len() > options.small_file_count)
        .map(first_group)
        .collect()
}

/// The largest number of small files of any one day.
pub(crate) fn most_small(files: &[Arc<DataFile>], options: &StoreOptions) -> usize {
    small_files(files, options).values().map(Vec::len).max().unwrap_or_default()
}

/// Small files by day; files in the cold tier are not merged.
fn small_files(
    files: &[Arc<DataFile>],
    options: &StoreOptions,
) -> BTreeMap<i64, Vec<Arc<DataFile>>> {
    let mut days: BTreeMap<i64, Vec<Arc<DataFile>>> = BTreeMap::new();
    // In a cluster all files are in the shared place.
    let tier = if options.cluster.is_some() { Tier::Slow } else { Tier::Local };
    let is_small =
        |file: &DataFile| file.tier == tier && file.byte_count < options.small_file_bytes;
    for file in files.iter().filter(|file| is_small(file)) {
        days.entry(file.day).or_default().push(Arc::clone(file));
    }
    days
}

/// The smallest files first, within the limits of one merge.
fn first_group(mut small: Vec<Arc<DataFile>>) -> Vec<Arc<DataFile>> {
    small.sort_by_key(|file| (file.byte_count, file.id));
    let mut bytes = 0;
    let fitting = small.into_iter().take(MERGE_FILES_MAX).take_while(|file| {
        bytes += file.byte_count;
        bytes <= MERGE_BYTES_MAX
    });
    fitting.collect()
}

/// Merges the rows of `files` into one new file, durable, not yet in the manifest.
///
/// # Errors
/// `Full`, `Io`, `Corrupt`.
pub(crate) fn merge(
    engine: &QueryEngine,
    places: &FileLocations,
    maker: &FileMaker,
    table: &'static TableSpec,
    files: &[Arc<DataFile>],
) -> Result<Arc<DataFile>, StoreError> {
    let day = files.iter().map(|file| file.day).min().expect("a group is not empty");
    let arrival = files.iter().map(|file| file.arrival_ts).max().expect("a group is not empty");
    let mut draft = maker.draft(table, day, Micros(arrival))?;
    let mut files = files.to_vec();
    // Rows with equal times stay in arrival order.
    files.sort_by_key(|file| file.id);
    match FileMerge::open(places, table, &files, &draft, COPY_ROWS_MIN)? {
        Some(merge) => merge.write(&mut draft)?,
        None => engine.read_sorted(table, &files, |rows| draft.push(rows))?,
    }
    draft.finish()
}

#[cfg(test)]
mod tests {
    use weir_tables::{FixedClock, Log};

    use super::*;

    fn file(id: i64, day: i64, byte_count: u64) -> Arc<DataFile> {
        let file = DataFile::new(id, &Log::SPEC, String::new());
        Arc::new(DataFile { day, row_count: 1, byte_count, ..file })
    }

    #[test]
    fn only_days_with_too_many_small_files_are_merged() {
        let options = StoreOptions {
            small_file_count: 2,
            small_file_bytes: 100,
            ..StoreOptions::new("", Arc::new(FixedClock::default()))
        };
        let files = [
            file(1, 5, 50),
            file(2, 5, 20),
            file(3, 5, 100),
            file(4, 6, 1),
            file(5, 6, 1),
            file(6, 5, 99),
        ];
        let ids: Vec<Vec<i64>> = plan(&files, &options)
            .iter()
            .map(|group| group.iter().map(|file| file.id).collect())
            .collect();
        assert_eq!(ids, [[2, 1, 6]]);
    }
}
