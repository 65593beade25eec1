//! Packets between interrupt and protocol per CPU, in all namespaces: `/proc/net/softnet_stat`.
//!
//! One line per online CPU, hexadecimal, without names; the columns differ by kernel. Column 13 is
//! the CPU number since 5.10; before, the line number is used.

use weir_tables::{Batch, Micros, SoftnetStat, SoftnetStatRows};

use super::file::KeptFile;
use super::{CollectResult, Collector, FullRound, View, take, text};

/// Seconds between rows of a CPU whose counters do not change.
const ALL_EVERY_SECONDS: f64 = 60.0;

#[derive(Debug)]
pub(super) struct SoftnetStatCollector {
    file: KeptFile,
    rows: SoftnetStatRows,
    previous: Vec<CpuCounters>,
    full_round: FullRound,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CpuCounters {
    number: i64,
    packets: i64,
    drops: i64,
    squeezes: i64,
    backlog: Option<i64>,
}

impl SoftnetStatCollector {
    pub(super) fn new(view: &View) -> Self {
        let file = KeptFile::new(view.path("proc/net/softnet_stat"));
        Self {
            file,
            rows: SoftnetStatRows::default(),
            previous: Vec::new(),
            full_round: FullRound::default(),
        }
    }
}

impl Collector for SoftnetStatCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        let cpus = parse(self.file.read()?);
        let is_all = self.full_round.begin(now, ALL_EVERY_SECONDS);
        for cpu in &cpus {
            if is_all || !self.previous.contains(cpu) {
                self.rows.push(&SoftnetStat {
                    ts: now,
                    host: &view.host,
                    cpu: &cpu.number.to_string(),
                    packets_total: cpu.packets,
                    drops_total: cpu.drops,
                    time_squeezes_total: cpu.squeezes,
                    backlog_length: cpu.backlog,
                });
            }
        }
        self.previous = cpus;
        take(&mut self.rows, out);
        Ok(())
    }
}

fn parse(bytes: &[u8]) -> Vec<CpuCounters> {
    let lines = text::lines(bytes).enumerate();
    lines.filter_map(|(index, line)| parse_line(index, line)).collect()
}

fn parse_line(index: usize, line: &[u8]) -> Option<CpuCounters> {
    let columns: Vec<i64> = text::fields(line).map_while(text::hex).collect();
    Some(CpuCounters {
        number: columns.get(12).copied().or_else(|| i64::try_from(index).ok())?,
        packets: *columns.first()?,
        drops: *columns.get(1)?,
        squeezes: *columns.get(2)?,
        backlog: columns.get(11).copied(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_old_and_new_kernels_are_read() {
        let old = parse(b"0000000a 00000001 00000002 0 0 0 0 0 0 0 0\n");
        let expected = CpuCounters { number: 0, packets: 10, drops: 1, squeezes: 2, backlog: None };
        assert_eq!(old, [expected]);
        let new = parse(b"0000000a 00000001 00000002 0 0 0 0 0 0 0 0 00000007 00000003 0 0\n");
        assert_eq!(new, [CpuCounters { number: 3, backlog: Some(7), ..expected }]);
        assert_eq!(parse(b"zz\n1\n"), []);
    }
}
