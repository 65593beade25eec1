//! Orders for the hub's own host, which `weir up` watches itself: to the socket of weir-act, as an
//! agent carries them, with no link between.
//!
//! The orders are signed and verified like all others: the helper trusts the pinned key, not the
//! process at the other end of its socket.

use std::sync::Arc;
use std::time::Duration;

use weir_agent_core::orders::{HelperCarrier, KeepFuture, RunRowSink};
use weir_config::Values;
use weir_link::{CarriedOrder, OrderAnswer, OrderCarrier};
use weir_store::{ErrorKind, Store};
use weir_tables::{Batch, Clock, Parcel};

use crate::fleet::link_dir;

/// Attempts to keep a row while the store accepts none: as long as a run waits for its report.
const ATTEMPTS: usize = 900;
/// Pause between them. A repair may free the space that the row needs.
const PAUSE: Duration = Duration::from_secs(1);

/// The hub's own host, if `weir up` watches it.
pub(super) struct OwnHost {
    name: String,
    carrier: HelperCarrier,
}

impl OwnHost {
    /// Presents orders of an earlier process again; call it inside the runtime.
    pub(super) fn start(values: &Values, store: &Arc<Store>, clock: &Arc<dyn Clock>) -> Self {
        let name = values.collect.host.clone();
        let (socket, dir) = (&values.act.socket, link_dir(values));
        let carrier = HelperCarrier::new(&name, socket, &dir, Arc::clone(clock));
        carrier.start_with(Arc::new(StoredRows(Arc::clone(store))));
        Self { name, carrier }
    }

    /// Whether it is the host of this name.
    pub(super) fn is_named(&self, host: &str) -> bool {
        self.name == host
    }

    /// Carries an order; `None` if the helper does not answer within `patience`.
    pub(super) async fn carry(
        &self,
        order: CarriedOrder,
        patience: Duration,
    ) -> Option<OrderAnswer> {
        tokio::time::timeout(patience, self.carrier.carry(order)).await.ok()
    }
}

/// The store of this process: a row is kept when it is in the write-ahead log.
struct StoredRows(Arc<Store>);

impl RunRowSink for StoredRows {
    fn keep(&self, rows: Batch) -> KeepFuture<'_> {
        Box::pin(self.append(Parcel { range: None, batches: vec![rows] }))
    }
}

impl StoredRows {
    async fn append(&self, parcel: Parcel) -> bool {
        for attempt in 0..ATTEMPTS {
            let Err(error) = self.0.append(parcel.clone()).await else { return true };
            if attempt == 0 {
                tracing::warn!("cannot write rows of `action_run`: {}", error.message);
            }
            if error.kind == ErrorKind::BadParcel {
                return false;
            }
            tokio::time::sleep(PAUSE).await;
        }
        false
    }
}
