//! What network drivers count by themselves: `ethtool -S` of the devices that are hardware, own namespace only.
//!
//! The names are each driver's own. Only those that tell of loss, errors or a limit are kept: a network card has
//! thousands of counters, most of them bytes by queue.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use weir_tables::{Batch, Micros, NicStat, NicStatRows};

use super::kernel_call::{DriverCounters, driver_counters, driver_values, ethtool_socket};
use super::{Collector, FullRound, View, take};
use crate::CollectError;

/// Seconds after which counters that stand still are told again, and names are asked anew.
const ALL_EVERY_SECONDS: f64 = 600.0;
/// Most devices.
const DEVICE_LIMIT: usize = 32;
/// Parts of names that tell of loss, errors or limits.
const TELLING: [&str; 20] = [
    "drop",
    "err",
    "fail",
    "miss",
    "fifo",
    "no_buf",
    "nobuf",
    "discard",
    "crc",
    "exceeded",
    "over",
    "timeout",
    "out_of",
    "starve",
    "full",
    "abort",
    "collision",
    "allowance",
    "kicks_lost",
    "bad",
];

/// See the module.
#[derive(Debug, Default)]
pub(super) struct NicStatCollector {
    rows: NicStatRows,
    socket: Option<OwnedFd>,
    devices: HashMap<String, Device>,
    full_round: FullRound,
}

#[derive(Debug, Default)]
struct Device {
    counters: DriverCounters,
    /// Which of its counters are kept, with their last values.
    kept: Vec<(usize, Option<u64>)>,
}

impl Device {
    fn new(counters: DriverCounters) -> Self {
        let is_telling = |name: &str| {
            let name = name.to_ascii_lowercase();
            TELLING.iter().any(|part| name.contains(part))
        };
        let names = counters.names.iter().enumerate();
        let kept = names.filter(|(_, name)| is_telling(name)).map(|(at, _)| (at, None)).collect();
        Self { counters, kept }
    }
}

impl Collector for NicStatCollector {
    fn name(&self) -> &'static str {
        "nic_stat"
    }

    fn every_seconds(&self) -> f64 {
        10.0
    }

    fn collect(
        &mut self,
        view: &mut View,
        now: Micros,
        out: &mut Vec<Batch>,
    ) -> Result<(), CollectError> {
        view.require_live("ask network drivers")?;
        let asking = |error| CollectError::new("ask network drivers", error);
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => ethtool_socket().map_err(asking)?,
        };
        let is_all = self.full_round.begin(now, ALL_EVERY_SECONDS);
        if is_all {
            self.find_devices(view, &socket);
        }
        for (name, device) in &mut self.devices {
            // One that is gone or has changed is found again at the next full look.
            let count = device.counters.names.len();
            let Ok(values) = driver_values(&socket, name, count) else { continue };
            for (at, last) in &mut device.kept {
                let Some(&value) = values.get(*at) else { continue };
                let before = last.replace(value);
                if !is_all && before == Some(value) {
                    continue;
                }
                let rise = before.and_then(|before| value.checked_sub(before));
                self.rows.push(&NicStat {
                    ts: now,
                    host: &view.host,
                    device: name,
                    driver: &device.counters.driver,
                    counter: &device.counters.names[*at],
                    value_total: i64::try_from(value).unwrap_or(i64::MAX),
                    increase: rise.map(|rise| i64::try_from(rise).unwrap_or(i64::MAX)),
                });
            }
        }
        self.socket = Some(socket);
        take(&mut self.rows, out);
        Ok(())
    }
}

impl NicStatCollector {
    fn find_devices(&mut self, view: &View, socket: &OwnedFd) {
        let mut before = std::mem::take(&mut self.devices);
        let entries = std::fs::read_dir(view.path("sys/class/net")).into_iter().flatten().flatten();
        // Bridges, tunnels and ends of virtual cables have no `device`.
        let hardware = entries.filter(|entry| entry.path().join("device").exists());
        for entry in hardware.take(DEVICE_LIMIT) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(counters) = driver_counters(socket, &name) else { continue };
            let device = match before.remove(&name) {
                Some(device) if device.counters.names == counters.names => device,
                _ => Device::new(counters),
            };
            if !device.kept.is_empty() {
                self.devices.insert(name, device);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telling_names_are_kept() {
        let names = ["rx_bytes", "rx_missed_errors", "bw_in_allowance_exceeded", "queue_0_rx_cnt"];
        let names = names.map(str::to_owned).to_vec();
        let device = Device::new(DriverCounters { driver: "ena".into(), names });
        assert_eq!(device.kept, [(1, None), (2, None)]);
    }
}
