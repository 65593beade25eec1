//! Memory usage and reclaim activity: `/proc/meminfo` and `/proc/vmstat`.
//!
//! meminfo, `pgpgin` and `pgpgout` are in KiB; swap and refault counters are in pages.

use weir_tables::{Batch, MemStat, MemStatRows, Micros};

use super::file::KeptFile;
use super::{CollectResult, Collector, View, take, text};

#[derive(Debug)]
pub(super) struct MemStatCollector {
    meminfo: KeptFile,
    vmstat: KeptFile,
    rows: MemStatRows,
}

impl MemStatCollector {
    pub(super) fn new(view: &View) -> Self {
        Self {
            meminfo: KeptFile::new(view.path("proc/meminfo")),
            vmstat: KeptFile::new(view.path("proc/vmstat")),
            rows: MemStatRows::default(),
        }
    }
}

impl Collector for MemStatCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        let mut row = MemStat { ts: now, host: &view.host, ..MemStat::default() };
        read_meminfo(self.meminfo.read()?, &mut row);
        let vmstat = self.vmstat.read().map(|bytes| read_vmstat(bytes, &mut row));
        self.rows.push(&row);
        take(&mut self.rows, out);
        vmstat
    }
}

fn read_meminfo(bytes: &[u8], row: &mut MemStat<'_>) {
    for line in text::lines(bytes) {
        let mut fields = text::fields(line);
        let (Some(name), Some(value)) = (fields.next(), fields.next()) else { continue };
        let cell = match name {
            b"MemTotal:" => &mut row.size_bytes,
            b"MemFree:" => &mut row.free_bytes,
            b"MemAvailable:" => &mut row.available_bytes,
            b"Buffers:" => &mut row.buffers_bytes,
            b"Cached:" => &mut row.cached_bytes,
            b"Dirty:" => &mut row.dirty_bytes,
            b"Writeback:" => &mut row.writeback_bytes,
            b"Slab:" => &mut row.slab_bytes,
            b"SwapTotal:" => &mut row.swap_size_bytes,
            b"SwapFree:" => &mut row.swap_free_bytes,
            _ => continue,
        };
        *cell = text::int(value).unwrap_or(0).saturating_mul(1024);
    }
}

fn read_vmstat(bytes: &[u8], row: &mut MemStat<'_>) {
    for line in text::lines(bytes) {
        let mut fields = text::fields(line);
        let (Some(name), Some(value)) = (fields.next(), fields.next()) else { continue };
        let value = text::int(value).unwrap_or(0);
        match name {
            b"oom_kill" => row.oom_kills_total = Some(value),
            b"pgmajfault" => row.major_faults_total = value,
            b"pswpin" => row.swap_in_pages_total = value,
            b"pswpout" => row.swap_out_pages_total = value,
            // One counter before 5.9, split by kind since.
            b"workingset_refault_file" | b"workingset_refault" => {
                row.refault_pages_total = Some(value);
            }
            b"pgpgin" => row.read_bytes_total = value.saturating_mul(1024),
            b"pgpgout" => row.written_bytes_total = value.saturating_mul(1024),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kibibytes_become_bytes_and_what_an_old_kernel_lacks_is_null() {
        let mut row = MemStat::default();
        read_meminfo(b"MemTotal: 4 kB\nMemFree:\nSwapTotal: x kB\n", &mut row);
        read_vmstat(b"pgpgin 2\npgmajfault 7\n", &mut row);
        assert_eq!((row.size_bytes, row.swap_size_bytes), (4096, 0));
        assert_eq!((row.read_bytes_total, row.major_faults_total), (2048, 7));
        assert_eq!((row.oom_kills_total, row.refault_pages_total), (None, None));
    }
}
