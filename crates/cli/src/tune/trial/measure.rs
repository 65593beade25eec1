//! The measurements before and during a trial: on this host by sampling, on its siblings by queries
//! to their weir.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use weir_hub::store_failure;
use weir_process::failure::Failure;
use weir_rules::trial::{EventTally, RequestLatency, TallyChange, is_slower, sibling_factor};
use weir_rules::{EventCount, latency_between};
use weir_store::{QueryLimits, Store};
use weir_tables::{FixedClock, Micros, Parcel};

use crate::client::Client;
use crate::doctor::source::HostSource;

/// Hosts of one answer.
const HOSTS: usize = 10_000;

/// A span of time, its begin not included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) from: Micros,
    pub(super) to: Micros,
}

impl Window {
    fn seconds(&self) -> f64 {
        self.to.seconds_since(self.from)
    }
}

/// One count in both spans.
pub(super) struct ComparedCount {
    pub(super) what: &'static str,
    pub(super) change: TallyChange,
    /// By which factor it changed on the siblings.
    factor: f64,
    siblings: usize,
}

impl ComparedCount {
    pub(super) fn is_less(&self) -> bool {
        self.change.is_less(self.factor)
    }

    pub(super) fn is_more(&self) -> bool {
        self.change.is_more(self.factor)
    }

    /// For a person.
    pub(super) fn words(&self) -> String {
        let siblings = match self.siblings {
            0 => String::new(),
            count => format!("; on {count} siblings × {:.2}", self.factor),
        };
        format!("{}: {}{siblings}", self.what, self.change.words())
    }

    pub(super) fn json(&self) -> Value {
        let TallyChange { before, after } = self.change;
        json!({
            "what": self.what,
            "before": {"events": before.events, "chances": before.chances, "seconds": before.seconds},
            "with": {"events": after.events, "chances": after.chances, "seconds": after.seconds},
            "siblings": self.siblings,
            "sibling_factor": self.factor,
        })
    }
}

/// Rows of this host since the trial began, and the source of its siblings' rows.
pub(super) struct TrialObserver<S> {
    source: S,
    clock: Arc<FixedClock>,
    store: Arc<Store>,
    hub: Option<Client>,
}

impl<S: HostSource> TrialObserver<S> {
    pub(super) fn new(source: S, hub: Option<Client>) -> Self {
        let clock = Arc::new(FixedClock::default());
        let store = Store::in_memory(Arc::clone(&clock) as _);
        Self { source, clock, store, hub }
    }

    /// Takes the next second's rows; when that was.
    pub(super) async fn look(&mut self) -> Result<Micros, Failure> {
        let Some((now, batches)) = self.source.next() else {
            return Err(Failure::new("cannot look any longer: this host gives no samples"));
        };
        self.clock.set(now);
        self.store.append(Parcel { range: None, batches }).await.map_err(store_failure)?;
        Ok(now)
    }

    /// Both spans of a count.
    pub(super) async fn compare(
        &self,
        count: &EventCount,
        before: Window,
        after: Window,
    ) -> Result<ComparedCount, Failure> {
        let both = [before, after];
        let mut own = [EventTally::default(); 2];
        let mut others: BTreeMap<String, [Option<EventTally>; 2]> = BTreeMap::new();
        for (at, window) in both.iter().enumerate() {
            let sql = count.between(window.from, window.to);
            own[at].seconds = window.seconds();
            for (_, numbers) in self.ask(&sql, ["events", "chances"]).await? {
                own[at].events += numbers[0];
                own[at].chances += numbers[1];
            }
            for (host, [events, chances]) in self.ask_hub(&sql, ["events", "chances"])? {
                let tally = EventTally { events, chances, seconds: window.seconds() };
                others.entry(host).or_default()[at] = Some(tally);
            }
        }
        let siblings: Vec<TallyChange> = others
            .into_iter()
            .filter(|(host, _)| *host != self.source.host())
            .filter_map(|(_, [before, after])| Some(TallyChange { before: before?, after: after? }))
            .collect();
        Ok(ComparedCount {
            what: count.what,
            change: TallyChange { before: own[0], after: own[1] },
            factor: sibling_factor(&siblings),
            siblings: siblings.len(),
        })
    }

    /// How much longer requests take, in words, when it is clearly so.
    pub(super) async fn slower(
        &self,
        before: Window,
        after: Window,
    ) -> Result<Option<String>, Failure> {
        let mut both = [RequestLatency::default(); 2];
        for (window, latency) in [before, after].iter().zip(&mut both) {
            let sql = latency_between(window.from, window.to);
            if let Some((_, numbers)) = self.ask(&sql, ["requests", "p95_seconds"]).await?.pop() {
                *latency = RequestLatency { requests: numbers[0], p95_seconds: numbers[1] };
            }
        }
        let [was, is] = both;
        Ok(is_slower(was, is).then(|| {
            format!(
                "95 % of requests took at most {:.0} ms before, {:.0} ms with it",
                millis(was),
                millis(is)
            )
        }))
    }

    /// The hosts of an answer with two numbers of each.
    async fn ask(&self, sql: &str, columns: [&str; 2]) -> Result<Vec<(String, [f64; 2])>, Failure> {
        let limits = QueryLimits::of_rule(HOSTS, Duration::from_secs(60));
        let answer = self.store.query(sql, limits).await.map_err(store_failure)?;
        let rows = weir_rules::rows_of(&answer.batches, HOSTS);
        Ok(rows
            .iter()
            .map(|row| {
                let host = row.text("host").unwrap_or_default().to_owned();
                (host, columns.map(|column| number(row, column)))
            })
            .collect())
    }

    /// The query over the siblings' rows; empty without a weir.
    fn ask_hub(&self, sql: &str, columns: [&str; 2]) -> Result<Vec<(String, [f64; 2])>, Failure> {
        let Some(hub) = &self.hub else { return Ok(Vec::new()) };
        let body = json!({"sql": sql, "limit": HOSTS});
        let answer = tokio::task::block_in_place(|| hub.post_json("/api/sql", &body))?;
        let names = answer["columns"].as_array().map(Vec::as_slice).unwrap_or_default();
        let place = |name: &str| names.iter().position(|column| column["name"] == name);
        let Some(host) = place("host") else { return Ok(Vec::new()) };
        let places = columns.map(place);
        let rows = answer["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
        let number =
            |row: &Value, at: Option<usize>| at.and_then(|at| row[at].as_f64()).unwrap_or_default();
        let of =
            |row: &Value| Some((row[host].as_str()?.to_owned(), places.map(|at| number(row, at))));
        Ok(rows.iter().filter_map(of).collect())
    }
}

fn number(row: &weir_rules::Row, name: &str) -> f64 {
    row.get(name).and_then(weir_rules::Cell::as_number).unwrap_or_default()
}

fn millis(latency: RequestLatency) -> f64 {
    latency.p95_seconds * 1000.0
}
