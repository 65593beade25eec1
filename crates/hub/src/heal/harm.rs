//! Whether anything is clearly worse since a repair: the guards of tried settings, and latency,
//! compared with the time before and with siblings.

use std::collections::BTreeMap;

use weir_actions::{HarmReport, HealRun, HostState};
use weir_rules::trial::{EventTally, RequestLatency, TallyChange, is_slower, sibling_factor};
use weir_rules::{EventCount, GUARDS, latency_between};
use weir_store::Store;
use weir_tables::Micros;

use super::facts::rows;

/// How often figures are compared.
const EVERY_SECONDS: f64 = 5.0;
/// Length of the time before.
const BEFORE_US: i64 = 300 * 1_000_000;
/// The effect of a run is compared for this long.
const AFTER_US: i64 = 15 * 60 * 1_000_000;

/// What two comparisons in a row found.
#[derive(Default)]
pub(super) struct HarmWatch {
    asked: Option<Micros>,
    /// Runs that looked worse once.
    suspects: BTreeMap<String, String>,
    harms: Vec<HarmReport>,
}

/// A span of time, its begin not included.
#[derive(Clone, Copy)]
struct Span {
    from: Micros,
    to: Micros,
}

/// Both spans of a run, and its host.
struct RunSpans<'a> {
    host: &'a str,
    siblings: Vec<&'a str>,
    before: Span,
    after: Span,
}

impl HarmWatch {
    /// Compares figures again if that is due; what is worse twice in a row counts.
    pub(super) async fn observe<'a>(
        &mut self,
        store: &Store,
        runs: impl Iterator<Item = &'a HealRun>,
        hosts: &BTreeMap<String, HostState>,
        now: Micros,
    ) -> Vec<HarmReport> {
        let is_known =
            self.asked.is_some_and(|at| (0.0..EVERY_SECONDS).contains(&now.seconds_since(at)));
        if is_known {
            return self.harms.clone();
        }
        self.asked = Some(now);
        let (mut suspects, mut harms) = (BTreeMap::new(), Vec::new());
        for run in runs {
            let Some(spans) = RunSpans::of(run, hosts, now) else { continue };
            let Some(text) = worse(store, &spans, now).await else { continue };
            if self.suspects.contains_key(&run.id) {
                harms.push(HarmReport { run_id: run.id.clone(), text: text.clone() });
            }
            suspects.insert(run.id.clone(), text);
        }
        (self.suspects, self.harms) = (suspects, harms);
        self.harms.clone()
    }
}

impl<'a> RunSpans<'a> {
    /// The spans of a run whose effect is still compared.
    fn of(run: &'a HealRun, hosts: &'a BTreeMap<String, HostState>, now: Micros) -> Option<Self> {
        let (ordered, ended) = (run.ordered_us?, run.ended_us?);
        let is_compared = run.closed_us.is_none() && run.undo.is_none();
        if !is_compared || now.0 - ended > AFTER_US || now.0 <= ended {
            return None;
        }
        let siblings = hosts.iter().filter(|(host, state)| {
            !run.role.is_empty() && state.role == run.role && **host != run.host
        });
        Some(Self {
            host: &run.host,
            siblings: siblings.map(|(host, _)| host.as_str()).collect(),
            before: Span { from: Micros(ordered - BEFORE_US), to: Micros(ordered) },
            after: Span { from: Micros(ended), to: now },
        })
    }
}

/// What is clearly worse on the host, if anything.
async fn worse(store: &Store, spans: &RunSpans<'_>, now: Micros) -> Option<String> {
    for guard in GUARDS {
        let changes = tallies(store, guard, spans, now).await;
        let Some(own) = changes.get(spans.host) else { continue };
        let siblings: Vec<TallyChange> =
            spans.siblings.iter().filter_map(|host| changes.get(*host)).copied().collect();
        if own.is_more(sibling_factor(&siblings)) {
            return Some(format!("more {}: {}", guard.what, own.words()));
        }
    }
    let before = latency(store, spans.before, spans.host, now).await?;
    let after = latency(store, spans.after, spans.host, now).await?;
    is_slower(before, after).then(|| {
        let (before, after) = (before.p95_seconds, after.p95_seconds);
        format!("p95 of requests {after:.3} s, before {before:.3} s")
    })
}

/// A count in both spans, by host.
async fn tallies(
    store: &Store,
    guard: &EventCount,
    spans: &RunSpans<'_>,
    now: Micros,
) -> BTreeMap<String, TallyChange> {
    let mut changes: BTreeMap<String, TallyChange> = BTreeMap::new();
    for (is_after, span) in [(false, spans.before), (true, spans.after)] {
        for row in rows(store, &guard.between(span.from, span.to), now).await {
            let Some(host) = row.text("host") else { continue };
            let number = |name| row.get(name).and_then(weir_rules::Cell::as_number).unwrap_or(0.0);
            let tally = EventTally {
                events: number("events"),
                chances: number("chances"),
                seconds: span.to.seconds_since(span.from),
            };
            let change = changes.entry(host.to_owned()).or_default();
            if is_after { change.after = tally } else { change.before = tally }
        }
    }
    // Without rows before, the length of that time is still known.
    for change in changes.values_mut() {
        change.before.seconds = spans.before.to.seconds_since(spans.before.from);
    }
    changes
}

async fn latency(store: &Store, span: Span, host: &str, now: Micros) -> Option<RequestLatency> {
    let found = rows(store, &latency_between(span.from, span.to), now).await;
    let row = found.iter().find(|row| row.text("host") == Some(host))?;
    let number = |name| row.get(name).and_then(weir_rules::Cell::as_number);
    Some(RequestLatency { requests: number("requests")?, p95_seconds: number("p95_seconds")? })
}
