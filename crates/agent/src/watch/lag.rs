//! Rows of `ship`: how far every followed log is, and how long its oldest byte waits.
//!
//! The tailer knows only sizes and positions. This module records when a byte was first seen as
//! marks (time, size): the oldest mark above the acknowledged position gives the age of the
//! backlog. An idle stream needs no mark.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use weir_collect::logs::{StatusChanges, StatusKey, StreamStatus, TailEvent};
use weir_tables::{Batch, Micros, Rows, Ship, ShipRows, StreamId};

use super::line_age::{AgesOf, LineAges};

/// How often rows are written.
const EVERY: Duration = Duration::from_secs(10);
/// How often a stream that rests is written again.
const REPEAT: Duration = Duration::from_secs(300);
/// Marks of one stream; beyond it every second one is dropped, and some waits look shorter by one
/// step.
const MAX_MARKS: usize = 64;

struct ShipStream {
    status: StreamStatus,
    /// When the stream was first seen this long.
    marks: VecDeque<(Micros, u64)>,
    written: Option<(Micros, u64)>,
}

/// Keeps what the rows need from one look to the next.
#[derive(Default)]
pub(super) struct ShipLog {
    streams: BTreeMap<StatusKey, ShipStream>,
    lost: HashMap<Arc<str>, u64>,
    deleted: HashMap<Arc<str>, u64>,
    ages: AgesOf,
    /// Start times of the stretches of lines that were reported as late.
    behind: HashMap<Arc<str>, Micros>,
    /// Whether the last rows reported a writer on a deleted file: the first report is immediate.
    had_deleted: bool,
    next: Micros,
}

impl ShipLog {
    /// Remembers what is lost until the next rows tell it.
    pub(super) fn note(&mut self, event: &TailEvent) {
        match event {
            TailEvent::Gap(gap) if gap.lost_bytes > 0 => {
                *self.lost.entry(Arc::clone(&gap.path)).or_default() += gap.lost_bytes;
            }
            TailEvent::WriterOnDeleted { path, size } => {
                self.deleted.insert(Arc::clone(path), *size);
            }
            _ => {}
        }
    }

    /// Remembers how old the last lines were until the next rows tell it.
    pub(super) fn note_ages(&mut self, ages: AgesOf) {
        self.ages.extend(ages);
    }

    /// Whether a log has begun to be behind, which no row has told yet.
    fn is_behind_news(&self) -> bool {
        let is_told = |path, ages: LineAges| self.behind.get(path) == Some(&ages.begun());
        self.ages.iter().any(|(path, ages)| ages.is_behind() && !is_told(path, *ages))
    }

    /// Takes what changed, once a second or so; gives rows when they are due.
    pub(super) fn look(
        &mut self,
        host: &str,
        changes: &StatusChanges,
        now: Micros,
    ) -> Option<Batch> {
        for key in &changes.gone {
            self.streams.remove(key);
            self.behind.remove(&key.0);
        }
        for status in &changes.changed {
            let key = (Arc::clone(&status.path), status.stream);
            let new =
                || ShipStream { status: status.clone(), marks: VecDeque::new(), written: None };
            let stream = self.streams.entry(key).or_insert_with(new);
            stream.status.clone_from(status);
            stream.mark(now);
        }
        let is_news = !self.deleted.is_empty() && !self.had_deleted || self.is_behind_news();
        if now < self.next && !is_news {
            return None;
        }
        self.had_deleted = !self.deleted.is_empty();
        self.next = now + EVERY;
        for (path, ages) in &self.ages {
            if ages.is_behind() {
                self.behind.insert(Arc::clone(path), ages.begun());
            } else {
                self.behind.remove(path);
            }
        }
        let mut rows = ShipRows::default();
        for stream in self.streams.values_mut() {
            let path = &stream.status.path;
            let told = ShipReport {
                lost_bytes: self.lost.remove(path).unwrap_or_default(),
                deleted_bytes: self.deleted.remove(path).unwrap_or_default(),
                ages: self.ages.remove(path),
            };
            stream.push(host, told, now, &mut rows);
        }
        self.lost.clear();
        self.deleted.clear();
        self.ages.clear();
        (!rows.is_empty()).then(|| Batch { table: ShipRows::SPEC, rows: rows.finish() })
    }
}

/// The figures of a log since the row before.
struct ShipReport {
    lost_bytes: u64,
    deleted_bytes: u64,
    ages: Option<LineAges>,
}

impl ShipStream {
    fn push(&mut self, host: &str, told: ShipReport, now: Micros, rows: &mut ShipRows) {
        let ShipReport { lost_bytes, deleted_bytes, ages } = told;
        let seconds = ages.map(LineAges::seconds);
        let status = &self.status;
        let lag_seconds = self.marks.front().map_or(0.0, |(at, _)| now.seconds_since(*at));
        if status.stream.is_some() {
            let is_resting = status.lag_bytes == 0 && lost_bytes == 0 && deleted_bytes == 0;
            let is_known = self.written.is_some_and(|(at, acknowledged)| {
                acknowledged == status.acknowledged && now < at + REPEAT
            });
            if is_resting && is_known {
                return;
            }
            self.written = Some((now, status.acknowledged));
        } else if status.error.is_none() && lost_bytes == 0 {
            return;
        }
        rows.push(&Ship {
            ts: now,
            host,
            source: &status.path,
            stream: status.stream.map(StreamId::short),
            program: status.program.as_str(),
            state: status.state.as_str(),
            position_bytes: status.position.cast_signed(),
            acknowledged_bytes: status.acknowledged.cast_signed(),
            size_bytes: status.size.cast_signed(),
            lag_bytes: status.lag_bytes.cast_signed(),
            lag_seconds,
            lost_bytes: lost_bytes.cast_signed(),
            deleted_bytes: deleted_bytes.cast_signed(),
            error: status.error.as_deref(),
            timed_lines: ages.map(|ages| ages.lines.cast_signed()),
            least_age_seconds: seconds.map(|(least, ..)| least),
            greatest_age_seconds: seconds.map(|(_, greatest, _)| greatest),
            timed_span_seconds: seconds.map(|(.., span)| span),
        });
    }

