//! Bodies on their way: the client's to a backend under its limit, the backend's to the client with its count.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::client::session::ClientSession;
use crate::proxy::relay::ResponseRelay;
use crate::record::RequestFailure;

/// What became of a client's body while it was passed on.
#[derive(Debug, Default)]
pub(crate) struct BodyOutcome {
    /// Why the request failed on the client's side.
    pub(crate) failure: Cell<Option<RequestFailure>>,
}

/// A client's body.
pub(crate) enum RequestBody {
    /// There is none.
    Empty,
    /// As it comes.
    Stream { body: Incoming, left: u64, fate: Rc<BodyOutcome>, serving: Rc<ClientSession> },
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let Self::Stream { body, left, fate, serving } = &mut *self else {
            return Poll::Ready(None);
        };
        let poll = Pin::new(body).poll_frame(cx);
        serving.conn.set_body_wanted(poll.is_pending());
        let fail = |failure, text: String| {
            fate.failure.set(Some(failure));
            Poll::Ready(Some(Err(io::Error::other(text))))
        };
        match ready!(poll) {
            None => Poll::Ready(None),
            Some(Err(error)) => fail(RequestFailure::ClientClosed, error.to_string()),
            Some(Ok(frame)) => {
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                if length > *left {
                    return fail(RequestFailure::BodyTooLarge, "the body is over its limit".into());
                }
                *left -= length;
                Poll::Ready(Some(Ok(frame)))
            }
        }
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

/// What a client gets.
pub(crate) enum ResponseBody {
    /// The edge's own few bytes.
    Own(Option<Bytes>),
    /// The backend's.
    Relayed(Box<ResponseRelay>),
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut *self {
            Self::Own(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Relayed(relay) => relay.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(bytes) => bytes.is_none(),
            Self::Relayed(relay) => relay.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Relayed(relay) => relay.size_hint(),
        }
    }
}
