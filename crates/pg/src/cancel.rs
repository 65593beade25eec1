//! Cancel requests: a client opens another connection with the number and the secret that it got at
//! its start, or calls `pg_cancel_backend(number)` as the same user.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::Notify;

/// Number and secret of a connection.
pub(crate) type CancelKey = (i32, i32);

/// An open connection.
struct OpenConnection {
    user: Arc<str>,
    request: Arc<Notify>,
}

/// All open connections.
#[derive(Default)]
pub(crate) struct CancelRegistry(Mutex<HashMap<CancelKey, OpenConnection>>);

impl CancelRegistry {
    /// Registers a connection until the returned value is dropped.
    pub(crate) fn register(self: &Arc<Self>, user: &Arc<str>) -> CancelRegistration {
        let mut bytes = [0; 8];
        // The system's generator does not fail once it is seeded.
        let _ = SystemRandom::new().fill(&mut bytes);
        let [a, b, c, d, e, f, g, h] = bytes;
        let key = (i32::from_be_bytes([a & 0x7f, b, c, d]), i32::from_be_bytes([e, f, g, h]));
        let request = Arc::new(Notify::new());
        let connection = OpenConnection { user: Arc::clone(user), request: Arc::clone(&request) };
        self.open().insert(key, connection);
        CancelRegistration { all: Arc::clone(self), key, request }
    }

    /// Cancels the query that runs on a connection. A later one is not affected.
    pub(crate) fn cancel(&self, key: CancelKey) {
        if let Some(connection) = self.open().get(&key) {
            connection.request.notify_waiters();
        }
    }

    /// Cancels the query of a connection of the same user; false if there is none.
    fn cancel_own(&self, number: i32, user: &str) -> bool {
        let open = self.open();
        let mut found = open.iter().filter(|(key, own)| key.0 == number && *own.user == *user);
        found.next().map(|(_, connection)| connection.request.notify_waiters()).is_some()
    }

    fn open(&self) -> parking_lot::MutexGuard<'_, HashMap<CancelKey, OpenConnection>> {
        self.0.lock()
    }
}

/// Registration of a connection, removed on drop.
pub(crate) struct CancelRegistration {
    all: Arc<CancelRegistry>,
    pub(crate) key: CancelKey,
    pub(crate) request: Arc<Notify>,
}

impl CancelRegistration {
    /// Cancels the query of another connection of the same user; false if there is none.
    pub(crate) fn cancel_other(&self, number: i32, user: &str) -> bool {
        self.all.cancel_own(number, user)
    }
}

impl Drop for CancelRegistration {
    fn drop(&mut self) {
        self.all.open().remove(&self.key);
    }
}
