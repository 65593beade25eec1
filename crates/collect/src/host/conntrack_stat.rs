//! How full the connection tracking table of each namespace is: `/proc/net/stat/nf_conntrack`.
//!
//! A line of names, then one of hexadecimal numbers for each processor; `entries` stands in each of them and is the same.
//! Asking for the count through its sysctl takes the kernel two hundred times as long. The limit is the whole host's.

use std::collections::HashMap;
use std::sync::Arc;

use weir_tables::{Batch, ConntrackStat, ConntrackStatRows, Micros};

use super::{Collector, View, take, text};
use crate::CollectError;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ConntrackStatCollector {
    rows: ConntrackStatRows,
    previous: HashMap<Arc<str>, Tracked>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tracked {
    entries: i64,
    drops: i64,
    early_drops: i64,
    insert_failures: i64,
}

impl Collector for ConntrackStatCollector {
    fn name(&self) -> &'static str {
        "conntrack_stat"
    }

    fn every_seconds(&self) -> f64 {
        5.0
    }

    fn collect(
        &mut self,
        view: &mut View,
        now: Micros,
        out: &mut Vec<Batch>,
    ) -> Result<(), CollectError> {
        let limit = std::fs::read(view.path("proc/sys/net/netfilter/nf_conntrack_max")).ok();
        let entries_limit = limit.and_then(|bytes| text::int(bytes.trim_ascii()));
        let mut current = HashMap::new();
        for netns in view.netns.namespaces.iter_mut().filter(|netns| netns.is_sampled) {
            let Some(files) = &mut netns.files else { continue };
            // Without the module there is no such file, and nothing to say.
            let Some(tracked) = files.conntrack.read_if_any().and_then(parse) else { continue };
            if tracked == Tracked::default() {
                continue;
            }
            let before = self.previous.get(&netns.name);
            let rise = |now: i64, before: Option<i64>| before.map(|before| (now - before).max(0));
            self.rows.push(&ConntrackStat {
                ts: now,
                host: &view.host,
                netns: &netns.name,
                entries: tracked.entries,
                entries_limit,
                drops_total: tracked.drops,
                early_drops_total: tracked.early_drops,
                insert_failures_total: tracked.insert_failures,
                drops_increase: rise(tracked.drops, before.map(|before| before.drops)),
                early_drops_increase: rise(
                    tracked.early_drops,
                    before.map(|before| before.early_drops),
                ),
            });
            current.insert(Arc::clone(&netns.name), tracked);
        }
        self.previous = current;
        take(&mut self.rows, out);
        Ok(())
    }
}

fn parse(bytes: &[u8]) -> Option<Tracked> {
    let mut lines = text::lines(bytes);
    let names: Vec<&[u8]> = text::fields(lines.next()?).collect();
    let at = |name: &[u8]| names.iter().position(|found| *found == name);
    let (entries, drops) = (at(b"entries")?, at(b"drop")?);
    let (early, failed) = (at(b"early_drop"), at(b"insert_failed"));
    let mut tracked = Tracked::default();
    for line in lines {
        let values: Vec<i64> = text::fields(line).map_while(text::hex).collect();
        let value = |at: usize| values.get(at).copied().unwrap_or(0);
        tracked.entries = value(entries);
        tracked.drops += value(drops);
        tracked.early_drops += early.map_or(0, value);
        tracked.insert_failures += failed.map_or(0, value);
    }
    Some(tracked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_added_up_and_entries_are_not() {
        let text = b"entries  clashres found new invalid ignore delete delete_list insert insert_failed drop early_drop icmp_error  expect_new expect_create expect_delete search_restart\n\
            00000010  00000000 00000000 00000000 00000002 00000000 00000000 00000000 00000000 00000001 0000000a 00000000 00000000  00000000 00000000 00000000 00000000\n\
            00000010  00000000 00000000 00000000 00000002 00000000 00000000 00000000 00000000 00000001 00000005 00000003 00000000  00000000 00000000 00000000 00000000\n";
        let expected = Tracked { entries: 16, drops: 15, early_drops: 3, insert_failures: 2 };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse(b"entries found\n00000010 00000000\n"), None);
        assert_eq!(parse(b""), None);
    }
}
