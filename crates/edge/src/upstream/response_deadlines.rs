//! Requests that wait for a backend: one list a thread, looked through twenty times a second instead of a timer each.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Waker};

use slab::Slab;

/// All of a thread.
#[derive(Default)]
pub(crate) struct ResponseDeadlines(RefCell<Slab<ResponseDeadline>>);

struct ResponseDeadline {
    backend: SocketAddr,
    since: u64,
    outcome: WaitOutcome,
    /// Before the first byte a request may go elsewhere.
    may_move: bool,
    waker: Option<Waker>,
}

/// What the sweep says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// Wait on.
    Waiting,
    /// Too long.
    TimedOut,
    /// The backend answers nobody.
    Stalled,
}

/// One of them; dropping it takes it off the list.
pub(crate) struct DeadlineKey {
    waits: Rc<ResponseDeadlines>,
    at: usize,
}

impl ResponseDeadlines {
    /// Waits from `now` on for `backend`.
    pub(crate) fn add(
        self: &Rc<Self>,
        backend: SocketAddr,
        now: u64,
        may_move: bool,
    ) -> DeadlineKey {
        let wait = ResponseDeadline {
            backend,
            since: now,
            outcome: WaitOutcome::Waiting,
            may_move,
            waker: None,
        };
        let at = self.0.borrow_mut().insert(wait);
        DeadlineKey { waits: Rc::clone(self), at }
    }

    /// Ends waits that are over `limit_ns`, and those for a backend that `is_stalled`.
    pub(crate) fn sweep(&self, now: u64, limit_ns: u64, is_stalled: impl Fn(SocketAddr) -> bool) {
        let mut wakers = Vec::new();
        for (_, wait) in &mut *self.0.borrow_mut() {
            if wait.outcome != WaitOutcome::Waiting {
                continue;
            }
            if now.saturating_sub(wait.since) > limit_ns {
                wait.outcome = WaitOutcome::TimedOut;
            } else if wait.may_move && is_stalled(wait.backend) {
                wait.outcome = WaitOutcome::Stalled;
            } else {
                continue;
            }
            wakers.extend(wait.waker.take());
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl DeadlineKey {
    /// What the sweep said; whoever asks is woken when that changes.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> WaitOutcome {
        let mut waits = self.waits.0.borrow_mut();
        let wait = &mut waits[self.at];
        if wait.outcome == WaitOutcome::Waiting
            && wait.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker()))
        {
            wait.waker = Some(cx.waker().clone());
        }
        wait.outcome
    }

    /// Whether it took too long.
    pub(crate) fn is_over(&self, cx: &Context<'_>) -> bool {
        self.poll(cx) == WaitOutcome::TimedOut
    }

    /// Something came: the wait begins anew, and the request stays where it is.
    pub(crate) fn touch(&self, now: u64) {
        let mut waits = self.waits.0.borrow_mut();
        let wait = &mut waits[self.at];
        wait.since = now;
        wait.may_move = false;
    }
}

impl Drop for DeadlineKey {
    fn drop(&mut self) {
        self.waits.0.borrow_mut().remove(self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_end_when_over_or_stalled_and_leave_the_list_when_dropped() {
        let waits = Rc::new(ResponseDeadlines::default());
        let at: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let other: SocketAddr = "127.0.0.1:2".parse().unwrap();
        let cx = Context::from_waker(Waker::noop());
        let (early, late, fixed) =
            (waits.add(at, 0, true), waits.add(other, 90, true), waits.add(at, 90, false));
        waits.sweep(101, 100, |_| false);
        assert_eq!(early.poll(&cx), WaitOutcome::TimedOut);
        waits.sweep(101, 100, |backend| backend == other);
        assert_eq!((late.poll(&cx), fixed.poll(&cx)), (WaitOutcome::Stalled, WaitOutcome::Waiting));
        fixed.touch(150);
        waits.sweep(240, 100, |_| true);
        assert_eq!(fixed.poll(&cx), WaitOutcome::Waiting);
        drop((early, late, fixed));
        assert!(waits.0.borrow().is_empty());
    }
}
