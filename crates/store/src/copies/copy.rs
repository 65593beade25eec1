//! A copy: the rows of one table in the order of acknowledgement, from a position that survives
//! restarts.
//!
//! A copy reads the write-ahead log, which holds every row once and in order. Flushed rows stay in
//! the log for as long as a copy needs them (`segments.rs`).

use std::collections::VecDeque;
use std::fs::File;
use std::io::ErrorKind as Io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;
use weir_datafile::{
    ErrorKind, RECORD_BYTES_MAX, RECORD_HEAD_BYTES, SEGMENT_HEAD_BYTES, StoreError, checked_parcel,
    record_length,
};
use weir_sql::Condition;
use weir_tables::{CopiedRows, LogPosition, Parcel, TableSpec};

use crate::copies::positions::{CopyPositions, CopyState};
use crate::write_path::adapt::adapt;
use crate::write_path::segments::{SegmentOffset, SegmentStart, Segments};
use crate::write_path::shared::StoreState;
use crate::write_path::wal::path_of;

/// Rows per batch, before the condition is applied.
const ROWS_AT_ONCE: usize = 1024;
/// [`Copy::read`] returns after this even without a match, so that its position advances.
const SEARCH: Duration = Duration::from_millis(200);

/// A reader of the log with a durable position.
pub struct Copy {
    pub(crate) name: String,
    pub(crate) table: &'static TableSpec,
    pub(crate) condition: Option<Condition>,
    /// Bytes of the log that may wait to be copied.
    pub(crate) keep_bytes: u64,
    pub(crate) shared: Arc<StoreState>,
    pub(crate) positions: Arc<CopyPositions>,
    pub(crate) state: CopyState,
    pub(crate) log: LogReader,
    /// Rows of the last record that are not returned yet.
    pub(crate) waiting: Option<WaitingRecord>,
    /// Records that were read and not acknowledged as copied.
    pub(crate) unsettled: VecDeque<RecordAt>,
}

/// Location of a record in the log.
pub(crate) struct RecordAt {
    sequence: u64,
    segment: u64,
    offset: u64,
}

/// The remaining rows of a record.
pub(crate) struct WaitingRecord {
    rows: Vec<RecordBatch>,
    sequence: u64,
    /// Rows of the record that precede `rows`.
    row: u64,
}

impl Copy {
    /// Waits for the next rows and returns them; a result without rows means that only other rows
    /// arrived for a while. `None` when nothing arrived within `patience`. Blocks.
    ///
    /// # Errors
    /// `Io`, `Corrupt`: the log cannot be read there now.
    pub fn read(&mut self, patience: Duration) -> Result<Option<CopiedRows>, StoreError> {
        if !self.is_ready(patience) {
            return Ok(None);
        }
        let start = Instant::now();
        loop {
            let rows = self.advance()?;
            let is_dry = !self.is_ready(Duration::ZERO);
            if rows.rows.num_rows() > 0
                || rows.lost_records > 0
                || is_dry
                || start.elapsed() > SEARCH
            {
                return Ok(Some(rows));
            }
        }
    }

    fn is_ready(&self, patience: Duration) -> bool {
        self.waiting.is_some() || self.log.segments.wait(self.log.sequence, patience)
    }

    /// Returns waiting rows, or reads one record.
    fn advance(&mut self) -> Result<CopiedRows, StoreError> {
        let mut lost_records = 0;
        if self.waiting.is_none() {
            lost_records = self.read_record()?;
        }
        let waiting = self.waiting.as_mut().expect("it was just read");
        let (sequence, first) = (waiting.sequence, waiting.row);
        let rows = waiting.take(ROWS_AT_ONCE);
        let mut next = LogPosition { sequence, row: waiting.row };
        if waiting.rows.is_empty() {
            self.waiting = None;
            next = LogPosition { sequence: sequence + 1, row: 0 };
        }
        let rows = rows.unwrap_or_else(|| RecordBatch::new_empty(self.table.schema()));
        let (rows, numbers) = self.choose(rows)?;
        Ok(CopiedRows {
            rows,
            places: numbers
                .into_iter()
                .map(|number| LogPosition { sequence, row: first + number })
                .collect(),
            next,
            lost_records,
        })
    }

    /// Reads one record; returns how many records before it are lost.
    fn read_record(&mut self) -> Result<u64, StoreError> {
        let before = self.log.sequence;
        let record = self.log.next()?;
        let bytes = record.bytes.len() as u64;
        self.unsettled.push_back(RecordAt {
            sequence: record.sequence,
            segment: self.log.place.segment,
            offset: self.log.offset.saturating_sub(bytes),
        });
        let mut lost_records = record.sequence - before;
        let rows = self.rows_of(&record).unwrap_or_else(|error| {
            tracing::error!("cannot copy a record of the log: {error}");
            lost_records += 1;
            Vec::new()
        });
        let waiting =
            self.waiting.insert(WaitingRecord { rows, sequence: record.sequence, row: 0 });
        if record.sequence == self.state.done.sequence {
            waiting.skip(self.state.done.row);
        }
        Ok(lost_records)
    }