    fn mark(&mut self, now: Micros) {
        let status = &self.status;
        if status.stream.is_none() {
            return;
        }
        while self.marks.front().is_some_and(|(_, size)| *size <= status.acknowledged) {
            self.marks.pop_front();
        }
        if status.lag_bytes == 0 {
            self.marks.clear();
            return;
        }
        if self.marks.back().is_none_or(|(_, size)| *size < status.size) {
            self.marks.push_back((now, status.size));
        }
        if self.marks.len() > MAX_MARKS {
            let mut place = 0;
            self.marks.retain(|_| {
                place += 1;
                place % 2 == 1
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int64Type};
    use weir_collect::logs::{Gap, GapReason, StreamState};
    use weir_tables::Program;

    use super::*;

    /// A log whose end, `pending`, is not acknowledged yet.
    fn status(pending: Range<u64>) -> StreamStatus {
        let (acknowledged, size) = (pending.start, pending.end);
        StreamStatus {
            stream: Some(StreamId(7 << 100)),
            path: "/srv/app.log".into(),
            program: Program::Other,
            position: acknowledged,
            acknowledged,
            size,
            lag_bytes: size - acknowledged,
            modified: None,
            lost_bytes: 0,
            state: StreamState::Reading,
            error: None,
        }
    }

    /// `lag_seconds`, `lag_bytes`, `lost_bytes` of the one row, when there is one.
    fn row(log: &mut ShipLog, status: StreamStatus, second: i64) -> Option<(f64, i64, i64)> {
        let changes = StatusChanges { changed: vec![status], gone: Vec::new() };
        let batch = log.look("web1", &changes, Micros(second * 1_000_000))?;
        let rows = &batch.rows;
        assert_eq!(rows.num_rows(), 1);
        let integer = |name: &str| {
            rows.column_by_name(name).expect("a column").as_primitive::<Int64Type>().value(0)
        };
        let lag = rows.column_by_name("lag_seconds").expect("a column");
        Some((
            lag.as_primitive::<Float64Type>().value(0),
            integer("lag_bytes"),
            integer("lost_bytes"),
        ))
    }

    #[test]
    fn the_wait_is_that_of_the_oldest_byte_that_is_not_safe() {
        let mut log = ShipLog::default();
        assert_eq!(row(&mut log, status(0..100), 100), Some((0.0, 100, 0)));
        assert_eq!(row(&mut log, status(0..200), 103), None, "not due yet");
        assert_eq!(row(&mut log, status(0..300), 110), Some((10.0, 300, 0)));
        // What was there at second 100 is safe; what came by 103 has waited since then.
        assert_eq!(row(&mut log, status(100..300), 120), Some((17.0, 200, 0)));
        assert_eq!(row(&mut log, status(300..300), 130), Some((0.0, 0, 0)));
        assert_eq!(
            row(&mut log, status(300..300), 140),
            None,
            "a log that rests is not written again"
        );
        assert_eq!(
            row(&mut log, status(300..300), 430),
            Some((0.0, 0, 0)),
            "but for a sign of life"
        );
        assert_eq!(row(&mut log, status(300..310), 440), Some((0.0, 10, 0)));
    }

    #[test]
    fn what_was_lost_is_told_once() {
        let mut log = ShipLog::default();
        let lost = TailEvent::Gap(Gap {
            path: "/srv/app.log".into(),
            stream: StreamId(7),
            from: 10,
            to: None,
            lost_bytes: 40,
            is_exact: false,
            unwatched: None,
            reason: GapReason::Truncated,
        });
        log.note(&lost);
        log.note(&lost);
        assert_eq!(row(&mut log, status(0..0), 100), Some((0.0, 0, 80)));
        assert_eq!(row(&mut log, status(5..5), 110), Some((0.0, 0, 0)));
    }

    #[test]
    fn a_writer_on_a_deleted_file_is_told_at_once_and_then_in_time() {
        let mut log = ShipLog::default();
        let path: Arc<str> = "/srv/app.log".into();
        let told: Vec<i64> = (100..125)
            .filter(|second| {
                log.note(&TailEvent::WriterOnDeleted { path: Arc::clone(&path), size: 7 });
                row(&mut log, status(7..7), *second).is_some()
            })
            .collect();
        assert_eq!(told, [100, 110, 120]);
        // Nothing for a while: the next is news again.
        let is_told = [130, 140].map(|second| row(&mut log, status(7..8), second).is_some());
        assert_eq!(is_told, [true, true]);
        log.note(&TailEvent::WriterOnDeleted { path, size: 9 });
        assert!(row(&mut log, status(7..9), 143).is_some());
    }

    #[test]
    fn a_log_that_waits_for_ever_keeps_few_marks_and_the_oldest() {
        let mut log = ShipLog::default();
        for second in 0..10_000_u32 {
            let changed = vec![status(0..1 + u64::from(second))];
            let changes = StatusChanges { changed, gone: Vec::new() };
            log.look("web1", &changes, Micros(i64::from(second) * 1_000_000));
        }
        let stream = log.streams.values().next().expect("it is known");
        assert!(stream.marks.len() <= MAX_MARKS);
        assert_eq!(stream.marks.front(), Some(&(Micros(0), 1)));
    }
}
