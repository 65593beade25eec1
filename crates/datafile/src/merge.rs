//! Merges files that are sorted by time into one.
//!
//! Flushed files mostly follow each other in time. Row groups that overlap no other are copied as
//! they are ([`RowGroupSource`]); only the rest is decoded, a page at a time where possible and row
//! by row where ranges interleave.
//!
//! Texts stay dictionary codes, so that each distinct text is processed once per row group instead
//! of once per row.
//!
//! Example: files A (ts 0–100) and B (ts 90–200) have one row group each. The groups overlap, so
//! both are decoded: rows of A before 90 are written as one run, the rows from 90 to 100 are
//! interleaved through a heap, and the rest of B is written as a run again. If B started at 101,
//! both groups would be copied, given enough rows.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use parquet::file::statistics::Statistics;
use weir_tables::TableSpec;

use crate::data_file::DataFile;
use crate::data_file_writer::DataFileWriter;
use crate::dictionary::{dictionaries, schema_with};
use crate::error::{ErrorKind, StoreError};
use crate::file_maker::{PAGE_ROWS, ROW_GROUP_ROWS, is_text_column};
use crate::file_source::{FileOpener, FileSource};
use crate::memtable::timestamps;
use crate::row_group_source::RowGroupSource;

/// Shortest run of one file that is written directly instead of being interleaved.
const RUN_MIN: usize = 256;
/// Smaller row groups are rewritten instead of copied: queries pay a cost per row group.
pub const COPY_ROWS_MIN: usize = ROW_GROUP_ROWS / 4;

/// A merge of several files into one.
pub struct FileMerge {
    inputs: Vec<MergeInput>,
    stretches: Vec<MergeStep>,
}

/// An input file.
struct MergeInput {
    path: String,
    source: FileSource,
    reading: ArrowReaderMetadata,
    donor: RowGroupSource,
}

/// Reference to a row group of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RowGroupRef {
    input: usize,
    group: usize,
}

/// Next step of the merge.
#[derive(Debug, PartialEq, Eq)]
enum MergeStep {
    /// Copy a row group with this time range.
    Copy(RowGroupRef, (i64, i64)),
    /// Decode and merge the rows of these row groups.
    Rows(Vec<RowGroupRef>),
}

/// Row group metadata available before reading.
struct RowGroupCandidate {
    place: RowGroupRef,
    /// Times of the first and last row.
    ts: (i64, i64),
    may_be_copied: bool,
}

/// Sequential read over row groups of one file.
struct RowRun<'a> {
    input: &'a MergeInput,
    groups: VecDeque<usize>,
    reader: Option<ParquetRecordBatchReader>,
    /// Current batch; rows before `at` are consumed.
    rows: RecordBatch,
    at: usize,
}

/// Interleaved rows of several files, not yet written.
struct MixedRows {
    batches: Vec<RecordBatch>,
    /// For each run, the index in `batches` of its current batch.
    of_run: Vec<Option<usize>>,
    /// Row order as (batch, row).
    order: Vec<(usize, usize)>,
}

impl FileMerge {
    /// Opens `files`, in order of arrival. Row groups of at least `copy_from` rows may be copied.
    /// `None` if the table is not sorted by time alone, or a file lacks columns of the table.
    ///
    /// # Errors
    /// `Io`: a file cannot be read.
    pub fn open(
        opener: &dyn FileOpener,
        table: &'static TableSpec,
        files: &[Arc<DataFile>],
        draft: &DataFileWriter,
        copy_from: usize,
    ) -> Result<Option<Self>, StoreError> {
        if table.sort != ["ts"] {
            return Ok(None);
        }
        let inputs = files.iter().map(|file| MergeInput::open(opener, table, file));
        let Some(inputs) = inputs.collect::<Result<Option<Vec<_>>, _>>()? else { return Ok(None) };
        let mut candidates = Vec::new();
        for (at, input) in inputs.iter().enumerate() {
            candidates.extend(input.candidates(at, table, draft.takes(&input.donor), copy_from));
        }
        Ok(Some(Self { inputs, stretches: stretches(candidates) }))
    }

