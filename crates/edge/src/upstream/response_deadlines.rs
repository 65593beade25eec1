//! Deadlines of requests that wait for a backend: one list per thread, swept twenty times a second,
//! instead of one timer per request.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use slab::Slab;

use crate::pool::backend::Backend;
use crate::proxy::request_body::BodyOutcome;
use crate::time::{MonoTime, Nanos};

/// All waiting requests of a thread.
#[derive(Default)]
pub(crate) struct ResponseDeadlines(RefCell<Slab<ResponseDeadline>>);

struct ResponseDeadline {
    backend: Arc<Backend>,
    since: MonoTime,
    /// How long the first byte of the response may take before its lateness is a symptom.
    allowance: Nanos,
    is_overdue: bool,
    /// Whether the first byte of the response is still awaited.
    is_waiting: bool,
    outcome: WaitOutcome,
    /// How long a stream may be silent, instead of the usual limit.
    silence_max: Option<Nanos>,
    /// Before the first byte of the response, the request may move to another backend.
    may_move: bool,
    /// The request's body, if it has one: a client that still sends is not waited for at the backend.
    body: Option<Rc<BodyOutcome>>,
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
    /// Adds a request that waits for `backend` from `now` on, as `wait` says.
    pub(crate) fn add(
        self: &Rc<Self>,
        backend: &Arc<Backend>,
        now: MonoTime,
        wait: ResponseWait,
    ) -> DeadlineKey {
        backend.begin_waiting(now);
        let at = self.0.borrow_mut().insert(ResponseDeadline {
            backend: Arc::clone(backend),
            since: now,
            allowance: wait.allowance,
            is_overdue: false,
            is_waiting: true,
            outcome: WaitOutcome::Waiting,
            silence_max: None,
            may_move: wait.may_move,
            body: wait.body,
            waker: None,
        });
        DeadlineKey { deadlines: Rc::clone(self), at }
    }

