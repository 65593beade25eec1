//! Rows of `store_fault`: what is wrong with the files and the log of this hub's store.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use weir_store::{Store, StoreFault};
use weir_tables::{Batch, Clock, Parcel, Rows, StoreFault as FaultRow, StoreFaultRows};

/// How often lasting faults become rows.
const EVERY: Duration = Duration::from_secs(10);
/// Rows per interval; more faults have the same cause.
const ROWS_MAX: usize = 20;

/// Writes rows until it is dropped.
pub(crate) struct FaultReporter(JoinHandle<()>);

impl FaultReporter {
    pub(crate) fn start(store: &Arc<Store>, clock: &Arc<dyn Clock>, host: &str) -> Self {
        let clock = Arc::clone(clock);
        Self(tokio::spawn(report_always(Arc::clone(store), clock, host.to_owned())))
    }
}

impl Drop for FaultReporter {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn report_always(store: Arc<Store>, clock: Arc<dyn Clock>, host: String) {
    let mut ticks = tokio::time::interval(EVERY);
    loop {
        ticks.tick().await;
        let faults = store.stats().faults;
        if faults.is_empty() {
            continue;
        }
        let parcel = Parcel { range: None, batches: vec![rows(&faults, &*clock, &host)] };
        if let Err(error) = store.append(parcel).await {
            tracing::warn!("cannot write rows of `store_fault`: {}", error.message);
        }
    }
}

fn rows(faults: &[StoreFault], clock: &dyn Clock, host: &str) -> Batch {
    let mut rows = StoreFaultRows::default();
    for fault in faults.iter().take(ROWS_MAX) {
        rows.push(&FaultRow {
            ts: clock.now(),
            host,
            kind: fault.kind,
            path: &fault.path,
            message: &fault.message,
            fault_count: i64::try_from(faults.len()).unwrap_or(i64::MAX),
        });
    }
    Batch { table: StoreFaultRows::SPEC, rows: rows.finish() }
}
