//! Protocol counters: `/proc/net/netstat` and `/proc/net/snmp` of every sampled namespace.
//!
//! Both files are pairs of lines, names and values, so counters of newer kernels appear without a
//! change here. 250 counters a second would be 20 million rows a day, so a row is written when a
//! value changed, and for all counters once a minute.

use std::collections::HashMap;

use weir_tables::{Batch, Micros, TcpStat, TcpStatRows};

use super::netns::NetFiles;
use super::{CollectResult, Collector, FullRound, View, take, text};
use crate::CollectError;

/// Seconds between rows of an unchanged counter.
const ALL_EVERY_SECONDS: f64 = 60.0;
const COUNTER_LIMIT: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct TcpStatCollector {
    rows: TcpStatRows,
    states: HashMap<u64, NetnsState>,
}

#[derive(Debug, Default)]
struct NetnsState {
    last_sample: Option<Micros>,
    full_round: FullRound,
    netstat: Vec<CounterGroup>,
    snmp: Vec<CounterGroup>,
}

#[derive(Debug, Default)]
struct CounterGroup {
    header: Vec<u8>,
    protocol: String,
    counters: Vec<String>,
    previous: Vec<Option<i64>>,
}

struct SampleContext<'a> {
    now: Micros,
    host: &'a str,
    netns: &'a str,
    interval_seconds: Option<f64>,
    is_all: bool,
}

impl Collector for TcpStatCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        let mut result = Ok(());
        let namespaces = &mut view.netns.namespaces;
        self.states.retain(|inode, _| namespaces.iter().any(|netns| netns.inode == *inode));
        for netns in namespaces.iter_mut().filter(|netns| netns.is_sampled) {
            let Some(files) = &mut netns.files else { continue };
            let state = self.states.entry(netns.inode).or_default();
            let (interval_seconds, is_all) = state.begin(now);
            let (host, netns) = (&*view.host, &*netns.name);
            let sample = SampleContext { now, host, netns, interval_seconds, is_all };
            if let Err(error) = state.read(files, &sample, &mut self.rows) {
                result = Err(error);
            }
        }
        take(&mut self.rows, out);
        result
    }
}

impl NetnsState {
    /// Starts a sample: seconds since the last one, and whether unchanged counters are reported.
    fn begin(&mut self, now: Micros) -> (Option<f64>, bool) {
        let interval = self.last_sample.map(|last| now.seconds_since(last));
        let interval_seconds = interval.filter(|seconds| *seconds > 0.0);
        let is_all = self.full_round.begin(now, ALL_EVERY_SECONDS);
        self.last_sample = Some(now);
        (interval_seconds, is_all)
    }

    fn read(
        &mut self,
        files: &mut NetFiles,
        sample: &SampleContext<'_>,
        rows: &mut TcpStatRows,
    ) -> Result<(), CollectError> {
        let netstat =
            files.netstat.read().map(|bytes| read(bytes, &mut self.netstat, sample, rows));
        let snmp = files.snmp.read().map(|bytes| read(bytes, &mut self.snmp, sample, rows));
        netstat.and(snmp)
    }
}

/// Appends the rows of one file's content.
fn read(
    bytes: &[u8],
    groups: &mut Vec<CounterGroup>,
    sample: &SampleContext<'_>,
    rows: &mut TcpStatRows,
) {
    let mut lines = text::lines(bytes);
    let mut index = 0;
    while let (Some(header), Some(values)) = (lines.next(), lines.next()) {
        let at = groups.iter().skip(index).position(|group| group.header == header);
        index = match at {
            Some(skipped) => index + skipped,
            None => learn(groups, header),
        };
        let Some(group) = groups.get_mut(index) else { continue };
        group.read(values, sample, rows);
        index += 1;
    }
}

