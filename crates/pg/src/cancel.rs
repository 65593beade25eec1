//! Cancel requests: a client opens another connection with the number and the secret that it got at
//! its start.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::Notify;

/// Number and secret of a connection.
pub(crate) type CancelKey = (i32, i32);

/// All open connections.
#[derive(Default)]
pub(crate) struct CancelRegistry(Mutex<HashMap<CancelKey, Arc<Notify>>>);

impl CancelRegistry {
    /// Registers a connection until the returned value is dropped.
    pub(crate) fn register(self: &Arc<Self>) -> CancelRegistration {
        let mut bytes = [0; 8];
        // The system's generator does not fail once it is seeded.
        let _ = SystemRandom::new().fill(&mut bytes);
        let [a, b, c, d, e, f, g, h] = bytes;
        let key = (i32::from_be_bytes([a & 0x7f, b, c, d]), i32::from_be_bytes([e, f, g, h]));
        let request = Arc::new(Notify::new());
        self.open().insert(key, Arc::clone(&request));
        CancelRegistration { all: Arc::clone(self), key, request }
    }

    /// Cancels the query that runs on a connection. A later one is not affected.
    pub(crate) fn cancel(&self, key: CancelKey) {
        if let Some(request) = self.open().get(&key) {
            request.notify_waiters();
        }
    }

    fn open(&self) -> parking_lot::MutexGuard<'_, HashMap<CancelKey, Arc<Notify>>> {
        self.0.lock()
    }
}

/// Registration of a connection, removed on drop.
pub(crate) struct CancelRegistration {
    all: Arc<CancelRegistry>,
    pub(crate) key: CancelKey,
    pub(crate) request: Arc<Notify>,
}

impl Drop for CancelRegistration {
    fn drop(&mut self) {
        self.all.open().remove(&self.key);
    }
}
