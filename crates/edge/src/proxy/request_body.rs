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

use crate::client::state::ClientState;
use crate::record::RequestFailure;

/// How forwarding a client's body ended.
#[derive(Debug, Default)]
pub(crate) struct BodyOutcome {
    /// Why the request failed on the client's side.
    pub(crate) failure: Cell<Option<RequestFailure>>,
}

pub(crate) enum RequestBody {
    Empty,
    /// `left` is what the size limit still allows, in bytes.
    Stream {
        body: Incoming,
        left: u64,
        outcome: Rc<BodyOutcome>,
        conn: Arc<ClientState>,
    },
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Self::Stream { body, left, outcome, conn } = &mut *self else {
            return Poll::Ready(None);
        };
        let poll = Pin::new(body).poll_frame(cx);
        conn.set_body_wanted(poll.is_pending());
        let (failure, text) = match ready!(poll) {
            None => return Poll::Ready(None),
            Some(Err(error)) => (RequestFailure::ClientClosed, error.to_string()),
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                if length <= *left {
                    *left -= length;
                    return Poll::Ready(Some(Ok(frame)));
                }
                (RequestFailure::BodyTooLarge, "the body exceeds its limit".into())
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
