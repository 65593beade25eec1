//! What the hub knows of a stream: its position, its rows summed up, single offsets, and how late they came.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use weir_tables::StreamId;

use super::{STRETCH_BYTES, Sum};
use crate::client::Client;
use crate::failure::Failure;

/// Rows of one answer at most; as many stretches are 25 GiB of log.
const ANSWER_ROWS: u64 = 100_000;

/// How long lines were on their way, from the time in the line to the agent's reading it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    pub(super) p50_seconds: f64,
    pub(super) p99_seconds: f64,
    pub(super) max_seconds: f64,
}

pub(super) struct Hub(Client);

impl Hub {
    pub(super) fn new(url: Option<String>, token: Option<&str>) -> Result<Self, Failure> {
        let url = url.or_else(|| std::env::var("WEIR_URL").ok());
        let url = url.unwrap_or_else(|| "http://127.0.0.1:4770".to_owned());
        Ok(Self(Client::new(&url, token, Duration::from_secs(300))?))
    }

    /// Where streams stand; those that the hub does not know are left out.
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

    /// Rows of the stream below `position`, summed up by the number of their stretch.
    pub(super) fn sums(&self, stream: i64, position: u64) -> Result<BTreeMap<u64, Sum>, Failure> {
        let mut sums = BTreeMap::new();
        let step = ANSWER_ROWS * STRETCH_BYTES;
        let mut from = 0;
        while from < position {
            let to = position.min(from + step);
            let sql = format!(
                "select source_offset / {STRETCH_BYTES}, count(*), sum(source_offset % {STRETCH_BYTES}), \
                 sum((source_offset % {STRETCH_BYTES}) * (source_offset % {STRETCH_BYTES})) \
                 from ({}) group by 1 order by 1",
                rows_of(stream, from, to)
            );
            for row in self.rows(&sql)? {
                let number = |at: usize| row.get(at).and_then(Value::as_u64).unwrap_or_default();
                let sum = Sum { lines: number(1), offsets: number(2), squares: number(3) };
                sums.insert(number(0), sum);
            }
            from = to;
        }
        Ok(sums)
    }

    /// Offsets of rows in a stretch, below `position`, and how many rows have each.
    pub(super) fn offsets(
        &self,
        stream: i64,
        stretch: u64,
        position: u64,
    ) -> Result<Vec<(u64, u64)>, Failure> {
        let from = stretch * STRETCH_BYTES;
        let sql = format!(
            "select source_offset, count(*) from ({}) group by 1 order by 1",
            rows_of(stream, from, position.min(from + STRETCH_BYTES))
        );
        let rows = self.rows(&sql)?;
        let pairs =
            rows.iter().filter_map(|row| Some((row.first()?.as_u64()?, row.get(1)?.as_u64()?)));
        Ok(pairs.collect())
    }

    /// `None` when no line has a time of its own.
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
        let answer = self.0.post(path, "application/json", body.to_string().as_bytes()).map_err(
            |error| {
                Failure::new(format!("cannot ask weir at `{}`: {error}", self.0.base()))
                    .hint("name the hub that has this host's rows: --url http://HUB:4770")
            },
        )?;
        if answer.status != 200 {
            return Err(answer.failure());
        }
        serde_json::from_slice(&answer.body).map_err(|error| {
            Failure::new(format!("cannot read the answer of `{}`: {error}", self.0.base()))
                .hint("is it a weir?")
        })
    }
}

/// One column, the offsets of all rows of `[from, to)`.
fn rows_of(stream: i64, from: u64, to: u64) -> String {
    let of = |table: &str| {
        format!(
            "select source_offset from {table} where stream = {stream} \
             and source_offset >= {from} and source_offset < {to}"
        )
    };
    [of("request"), of("log"), of("reject")].join(" union all ")
}
