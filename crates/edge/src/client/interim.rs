//! Interim responses (1xx) of a backend, on their way to a client with HTTP/1.1 (RFC 9110 §15.2).
//!
//! hyper sends no interim responses of others, so they are written beside it, between two messages:
//!
//! ```text
//!   previous response │ 103 │ response          flushed, nothing written since: a place for 103
//!   previous resp~                              not flushed: the 103 waits, or is dropped when
//!                                               the response itself is ready
//! ```

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;

/// Interim responses of one request are dropped from here on, in bytes.
const BYTES_MAX: usize = 64 << 10;

/// Interim responses that wait for the socket.
#[derive(Debug, Default)]
pub(crate) struct InterimBuffer {
    /// Whether there are any; saves the lock.
    is_filled: AtomicBool,
    bytes: Mutex<Vec<u8>>,
    /// Part of a response has been written: the rest must follow before anything else.
    is_begun: AtomicBool,
}

impl InterimBuffer {
    /// Adds an interim response.
    pub(crate) fn push(&self, status: StatusCode, headers: &HeaderMap) {
        let mut bytes = self.bytes.lock();
        if bytes.len() > BYTES_MAX {
            return;
        }
        let reason = status.canonical_reason().unwrap_or_default();
        bytes.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).as_bytes());
        for (name, value) in headers {
            bytes.extend_from_slice(name.as_str().as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value.as_bytes());
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        self.is_filled.store(true, Relaxed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.is_filled.load(Relaxed)
    }

    /// Whether bytes must be written now: some wait, and the stream is between two messages or
    /// within an interim response.
    pub(crate) fn is_due(&self, is_between_messages: bool) -> bool {
        !self.is_empty() && (is_between_messages || self.is_begun.load(Relaxed))
    }

    /// A copy of what waits.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().clone()
    }

    /// Removes what has been written.
    pub(crate) fn consume(&self, count: usize) {
        let mut bytes = self.bytes.lock();
        bytes.drain(..count);
        self.is_begun.store(!bytes.is_empty(), Relaxed);
        self.is_filled.store(!bytes.is_empty(), Relaxed);
    }

    /// Drops what waits, unless part of it has been written.
    pub(crate) fn drop_unwritten(&self) {
        if !self.is_empty() && !self.is_begun.load(Relaxed) {
            self.bytes.lock().clear();
            self.is_filled.store(false, Relaxed);
        }
    }
}