    /// Writes all rows; for equal times, rows of earlier files come first.
    ///
    /// # Errors
    /// `Full`, `Io`.
    pub fn write(&self, draft: &mut DataFileWriter) -> Result<(), StoreError> {
        for stretch in &self.stretches {
            match stretch {
                MergeStep::Copy(place, ts) => {
                    let MergeInput { path, donor, .. } = &self.inputs[place.input];
                    let chunks = donor.read(place.group).map_err(|error| broken(path, &error))?;
                    draft.copy_group(donor, place.group, &chunks, *ts)?;
                }
                MergeStep::Rows(places) => self.write_rows(places, draft)?,
            }
        }
        Ok(())
    }

    fn write_rows(
        &self,
        places: &[RowGroupRef],
        draft: &mut DataFileWriter,
    ) -> Result<(), StoreError> {
        let mut runs: Vec<RowRun<'_>> = self.inputs.iter().map(RowRun::of).collect();
        for place in places {
            runs[place.input].groups.push_back(place.group);
        }
        // Next row of each file: time and file number.
        let mut next = BinaryHeap::new();
        for (place, run) in runs.iter_mut().enumerate() {
            next.extend(run.next_ts()?.map(|ts| Reverse((ts, place))));
        }
        let mut mixed = MixedRows::of(runs.len());
        while let Some(Reverse((_, place))) = next.pop() {
            let run = &mut runs[place];
            let count = run.count_before(place, next.peek());
            if count >= RUN_MIN {
                mixed.write(draft)?;
                draft.push(&run.rows.slice(run.at, count))?;
            } else {
                mixed.push(place, run, count);
                if mixed.order.len() >= PAGE_ROWS {
                    mixed.write(draft)?;
                }
            }
            run.at += count;
            if run.at == run.rows.num_rows() {
                mixed.of_run[place] = None;
            }
            next.extend(run.next_ts()?.map(|ts| Reverse((ts, place))));
        }
        mixed.write(draft)
    }
}

/// Groups row groups into steps: overlapping ones are merged, as are consecutive small ones.
fn stretches(mut candidates: Vec<RowGroupCandidate>) -> Vec<MergeStep> {
    candidates.sort_by_key(|one| (one.ts.0, one.place.input, one.place.group));
    let mut clusters: Vec<(Vec<RowGroupCandidate>, (i64, usize))> = Vec::new();
    for one in candidates {
        let (first, last) = ((one.ts.0, one.place.input), (one.ts.1, one.place.input));
        match clusters.last_mut() {
            Some((cluster, end)) if first < *end => {
                cluster.push(one);
                *end = last.max(*end);
            }
            _ => clusters.push((vec![one], last)),
        }
    }
    let mut stretches = Vec::new();
    for (cluster, _) in clusters {
        if let [RowGroupCandidate { place, ts, may_be_copied: true }] = cluster[..] {
            stretches.push(MergeStep::Copy(place, ts));
            continue;
        }
        let places = cluster.iter().map(|one| one.place);
        match stretches.last_mut() {
            Some(MergeStep::Rows(before)) => before.extend(places),
            _ => stretches.push(MergeStep::Rows(places.collect())),
        }
    }
    stretches
}

impl MergeInput {
    fn open(
        opener: &dyn FileOpener,
        table: &'static TableSpec,
        file: &DataFile,
    ) -> Result<Option<Self>, StoreError> {
        let path = file.path.clone();
        let fail = |error: ParquetError| broken(&path, &error);
        let source = opener.open_file(file);
        let source = source.map_err(|error| fail(ParquetError::External(Box::new(error))))?;
        let options = ArrowReaderOptions::new()
            .with_page_index_policy(PageIndexPolicy::Optional)
            .with_encoding_stats_as_mask(false);
        let reading = ArrowReaderMetadata::load(&source, options.clone()).map_err(fail)?;
        let footer = Arc::clone(reading.metadata());
        let stored = dictionaries(table, &footer);
        if stored.is_empty() {
            return Ok(None);
        }
        let texts = (0..stored.len())
            .filter(|place| stored[*place] && is_text_column(table, &table.columns[*place]));
        let schema = schema_with(table, &texts.collect::<Vec<_>>());
        let reading =
            ArrowReaderMetadata::try_new(Arc::clone(&footer), options.with_schema(schema));
        let reading = reading.map_err(fail)?;
        let donor = RowGroupSource::new(source.clone(), footer);
        Ok(Some(Self { path, source, reading, donor }))
    }

