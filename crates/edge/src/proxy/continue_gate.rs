//! `Expect: 100-continue`: the client's body waits until the backend sends 100 (RFC 9110 §10.1.1).
//!
//! hyper sends 100 to the client as soon as its body is read, so it is enough not to read it. A
//! backend that answers 417 or 413 right away saves the client the whole upload.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::time::Duration;

use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderValue, Request, StatusCode, Version, request};
use parking_lot::Mutex;

use crate::client::state::ClientState;
use crate::proxy::headers;
use crate::proxy::request_body::RequestBody;

const CONTINUE: &str = "100-continue";

/// How long a backend is waited for that may know nothing of 100.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Holds a request's body back until it is opened.
#[derive(Debug, Default)]
pub(crate) struct ContinueGate {
    is_open: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl ContinueGate {
    /// Lets the body pass, from now on.
    pub(crate) fn open(&self) {
        self.is_open.store(true, Relaxed);
        if let Some(waker) = self.waker.lock().take() {
            waker.wake();
        }
    }

    /// Whether the body may pass; wakes the task when it may.
    pub(crate) fn poll_open(&self, cx: &Context<'_>) -> bool {
        let is_open = self.is_open.load(Relaxed);
        if !is_open {
            *self.waker.lock() = Some(cx.waker().clone());
        }
        is_open
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Relaxed)
    }
}

/// The gate of a request whose client waits for 100; removes other expectations.
pub(crate) fn of(parts: &mut request::Parts, has_body: bool) -> Option<Arc<ContinueGate>> {
    let expected = parts.headers.remove(EXPECT)?;
    let is_gated = has_body
        && parts.version == Version::HTTP_11
        && expected.as_bytes().eq_ignore_ascii_case(CONTINUE.as_bytes());
    if !is_gated {
        return None;
    }
    parts.headers.insert(EXPECT, HeaderValue::from_static(CONTINUE));
    Some(Arc::default())
}

/// Forwards interim responses of the backend: 100 opens the gate, others go to the client.
///
/// Clients with HTTP/1.0 do not understand them, and hyper cannot send them over HTTP/2.
pub(crate) fn forward_interim(
    request: &mut Request<RequestBody>,
    client: &Arc<ClientState>,
    version: Version,
    gate: Option<&Arc<ContinueGate>>,
) {
    if request.version() == Version::HTTP_2 {
        // hyper reports no interim responses of HTTP/2, so none can be waited for.
        if let Some(gate) = gate {
            request.headers_mut().remove(EXPECT);
            gate.open();
        }
        return;
    }
    let gate = gate.map(Arc::clone);
    let client = (version == Version::HTTP_11).then(|| Arc::clone(client));
    if gate.is_none() && client.is_none() {
        return;
    }
    hyper::ext::on_informational(request, move |response| match response.status() {
        StatusCode::CONTINUE => {
            if let Some(gate) = &gate {
                gate.open();
            }
        }
        status => {
            if let Some(client) = &client {
                let mut headers = response.headers().clone();
                headers::strip_hop_by_hop(&mut headers);
                // It has no content (RFC 9110 §8.6), and a length would end a client's stream.
                headers.remove(CONTENT_LENGTH);
                client.interim.push(status, &headers);
            }
        }
    });
}