    fn rows_of(&self, record: &CopiedRecord) -> Result<Vec<RecordBatch>, StoreError> {
        let parcel = Parcel::decode_table(record.parcel(), self.table);
        let parcel = adapt(parcel.map_err(StoreError::bad_parcel)?)?;
        let rows = parcel.batches.into_iter().map(|batch| batch.rows);
        Ok(rows.filter(|rows| rows.num_rows() > 0).collect())
    }

    /// Filters rows by the condition; returns the matches and their row numbers.
    fn choose(&self, rows: RecordBatch) -> Result<(RecordBatch, Vec<u64>), StoreError> {
        let Some(condition) = &self.condition else {
            let numbers = (0..rows.num_rows() as u64).collect();
            return Ok((rows, numbers));
        };
        let chosen: BooleanArray = condition.choose(&rows)?;
        let numbers = (0..).zip(&chosen).filter(|(_, is_chosen)| *is_chosen == Some(true));
        let numbers = numbers.map(|(number, _)| number).collect();
        let rows = filter_record_batch(&rows, &chosen).expect("as long as the rows");
        Ok((rows, numbers))
    }

    /// Sequence number after the log's last record.
    pub fn end(&self) -> u64 {
        self.log.segments.end()
    }

    /// Position up to which everything is copied.
    pub fn position(&self) -> LogPosition {
        self.state.done
    }

    /// Identifies this copy: with a log position it names a row uniquely for ever.
    pub fn epoch(&self) -> u64 {
        self.state.epoch.cast_unsigned()
    }

    /// The end of a batch that was planned and not finished before the last restart.
    pub fn planned(&self) -> Option<LogPosition> {
        Some(self.state.planned).filter(|planned| *planned > self.state.done)
    }

    /// Records that a batch up to `to` is about to be copied.
    ///
    /// # Errors
    /// `Io`, `Full`, `Corrupt`.
    pub fn plan(&mut self, to: LogPosition) -> Result<(), StoreError> {
        self.save(CopyState { planned: to, ..self.state })
    }

    /// Records that everything before `to` is copied; the log may drop it.
    ///
    /// # Errors
    /// `Io`, `Full`, `Corrupt`.
    pub fn done(&mut self, to: LogPosition) -> Result<(), StoreError> {
        self.save(CopyState { done: to, ..self.state })?;
        self.log.segments.need(&self.name, to.sequence);
        while self.unsettled.front().is_some_and(|record| record.sequence < to.sequence) {
            self.unsettled.pop_front();
        }
        Ok(())
    }

    fn save(&mut self, state: CopyState) -> Result<(), StoreError> {
        self.positions.save(&self.name, &state)?;
        self.state = state;
        Ok(())
    }

    /// Bytes of the log from the first record that is not copied completely.
    pub fn lag_bytes(&self) -> u64 {
        let first = self.unsettled.front();
        first.map_or_else(
            || self.unread_bytes(),
            |first| {
                self.log
                    .segments
                    .bytes_behind(SegmentOffset { segment: first.segment, offset: first.offset })
            },
        )
    }

    fn unread_bytes(&self) -> u64 {
        let place = SegmentOffset { segment: self.log.place.segment, offset: self.log.offset };
        self.log.segments.bytes_behind(place)
    }

    /// Whether the backlog exceeds its limit, or the disk is full while this copy retains log
    /// segments.
    pub fn is_over(&self) -> bool {
        self.lag_bytes() > self.keep_bytes || self.fills_the_disk(self.state.done.sequence)
    }

    /// Whether to keep discarding the oldest rows: until a quarter of the backlog limit is free
    /// again, and the rows read so far retain no segment on a full disk.
    pub fn is_still_over(&self) -> bool {
        self.unread_bytes() > self.keep_bytes / 4 * 3 || self.fills_the_disk(self.log.sequence)
    }

    fn fills_the_disk(&self, sequence: u64) -> bool {
        self.shared.is_full() && self.log.segments.is_held_from(sequence)
    }
}

impl WaitingRecord {
    /// Takes the next rows of the waiting record.
    fn take(&mut self, count: usize) -> Option<RecordBatch> {
        let first = self.rows.first()?;
        let count = count.min(first.num_rows());
        let taken = first.slice(0, count);
        let rest = first.slice(count, first.num_rows() - count);
        if rest.num_rows() == 0 {
            self.rows.remove(0);
        } else {
            self.rows[0] = rest;
        }
        self.row += count as u64;
        Some(taken)
    }

