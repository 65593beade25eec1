//! The sampling thread: the kernel's figures once a second, weir's own every 10 s, a sign of life
//! every 60 s.
//!
//! The heartbeat takes the path of every row, so that its absence means "rows do not arrive" and
//! not only "weir is down".

use std::collections::BTreeSet;
use std::sync::mpsc::Sender;
use std::time::Duration;

use weir_collect::host::{HostOptions, HostSampler, ListenerSummary};
use weir_tables::{Batch, Log, LogRows, Micros, Rows};

use super::WatchContext;
use crate::trial::TrialEvents;

/// Programs whose appearance changes which logs there are.
const WEB_SERVERS: [&str; 4] = ["nginx", "haproxy", "apache2", "httpd"];
/// The column `source` of heartbeats.
const HEARTBEAT: &str = "weir:heartbeat";
const SECOND: i64 = 1_000_000;

/// Samples until the stop; says `ready` after the first sample.
pub(super) fn run(
    context: &WatchContext,
    options: HostOptions,
    mut trials: Option<TrialEvents>,
    ready: &Sender<()>,
) {
    let mut sampler = HostSampler::new(options);
    let mut servers = BTreeSet::new();
    let mut own = OwnSampler::default();
    loop {
        let now = context.clock.now();
        let mut batches = sampler.sample(now);
        own.add(context, now, &mut batches);
        batches.extend(trials.as_mut().and_then(|trials| trials.news(&context.host, now)));
        context.destination.send_sample(batches);
        let listeners = sampler.listeners();
        let is_first = !context.status.has_sampled_listeners();
        let has_new = has_new_server(&listeners, &mut servers);
        context.status.set_listeners(listeners);
        if has_new || is_first {
            context.nudge.nudge();
        }
        let _ = ready.send(());
        if wait_for_next_second(context) {
            return;
        }
    }
}

/// Only weir's own rows.
pub(super) fn report_only(context: &WatchContext, ready: &Sender<()>) {
    let mut own = OwnSampler::default();
    let _ = ready.send(());
    loop {
        let mut batches = Vec::new();
        own.add(context, context.clock.now(), &mut batches);
        if !batches.is_empty() {
            context.destination.send_sample(batches);
        }
        if wait_for_next_second(context) {
            return;
        }
    }
}

/// Samples fall on whole seconds, so that those of many hosts fall together.
pub(super) fn wait_for_next_second(context: &WatchContext) -> bool {
    let into_second = context.clock.now().0.rem_euclid(SECOND);
    let left = u64::try_from(SECOND - into_second).expect("the rest of a second");
    context.stop.wait(Duration::from_micros(left))
}

/// A key that was not there before, of a server that writes logs.
fn has_new_server(listeners: &[ListenerSummary], known: &mut BTreeSet<String>) -> bool {
    let now: BTreeSet<String> = listeners
        .iter()
        .filter(|listener| {
            listener.process_name.as_deref().is_some_and(|name| WEB_SERVERS.contains(&name))
        })
        .map(|l| format!("{} {} {} {:?}", l.netns, l.address, l.port, l.process_id))
        .collect();
    let has_new = !now.is_subset(known);
    *known = now;
    has_new
}

/// Rows that weir writes about itself.
#[derive(Default)]
struct OwnSampler {
    next_report: Micros,
    next_heartbeat: Micros,
}

impl OwnSampler {
    fn add(&mut self, context: &WatchContext, now: Micros, batches: &mut Vec<Batch>) {
        if now >= self.next_report {
            self.next_report = now + Duration::from_millis(9_900);
            batches.extend(context.meter.report(&context.host, now));
        }
        if now >= self.next_heartbeat {
            self.next_heartbeat = now + Duration::from_millis(59_900);
            batches.push(heartbeat(&context.host, now));
        }
    }
}

fn heartbeat(host: &str, now: Micros) -> Batch {
    let mut rows = LogRows::default();
    rows.push(&Log {
        ts: now,
        host,
        observed_ts: now,
        source: HEARTBEAT,
        program: Some("weir"),
        process_id: Some(i64::from(std::process::id())),
        severity: Some("info"),
        body: concat!("weir ", env!("CARGO_PKG_VERSION"), " watches this host"),
        ..Default::default()
    });
    Batch { table: LogRows::SPEC, rows: rows.finish() }
}
