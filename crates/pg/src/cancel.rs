//! Which connections may be told to give up their query: a client opens another connection for that, with the number and
//! the secret that it got at its start.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::Notify;

/// Number and secret of a connection.
pub(crate) type Key = (i32, i32);

/// Every open connection.
#[derive(Default)]
pub(crate) struct Cancels(Mutex<HashMap<Key, Arc<Notify>>>);

impl Cancels {
    /// Enters a connection until the answer is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> Entered {
        let mut bytes = [0; 8];
        // Without random numbers nobody can be let in, which the login has found out before.
        let _ = SystemRandom::new().fill(&mut bytes);
        let [a, b, c, d, e, f, g, h] = bytes;
        let key = (i32::from_be_bytes([a & 0x7f, b, c, d]), i32::from_be_bytes([e, f, g, h]));
        let wish = Arc::new(Notify::new());
        self.open().insert(key, Arc::clone(&wish));
        Entered { all: Arc::clone(self), key, wish }
    }

    /// Ends the query that runs on this connection, if one does; a later one is not meant.
    pub(crate) fn cancel(&self, key: Key) {
        if let Some(wish) = self.open().get(&key) {
            wish.notify_waiters();
        }
    }

    fn open(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that can be told so.
pub(crate) struct Entered {
    all: Arc<Cancels>,
    pub(crate) key: Key,
    pub(crate) wish: Arc<Notify>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.all.open().remove(&self.key);
    }
}
