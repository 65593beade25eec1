//! Relays a backend's response: polling the client's connection also polls the backend's.
//!
//! After the last byte, the backend's connection returns to the idle pool and its slot is freed.
//! Dropping the relay earlier means that the client has gone.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::client::h2_stream::StreamState;
use crate::client::session::{ClientSession, OpenRecord};
use crate::pool::BackendSlot;
use crate::proxy::headers;
use crate::proxy::request_body::{BodyOutcome, is_truncated};
use crate::record::RequestFailure;
use crate::time::{MonoTime, coarse_now};
use crate::upstream::Upstream;
use crate::upstream::response_deadlines::DeadlineKey;

/// Most bytes that hyper gets at once for an HTTP/2 stream: one frame, because the next request for
/// bytes is the only sign that the client has taken them.
const PIECE_BYTES_MAX: usize = 16 << 10;

pub(crate) struct ResponseRelay {
    pub(crate) body: Incoming,
    /// `None` once the response is complete or has failed.
    pub(crate) active: Option<ActiveResponse>,
    pub(crate) session: Rc<ClientSession>,
    /// Ends the client's connection once everything before it has been written.
    pub(crate) error: Option<io::Error>,
    /// For HTTP/2: the response's stream.
    pub(crate) stream: Option<Rc<StreamState>>,
    /// For HTTP/2: bytes of the body that hyper has not been given.
    pub(crate) rest: Bytes,
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
    /// The request's body, if it has one: it must have ended before another request.
    pub(crate) body: Option<Rc<BodyOutcome>>,
}

impl ResponseRelay {
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(stream) = self.stream.clone() else { return self.poll_backend(cx) };
        stream.take_back();
        if self.rest.is_empty() {
            match self.poll_backend(cx).map_ok(Frame::into_data) {
                Poll::Ready(Some(Ok(Ok(data)))) => self.rest = data,
                Poll::Ready(Some(Ok(Err(trailers)))) => return Poll::Ready(Some(Ok(trailers))),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
        stream.hand_over();
        let piece = self.rest.split_to(self.rest.len().min(PIECE_BYTES_MAX));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    /// The next frame from the backend.
    fn poll_backend(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
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
                return self.cut(io::Error::other(error), RequestFailure::AnswerCut, cx);
            }
            Poll::Ready(Some(Ok(ref mut frame))) => {
                if let Some(trailers) = frame.trailers_mut() {
                    headers::clean_trailers(trailers);
                    if let Some(active) = &mut self.active {
                        // As for requests, hyper may have taken more for trailers than there is.
                        active.is_reusable &= active.slot.backend.protocol.is_h2();
                    }
                }
                if let Some(active) = &mut self.active {
                    active.deadline.extend(coarse_now());
                    active.record.body_bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
                }
                if self.body.is_end_stream() {
                    self.complete();
                }
            }
            Poll::Ready(None) if self.is_truncated() => {
                let error = io::ErrorKind::UnexpectedEof.into();
                return self.cut(error, RequestFailure::AnswerCut, cx);
            }
            Poll::Ready(None) => self.complete(),
        }
        poll.map_err(io::Error::other)
    }

    /// Whether a body over HTTP/2 has ended without its end, see [`is_truncated`].
    fn is_truncated(&self) -> bool {
        let backend = self.active.as_ref().map(|active| &active.slot.backend);
        backend.is_some_and(|backend| backend.protocol.is_h2()) && is_truncated(&self.body)
    }

    /// Gives up on a backend that pauses for too long.
    fn check_deadline(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.active.as_ref().is_some_and(|active| active.deadline.has_timed_out(cx)) {
            return self.cut(io::ErrorKind::TimedOut.into(), RequestFailure::ResponseTimeout, cx);
        }
        Poll::Pending
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let rest = self.rest.len() as u64;
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + rest);
        }
        hint.set_lower(hint.lower() + rest);
        hint
    }

    /// Finishes a complete response and pools the backend's connection.
    pub(crate) fn complete(&mut self) {
        let Some(active) = self.active.take() else { return };
        let ActiveResponse { upstream, slot, mut record, is_reusable, body, .. } = active;
        let is_reusable = is_reusable && body.is_none_or(|body| body.is_whole.get());
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
        error: io::Error,
        failure: RequestFailure,
        cx: &Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.fail(failure);
        self.error = Some(error);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn fail(&mut self, failure: RequestFailure) {
        let Some(active) = self.active.take() else { return };
        let ActiveResponse { upstream, slot, deadline, mut record, .. } = active;
        let live = self.session.worker.live();
        if failure == RequestFailure::ResponseTimeout {
            upstream.retire();
        }
        if failure != RequestFailure::ResponseTimeout || !deadline.allows_silence() {
            slot.backend.record_failure(MonoTime::now(), &live.settings.upstream);
        }
        record.failure.get_or_insert(failure);
        record.finish_now();
    }
}
