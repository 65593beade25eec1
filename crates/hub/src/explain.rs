//! What a line becomes and why: for `weir parse` and for the page's view of the same name.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use weir_parse::{LineParser, ParsedRows, Parsers, Pipeline, Progress, RowText, StreamName};
use weir_tables::{LogFormat, LogSource, Micros, Program};

/// Readings of one line whose fastest counts.
const ROUNDS: usize = 100;
/// Readings end after so long, whatever their number.
const MEASURE_WITHIN: Duration = Duration::from_millis(5);

/// How lines are read.
pub struct LineReader {
    /// Every pipeline and pattern.
    pub parsers: Parsers,
    /// The pipeline to try; without one, whatever the source asks for.
    pub pipeline: Option<Arc<Pipeline>>,
    source: LogSource,
    path: String,
    host: String,
}

/// One line, understood or not.
pub struct ExplainedLine {
    /// What the line became.
    pub row: RowText,
    /// The format that it was read in.
    pub format: &'static str,
    /// The fastest of some readings of this line alone, row included.
    pub nanos: u64,
    /// How far each pattern fitted.
    pub progress: Vec<Progress>,
    /// Patterns that match, or nearly; only for lines that were not understood or are plain text.
    pub near: Vec<Progress>,
}

impl LineReader {
    /// Lines of the log `stream`, read by `pipeline` or by the one that is for its path.
    pub fn new(parsers: Parsers, pipeline: Option<Arc<Pipeline>>, stream: StreamName<'_>) -> Self {
        let StreamName { path, host } = stream;
        let source = LogSource {
            path: path.into(),
            program: Program::Other,
            format: LogFormat::Auto,
            found_in: "weir parse".into(),
        };
        let pipeline = pipeline.or_else(|| parsers.find(&source, path).cloned());
        Self { parsers, pipeline, source, path: path.to_owned(), host: host.to_owned() }
    }

    /// A parser as a stream of the log would have it.
    pub fn parser(&self) -> LineParser {
        let pipeline = self.pipeline.as_ref();
        let stream = StreamName { path: &self.path, host: &self.host };
        self.parsers.line_parser_with(pipeline, &self.source, stream)
    }

    /// Rows of lines, without explanations.
    pub fn rows(&self, parser: &mut LineParser, text: &str, now: Micros) -> Vec<RowText> {
        let mut rows = ParsedRows::default();
        parser.parse(text.as_bytes(), 0, now, &mut rows);
        RowText::all(&rows.finish())
    }

    /// Explains a line; `parser` has read the lines before it. `None` for a blank line.
    pub fn explain(
        &self,
        parser: &mut LineParser,
        line: &str,
        now: Micros,
    ) -> Option<ExplainedLine> {
        let row = self.rows(parser, line, now).into_iter().next()?;
        let format = parser.format_name();
        let progress = self
            .pipeline
            .as_ref()
            .map_or_else(Vec::new, |pipeline| self.parsers.progress(pipeline, line));
        let is_unclear = row.table == "reject" || format == "text";
        let mut near = if is_unclear { self.parsers.near(line) } else { Vec::new() };
        // The patterns that were tried are listed already, with the place where they stopped.
        near.retain(|other| progress.iter().all(|tried| tried.pattern != other.pattern));
        Some(ExplainedLine { row, format, nanos: self.nanos(line, now), progress, near })
    }

    fn nanos(&self, line: &str, now: Micros) -> u64 {
        let mut parser = self.parser();
        let mut rows = ParsedRows::default();
        let started = Instant::now();
        let mut best = Duration::MAX;
        for _ in 0..ROUNDS {
            let round = Instant::now();
            parser.parse(line.as_bytes(), 0, now, &mut rows);
            best = best.min(round.elapsed());
            if started.elapsed() > MEASURE_WITHIN {
                break;
            }
        }
        u64::try_from(best.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl ExplainedLine {
    /// For programs and the page.
    pub fn json(&self, line: &str, pipeline: Option<&Pipeline>) -> Value {
        let columns: Vec<Value> = self
            .row
            .columns
            .iter()
            .map(|(name, kind, text)| json!({"name": name, "kind": kind.as_str(), "value": text}))
            .collect();
        let attrs: Map<String, Value> = self
            .row
            .attrs
            .iter()
            .map(|(key, value)| (key.clone(), value.as_str().into()))
            .collect();
        json!({
            "line": line,
            "table": self.row.table,
            "format": self.format,
            "pipeline": pipeline.map(Pipeline::name),
            "columns": columns,
            "attrs": attrs,
            "cost_seconds": Duration::from_nanos(self.nanos).as_secs_f64(),
            "progress": self.progress.iter().map(progress_json).collect::<Vec<_>>(),
            "near": self.near.iter().map(progress_json).collect::<Vec<_>>(),
        })
    }
}

fn progress_json(progress: &Progress) -> Value {
    json!({
        "pattern": progress.pattern,
        "is_match": progress.is_match,
        "stopped_at": progress.stopped_at,
        "matched": progress.matched,
        "expected": progress.expected,
        "pieces_matched": progress.pieces_matched,
        "pieces": progress.pieces,
        "is_one_pass": progress.is_one_pass,
        "is_too_costly": progress.is_too_costly,
    })
}
