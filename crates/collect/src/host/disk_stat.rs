//! Block device operations and their durations: `/proc/diskstats`.
//!
//! Sectors in this file are always 512 bytes, times are milliseconds. Discards (fields 15 to 18,
//! since 4.18) come before flushes (19, 20, since 5.5). Devices without any I/O produce no rows.

use std::collections::HashMap;

use weir_tables::{Batch, DiskStat, DiskStatRows, Micros};

use super::file::KeptFile;
use super::{CollectResult, Collector, View, take, text};

const SECTOR_BYTES: i64 = 512;
const DEVICE_LIMIT: usize = 1024;

#[derive(Debug)]
pub(super) struct DiskStatCollector {
    file: KeptFile,
    rows: DiskStatRows,
    is_partition: HashMap<String, bool>,
}

impl DiskStatCollector {
    pub(super) fn new(view: &View) -> Self {
        Self {
            file: KeptFile::new(view.path("proc/diskstats")),
            rows: DiskStatRows::default(),
            is_partition: HashMap::new(),
        }
    }
}

impl Collector for DiskStatCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        for line in text::lines(self.file.read()?).take(DEVICE_LIMIT) {
            let Some((name, numbers)) = parse(line) else { continue };
            if !self.is_partition.contains_key(name) {
                let file = view.path("sys/class/block").join(name).join("partition");
                self.is_partition.insert(name.to_owned(), file.exists());
            }
            let is_partition = self.is_partition[name];
            let row = row(name, is_partition, &numbers);
            self.rows.push(&DiskStat { ts: now, host: &view.host, ..row });
        }
        if self.is_partition.len() > 2 * DEVICE_LIMIT {
            self.is_partition.clear();
        }
        take(&mut self.rows, out);
        Ok(())
    }
}

/// Name and figures of a device that has done I/O.
fn parse(line: &[u8]) -> Option<(&str, [Option<i64>; 17])> {
    let mut fields = text::fields(line).skip(2);
    let name = std::str::from_utf8(fields.next()?).ok()?;
    let mut numbers = [None; 17];
    for (number, field) in numbers.iter_mut().zip(fields) {
        *number = text::int(field);
    }
    let is_used = numbers.iter().any(|number| number.is_some_and(|number| number != 0));
    is_used.then_some((name, numbers))
}

fn row<'a>(device: &'a str, is_partition: bool, numbers: &[Option<i64>; 17]) -> DiskStat<'a> {
    let counts = numbers.map(|number| number.unwrap_or(0));
    DiskStat {
        device,
        is_partition,
        reads_total: counts[0],
        read_bytes_total: counts[2].saturating_mul(SECTOR_BYTES),
        read_seconds_total: seconds(counts[3]),
        writes_total: counts[4],
        written_bytes_total: counts[6].saturating_mul(SECTOR_BYTES),
        write_seconds_total: seconds(counts[7]),
        in_flight: counts[8],
        busy_seconds_total: seconds(counts[9]),
        weighted_seconds_total: seconds(counts[10]),
        flushes_total: numbers[15],
        flush_seconds_total: numbers[16].map(seconds),
        ..DiskStat::default()
    }
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds stay below 2^53 for 285,000 years")]
fn seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_new_and_old_kernels_are_read_and_idle_devices_left_out() {
        let new = b" 259 0 nvme0n1 10 1 16 500 20 2 32 1500 3 900 2000 0 0 0 0 4 250";
        let (name, numbers) = parse(new).unwrap();
        let row = row(name, false, &numbers);
        assert_eq!((row.device, row.reads_total, row.writes_total), ("nvme0n1", 10, 20));
        assert_eq!((row.read_bytes_total, row.written_bytes_total), (8192, 16384));
        assert_eq!((row.read_seconds_total, row.write_seconds_total), (0.5, 1.5));
        assert_eq!((row.in_flight, row.busy_seconds_total), (3, 0.9));
        assert_eq!((row.flushes_total, row.flush_seconds_total), (Some(4), Some(0.25)));
        let (_, old) = parse(b"8 1 sda1 10 1 16 500 20 2 32 1500 3 900 2000").unwrap();
        assert_eq!(old[15], None);
        assert_eq!(parse(b"7 0 loop0 0 0 0 0 0 0 0 0 0 0 0"), None);
        assert_eq!(parse(b"7"), None);
    }
}
