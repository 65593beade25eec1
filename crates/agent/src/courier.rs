//! A courier as the destination of this host's rows: parcels go to a hub over the link, samples by
//! way of the spool.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use weir_link::{DeliveryOutcome, Shipment, UplinkHandle};
use weir_process::meter::{Meter, Stage};
use weir_process::own_limits::CpuShare;
use weir_tables::{Batch, Parcel, StreamId};

use crate::watch::deliver::{DeliveryTicket, Destination};

/// Hands over to a courier.
pub(crate) struct CourierDestination {
    handle: UplinkHandle,
    meter: Arc<Meter>,
    cpu: Mutex<CpuShare>,
}

impl CourierDestination {
    pub(crate) fn new(handle: UplinkHandle, meter: Arc<Meter>, cpu: CpuShare) -> Self {
        Self { handle, meter, cpu: Mutex::new(cpu) }
    }
}

impl Destination for CourierDestination {
    fn positions(&self, streams: &[StreamId]) -> Result<Vec<(StreamId, u64)>, String> {
        self.handle.positions(streams)
    }

    fn send_stream(&self, parcel: Parcel, ticket: DeliveryTicket) {
        let Some(range) = parcel.range else { return };
        // Back-pressure: the parser blocks here, and through it the tailer; samples pass.
        self.cpu.lock().keep();
        let (rows, epoch) = (parcel.row_count(), ticket.epoch);
        let (meter, started) = (Arc::clone(&self.meter), Instant::now());
        let report = Box::new(move |outcome: DeliveryOutcome| match outcome {
            DeliveryOutcome::Accepted(to) => {
                meter.took(Stage::Store, started.elapsed(), rows);
                ticket.durable(to);
            }
            DeliveryOutcome::Resend { position, is_busy } => ticket.again(position, is_busy),
        });
        self.handle.ship(Shipment { range, epoch, bytes: parcel.encode(true), report });
    }

    fn send_sample(&self, batches: Vec<Batch>) {
        match self.handle.ship_sample(batches) {
            Ok(0) => {}
            Ok(dropped) => {
                self.meter.count_dropped(dropped);
                let text =
                    format!("the spool is full: {dropped} samples that no hub has were dropped");
                self.meter.failed(Stage::Spool, &text);
            }
            Err(error) => {
                self.meter.count_dropped(1);
                self.meter.failed(Stage::Spool, &error.message);
            }
        }
    }

    fn close(&self) {
        self.handle.close();
    }
}
