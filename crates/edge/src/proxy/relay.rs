//! Relays a backend's response: polling the client's connection also polls the backend's.
//!
//! After the last byte, the backend's connection returns to the idle pool and its slot is freed.
//! Dropping the relay earlier means that the client has gone.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::client::session::{ClientSession, OpenRecord};
use crate::pool::BackendSlot;
use crate::record::RequestFailure;
use crate::time::{MonoTime, coarse_now};
use crate::upstream::Upstream;
use crate::upstream::response_deadlines::DeadlineKey;

pub(crate) struct ResponseRelay {
    pub(crate) body: Incoming,
    /// `None` once the response is complete or has failed.
    pub(crate) active: Option<ActiveResponse>,
    pub(crate) session: Rc<ClientSession>,
    /// Ends the client's connection once everything before it has been written.
    pub(crate) error: Option<hyper::Error>,
}

/// What a response holds until it is complete.
pub(crate) struct ActiveResponse {
    pub(crate) upstream: Box<Upstream>,
    pub(crate) slot: BackendSlot,
    /// Limits the pause between two pieces of the body.
    pub(crate) deadline: DeadlineKey,
    pub(crate) record: OpenRecord,
    /// Whether the backend's connection may be pooled for another request.
    pub(crate) is_reusable: bool,
}

impl ResponseRelay {
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let mut poll = Pin::new(&mut self.body).poll_frame(cx);
        if poll.is_pending()
            && let Some(active) = &mut self.active
        {
            active.upstream.drive(cx);
            poll = Pin::new(&mut self.body).poll_frame(cx);
        }
        match poll {
            Poll::Pending => return self.check_deadline(cx),
            Poll::Ready(Some(Err(error))) => {
                return self.cut(error, RequestFailure::AnswerCut, cx);
            }
            Poll::Ready(Some(Ok(ref frame))) => {
                if let Some(active) = &mut self.active {
                    active.deadline.extend(coarse_now());
                    active.record.body_bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
                }
                if self.body.is_end_stream() {
                    self.complete();
                }
            }
            Poll::Ready(None) => self.complete(),
        }
        poll
    }

    /// Gives up on a backend that pauses for too long; dropping its connection ends the body.
    fn check_deadline(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.active.as_ref().is_some_and(|active| active.deadline.has_timed_out(cx)) {
            self.fail(RequestFailure::ResponseTimeout);
            return Pin::new(&mut self.body).poll_frame(cx);
        }
        Poll::Pending
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    /// Finishes a complete response and pools the backend's connection.
    pub(crate) fn complete(&mut self) {
        let Some(active) = self.active.take() else { return };
        let ActiveResponse { upstream, slot, mut record, is_reusable, .. } = active;
        let now = MonoTime::now();
        if let Some(upstream) = &mut record.upstream {
            upstream.response = Some(now.since(upstream.started));
        }
        drop(slot);
        // A closed connection usually shows now; the full check is made when it is taken again.
        if is_reusable && !upstream.is_over() {
            self.session.worker.put_idle(upstream, now);
        }
        record.finish();
    }

    /// Delays the error by one poll, because hyper discards its write buffer when it sees an error.
    fn cut(
        &mut self,
        error: hyper::Error,
        failure: RequestFailure,
        cx: &Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.fail(failure);
        self.error = Some(error);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn fail(&mut self, failure: RequestFailure) {
        let Some(active) = self.active.take() else { return };
        let ActiveResponse { slot, mut record, .. } = active;
        let live = self.session.worker.live();
        slot.backend.record_failure(MonoTime::now(), &live.settings.upstream);
        record.failure.get_or_insert(failure);
        record.finish_now();
    }
}