    /// Ends waits longer than `limit`, and movable ones at a backend that has stalled or fails its
    /// checks. Counts those that are overdue.
    pub(crate) fn sweep(&self, now: MonoTime, limit: Nanos) {
        let mut wakers = Vec::new();
        for (_, deadline) in &mut *self.0.borrow_mut() {
            deadline.note_overdue(now);
            if deadline.outcome != WaitOutcome::Waiting {
                continue;
            }
            if now.since(deadline.began(now)) > deadline.silence_max.unwrap_or(limit) {
                deadline.outcome = WaitOutcome::TimedOut;
            } else if deadline.may_move && deadline.backend.is_silent(now) {
                deadline.outcome = WaitOutcome::Stalled;
            } else {
                continue;
            }
            wakers.extend(deadline.waker.take());
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// How a request waits for its response.
#[derive(Clone, Debug)]
pub(crate) struct ResponseWait {
    /// Whether the request may be repeated at another backend.
    pub(crate) may_move: bool,
    /// How long the first byte may take before its lateness is a symptom.
    pub(crate) allowance: Nanos,
    /// The request's body, if it has one.
    pub(crate) body: Option<Rc<BodyOutcome>>,
}

impl ResponseDeadline {
    /// Since when only the backend is waited for.
    fn began(&self, now: MonoTime) -> MonoTime {
        self.body.as_ref().map_or(self.since, |body| body.wait_began(self.since, now))
    }

    fn note_overdue(&mut self, now: MonoTime) {
        if !self.is_waiting {
            return;
        }
        let is_overdue = now.since(self.began(now)) > self.allowance;
        if is_overdue != std::mem::replace(&mut self.is_overdue, is_overdue) {
            match is_overdue {
                true => self.backend.begin_overdue(),
                // The client sends again.
                false => self.backend.end_overdue(),
            }
        }
    }

    fn end_waiting(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            self.backend.end_waiting();
            if std::mem::take(&mut self.is_overdue) {
                self.backend.end_overdue();
            }
        }
    }
}

impl Drop for ResponseDeadline {
    fn drop(&mut self) {
        self.end_waiting();
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

    /// How long the backend alone has been waited for.
    pub(crate) fn waited(&self, now: MonoTime) -> Nanos {
        let deadlines = self.deadlines.0.borrow();
        let deadline = &deadlines[self.at];
        let moved = deadline.body.as_ref().map_or(deadline.since, |body| body.moved.get());
        now.since(deadline.since.max(moved))
    }

    pub(crate) fn has_timed_out(&self, cx: &Context<'_>) -> bool {
        self.poll(cx) == WaitOutcome::TimedOut
    }

    /// Lets the backend be silent for `longest` from now on: it sends when something happens.
    pub(crate) fn allow_silence(&self, longest: Nanos) {
        self.deadlines.0.borrow_mut()[self.at].silence_max = Some(longest);
    }

    /// Whether silence says nothing about the backend.
    pub(crate) fn allows_silence(&self) -> bool {
        self.deadlines.0.borrow()[self.at].silence_max.is_some()
    }

    /// Restarts the wait because bytes came; the request stays with its backend from now on.
    pub(crate) fn extend(&self, now: MonoTime) {
        let mut deadlines = self.deadlines.0.borrow_mut();
        let deadline = &mut deadlines[self.at];
        deadline.end_waiting();
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
    use crate::settings::UpstreamSettings;
    use crate::settings::destination::BackendSettings;

    fn at(nanos: u64) -> MonoTime {
        MonoTime::NEVER + Nanos(nanos)
    }

    fn backend(address: &str) -> Arc<Backend> {
        Arc::new(Backend::new(&BackendSettings::parse(address).unwrap()))
    }

    const MOVABLE: ResponseWait = ResponseWait { may_move: true, allowance: Nanos(10), body: None };
    const FIXED: ResponseWait = ResponseWait { may_move: false, allowance: Nanos(10), body: None };

    #[test]
    fn waits_end_when_over_or_stalled_and_leave_the_list_when_dropped() {
        let deadlines = Rc::new(ResponseDeadlines::default());
        let (one, other) = (backend("127.0.0.1:1"), backend("127.0.0.1:2"));
        let cx = Context::from_waker(Waker::noop());
        let early = deadlines.add(&one, at(0), MOVABLE);
        let late = deadlines.add(&other, at(90), MOVABLE);
        let second = deadlines.add(&other, at(90), MOVABLE);
        let fixed = deadlines.add(&other, at(90), FIXED);
        deadlines.sweep(at(99), Nanos(100));
        assert_eq!(early.poll(&cx), WaitOutcome::Waiting);
        deadlines.sweep(at(101), Nanos(100));
        assert_eq!(early.poll(&cx), WaitOutcome::TimedOut);
        let settings = UpstreamSettings { stall: std::time::Duration::ZERO, ..Default::default() };
        assert!(other.detect_stall(at(102), &settings, 2));
        deadlines.sweep(at(102), Nanos(100));
        assert_eq!((late.poll(&cx), fixed.poll(&cx)), (WaitOutcome::Stalled, WaitOutcome::Waiting));
        fixed.extend(at(150));
        deadlines.sweep(at(240), Nanos(100));
        assert_eq!(fixed.poll(&cx), WaitOutcome::Waiting);
        drop((early, late, second, fixed));
        assert!(deadlines.0.borrow().is_empty());
    }

    #[test]
    fn only_waits_beyond_their_allowance_are_symptoms_of_a_stall() {
        let deadlines = Rc::new(ResponseDeadlines::default());
        let backend = backend("127.0.0.1:1");
        let settings = UpstreamSettings { stall: std::time::Duration::ZERO, ..Default::default() };
        let patient = ResponseWait { may_move: true, allowance: Nanos(1000), body: None };
        let polls = [(); 3].map(|()| deadlines.add(&backend, at(1), patient.clone()));
        let quick = deadlines.add(&backend, at(1), MOVABLE);
        deadlines.sweep(at(50), Nanos(10_000));
        assert!(!backend.detect_stall(at(50), &settings, 2), "one is overdue");
        quick.extend(at(51));
        deadlines.sweep(at(52), Nanos(10_000));
        assert!(!backend.detect_stall(at(52), &settings, 1), "none is overdue");
        deadlines.sweep(at(1002), Nanos(10_000));
        assert!(backend.detect_stall(at(1002), &settings, 3), "all are overdue");
        drop((polls, quick));
    }

    /// traefik/traefik#12668, nginx's `proxy_send_timeout`: while the client sends, its backend is not
    /// late, and it is once it has all.
    #[test]
    fn a_backend_is_not_late_while_the_client_sends() {
        let deadlines = Rc::new(ResponseDeadlines::default());
        let backend = backend("127.0.0.1:1");
        let settings = UpstreamSettings { stall: std::time::Duration::ZERO, ..Default::default() };
        let body = Rc::new(BodyOutcome::default());
        let wait = ResponseWait { body: Some(Rc::clone(&body)), ..FIXED };
        let cx = Context::from_waker(Waker::noop());
        let upload = deadlines.add(&backend, at(1), wait);
        body.is_awaited.set(true);
        deadlines.sweep(at(1000), Nanos(100));
        assert!(!backend.detect_stall(at(1000), &settings, 1), "the client has to send");
        assert_eq!(upload.poll(&cx), WaitOutcome::Waiting);
        body.moved.set(at(1000));
        body.is_awaited.set(false);
        deadlines.sweep(at(1011), Nanos(100));
        body.moved.set(at(1011));
        deadlines.sweep(at(1012), Nanos(100));
        assert!(!backend.detect_stall(at(1012), &settings, 1), "it was overdue, and is not now");
        assert_eq!(upload.waited(at(1020)), Nanos(9));
        deadlines.sweep(at(1112), Nanos(100));
        assert_eq!(upload.poll(&cx), WaitOutcome::TimedOut);
        assert!(backend.detect_stall(at(1112), &settings, 1), "the backend has all");
    }
}