    fn candidates(
        &self,
        input: usize,
        table: &TableSpec,
        is_donor: bool,
        copy_from: usize,
    ) -> impl Iterator<Item = RowGroupCandidate> {
        let footer = self.reading.metadata();
        footer.row_groups().iter().enumerate().map(move |(group, of)| {
            let is_large = usize::try_from(of.num_rows()).is_ok_and(|rows| rows >= copy_from);
            let ts = times(table, footer, group);
            RowGroupCandidate {
                place: RowGroupRef { input, group },
                ts: ts.unwrap_or((i64::MIN, i64::MAX)),
                may_be_copied: is_donor && is_large && ts.is_some(),
            }
        })
    }
}

/// Time range of a row group from its statistics.
fn times(table: &TableSpec, footer: &ParquetMetaData, group: usize) -> Option<(i64, i64)> {
    let columns = footer.row_group(group).columns();
    let ts = columns.iter().find(|column| column.column_path().parts() == [table.sort[0]])?;
    match ts.statistics()? {
        Statistics::Int64(of) => Some((*of.min_opt()?, *of.max_opt()?)),
        _ => None,
    }
}

impl<'a> RowRun<'a> {
    fn of(input: &'a MergeInput) -> Self {
        let rows = RecordBatch::new_empty(Arc::clone(input.reading.schema()));
        Self { input, groups: VecDeque::new(), reader: None, rows, at: 0 }
    }

    /// Time of the next row; `None` at the end.
    fn next_ts(&mut self) -> Result<Option<i64>, StoreError> {
        while self.at == self.rows.num_rows() {
            let fail = |error| broken(&self.input.path, &error);
            match self.reader.as_mut().and_then(Iterator::next) {
                Some(rows) => {
                    self.rows = rows.map_err(|error| fail(error.into()))?;
                    self.at = 0;
                }
                None => {
                    let Some(group) = self.groups.pop_front() else { return Ok(None) };
                    self.reader = Some(self.input.read(group).map_err(fail)?);
                }
            }
        }
        Ok(Some(timestamps(&self.rows)[self.at]))
    }

    /// Number of rows that precede `other`, the next row of another file.
    fn count_before(&self, place: usize, other: Option<&Reverse<(i64, usize)>>) -> usize {
        let ts = &timestamps(&self.rows)[self.at..];
        other.map_or(ts.len(), |Reverse(other)| ts.partition_point(|ts| (*ts, place) < *other))
    }
}

impl MergeInput {
    /// Opens one reader per row group, so that no batch mixes two dictionaries.
    fn read(&self, group: usize) -> Result<ParquetRecordBatchReader, ParquetError> {
        let (source, reading) = (self.source.clone(), self.reading.clone());
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(source, reading);
        reader.with_row_groups(vec![group]).with_batch_size(PAGE_ROWS).build()
    }
}

impl MixedRows {
    fn of(runs: usize) -> Self {
        Self { batches: Vec::new(), of_run: vec![None; runs], order: Vec::new() }
    }

    /// Queues the next `count` rows of a file.
    fn push(&mut self, place: usize, run: &RowRun<'_>, count: usize) {
        let batch = *self.of_run[place].get_or_insert_with(|| {
            self.batches.push(run.rows.clone());
            self.batches.len() - 1
        });
        self.order.extend((run.at..run.at + count).map(|row| (batch, row)));
    }

    fn write(&mut self, draft: &mut DataFileWriter) -> Result<(), StoreError> {
        if !self.order.is_empty() {
            draft.push_chosen(&self.batches, &self.order)?;
            self.batches.clear();
            self.order.clear();
            self.of_run.fill(None);
        }
        Ok(())
    }
}