/// Adds a pair of lines with new names to `groups`, keeping the previous values of known counters.
fn learn(groups: &mut Vec<CounterGroup>, header: &[u8]) -> usize {
    let mut names = text::fields(header);
    let protocol = text::trimmed(names.next().unwrap_or_default());
    let protocol = protocol.trim_end_matches(':').to_owned();
    let at = groups.iter().position(|group| group.protocol == protocol);
    let at = at.unwrap_or_else(|| {
        groups.push(CounterGroup::default());
        groups.len() - 1
    });
    let old = std::mem::take(&mut groups[at]);
    let counters: Vec<String> =
        names.take(COUNTER_LIMIT).map(|name| text::trimmed(name).into_owned()).collect();
    let previous = counters
        .iter()
        .map(|name| old.previous[old.counters.iter().position(|old| old == name)?])
        .collect();
    groups[at] = CounterGroup { header: header.to_vec(), protocol, counters, previous };
    at
}

impl CounterGroup {
    fn read(&mut self, line: &[u8], sample: &SampleContext<'_>, rows: &mut TcpStatRows) {
        let values = text::fields(line).skip(1);
        for ((counter, previous), value) in self.counters.iter().zip(&mut self.previous).zip(values)
        {
            let Some(value) = text::int(value) else { continue };
            let before = previous.replace(value);
            if before == Some(value) && !sample.is_all {
                continue;
            }
            rows.push(&TcpStat {
                ts: sample.now,
                host: sample.host,
                netns: sample.netns,
                protocol: &self.protocol,
                counter,
                value,
                // A decrease means that the counter was reset, or is a gauge: there is no increase.
                increase: before.and_then(|before| (value >= before).then(|| value - before)),
                interval_seconds: before.and(sample.interval_seconds),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use expect_test::{Expect, expect};
    use weir_tables::Rows;

    use super::*;

    fn check(samples: &[(&str, bool)], expected: &Expect) {
        let mut groups = Vec::new();
        let mut rows = TcpStatRows::default();
        let mut shown = String::new();
        for (second, (content, is_all)) in samples.iter().enumerate() {
            let interval_seconds = (second > 0).then_some(1.0);
            let now = Micros(i64::try_from(second).unwrap() * 1_000_000);
            let sample = SampleContext {
                now,
                host: "web1",
                netns: "host",
                interval_seconds,
                is_all: *is_all,
            };
            read(content.as_bytes(), &mut groups, &sample, &mut rows);
            let batch = rows.finish();
            let protocol = batch.column_by_name("protocol").unwrap().as_string::<i32>();
            let counter = batch.column_by_name("counter").unwrap().as_string::<i32>();
            let value = batch.column_by_name("value").unwrap().as_primitive::<Int64Type>();
            let increase = batch.column_by_name("increase").unwrap().as_primitive::<Int64Type>();
            for row in 0..batch.num_rows() {
                let rise = increase.iter().nth(row).flatten();
                shown += &format!(
                    "{second}s {}.{} {} {rise:?}\n",
                    protocol.value(row),
                    counter.value(row),
                    value.value(row)
                );
            }
        }
        expected.assert_eq(&shown);
    }

    #[test]
    fn only_changes_make_rows_and_a_reset_has_no_increase() {
        let at = |drops: &str| format!("Tcp: MaxConn Drops\nTcp: -1 {drops}\n");
        check(
            &[(&at("5"), true), (&at("5"), false), (&at("7"), false), (&at("2"), false)],
            &expect![[r"
                0s Tcp.MaxConn -1 None
                0s Tcp.Drops 5 None
                2s Tcp.Drops 7 Some(2)
                3s Tcp.Drops 2 None
            "]],
        );
    }

    #[test]
    fn group_whose_names_change_keeps_what_is_known_of_the_others() {
        check(
            &[
                ("IcmpMsg: InType3\nIcmpMsg: 1\nTcp: A\nTcp: 1\n", true),
                ("IcmpMsg: InType0 InType3\nIcmpMsg: 4 2\nTcp: A\nTcp: 1\n", false),
            ],
            &expect![[r"
                0s IcmpMsg.InType3 1 None
                0s Tcp.A 1 None
                1s IcmpMsg.InType0 4 None
                1s IcmpMsg.InType3 2 Some(1)
            "]],
        );
    }

    #[test]
    fn broken_content_makes_no_rows() {
        check(&[("Tcp: A B", true), ("\n\n", true), ("Tcp: A B\nTcp: x\n", true)], &expect![""]);
    }
}
