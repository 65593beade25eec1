//! Kernel messages of hosts without an agent: they arrive as lines of `log`, by syslog or from another
//! shipper. Those of known kinds become rows of `kmsg` as well, so that rules see them.
//!
//! An agent reads its kernel itself, so what its host sends besides is left out. Only the facility `kern`
//! counts: syslog daemons give it to the kernel alone, whatever tag a process writes.

use std::cell::LazyCell;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, RecordBatch, StringArray};
use weir_collect::KernelMessage;
use weir_tables::{Batch, Clock, Kmsg, KmsgRows, Micros, Rows};

use crate::fleet::Fleet;

/// Finds messages of kernels in what other shippers send.
pub(super) struct KernelLines {
    /// Agents, which read their kernels themselves.
    fleet: Arc<Fleet>,
    /// This host, when this process reads its kernel.
    own_host: Option<String>,
    /// Older messages tell nothing of now.
    started: Micros,
}

impl KernelLines {
    /// For a process that starts now; `own_host` if it reads its host's kernel.
    pub(super) fn new(fleet: &Arc<Fleet>, own_host: Option<String>, clock: &dyn Clock) -> Self {
        Self { fleet: Arc::clone(fleet), own_host, started: clock.now() }
    }

    /// Rows of `kmsg` for lines of kernels in rows of `log`; `None` when there are none.
    pub(super) fn read(&self, batches: &[Batch]) -> Option<Batch> {
        let mut rows = KmsgRows::default();
        // Few batches have lines of kernels.
        let agents = LazyCell::new(|| self.fleet.clocks());
        let has_agent =
            |host: &str| self.own_host.as_deref() == Some(host) || agents.contains_key(host);
        for batch in batches.iter().filter(|batch| batch.table.name == "log") {
            self.push(&batch.rows, &has_agent, &mut rows);
        }
        (!rows.is_empty()).then(|| Batch { table: KmsgRows::SPEC, rows: rows.finish() })
    }

    /// Appends the known messages of kernels without an agent.
    fn push(&self, lines: &RecordBatch, has_agent: &dyn Fn(&str) -> bool, out: &mut KmsgRows) {
        let column = |name: &str| lines.column_by_name(name).expect("a column of `log`");
        let text = |name: &str| column(name).as_string::<i32>();
        let (hosts, bodies, severities) = (text("host"), text("body"), text("severity"));
        let (programs, facilities) = (text("program"), text("facility"));
        let times = column("ts").as_primitive::<TimestampMicrosecondType>();
        let is = |column: &StringArray, row: usize, word: &str| {
            column.is_valid(row) && column.value(row) == word
        };
        for row in 0..lines.num_rows() {
            if !is(facilities, row, "kern") || !is(programs, row, "kernel") {
                continue;
            }
            let Some(known) = KernelMessage::read(bodies.value(row)) else { continue };
            if has_agent(hosts.value(row)) {
                continue;
            }
            let ts = Micros(times.value(row));
            out.push(&Kmsg {
                ts,
                host: hosts.value(row),
                sequence: 0,
                severity: if severities.is_valid(row) { severities.value(row) } else { "info" },
                facility: "kern",
                kind: Some(known.kind),
                subject: known.subject,
                body: bodies.value(row),
                is_backlog: Some(ts < self.started),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_tables::{Log, LogRows};

    use super::*;

    fn known(lines: &[Log<'_>]) -> Vec<String> {
        let mut rows = LogRows::default();
        lines.iter().for_each(|line| rows.push(line));
        let own_host = Some("own".to_owned());
        let kernels = KernelLines { fleet: Arc::default(), own_host, started: Micros(100) };
        let log = Batch { table: LogRows::SPEC, rows: rows.finish() };
        let Some(found) = kernels.read(&[log]) else { return Vec::new() };
        let text = |name: &str| found.rows.column_by_name(name).unwrap().as_string::<i32>().clone();
        let (hosts, kinds, subjects) = (text("host"), text("kind"), text("subject"));
        let backlog = found.rows.column_by_name("is_backlog").unwrap().as_boolean();
        let row = |at: usize| {
            format!(
                "{} {} {} {}",
                hosts.value(at),
                kinds.value(at),
                subjects.value(at),
                backlog.value(at)
            )
        };
        (0..found.rows.num_rows()).map(row).collect()
    }

    #[test]
    fn messages_of_kernels_without_an_agent_are_found_and_what_a_process_writes_is_not() {
        let line = Log {
            ts: Micros(200),
            host: "web1",
            program: Some("kernel"),
            facility: Some("kern"),
            body: "Out of memory: Killed process 42 (java) total-vm:1kB",
            ..Log::default()
        };
        let disk = "I/O error, dev sdb, sector 8";
        let found = known(&[
            line,
            Log { ts: Micros(99), body: disk, severity: Some("error"), ..line },
            Log { host: "own", ..line },
            Log { program: Some("app"), ..line },
            Log { facility: Some("user"), ..line },
            Log { facility: None, ..line },
            Log { program: None, ..line },
            Log { body: "eth0: link becomes ready", ..line },
        ]);
        assert_eq!(found, ["web1 oom_kill java false", "web1 io_error sdb true"]);
        assert!(known(&[Log { facility: Some("daemon"), ..line }]).is_empty());
    }
}
