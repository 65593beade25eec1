//! Deadlines of requests that wait for a backend: one list per thread, swept twenty times a second,
//! instead of one timer per request.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Waker};

use slab::Slab;

use crate::time::{MonoTime, Nanos};

/// All waiting requests of a thread.
#[derive(Default)]
pub(crate) struct ResponseDeadlines(RefCell<Slab<ResponseDeadline>>);

struct ResponseDeadline {
    backend: SocketAddr,
    since: MonoTime,
    outcome: WaitOutcome,
    /// Before the first byte of the response, the request may move to another backend.
    may_move: bool,
    waker: Option<Waker>,
}

/// What the sweep decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    Waiting,
    TimedOut,
    /// The backend has stopped responding to all requests.
    Stalled,
}

/// A request's entry in the list; dropping it removes the entry.
pub(crate) struct DeadlineKey {
    deadlines: Rc<ResponseDeadlines>,
    at: usize,
}

impl ResponseDeadlines {
    /// Adds a request that waits for `backend` from `now` on.
    pub(crate) fn add(
        self: &Rc<Self>,
        backend: SocketAddr,
        now: MonoTime,
        may_move: bool,
    ) -> DeadlineKey {
        let outcome = WaitOutcome::Waiting;
        let deadline = ResponseDeadline { backend, since: now, outcome, may_move, waker: None };
        let at = self.0.borrow_mut().insert(deadline);
        DeadlineKey { deadlines: Rc::clone(self), at }
    }

    /// Ends waits longer than `limit`, and movable ones at a backend that `is_stalled`.
    pub(crate) fn sweep(
        &self,
        now: MonoTime,
        limit: Nanos,
        is_stalled: impl Fn(SocketAddr) -> bool,
    ) {
        let mut wakers = Vec::new();
        for (_, deadline) in &mut *self.0.borrow_mut() {
            if deadline.outcome != WaitOutcome::Waiting {
                continue;
            }
            if now.since(deadline.since) > limit {
                deadline.outcome = WaitOutcome::TimedOut;
            } else if deadline.may_move && is_stalled(deadline.backend) {
                deadline.outcome = WaitOutcome::Stalled;
            } else {
                continue;
            }
            wakers.extend(deadline.waker.take());
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl DeadlineKey {
    /// The outcome so far; wakes the task when it changes.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> WaitOutcome {
        let mut deadlines = self.deadlines.0.borrow_mut();
        let deadline = &mut deadlines[self.at];
        if deadline.outcome == WaitOutcome::Waiting
            && deadline.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker()))
        {
            deadline.waker = Some(cx.waker().clone());
        }
        deadline.outcome
    }

    pub(crate) fn has_timed_out(&self, cx: &Context<'_>) -> bool {
        self.poll(cx) == WaitOutcome::TimedOut
    }

    /// Restarts the wait because bytes came; the request stays with its backend from now on.
    pub(crate) fn extend(&self, now: MonoTime) {
        let mut deadlines = self.deadlines.0.borrow_mut();
        let deadline = &mut deadlines[self.at];
        deadline.since = now;
        deadline.may_move = false;
    }
}

impl Drop for DeadlineKey {
    fn drop(&mut self) {
        self.deadlines.0.borrow_mut().remove(self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> MonoTime {
        MonoTime::NEVER + Nanos(nanos)
    }

    #[test]
    fn waits_end_when_over_or_stalled_and_leave_the_list_when_dropped() {
        let deadlines = Rc::new(ResponseDeadlines::default());
        let one: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let other: SocketAddr = "127.0.0.1:2".parse().unwrap();
        let cx = Context::from_waker(Waker::noop());
        let early = deadlines.add(one, at(0), true);
        let late = deadlines.add(other, at(90), true);
        let fixed = deadlines.add(one, at(90), false);
        deadlines.sweep(at(101), Nanos(100), |_| false);
        assert_eq!(early.poll(&cx), WaitOutcome::TimedOut);
        deadlines.sweep(at(101), Nanos(100), |backend| backend == other);
        assert_eq!((late.poll(&cx), fixed.poll(&cx)), (WaitOutcome::Stalled, WaitOutcome::Waiting));
        fixed.extend(at(150));
        deadlines.sweep(at(240), Nanos(100), |_| true);
        assert_eq!(fixed.poll(&cx), WaitOutcome::Waiting);
        drop((early, late, fixed));
        assert!(deadlines.0.borrow().is_empty());
    }
}
