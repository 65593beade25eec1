//! Queueing disciplines of network devices: drops and backlog, in each sampled namespace.
//!
//! Source: rtnetlink `RTM_GETQDISC`, the request of `tc -s qdisc`. Rows are written when it drops,
//! delays or holds packets, and for all queues once a minute.

use std::collections::HashMap;
use std::sync::Arc;

use weir_tables::{Batch, Micros, Qdisc, QdiscRows};

use super::netns::Netns;
use super::route_link::QueueStats;
use super::{CollectResult, Collector, FullRound, View, take};
use crate::CollectError;

const ALL_EVERY_SECONDS: f64 = 60.0;
/// Maximum number of queues per namespace: a device with 64 queues has as many disciplines.
const QUEUE_LIMIT: usize = 1024;
const ROOT: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct QdiscCollector {
    rows: QdiscRows,
    known: HashMap<Arc<str>, NetnsQueues>,
    full_round: FullRound,
}

#[derive(Debug, Default)]
struct NetnsQueues {
    devices: HashMap<u32, String>,
    /// Drops, overlimits and requeues by device, handle and parent.
    counts: HashMap<(u32, u32, u32), (u32, u32, u32)>,
}

impl Collector for QdiscCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        view.require_live("list queues")?;
        let is_all = self.full_round.begin(now, ALL_EVERY_SECONDS);
        let namespaces = &mut view.netns.namespaces;
        self.known.retain(|name, _| namespaces.iter().any(|netns| netns.name == *name));
        let mut result = Ok(());
        for netns in namespaces.iter_mut().filter(|netns| netns.is_sampled) {
            if let Err(error) = self.collect_one(netns, &view.host, now, is_all) {
                netns.route = None;
                // Its last process exited; the next scan drops it.
                if netns.is_own() || netns.entrance.exists() {
                    let what = format_args!("read queues of network namespace `{}`", netns.name);
                    result = Err(CollectError::new(what, error));
                }
            }
        }
        take(&mut self.rows, out);
        result
    }
}

impl QdiscCollector {
    fn collect_one(
        &mut self,
        netns: &mut Netns,
        host: &str,
        now: Micros,
        is_all: bool,
    ) -> std::io::Result<()> {
        let name = Arc::clone(&netns.name);
        let link = netns.route()?;
        let queues = link.queues()?;
        let known = self.known.entry(Arc::clone(&name)).or_default();
        let is_new = queues.iter().any(|queue| !known.devices.contains_key(&queue.device_number));
        if is_all || is_new {
            known.devices = link.devices()?.into_iter().collect();
        }
        let counted = queues.iter().filter(|queue| queue.kind != "noqueue").take(QUEUE_LIMIT);
        let mut counts = HashMap::new();
        for queue in counted {
            let identity = (queue.device_number, queue.handle, queue.parent);
            let count = (queue.drops, queue.overlimits, queue.requeues);
            let is_moved = known.counts.get(&identity) != Some(&count);
            counts.insert(identity, count);
            if is_all || is_moved || queue.backlog_packets > 0 {
                let device = known.devices.get(&queue.device_number);
                let device = device.cloned().unwrap_or_else(|| queue.device_number.to_string());
                push(&mut self.rows, queue, &device, (host, &name), now);
            }
        }
        known.counts = counts;
        Ok(())
    }
}

fn push(
    rows: &mut QdiscRows,
    queue: &QueueStats,
    device: &str,
    (host, netns): (&str, &str),
    now: Micros,
) {
    rows.push(&Qdisc {
        ts: now,
        host,
        netns,
        device,
        kind: &queue.kind,
        handle: &handle(queue.handle),
        parent: &handle(queue.parent),
        sent_bytes_total: saturated(queue.bytes),
        sent_packets_total: saturated(queue.packets),
        drops_total: queue.drops.into(),
        overlimits_total: queue.overlimits.into(),
        requeues_total: queue.requeues.into(),
        backlog_bytes: queue.backlog_bytes.into(),
        backlog_packets: queue.backlog_packets.into(),
        rate_bytes_per_second: queue.rate_bytes_per_second.map(saturated),
    });
}

fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Formats a handle like `tc`: `8001:`, `1:2`, `root`.
fn handle(number: u32) -> String {
    match (number, number >> 16, number & 0xffff) {
        (ROOT, ..) => "root".to_owned(),
        (_, major, 0) => format!("{major:x}:"),
        (_, major, minor) => format!("{major:x}:{minor:x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_look_as_tc_prints_them() {
        assert_eq!(handle(0x8001_0000), "8001:");
        assert_eq!(handle(0x0001_0002), "1:2");
        assert_eq!(handle(u32::MAX), "root");
    }
}
