//! Packets between interrupt and protocol per processor: `/proc/net/softnet_stat`, the same in every namespace.
//!
//! One line per processor on line, hexadecimal, without names; the columns differ by kernel. Column 13 is the
//! processor's number since 5.10; before, the line's own number stands for it.

use weir_tables::{Batch, Micros, SoftnetStat, SoftnetStatRows};

use super::file::KeptFile;
use super::{Collector, FullRound, View, take, text};
use crate::CollectError;

/// Seconds between two rows of a processor that stands still.
const ALL_EVERY_SECONDS: f64 = 60.0;

/// See the module.
#[derive(Debug)]
pub(super) struct SoftnetStatCollector {
    file: KeptFile,
    rows: SoftnetStatRows,
    previous: Vec<Processor>,
    full_round: FullRound,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Processor {
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
    fn name(&self) -> &'static str {
        "softnet_stat"
    }

    fn collect(
        &mut self,
        view: &mut View,
        now: Micros,
        out: &mut Vec<Batch>,
    ) -> Result<(), CollectError> {
        let processors = parse(self.file.read()?);
        let is_all = self.full_round.begin(now, ALL_EVERY_SECONDS);
        for processor in &processors {
            if is_all || !self.previous.contains(processor) {
                self.rows.push(&SoftnetStat {
                    ts: now,
                    host: &view.host,
                    cpu: &processor.number.to_string(),
                    packets_total: processor.packets,
                    drops_total: processor.drops,
                    time_squeezes_total: processor.squeezes,
                    backlog_length: processor.backlog,
                });
            }
        }
        self.previous = processors;
        take(&mut self.rows, out);
        Ok(())
    }
}

fn parse(bytes: &[u8]) -> Vec<Processor> {
    let parse_line = |(index, line)| {
        let columns: Vec<i64> = text::fields(line).map_while(text::hex).collect();
        let column = |at: usize| columns.get(at).copied();
        Some(Processor {
            number: column(12).or_else(|| i64::try_from(index).ok())?,
            packets: column(0)?,
            drops: column(1)?,
            squeezes: column(2)?,
            backlog: column(11),
        })
    };
    text::lines(bytes).enumerate().filter_map(parse_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_old_and_new_kernels_are_read() {
        let old = parse(b"0000000a 00000001 00000002 0 0 0 0 0 0 0 0\n");
        let expected = Processor { number: 0, packets: 10, drops: 1, squeezes: 2, backlog: None };
        assert_eq!(old, [expected]);
        let new = parse(b"0000000a 00000001 00000002 0 0 0 0 0 0 0 0 00000007 00000003 0 0\n");
        assert_eq!(new, [Processor { number: 3, backlog: Some(7), ..expected }]);
        assert_eq!(parse(b"zz\n1\n"), []);
    }
}