    fn skip(&mut self, rows: u64) {
        while self.row < rows {
            let left = usize::try_from(rows - self.row).unwrap_or(usize::MAX);
            if self.take(left).is_none() {
                return;
            }
        }
    }
}

/// Reads the records of the log sequentially.
pub(crate) struct LogReader {
    dir: PathBuf,
    segments: Arc<Segments>,
    place: SegmentStart,
    file: Option<File>,
    /// Offset of the next record in the file.
    offset: u64,
    /// Sequence number of the next record.
    sequence: u64,
}

/// A record with its header, as the log stores it.
struct CopiedRecord {
    bytes: Vec<u8>,
    sequence: u64,
}

impl CopiedRecord {
    fn parcel(&self) -> &[u8] {
        &self.bytes[RECORD_HEAD_BYTES..]
    }
}

impl LogReader {
    /// Makes a reader that starts at record `sequence`.
    pub(crate) fn new(dir: PathBuf, segments: Arc<Segments>, sequence: u64) -> Self {
        let place =
            segments.place(sequence).unwrap_or(SegmentStart { segment: 0, first_sequence: 0 });
        Self { dir, segments, place, file: None, offset: SEGMENT_HEAD_BYTES as u64, sequence }
    }

    /// Reads record `sequence`, or the first existing record after it.
    ///
    /// # Errors
    /// `Io`; `Corrupt` when the record is damaged and there is no later segment.
    fn next(&mut self) -> Result<CopiedRecord, StoreError> {
        loop {
            if self.file.is_none() {
                self.open()?;
            }
            if let Some(record) = self.record()? {
                self.offset += record.bytes.len() as u64;
                self.sequence += 1;
                return Ok(record);
            }
            let Some(next) = self.segments.after(self.place.segment) else {
                let path = path_of(&self.dir, self.place.segment);
                let text = format!("cannot read `{}` at byte {}", path.display(), self.offset);
                return Err(StoreError::new(ErrorKind::Corrupt, text));
            };
            self.enter(next);
        }
    }

    fn enter(&mut self, place: SegmentStart) {
        if place.first_sequence > self.sequence {
            let lost = place.first_sequence - self.sequence;
            tracing::warn!(lost, "records of the log are gone before they were copied");
            self.sequence = place.first_sequence;
        }
        (self.place, self.file) = (place, None);
        self.offset = SEGMENT_HEAD_BYTES as u64;
    }

    /// Opens the segment of record `sequence` and skips the records before it.
    fn open(&mut self) -> Result<(), StoreError> {
        self.enter(self.segments.place(self.sequence).unwrap_or(self.place));
        let path = path_of(&self.dir, self.place.segment);
        let file = File::open(&path).map_err(|error| StoreError::io("open", &path, &error))?;
        for _ in self.place.first_sequence..self.sequence {
            let Some(head) = self.head(&file)? else { break };
            self.offset += (RECORD_HEAD_BYTES + record_length(&head)) as u64;
        }
        self.file = Some(file);
        Ok(())
    }

    /// Reads the record header at `offset`; `None` at the end of the segment.
    fn head(&self, file: &File) -> Result<Option<[u8; RECORD_HEAD_BYTES]>, StoreError> {
        let mut head = [0; RECORD_HEAD_BYTES];
        match file.read_exact_at(&mut head, self.offset) {
            Ok(()) => Ok(Some(head)),
            Err(error) if error.kind() == Io::UnexpectedEof => Ok(None),
            Err(error) => Err(self.fail(&error)),
        }
    }

    /// Reads the record at `offset`; `None` unless it is complete and has the right number.
    fn record(&self) -> Result<Option<CopiedRecord>, StoreError> {
        let file = self.file.as_ref().expect("it was opened before");
        let Some(head) = self.head(file)? else { return Ok(None) };
        let length = record_length(&head);
        if length > RECORD_BYTES_MAX {
            return Ok(None);
        }
        let mut bytes = vec![0; RECORD_HEAD_BYTES + length];
        match file.read_exact_at(&mut bytes, self.offset) {
            Err(error) if error.kind() == Io::UnexpectedEof => return Ok(None),
            outcome => outcome.map_err(|error| self.fail(&error))?,
        }
        let is_whole = checked_parcel(&bytes, self.sequence).is_some();
        Ok(is_whole.then_some(CopiedRecord { bytes, sequence: self.sequence }))
    }

    fn fail(&self, error: &std::io::Error) -> StoreError {
        StoreError::io("read", &path_of(&self.dir, self.place.segment), error)
    }
}