fn broken(path: &str, error: &ParquetError) -> StoreError {
    StoreError::new(ErrorKind::Io, format!("cannot read `{path}`: {error}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use arrow_array::UInt32Array;
    use arrow_schema::DataType;
    use arrow_select::concat::concat_batches;
    use arrow_select::take::take_record_batch;
    use weir_tables::{Log, LogRows, Micros, Request, Rows as _, Sysctl};

    use super::*;
    use crate::file_maker::FileMaker;
    use crate::read_back::{check_index, read};

    struct TestFiles {
        dir: tempfile::TempDir,
        maker: FileMaker,
        files: Vec<Arc<DataFile>>,
    }

    impl TestFiles {
        /// Writes one file per batch.
        fn of(batches: &[RecordBatch]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let maker = FileMaker::new(dir.path().to_owned(), 1);
            let files = batches
                .iter()
                .map(|rows| {
                    maker
                        .write(&Log::SPEC, std::slice::from_ref(rows), Micros(5))
                        .unwrap()
                        .remove(0)
                })
                .collect();
            Self { dir, maker, files }
        }

        /// Merges the files; returns the number of copied row groups and the merged file.
        fn merge(&self, copy_from: usize) -> Result<(usize, Arc<DataFile>), StoreError> {
            let mut draft = self.maker.draft(&Log::SPEC, 0, Micros(5)).unwrap();
            let merge = FileMerge::open(self, &Log::SPEC, &self.files, &draft, copy_from)?;
            let merge = merge.unwrap();
            for input in &merge.inputs {
                let host = input.reading.schema().field_with_name("host").unwrap();
                assert!(matches!(host.data_type(), DataType::Dictionary(..)));
            }
            merge.write(&mut draft)?;
            Ok((
                merge
                    .stretches
                    .iter()
                    .filter(|stretch| matches!(stretch, MergeStep::Copy(..)))
                    .count(),
                draft.finish()?,
            ))
        }
    }

    impl FileOpener for TestFiles {
        fn open_file(&self, file: &DataFile) -> std::io::Result<FileSource> {
            FileSource::of_file(std::fs::File::open(self.dir.path().join(&file.path))?)
        }
    }

    /// Writes each batch to a file, merges the files and compares the result with the sorted rows.
    /// Returns the copied and total row group counts.
    fn check(batches: &[RecordBatch], copy_from: usize) -> (usize, usize) {
        let files = TestFiles::of(batches);
        let (copied, merged) = files.merge(copy_from).unwrap();
        let (rows, footer, bytes) = read(files.dir.path(), &merged);
        let all = concat_batches(&Log::SPEC.schema(), batches).unwrap();
        let mut order: Vec<u32> = (0..u32::try_from(all.num_rows()).unwrap()).collect();
        order.sort_by_key(|row| timestamps(&all)[*row as usize]);
        let sorted = take_record_batch(&all, &UInt32Array::from(order)).unwrap();
        assert_eq!(rows.columns(), sorted.columns());
        assert_eq!(merged.row_count, sorted.num_rows() as u64);
        let ts = timestamps(&sorted);
        assert_eq!((merged.min_ts, merged.max_ts), (ts[0], ts[ts.len() - 1]));
        check_index(&rows, &footer, &bytes);
        let host = Log::SPEC.columns.iter().position(|column| column.name == "host").unwrap();
        assert!(dictionaries(&Log::SPEC, &footer)[host], "copies say how they are encoded");
        (copied, footer.num_row_groups())
    }

    /// Builds batches from (first time, time step, row count).
    fn batches(files: &[(i64, i64, usize)]) -> Vec<RecordBatch> {
        files.iter().enumerate().map(log_batch).collect()
    }

    fn log_batch((file, (first, step, count)): (usize, &(i64, i64, usize))) -> RecordBatch {
        let mut rows = LogRows::default();
        for number in 0..*count {
            // One file has unique texts that overflow the dictionary.
            let body = match file {
                1 => format!("Order {number} was sent to {}", "a customer ".repeat(6)),
                _ => format!("Order {} of {file} was sent", number % 700),
            };
            rows.push(&Log {
                ts: Micros(first + step * i64::try_from(number).unwrap()),
                host: ["web1", "web2"][file % 2],
                source: "/var/log/app.log",
                body: &body,
                severity: (number % 3 == 0).then_some(["info", "warn"][number % 2]),
                attrs: &[("level", "low")][..number % 2],
                ..Default::default()
            });
        }
        rows.finish()
    }

    #[test]
    fn rows_come_in_order_whether_files_follow_each_other_or_overlap() {
        // Files that follow each other, overlap by a few rows, interleave, and nest.
        let files = [(0, 1, 20_000), (19_500, 1, 140_000), (500, 400, 300), (30_000, 1, 9000)];
        let (copied, _) = check(&batches(&files), COPY_ROWS_MIN);
        assert_eq!(copied, 0, "a file overlaps all others, and the last row group is small");
    }

    #[test]
    fn row_groups_that_overlap_no_other_are_copied() {
        // A full row group and a remainder, which merges with the small file after it; a file that
        // begins at the last time of those; two overlapping files.
        let files = [
            (0, 1, 140_000),
            (139_999, 1, 500),
            (140_498, 1, 40_000),
            (190_000, 1, 40_000),
            (195_000, 1, 100),
        ];
        assert_eq!(check(&batches(&files), COPY_ROWS_MIN), (2, 4));
    }

    #[test]
    fn merged_files_are_merged_again() {
        let mut files = TestFiles::of(&batches(&[(0, 1, 9000), (9000, 1, 100), (9100, 1, 8500)]));
        let (copied, merged) = files.merge(1).unwrap();
        assert_eq!(copied, 3);
        let last = files.maker.write(&Log::SPEC, &batches(&[(20_000, 1, 10)]), Micros(5)).unwrap();
        files.files = [&[merged][..], &last].concat();
        let (copied, again) = files.merge(1).unwrap();
        let (rows, footer, bytes) = read(files.dir.path(), &again);
        let groups: Vec<i64> = footer.row_groups().iter().map(|group| group.num_rows()).collect();
        assert_eq!((copied, &groups[..]), (4, &[9000, 100, 8500, 10][..]));
        check_index(&rows, &footer, &bytes);
    }

    #[test]
    fn damage_is_not_copied() {
        let files = TestFiles::of(&batches(&[(0, 1, 9000), (9000, 1, 9000)]));
        let path = files.dir.path().join(&files.files[1].path);
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&[0xa5; 64], 4000).unwrap();
        let error = files.merge(1).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Io);
        assert!(error.message.contains(&files.files[1].path), "{}", error.message);
    }

    #[test]
    fn any_files_are_merged() {
        arbtest::arbtest(|u| {
            let mut batches = Vec::new();
            for _ in 0..u.int_in_range(1..=5)? {
                let mut rows = LogRows::default();
                let (first, spread) = (u.int_in_range(0..=4)? * 500, *u.choose(&[3, 700, 2000])?);
                for _ in 0..u.int_in_range(1..=600)? {
                    let ts = Micros(first + u.int_in_range(0..=spread)?);
                    let body = *u.choose(&["", "a", "b is c"])?;
                    let severity = u.ratio(1, 3)?.then_some(body);
                    rows.push(&Log { ts, host: "web1", body, severity, ..Default::default() });
                }
                batches.push(rows.finish());
            }
            check(&batches, u.int_in_range(1..=600)?);
            Ok(())
        })
        .budget_ms(2000);
    }

    #[test]
    fn other_orders_are_not_for_it_and_a_broken_file_is_named() {
        let nothing = TestFiles::of(&[]);
        let maker = &nothing.maker;
        let draft = maker.draft(&Sysctl::SPEC, 0, Micros(5)).unwrap();
        assert!(FileMerge::open(&nothing, &Sysctl::SPEC, &[], &draft, 1).unwrap().is_none());
        let draft = maker.draft(&Request::SPEC, 0, Micros(5)).unwrap();
        let file = Arc::new(DataFile::new(7, &Request::SPEC, "data/request/7.parquet".to_owned()));
        let error = FileMerge::open(&nothing, &Request::SPEC, &[file], &draft, 1).err().unwrap();
        assert_eq!(error.kind, ErrorKind::Io);
        assert!(error.message.contains("`data/request/7.parquet`"), "{}", error.message);
    }
}
