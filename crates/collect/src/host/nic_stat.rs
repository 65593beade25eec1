//! Counters of network drivers: `ethtool -S` of hardware devices, own namespace only.
//!
//! Counter names are specific to the driver. Only those about loss, errors or limits are kept: a
//! network card has thousands of counters, most of them bytes by queue.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use weir_tables::{Batch, Micros, NicStat, NicStatRows};

use super::kernel_call::{DriverCounters, driver_counters, driver_values, ethtool_socket};
use super::{CollectResult, Collector, FullRound, View, take};
use crate::CollectError;

/// Seconds between full rounds, which report unchanged counters too and query the names again.
const ALL_EVERY_SECONDS: f64 = 600.0;
const DEVICE_LIMIT: usize = 32;
/// Parts of counter names that indicate loss, errors or limits.
const RELEVANT_PARTS: &str = "\
    drop err fail miss fifo no_buf nobuf discard crc exceeded over timeout out_of starve full \
    abort collision allowance kicks_lost bad";

#[derive(Debug, Default)]
pub(super) struct NicStatCollector {
    rows: NicStatRows,
    socket: Option<OwnedFd>,
    devices: HashMap<String, NicDevice>,
    full_round: FullRound,
}

#[derive(Debug, Default)]
struct NicDevice {
    counters: DriverCounters,
    /// Indices of the relevant counters, with their last values.
    relevant: Vec<(usize, Option<u64>)>,
}

impl NicDevice {
    fn new(counters: DriverCounters) -> Self {
        let names = counters.names.iter().enumerate();
        let relevant =
            names.filter(|(_, name)| is_relevant(name)).map(|(at, _)| (at, None)).collect();
        Self { counters, relevant }
    }
}

fn is_relevant(counter: &str) -> bool {
    let counter = counter.to_ascii_lowercase();
    RELEVANT_PARTS.split(' ').any(|part| counter.contains(part))
}

impl Collector for NicStatCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        view.require_live("query network drivers")?;
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => ethtool_socket()
                .map_err(|error| CollectError::new("query network drivers", error))?,
        };
        let is_all = self.full_round.begin(now, ALL_EVERY_SECONDS);
        if is_all {
            self.find_devices(view, &socket);
        }
        for (name, device) in &mut self.devices {
            // A device that is gone or has changed is found again in the next full round.
            let count = device.counters.names.len();
            let Ok(values) = driver_values(&socket, name, count) else { continue };
            for (at, last) in &mut device.relevant {
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
        // Bridges, tunnels and veth devices have no `device`.
        let hardware = entries.filter(|entry| entry.path().join("device").exists());
        for entry in hardware.take(DEVICE_LIMIT) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(counters) = driver_counters(socket, &name) else { continue };
            let device = match before.remove(&name) {
                Some(device) if device.counters.names == counters.names => device,
                _ => NicDevice::new(counters),
            };
            if !device.relevant.is_empty() {
                self.devices.insert(name, device);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relevant_names_are_kept() {
        let names = ["rx_bytes", "rx_missed_errors", "bw_in_allowance_exceeded", "queue_0_rx_cnt"];
        let names = names.map(str::to_owned).to_vec();
        let device = NicDevice::new(DriverCounters { driver: "ena".into(), names });
        assert_eq!(device.relevant, [(1, None), (2, None)]);
    }
}
