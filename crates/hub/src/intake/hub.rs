//! What the intake is given: the line parser, the store, the clock.

use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch, new_null_array};
use weir_intake::{Hub, KeepError, KeepFuture, LineGroup, ParsedLines};
use weir_parse::{ParsedRows, Parsers, StreamName};
use weir_process::meter::{LineCounts, Meter, Stage};
use weir_store::{ErrorKind, Store, StoreError};
use weir_tables::{Batch, Clock, Micros, Parcel, Rows};

use super::kernel::KernelLines;
use super::redact;

/// The hub as the intake sees it.
pub(super) struct StoreHub {
    pub(super) store: Arc<Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) meter: Arc<Meter>,
    pub(super) host: String,
    pub(super) parsers: Parsers,
    pub(super) kernel_lines: KernelLines,
}

impl Hub for StoreHub {
    fn now(&self) -> Micros {
        self.clock.now()
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn parse(&self, lines: &LineGroup, observed: Micros) -> ParsedLines {
        let source = redact::source(&lines.source);
        let mut parser = self
            .parsers
            .line_parser(&source, StreamName { path: &lines.source, host: &lines.host });
        let mut rows = ParsedRows::default();
        match lines.message_ends() {
            Some(ends) => parser.parse_events(&lines.bytes, &ends, 0, observed, &mut rows),
            None => parser.parse(&lines.bytes, 0, observed, &mut rows),
        }
        self.meter.count_lines(LineCounts { lines: rows.lines, rejects: rows.reject.len() as u64 });
        let mut parsed = ParsedLines::default();
        for Batch { table, rows } in rows.finish() {
            if table.name == "reject" {
                parsed.rejected = rejected(&rows);
            }
            parsed.batches.push(Batch { table, rows: without_offsets(&rows) });
        }
        parsed
    }

    fn clean(&self, batch: Batch) -> Batch {
        redact::cleaned(&self.parsers, batch)
    }

    fn keep(&self, mut batches: Vec<Batch>) -> KeepFuture<'_> {
        Box::pin(async move {
            batches.extend(self.kernel_lines.read(&batches));
            let started = Instant::now();
            match self.store.append(Parcel { range: None, batches }).await {
                Ok(appended) => {
                    let rows = usize::try_from(appended.rows).unwrap_or(usize::MAX);
                    self.meter.took(Stage::Store, started.elapsed(), rows);
                    Ok(())
                }
                Err(error) => {
                    self.meter.failed(Stage::Store, &error.message);
                    Err(not_kept(error))
                }
            }
        })
    }
}

fn not_kept(error: StoreError) -> KeepError {
    let reason = match error.kind {
        ErrorKind::Busy => "busy",
        ErrorKind::Full => "full",
        ErrorKind::Closed => "closed",
        _ => "failed",
    };
    KeepError { reason, message: error.message, hint: error.hint }
}

/// First byte and reason of each line that was not understood.
fn rejected(rows: &RecordBatch) -> Vec<(usize, String)> {
    let column = |name: &str| rows.column_by_name(name);
    let (Some(offsets), Some(reasons)) = (column("source_offset"), column("reason")) else {
        return Vec::new();
    };
    let offsets = offsets.as_primitive::<Int64Type>().iter();
    let pairs = offsets.zip(reasons.as_string::<i32>());
    pairs
        .filter_map(|(offset, reason)| {
            Some((usize::try_from(offset?).ok()?, reason.unwrap_or_default().to_owned()))
        })
        .collect()
}

/// Offsets within a request matter to the sender only.
fn without_offsets(rows: &RecordBatch) -> RecordBatch {
    let Ok(at) = rows.schema_ref().index_of("source_offset") else { return rows.clone() };
    let mut columns = rows.columns().to_vec();
    columns[at] = new_null_array(columns[at].data_type(), rows.num_rows());
    RecordBatch::try_new(rows.schema(), columns).expect("the column may be null in every table")
}
