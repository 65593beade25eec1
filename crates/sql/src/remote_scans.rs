//! Splits files in slow storage into many partitions that are read concurrently.
//!
//! Where a request takes a tenth of a second, a query that reads one row group after the other
//! mostly waits. So the rows that the text index selected in such files are split at row groups and
//! distributed over more partitions than there are threads.

use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use weir_datafile::Tier;
use weir_datafile::text_index::group_rows;
use weir_tier::FileLocations;

use crate::file_access::ScanPart;

/// Partitions per thread.
const LANES: usize = 16;

/// Splits remote files, and returns the number of partitions to distribute parts over. A
/// single-partition query stays in one partition.
pub(crate) fn deal(
    places: &FileLocations,
    parts: Vec<ScanPart>,
    threads: usize,
) -> (Vec<ScanPart>, usize) {
    let is_far = places.slow.as_ref().is_some_and(|slow| slow.is_far())
        && parts.iter().any(|part| part.file.tier == Tier::Slow);
    if !is_far || threads < 2 {
        return (parts, threads);
    }
    (parts.into_iter().flat_map(cut).collect(), threads * LANES)
}

/// One part per row group with selected rows; a file without a row selection stays whole.
fn cut(part: ScanPart) -> Vec<ScanPart> {
    let Some((rows, counts)) = part.rows.as_ref().filter(|_| part.file.tier == Tier::Slow) else {
        return vec![part];
    };
    let (mut left, mut before) = (rows.clone(), 0);
    let total: usize = rows.iter().map(|selector| selector.row_count).sum();
    let mut parts = Vec::new();
    for count in &*group_rows(&part.file) {
        let count = (*count).min(total - before);
        let group = left.split_off(count);
        if group.selects_any() {
            let selectors = std::iter::once(RowSelector::skip(before)).chain(group.iter().copied());
            let end = RowSelector::skip(total - before - count);
            let rows = RowSelection::from(selectors.chain([end]).collect::<Vec<_>>());
            parts.push(ScanPart { rows: Some((rows, counts.clone())), ..part.clone() });
        }
        before += count;
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Once};

    use weir_datafile::text_index::TextIndex;
    use weir_datafile::{DataFile, ROW_GROUP_ROWS};

    use super::*;
    use crate::index_probe::BlockCounts;

    fn part(selectors: Vec<RowSelector>) -> ScanPart {
        let table = weir_tables::table("log").unwrap();
        let row_count = selectors.iter().map(|selector| selector.row_count as u64).sum();
        let file = DataFile::new(1, table, "x.parquet".to_owned());
        let file = DataFile { tier: Tier::Slow, row_count, ..file };
        let counts = BlockCounts { kept: 1, left_out: 1, counted: Arc::new(Once::new()) };
        ScanPart { rows: Some((selectors.into(), counts)), ..ScanPart::whole(&Arc::new(file)) }
    }

    #[test]
    fn parts_end_at_row_groups_of_fewer_rows() {
        let whole =
            part(vec![RowSelector::select(3), RowSelector::skip(40), RowSelector::select(7)]);
        let index = TextIndex { group_rows: vec![40, 5, 5], ..TextIndex::default() };
        whole.file.index.set(Some(index)).unwrap();
        let counts: Vec<usize> =
            cut(whole).iter().map(|part| part.rows.as_ref().unwrap().0.row_count()).collect();
        assert_eq!(counts, [3, 2, 5]);
    }

    #[test]
    fn parts_end_at_row_groups_and_have_the_rows_of_the_whole() {
        let (skip, select, group) = (RowSelector::skip, RowSelector::select, ROW_GROUP_ROWS);
        let whole = vec![select(10), skip(2 * group), select(group), skip(5)];
        let parts = cut(part(whole.clone()));
        assert_eq!(parts.len(), 3, "the second row group has none");
        let all = parts.iter().map(rows_of).reduce(|one, other| one.union(&other)).unwrap();
        assert_eq!(all, RowSelection::from(whole));
        let total = 3 * group + 15;
        for part in &parts {
            let count: usize = rows_of(part).iter().map(|selector| selector.row_count).sum();
            assert_eq!(count, total);
        }
    }

    fn rows_of(part: &ScanPart) -> RowSelection {
        part.rows.as_ref().unwrap().0.clone()
    }
}
