//! The store as what a hub's connections deliver to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use weir_link::{
    AppendFuture, AppendResult, ClaimFuture, Intake, Refusal, RefusalReason, StreamPosition,
};
use weir_process::meter::{Meter, Stage};
use weir_store::{ErrorKind, Store, StoreError};
use weir_tables::StreamId;

use super::speakers::SpeakerList;

/// The store, and the meter that counts what came.
pub(crate) struct StoreIntake {
    pub(crate) store: Arc<Store>,
    pub(crate) meter: Arc<Meter>,
    pub(crate) speakers: Arc<SpeakerList>,
}

impl Intake for StoreIntake {
    fn claim(&self, streams: Vec<StreamId>) -> ClaimFuture {
        let store = Arc::clone(&self.store);
        Box::pin(async move { store.claim(&streams).await.map_err(refusal) })
    }

    fn positions(&self, streams: &[StreamId]) -> Vec<StreamPosition> {
        let accepted: HashMap<StreamId, u64> = self.store.positions(streams).into_iter().collect();
        let committed: HashMap<StreamId, u64> = self.store.committed(streams).into_iter().collect();
        streams
            .iter()
            .map(|stream: &StreamId| StreamPosition {
                stream: *stream,
                accepted: accepted.get(stream).copied(),
                committed: committed.get(stream).copied(),
            })
            .collect()
    }

    fn append(&self, agent: &str, parcel: Vec<u8>) -> AppendFuture {
        let (store, meter) = (Arc::clone(&self.store), Arc::clone(&self.meter));
        let (speakers, agent) = (Arc::clone(&self.speakers), agent.to_owned());
        Box::pin(async move {
            let started = Instant::now();
            match store.append_checked(parcel, |rows| speakers.check(&agent, rows)).await {
                Ok(appended) => {
                    let rows = usize::try_from(appended.rows).unwrap_or(usize::MAX);
                    meter.took(Stage::Store, started.elapsed(), rows);
                    Ok(AppendResult { rows: appended.rows, position: appended.position })
                }
                Err(error) => {
                    meter.failed(Stage::Store, &error.message);
                    if error.kind == ErrorKind::BadParcel {
                        tracing::warn!(agent, "refused a parcel: {}", error.message);
                    }
                    Err(refusal(error))
                }
            }
        })
    }

    fn speaks_for(&self, agent: &str, host: &str) -> bool {
        self.speakers.allows(agent, host)
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.store.commits()
    }

    fn trouble(&self) -> Option<String> {
        let stats = self.store.stats();
        stats.is_full.then(|| stats.message.unwrap_or_else(|| "the disk is full".to_owned()))
    }
}

fn refusal(error: StoreError) -> Refusal {
    let (reason, expected) = match error.kind {
        ErrorKind::Behind { expected } => (RefusalReason::Behind, expected),
        ErrorKind::Full => (RefusalReason::Full, 0),
        ErrorKind::Busy | ErrorKind::Moved => (RefusalReason::Busy, 0),
        ErrorKind::BadParcel => (RefusalReason::Bad, 0),
        _ => (RefusalReason::Failed, 0),
    };
    Refusal { reason, expected, text: error.message, hint: error.hint.unwrap_or_default() }
}
