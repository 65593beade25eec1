//! The hub's view of a stream: position, checksums of its rows, single offsets, and ingest delay.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde_json::{Value, json};
use weir_process::failure::Failure;
use weir_tables::StreamId;

use super::{LineSum, STRETCH_BYTES};
use crate::client::Client;

/// Rows of one answer at most; as many stretches are 25 GiB of log.
const ANSWER_ROWS: u64 = 100_000;

/// Rows of one offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) offset: u64,
    /// How many there are.
    pub(super) count: u64,
    /// Lines of the longest; `None` when that does not show.
    pub(super) lines: Option<usize>,
}

/// How long lines were on their way, from the time in the line to the agent's reading it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    pub(super) p50_seconds: f64,
    pub(super) p99_seconds: f64,
    pub(super) max_seconds: f64,
}

pub(super) struct Hub(Client);

impl Hub {
    pub(super) fn new(url: Option<&str>, token_file: Option<&Path>) -> Result<Self, Failure> {
        Client::of(url, token_file).map(Self)
    }

    /// Positions of streams; streams unknown to the hub are left out.
    pub(super) fn positions(&self, streams: &[StreamId]) -> Result<Vec<(StreamId, u64)>, Failure> {
        let names: Vec<String> = streams.iter().map(ToString::to_string).collect();
        let answer = self.post("/api/link/positions", &json!({"streams": names}))?;
        let known = answer["positions"].as_object().cloned().unwrap_or_default();
        Ok(known
            .iter()
            .filter_map(|(name, position)| {
                Some((StreamId(u128::from_str_radix(name, 16).ok()?), position.as_u64()?))
            })
            .collect())
    }

    /// Rows of the stream below `position`, summed up by the number of their stretch; with
    /// `has_texts` their lines too.
    pub(super) fn sums(
        &self,
        stream: i64,
        position: u64,
        has_texts: bool,
    ) -> Result<BTreeMap<u64, LineSum>, Failure> {
        let mut sums = BTreeMap::new();
        let step = ANSWER_ROWS * STRETCH_BYTES;
        let mut from = 0;
        while from < position {
            let to = position.min(from + step);
            let sql = format!(
                "select source_offset / {STRETCH_BYTES}, count(*), sum(source_offset % {STRETCH_BYTES}), \
                 sum((source_offset % {STRETCH_BYTES}) * (source_offset % {STRETCH_BYTES})), sum(lines) \
                 from ({}) group by 1 order by 1",
                rows_of(stream, &(from..to), has_texts)
            );
            for row in self.rows(&sql)? {
                let number = |at: usize| row.get(at).and_then(Value::as_u64).unwrap_or_default();
                let [lines, offsets, squares, texts] = [1, 2, 3, 4].map(number);
                sums.insert(number(0), LineSum { lines, offsets, squares, texts });
            }
            from = to;
        }
        Ok(sums)
    }

    /// Rows whose offsets are in a range, by offset.
    pub(super) fn offsets(
        &self,
        stream: i64,
        range: Range<u64>,
        has_texts: bool,
    ) -> Result<Vec<Row>, Failure> {
        let sql = format!(
            "select source_offset, count(*), max(lines) from ({}) group by 1 order by 1",
            rows_of(stream, &range, has_texts)
        );
        let rows = self.rows(&sql)?;
        let found = rows.iter().filter_map(|row| {
            let lines = row.get(2)?.as_u64().and_then(|lines| usize::try_from(lines).ok());
            let lines = if has_texts { lines } else { Some(1) };
            Some(Row { offset: row.first()?.as_u64()?, count: row.get(1)?.as_u64()?, lines })
        });
        Ok(found.collect())
    }

    /// `None` when no line has a timestamp.
    pub(super) fn delay(&self, stream: i64) -> Result<Option<Delay>, Failure> {
        let late = "extract(epoch from observed_ts) - extract(epoch from ts)";
        let sql = format!(
            "select approx_percentile_cont(late, 0.5), approx_percentile_cont(late, 0.99), max(late) from \
             (select {late} as late from request where stream = {stream} union all \
             select {late} as late from log where stream = {stream} and ts <> observed_ts)"
        );
        let rows = self.rows(&sql)?;
        let number = |at: usize| rows.first()?.get(at)?.as_f64();
        Ok((|| {
            Some(Delay {
                p50_seconds: number(0)?,
                p99_seconds: number(1)?,
                max_seconds: number(2)?,
            })
        })())
    }

    fn rows(&self, sql: &str) -> Result<Vec<Vec<Value>>, Failure> {
        let answer = self.post("/api/sql", &json!({"sql": sql, "limit": ANSWER_ROWS}))?;
        if answer["is_truncated"] == true {
            return Err(Failure::new("cannot compare: the hub's answer was cut"));
        }
        let rows = answer["rows"].as_array().cloned().unwrap_or_default();
        Ok(rows.into_iter().map(|row| row.as_array().cloned().unwrap_or_default()).collect())
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let answer = self.0.post(path, body.to_string().as_bytes()).map_err(|error| {
            Failure::new(format!("cannot ask weir at `{}`: {error}", self.0.base()))
                .hint("name the hub that has this host's rows: --url http://HUB:4770")
        })?;
        if answer.status != 200 {
            return Err(answer.failure());
        }
        serde_json::from_slice(&answer.body).map_err(|error| {
            Failure::new(format!("cannot read the answer of `{}`: {error}", self.0.base()))
                .hint("is it a weir?")
        })
    }
}

/// Offset of each row in the range and the number of lines it holds: 0 when not requested, NULL
/// when unknown.
fn rows_of(stream: i64, range: &Range<u64>, has_texts: bool) -> String {
    let of = |(table, text): (&str, Option<&str>)| {
        let lines = match text.filter(|_| has_texts) {
            Some(text) => format!(
                "character_length({text}) - character_length(replace({text}, '\n', '')) + 1"
            ),
            None if has_texts => "cast(null as bigint)".to_owned(),
            None => "0".to_owned(),
        };
        format!(
            "select source_offset, cast({lines} as bigint) as lines from {table} where stream = {stream} \
             and source_offset >= {} and source_offset < {}",
            range.start, range.end
        )
    };
    [("request", None), ("log", Some("body")), ("reject", Some("raw"))].map(of).join(" union all ")
}
