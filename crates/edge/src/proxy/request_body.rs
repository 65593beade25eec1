//! Forwards a client's body to a backend and enforces its size limit.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::client::h2_stream::StreamState;
use crate::client::state::ClientState;
use crate::proxy::continue_gate::ContinueGate;
use crate::proxy::headers;
use crate::record::RequestFailure;
use crate::time::{MonoTime, coarse_now};

/// How forwarding a client's body ended.
#[derive(Debug, Default)]
pub(crate) struct BodyOutcome {
    /// Why the request failed on the client's side.
    pub(crate) failure: Cell<Option<RequestFailure>>,
    /// Whether the whole body has been forwarded.
    pub(crate) is_whole: Cell<bool>,
    /// When part of it was last forwarded; never before the first.
    pub(crate) moved: Cell<MonoTime>,
    /// Whether the client has to send more before the backend can get more.
    pub(crate) is_awaited: Cell<bool>,
    /// Whether the response has begun. From then on, a client may pause as long as its backend lets it:
    /// streams of messages in both directions stay open without any.
    pub(crate) is_answered: Cell<bool>,
}

pub(crate) enum RequestBody {
    Empty,
    /// `left` is what the size limit still allows, in bytes, and `end` is when the time limit is over.
    Stream {
        body: Incoming,
        left: u64,
        end: MonoTime,
        outcome: Rc<BodyOutcome>,
        conn: Arc<ClientState>,
        /// For HTTP/2: the body's own stream.
        stream: Option<Rc<StreamState>>,
        /// Holds the body back until the backend sends 100.
        gate: Option<Arc<ContinueGate>>,
    },
}

impl BodyOutcome {
    fn note_end(&self, conn: &ClientState) {
        self.is_whole.set(true);
        conn.set_body_left(false);
    }

    fn note_poll(&self, is_pending: bool) {
        self.is_awaited.set(is_pending);
        if !is_pending {
            self.moved.set(coarse_now());
        }
    }

    /// When a wait that began at `since` became one for the backend alone.
    pub(crate) fn wait_began(&self, since: MonoTime, now: MonoTime) -> MonoTime {
        let is_clients = self.is_awaited.get() && !self.is_answered.get();
        if is_clients { now } else { since.max(self.moved.get()) }
    }
}

/// Notes whether the backend waits for the client to send more.
pub(crate) fn set_body_wanted(conn: &ClientState, stream: Option<&StreamState>, is_wanted: bool) {
    match stream {
        None => conn.set_body_wanted(is_wanted),
        Some(stream) => stream.set_body_wanted(is_wanted),
    }
}

/// Whether a body over HTTP/2 is over before its last frame: hyper takes each end of a stream or
/// connection that names no error (NO_ERROR, RFC 9113 §7) for the end of the body.
pub(crate) fn is_truncated(body: &Incoming) -> bool {
    !body.is_end_stream()
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Self::Stream { body, left, end, outcome, conn, stream, gate } = &mut *self else {
            return Poll::Ready(None);
        };
        if gate.as_ref().is_some_and(|gate| !gate.poll_open(cx)) {
            return Poll::Pending;
        }
        let poll = Pin::new(&mut *body).poll_frame(cx);
        outcome.note_poll(poll.is_pending());
        set_body_wanted(conn, stream.as_deref(), poll.is_pending() && !outcome.is_answered.get());
        let (failure, text) = match ready!(poll) {
            None if conn.is_h2 && is_truncated(body) => {
                (RequestFailure::ClientClosed, "the client ended the body early".into())
            }
            None => {
                outcome.note_end(conn);
                return Poll::Ready(None);
            }
            Some(Err(error)) => (RequestFailure::ClientClosed, error.to_string()),
            Some(Ok(mut frame)) => {
                if let Some(trailers) = frame.trailers_mut() {
                    headers::clean_trailers(trailers);
                    conn.note_trailers();
                }
                if body.is_end_stream() {
                    outcome.note_end(conn);
                }
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                if length > *left {
                    (RequestFailure::BodyTooLarge, "the body exceeds its limit".into())
                } else if outcome.moved.get() > *end && !outcome.is_answered.get() {
                    // The limit of pauses sees to a body of which nothing comes.
                    (RequestFailure::ClientSlow, "the body takes too long".into())
                } else {
                    *left -= length;
                    return Poll::Ready(Some(Ok(frame)));
                }
            }
        };
        outcome.failure.set(Some(failure));
        Poll::Ready(Some(Err(io::Error::other(text))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Stream { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Stream { body, .. } => body.size_hint(),
        }
    }
}
