//! The parser thread: chunks of lines to parcels of rows.
//!
//! Each stream has its own parser, which learns the layout; parsers of idle streams are dropped, so
//! that thousands of rarely written logs cost no more than the few busy ones.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use weir_collect::logs::{Chunk, container_attributes, earlier_line};
use weir_parse::{LineParser, ParsedRows, Parsers, StreamName};
use weir_process::meter::{LineCounts, Stage, StageRun};
use weir_tables::{Batch, Log, LogGapRows, LogRows, Micros, Parcel, Rows, StreamId, StreamRange};

use super::WatchContext;
use super::deliver::DeliveryReply;
use super::follow::{ParseJob, push_gap};
use super::line_age::LineAges;

/// Pause between two rows about the names of one stream.
const KEY_REPORT_EVERY: Duration = Duration::from_secs(60);
/// Line parsers kept at one time, unless more are in use, and the limit in any case; a dropped
/// parser is built again when needed.
const PARSERS_KEPT: usize = 256;
const MAX_PARSERS: usize = 4096;
/// A stream without a line for so long rests.
const PARSER_RESTS: Duration = Duration::from_secs(300);

/// The parser thread: chunks to parcels.
pub(super) fn parse_always(context: &WatchContext, parsers: &Parsers, jobs: &Receiver<ParseJob>) {
    let mut streams: HashMap<StreamId, ParsedStream> = HashMap::new();
    let mut rows = ParsedRows::default();
    let mut limit = PARSERS_KEPT;
    for ParseJob { chunk, ticket } in jobs {
        let run = StageRun::start();
        let now = context.clock.now();
        let mut row_count = 0;
        // Without bytes it is a hole, or an entry of a directory of first lines.
        if !chunk.bytes.is_empty() {
            if streams.len() >= limit && !streams.contains_key(&chunk.stream) {
                limit = drop_resting(&mut streams, now);
            }
            let stream = streams
                .entry(chunk.stream)
                .or_insert_with(|| ParsedStream::new(parsers, &chunk, &context.host));
            stream.used_at = now;
            stream.parser.set_last_write(chunk.modified);
            match &chunk.events {
                Some(ends) => {
                    stream.parser.parse_events(&chunk.bytes, ends, chunk.from, now, &mut rows);
                }
                None => stream.parser.parse(&chunk.bytes, chunk.from, now, &mut rows),
            }
            let counts = LineCounts { lines: rows.lines, rejects: rows.reject.len() as u64 };
            row_count = rows.row_count();
            context.status.count(&chunk.path, counts);
            context.meter.count_lines(counts);
            stream.report_keys(context, &chunk.path, now);
        }
        let range = StreamRange { stream: chunk.stream, from: chunk.from, to: chunk.to };
        let mut batches = rows.finish();
        if let Some(stream) = streams.get_mut(&chunk.stream)
            && let Some(ages) = LineAges::of(&batches)
        {
            context.status.note_ages(&chunk.path, stream.aged(ages));
        }
        if let Some(gap) = chunk.gap() {
            let mut gaps = LogGapRows::default();
            push_gap(&mut gaps, &gap, &context.host, now);
            batches.push(Batch { table: LogGapRows::SPEC, rows: gaps.finish() });
        }
        let parcel = Parcel { range: Some(range), batches };
        context.meter.ran(Stage::Parse, &run, row_count);
        let _ = ticket.reply.send(DeliveryReply::Spare(chunk.bytes));
        context.destination.send_stream(parcel, ticket);
    }
}

/// A stream's parser, and when it last said that a log brings too many names.
struct ParsedStream {
    parser: LineParser,
    ages: Option<LineAges>,
    used_at: Micros,
    reported: Option<Micros>,
}

impl ParsedStream {
    fn new(parsers: &Parsers, chunk: &Chunk, host: &str) -> Self {
        // An object's name determines its format; its rows belong to the bucket.
        let named = chunk.source.path.to_str().filter(|path| path.starts_with("s3://"));
        let pipeline = parsers.find(&chunk.source, named.unwrap_or(&chunk.path));
        let name = StreamName { path: &chunk.path, host };
        let parser = parsers.line_parser_with(pipeline, &chunk.source, name);
        let mut parser = parser.with_attributes(container_attributes(Path::new(&*chunk.path)));
        if chunk.from > 0
            && let Some(head) = crate::parsers::head(&chunk.path)
        {
            parser.set_head(&head);
            for mark in parser.later_heads() {
                let line = earlier_line(Path::new(&*chunk.path), mark, chunk.from);
                parser.set_head(&line.unwrap_or_default());
            }
        }
        if chunk.from > 0
            && parser.needs_header()
            && let Some(line) = crate::parsers::first_line(&chunk.path)
        {
            parser.set_header(&line);
        }
        Self { parser, ages: None, used_at: Micros::default(), reported: None }
    }

    /// The stretch of lines of the same age that ends with these.
    fn aged(&mut self, next: LineAges) -> LineAges {
        *self.ages.insert(self.ages.map_or(next, |known| known.then(next)))
    }

    /// Names over the budget become a row, at most once a minute.
    fn report_keys(&mut self, context: &WatchContext, path: &str, now: Micros) {
        if self.reported.is_some_and(|at| now < at + KEY_REPORT_EVERY) {
            return;
        }
        let Some(report) = self.parser.take_key_report() else { return };
        self.reported = Some(now);
        let (over_count, limit) = (report.over_count.to_string(), report.limit.to_string());
        let examples = report.examples.join(" ");
        let mut rows = LogRows::default();
        rows.push(&Log {
            ts: now,
            host: &context.host,
            observed_ts: now,
            source: "weir:parse",
            program: Some("weir"),
            severity: Some("warn"),
            body: &format!(
                "`{path}` brings more than {limit} distinct names; {over_count} values are kept in `weir.more`"
            ),
            attrs: &[
                ("path", path),
                ("over_count", &over_count),
                ("limit", &limit),
                ("examples", &examples),
            ],
            ..Default::default()
        });
        let batch = Batch { table: LogRows::SPEC, rows: rows.finish() };
        context.destination.send_sample(vec![batch]);
    }
}

/// Drops the parsers of streams that rest, or all if there are too many that do not; how many there
/// may be then.
fn drop_resting(streams: &mut HashMap<StreamId, ParsedStream>, now: Micros) -> usize {
    streams.retain(|_, stream| now < stream.used_at + PARSER_RESTS);
    if streams.len() >= MAX_PARSERS {
        streams.clear();
    }
    (streams.len() * 2).clamp(PARSERS_KEPT, MAX_PARSERS)
}
