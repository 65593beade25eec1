//! Runs the tasks of HTTP/2 clients on the thread that owns the connection, and drops those of
//! cancelled streams.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response};

use crate::client::h2_stream::StreamState;
use crate::client::service::ResponseFuture;
use crate::proxy::response_body::ResponseBody;
use crate::worker::Worker;

/// Spawns the tasks of one client's HTTP/2 connection on its thread.
#[derive(Clone)]
pub(crate) struct StreamExecutor {
    pub(crate) worker: Rc<Worker>,
    /// The stream whose service hyper has just called; its task is spawned next.
    pub(crate) opening: Rc<RefCell<Option<Rc<StreamState>>>>,
}

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for StreamExecutor {
    fn execute(&self, future: F) {
        // Tasks of tunnels have no stream: they have their own timeout.
        let Some(state) = self.opening.take() else {
            tokio::task::spawn_local(future);
            return;
        };
        let key = self.worker.register_stream(&state);
        let worker = Rc::clone(&self.worker);
        tokio::task::spawn_local(StreamTask { future: Some(Box::pin(future)), state, key, worker });
    }
}

struct StreamTask<F> {
    /// `None` once the stream has ended.
    future: Option<Pin<Box<F>>>,
    state: Rc<StreamState>,
    key: usize,
    worker: Rc<Worker>,
}

impl<F: Future<Output = ()>> Future for StreamTask<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let is_cancelled = self.state.is_cancelled();
        let Some(future) = &mut self.future else { return Poll::Ready(()) };
        let is_over = is_cancelled || future.as_mut().poll(cx).is_ready();
        if is_over {
            self.future = None;
            return Poll::Ready(());
        }
        self.state.set_waker(cx.waker());
        Poll::Pending
    }
}

impl<F> Drop for StreamTask<F> {
    fn drop(&mut self) {
        self.worker.unregister_stream(self.key);
    }
}

/// A response that marks its stream when hyper gets its head.
pub(crate) struct StreamResponse {
    pub(crate) response: ResponseFuture,
    pub(crate) state: Rc<StreamState>,
    pub(crate) is_head: bool,
}

impl Future for StreamResponse {
    type Output = Result<Response<ResponseBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut poll = Pin::new(&mut self.response).poll(cx);
        if let Poll::Ready(Ok(response)) = &mut poll {
            self.state.hand_over();
            if self.is_head {
                drop_own_body(response);
            }
        }
        poll
    }
}

/// Leaves the length of the edge's own body, which an answer to HEAD has not. Over HTTP/1.1, hyper does.
fn drop_own_body(response: &mut Response<ResponseBody>) {
    if let ResponseBody::Own(own) = response.body_mut()
        && let Some(bytes) = own.take()
    {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    }
}
