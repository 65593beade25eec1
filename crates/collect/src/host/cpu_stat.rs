//! CPU time by state, including steal: `/proc/stat`.
//!
//! Times are in ticks of 1/100 s on every relevant architecture (`USER_HZ`, not the kernel's HZ).
//! `user` and `nice` already contain `guest` and `guest_nice`, so those are not added again.

use weir_tables::{Batch, CpuStat, CpuStatRows, Micros};

use super::file::KeptFile;
use super::{CollectResult, Collector, View, take, text};

const TICK_SECONDS: f64 = 0.01;
const SINGLE_EVERY_SECONDS: f64 = 9.5;

#[derive(Debug)]
pub(super) struct CpuStatCollector {
    file: KeptFile,
    rows: CpuStatRows,
    last_single: Option<Micros>,
}

impl CpuStatCollector {
    pub(super) fn new(view: &View) -> Self {
        let file = KeptFile::new(view.path("proc/stat"));
        Self { file, rows: CpuStatRows::default(), last_single: None }
    }
}

impl Collector for CpuStatCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        let bytes = self.file.read()?;
        let age = self.last_single.map(|last| now.seconds_since(last));
        let is_single_due = age.is_none_or(|age| !(0.0..SINGLE_EVERY_SECONDS).contains(&age));
        if is_single_due {
            self.last_single = Some(now);
        }
        push(bytes, is_single_due, &view.host, now, &mut self.rows);
        take(&mut self.rows, out);
        Ok(())
    }
}

fn push(bytes: &[u8], with_single: bool, host: &str, now: Micros, rows: &mut CpuStatRows) {
    let mut all = None;
    let mut cpu_count = 0;
    let mut total = [None; 4];
    for line in text::lines(bytes) {
        let mut fields = text::fields(line);
        let name = fields.next().unwrap_or_default();
        match name {
            b"cpu" => all = Some(times(fields)),
            b"ctxt" => total[0] = fields.next().and_then(text::int),
            b"processes" => total[1] = fields.next().and_then(text::int),
            b"procs_running" => total[2] = fields.next().and_then(text::int),
            b"procs_blocked" => total[3] = fields.next().and_then(text::int),
            _ => {
                let Some(number) = name.strip_prefix(b"cpu") else { continue };
                cpu_count += 1;
                if with_single {
                    let number = text::trimmed(number);
                    rows.push(&CpuStat { ts: now, host, cpu: &number, ..times(fields) });
                }
            }
        }
    }
    let Some(all) = all else { return };
    let [context_switches_total, processes_created_total, processes_running, processes_blocked] =
        total;
    rows.push(&CpuStat {
        ts: now,
        host,
        cpu: "all",
        cpu_count: Some(cpu_count),
        processes_running,
        processes_blocked,
        context_switches_total,
        processes_created_total,
        ..all
    });
}

fn times<'a>(fields: impl Iterator<Item = &'a [u8]>) -> CpuStat<'static> {
    let mut ticks = [0.0; 8];
    for (tick, field) in ticks.iter_mut().zip(fields) {
        *tick = text::float(field).unwrap_or(0.0) * TICK_SECONDS;
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
    CpuStat {
        user_seconds_total: user + nice,
        system_seconds_total: system,
        idle_seconds_total: idle,
        iowait_seconds_total: iowait,
        irq_seconds_total: irq,
        softirq_seconds_total: softirq,
        steal_seconds_total: steal,
        ..CpuStat::default()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Float64Type;
    use weir_tables::Rows;

    use super::*;

    #[test]
    fn steal_is_reported_for_all_and_for_each_cpu() {
        let content = b"cpu  100 20 30 400 5 6 7 800 9 9\ncpu0 50 10 15 200 2 3 3 400 0 0\ncpu1 50 10 15 200 3 3 4 400\nintr 1 2\nctxt 9\nprocesses 8\nprocs_running 2\nprocs_blocked 1\n";
        let mut rows = CpuStatRows::default();
        push(content, true, "web1", Micros(0), &mut rows);
        let batch = rows.finish();
        let cpu = batch.column_by_name("cpu").unwrap().as_string::<i32>();
        assert_eq!(cpu.iter().flatten().collect::<Vec<_>>(), ["0", "1", "all"]);
        let seconds = |name: &str| {
            batch.column_by_name(name).unwrap().as_primitive::<Float64Type>().values().to_vec()
        };
        assert_eq!(seconds("steal_seconds_total"), [4.0, 4.0, 8.0]);
        assert_eq!(seconds("user_seconds_total")[2], 1.2);
    }

    #[test]
    fn kernel_without_steal_and_garbage_are_read() {
        let mut rows = CpuStatRows::default();
        push(b"cpu 1 2 3\nnonsense\ncpu", false, "web1", Micros(0), &mut rows);
        assert_eq!(rows.len(), 1);
    }
}
