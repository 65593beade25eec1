//! A backend's answer on its way to the client: polled by the client's connection, it polls the backend's.
//!
//! When its last byte has come the backend's connection rests and the place there is free; when it is dropped before,
//! the client has gone.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::client::session::{ClientSession, OpenRecord};
use crate::client::state::coarse_ns;
use crate::pool::BackendSlot;
use crate::record::RequestFailure;
use crate::time::now_ns;
use crate::upstream::Upstream;
use crate::upstream::response_deadlines::DeadlineKey;

/// An answer under way, with all that ends when it does.
pub(crate) struct ResponseRelay {
    pub(crate) body: Incoming,
    /// `None` once the answer is whole, or will never be.
    pub(crate) under_way: Option<ActiveResponse>,
    pub(crate) serving: Rc<ClientSession>,
    /// What ends the client's connection, once it has what came before.
    pub(crate) error: Option<hyper::Error>,
}

/// What an answer holds until it is whole.
pub(crate) struct ActiveResponse {
    pub(crate) upstream: Box<Upstream>,
    pub(crate) place: BackendSlot,
    /// Looks after the pause between two pieces.
    pub(crate) wait: DeadlineKey,
    pub(crate) record: OpenRecord,
    /// Whether the backend's connection may carry another request.
    pub(crate) may_rest: bool,
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
            && let Some(under_way) = &mut self.under_way
        {
            under_way.upstream.drive(cx);
            poll = Pin::new(&mut self.body).poll_frame(cx);
        }
        match poll {
            Poll::Pending => return self.wait_for_more(cx),
            Poll::Ready(Some(Err(error))) => return self.cut(error, RequestFailure::AnswerCut, cx),
            Poll::Ready(Some(Ok(ref frame))) => {
                if let Some(under_way) = &mut self.under_way {
                    under_way.wait.touch(coarse_ns());
                    under_way.record.body_bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
                }
                if self.body.is_end_stream() {
                    self.complete();
                }
            }
            Poll::Ready(None) => self.complete(),
        }
        poll
    }

    /// A backend that pauses too long is given up: its connection ends, and with it this body.
    fn wait_for_more(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.under_way.as_ref().is_some_and(|under_way| under_way.wait.is_over(cx)) {
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

    /// The answer is whole: the connection rests.
    pub(crate) fn complete(&mut self) {
        let Some(under_way) = self.under_way.take() else { return };
        let ActiveResponse { upstream, place, mut record, may_rest, .. } = under_way;
        let now = now_ns();
        if let Some(upstream) = &mut record.upstream {
            upstream.response_ns = Some(now.saturating_sub(upstream.started));
        }
        drop(place);
        // Whether it can be used is seen when it shall be; that it cannot, mostly now.
        if may_rest && !upstream.is_over() {
            self.serving.worker.rest(upstream, now);
        }
        record.finish();
    }

    /// hyper ends a connection at an error without writing what it holds: it is given one turn to do so.
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
        let Some(under_way) = self.under_way.take() else { return };
        let ActiveResponse { place, mut record, .. } = under_way;
        place.backend.failed(now_ns(), &self.serving.worker.live().settings.upstream);
        record.failure.get_or_insert(failure);
        record.finish_now();
    }
}
