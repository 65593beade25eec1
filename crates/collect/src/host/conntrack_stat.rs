//! Usage of the connection tracking table in each namespace: `/proc/net/stat/nf_conntrack`.
//!
//! One line of names, then hexadecimal numbers per CPU; `entries` is the same in each. Reading the
//! count through its sysctl takes 200 times as long. The limit applies to the whole host.

use std::collections::HashMap;
use std::sync::Arc;

use weir_tables::{Batch, ConntrackStat, ConntrackStatRows, Micros};

use super::{CollectResult, Collector, View, take, text};

#[derive(Debug, Default)]
pub(super) struct ConntrackStatCollector {
    rows: ConntrackStatRows,
    previous: HashMap<Arc<str>, ConntrackCounts>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ConntrackCounts {
    entries: i64,
    drops: i64,
    early_drops: i64,
    insert_failures: i64,
    /// The column has the name of an older one; `None` where it has not this meaning.
    chains_too_long: Option<i64>,
    invalid: Option<i64>,
}

impl ConntrackCounts {
    fn is_unused(&self) -> bool {
        [self.entries, self.drops, self.early_drops, self.insert_failures] == [0; 4]
            && self.invalid.unwrap_or(0) == 0
    }
}

impl Collector for ConntrackStatCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        let limit = std::fs::read(view.path("proc/sys/net/netfilter/nf_conntrack_max")).ok();
        let entries_limit = limit.and_then(|bytes| text::int(bytes.trim_ascii()));
        let mut current = HashMap::new();
        for netns in view.netns.namespaces.iter_mut().filter(|netns| netns.is_sampled) {
            let Some(files) = &mut netns.files else { continue };
            // Without the kernel module the file does not exist.
            let Some(tracked) = files.conntrack.read_if_any().and_then(parse) else { continue };
            if tracked.is_unused() {
                continue;
            }
            let before = self.previous.get(&netns.name);
            self.rows.push(&ConntrackStat {
                ts: now,
                host: &view.host,
                netns: &netns.name,
                entries: tracked.entries,
                entries_limit,
                drops_total: tracked.drops,
                early_drops_total: tracked.early_drops,
                insert_failures_total: tracked.insert_failures,
                drops_increase: before.map(|before| (tracked.drops - before.drops).max(0)),
                early_drops_increase: before
                    .map(|before| (tracked.early_drops - before.early_drops).max(0)),
                insert_failures_increase: before
                    .map(|before| (tracked.insert_failures - before.insert_failures).max(0)),
                chain_too_long_total: tracked.chains_too_long,
                chain_too_long_increase: before
                    .and_then(|before| increase(tracked.chains_too_long, before.chains_too_long)),
                invalid_total: tracked.invalid,
                invalid_increase: before
                    .and_then(|before| increase(tracked.invalid, before.invalid)),
            });
            current.insert(Arc::clone(&netns.name), tracked);
        }
        self.previous = current;
        take(&mut self.rows, out);
        Ok(())
    }
}

fn increase(now: Option<i64>, before: Option<i64>) -> Option<i64> {
    Some((now? - before?).max(0))
}

fn parse(bytes: &[u8]) -> Option<ConntrackCounts> {
    let mut lines = text::lines(bytes);
    let names: Vec<&[u8]> = text::fields(lines.next()?).collect();
    let [entries, drops, early, failed, too_long, invalid] =
        [&b"entries"[..], b"drop", b"early_drop", b"insert_failed", b"chainlength", b"invalid"]
            .map(|name| names.iter().position(|found| *found == name));
    let (entries, drops) = (entries?, drops?);
    let mut tracked = ConntrackCounts::default();
    for line in lines {
        let values: Vec<i64> = text::fields(line).map_while(text::hex).collect();
        let value = |at: usize| values.get(at).copied().unwrap_or(0);
        tracked.entries = value(entries);
        tracked.drops += value(drops);
        tracked.early_drops += early.map_or(0, value);
        tracked.insert_failures += failed.map_or(0, value);
        if let Some(at) = too_long {
            *tracked.chains_too_long.get_or_insert(0) += value(at);
        }
        if let Some(at) = invalid {
            *tracked.invalid.get_or_insert(0) += value(at);
        }
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
        let expected = ConntrackCounts {
            entries: 16,
            drops: 15,
            early_drops: 3,
            insert_failures: 2,
            chains_too_long: None,
            invalid: Some(4),
        };
        assert_eq!(parse(text), Some(expected));
        let newer = b"entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop\n\
            00000010  00000000 00000000 00000000 00000002 00000000 00000000 00000003 00000000 00000001 0000000a 00000000\n";
        assert_eq!(parse(newer).unwrap().chains_too_long, Some(3));
        assert_eq!(parse(b"entries found\n00000010 00000000\n"), None);
        assert_eq!(parse(b""), None);
    }
}
