//! Bytes, packets, errors and drops per device: `/proc/net/dev` of every sampled namespace.
//!
//! A colon follows the device name, and the counters may directly follow that (`eth0:1234`).

use weir_tables::{Batch, Micros, NetDev, NetDevRows};

use super::{CollectResult, Collector, View, take, text};

const DEVICE_LIMIT: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct NetDevCollector {
    rows: NetDevRows,
}

impl Collector for NetDevCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        let mut result = Ok(());
        for netns in view.netns.namespaces.iter_mut().filter(|netns| netns.is_sampled) {
            let Some(files) = &mut netns.files else { continue };
            match files.dev.read() {
                Ok(bytes) => {
                    let (host, netns) = (&view.host, &netns.name);
                    let context = NetDev { ts: now, host, netns, ..NetDev::default() };
                    push(bytes, &context, &mut self.rows);
                }
                Err(error) => result = Err(error),
            }
        }
        take(&mut self.rows, out);
        result
    }
}

fn push(bytes: &[u8], context: &NetDev<'_>, rows: &mut NetDevRows) {
    for line in text::lines(bytes).skip(2).take(DEVICE_LIMIT) {
        let Some(colon) = memchr::memrchr(b':', line) else { continue };
        let device = text::trimmed(&line[..colon]);
        let mut counters = [0; 16];
        let fields = text::fields(&line[colon + 1..]);
        for (counter, field) in counters.iter_mut().zip(fields) {
            *counter = text::int(field).unwrap_or(0);
        }
        rows.push(&NetDev {
            device: &device,
            rx_bytes_total: counters[0],
            rx_packets_total: counters[1],
            rx_errors_total: counters[2],
            rx_drops_total: counters[3],
            rx_fifo_errors_total: counters[4],
            tx_bytes_total: counters[8],
            tx_packets_total: counters[9],
            tx_errors_total: counters[10],
            tx_drops_total: counters[11],
            ..*context
        });
    }
}

#[cfg(test)]
mod tests {
    use weir_tables::Rows;

    use super::*;

    #[test]
    fn glued_and_aliased_names_are_read() {
        let content = b"Inter-|   Receive\n face |bytes\n  lo:10 1 0 0 0 0 0 0 20 2 0 3 0 0 0 0\neth0:1: 5 0\n";
        let mut rows = NetDevRows::default();
        push(content, &NetDev::default(), &mut rows);
        let batch = rows.finish();
        use arrow_array::cast::AsArray;
        let device = batch.column_by_name("device").unwrap().as_string::<i32>();
        assert_eq!(device.iter().flatten().collect::<Vec<_>>(), ["lo", "eth0:1"]);
        let drops = batch.column_by_name("tx_drops_total").unwrap();
        let drops = drops.as_primitive::<arrow_array::types::Int64Type>();
        assert_eq!(drops.values(), &[3, 0]);
    }
}
