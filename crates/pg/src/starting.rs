//! Connections that have not logged in yet. When there are too many, the oldest is dropped: a client
//! logs in within milliseconds, a connection that says nothing stays.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Limit of connections before their login.
const STARTING_MAX: usize = 100;

#[derive(Default)]
pub(crate) struct StartingConnections(Mutex<StartingPlaces>);

#[derive(Default)]
struct StartingPlaces {
    /// By order of arrival.
    open: BTreeMap<u64, oneshot::Sender<()>>,
    next: u64,
}

impl StartingConnections {
    /// Adds a connection; beyond the limit, the oldest is evicted.
    pub(crate) fn enter(self: &Arc<Self>) -> StartingPlace {
        let (sender, evicted) = oneshot::channel();
        let mut places = self.0.lock();
        let number = places.next;
        places.next += 1;
        places.open.insert(number, sender);
        if places.open.len() > STARTING_MAX
            && let Some((_, oldest)) = places.open.pop_first()
        {
            // It may have logged in at this moment.
            let _ = oldest.send(());
        }
        StartingPlace { all: Arc::clone(self), number, evicted }
    }
}

/// Place of one connection, until it is dropped.
pub(crate) struct StartingPlace {
    all: Arc<StartingConnections>,
    number: u64,
    evicted: oneshot::Receiver<()>,
}

impl StartingPlace {
    /// Waits until the connection must make place for another.
    pub(crate) async fn evicted(&mut self) {
        let _ = (&mut self.evicted).await;
    }
}

impl Drop for StartingPlace {
    fn drop(&mut self) {
        self.all.0.lock().open.remove(&self.number);
    }
}
