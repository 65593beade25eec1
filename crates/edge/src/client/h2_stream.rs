//! Streams of HTTP/2 clients: each has the time limits that a connection has in HTTP/1.1.
//!
//! A client that opens no flow-control window leaves the socket writable, so the stream itself has
//! to be watched. hyper waits for the window in the stream's own task, where no body can end it;
//! the executor therefore wraps the task and drops it when the sweep cancels the stream, which
//! resets it (RFC 9113 §5.4.2).
//!
//! ```text
//!   service called ─► StreamState ─► task spawned ─► head and body handed to hyper ─► task ends
//!                                        └──── cancelled: the client takes or sends nothing ──┘
//! ```

use std::cell::{Cell, RefCell};
use std::task::Waker;

use crate::time::{MonoTime, Nanos, coarse_now};

/// A stream as the sweep sees it.
#[derive(Debug, Default)]
pub(crate) struct StreamState {
    /// Since when the client has not taken what hyper was given; never if nothing waits.
    unsent_since: Cell<MonoTime>,
    /// Since when a backend has waited for more of the client's body; never if none does.
    unreceived_since: Cell<MonoTime>,
    is_cancelled: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl StreamState {
    /// Hyper has been given part of the response.
    pub(crate) fn hand_over(&self) {
        self.unsent_since.set(coarse_now());
    }

    /// Hyper has sent what it had.
    pub(crate) fn take_back(&self) {
        self.unsent_since.set(MonoTime::NEVER);
    }

    /// Notes whether a backend waits for more of the request's body.
    pub(crate) fn set_body_wanted(&self, is_wanted: bool) {
        if !is_wanted {
            self.unreceived_since.set(MonoTime::NEVER);
        } else if self.unreceived_since.get().is_never() {
            self.unreceived_since.set(coarse_now());
        }
    }

    /// Sets the task that a cancellation wakes.
    pub(crate) fn set_waker(&self, own: &Waker) {
        let mut waker = self.waker.borrow_mut();
        if waker.as_ref().is_none_or(|waker| !waker.will_wake(own)) {
            *waker = Some(own.clone());
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.get()
    }

    /// Cancels the stream if its client has blocked it for longer than `limit`.
    pub(crate) fn judge(&self, now: MonoTime, limit: Nanos) {
        let times = [self.unsent_since.get(), self.unreceived_since.get()];
        let is_stuck = times.iter().any(|since| !since.is_never() && now.since(*since) > limit);
        if is_stuck
            && !self.is_cancelled.replace(true)
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }
}
