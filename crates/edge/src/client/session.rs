//! A client's connection while it is served: turns requests into records and records into rows.
//!
//! ```text
//!   begin ──► proxy, beacon ──► finish: response complete ──► flushed: socket has it ──► row
//!                  └── client gone, backend failed ───────────────► row, with the failure
//! ```

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use http::header::{HOST, REFERER, USER_AGENT};
use http::request;

use crate::client::forwarded;
use crate::client::h2_stream::StreamState;
use crate::client::listener::Listener;
use crate::client::state::{ClientState, ConnectionPhase, SweepVerdict};
use crate::record::{RequestFailure, RequestRecord};
use crate::settings::Settings;
use crate::shared::SharedState;
use crate::time::{MonoTime, Nanos};
use crate::worker::Worker;

/// Counts a connection against the limits until dropped.
pub(crate) struct AdmissionGuard {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) listener: Arc<Listener>,
    /// The client; `None` until its PROXY header is read.
    pub(crate) address: Option<IpAddr>,
}

impl AdmissionGuard {
    /// Counts the client, once it is known; when its limit is reached, returns the limit's name.
    pub(crate) fn admit_address(
        &mut self,
        address: IpAddr,
        settings: &Settings,
    ) -> Result<(), &'static str> {
        self.shared.admit_address(address, settings)?;
        self.address = Some(address);
        Ok(())
    }
}

impl Drop for AdmissionGuard {
    fn drop(&mut self) {
        self.shared.dismiss(self.address);
        self.listener.totals.open.fetch_sub(1, Relaxed);
    }
}

pub(crate) struct ClientSession {
    pub(crate) conn: Arc<ClientState>,
    pub(crate) worker: Rc<Worker>,
    /// The response is complete but may not be flushed yet.
    pending: RefCell<Option<Box<RequestRecord>>>,
    requests: Cell<u32>,
    /// The user agent of the last beacon and whether it is a bot: most connections have one agent.
    agent: RefCell<(Vec<u8>, bool)>,
    active: Cell<u32>,
    tls_handshake: Cell<Option<Nanos>>,
    /// Bytes received that belong to earlier requests.
    counted: Cell<u64>,
    /// Key of the connection in the worker's sweep list.
    key: usize,
    _admission: AdmissionGuard,
}

impl ClientSession {
    pub(crate) fn new(
        conn: Arc<ClientState>,
        worker: Rc<Worker>,
        tls_handshake: Option<Nanos>,
        admission: AdmissionGuard,
    ) -> Self {
        Self {
            key: worker.register(&conn),
            _admission: admission,
            conn,
            worker,
            pending: RefCell::new(None),
            requests: Cell::new(0),
            agent: RefCell::default(),
            active: Cell::new(0),
            tls_handshake: Cell::new(tls_handshake),
            counted: Cell::new(0),
        }
    }

    /// Number of requests received so far.
    pub(crate) fn requests(&self) -> u32 {
        self.requests.get()
    }

    /// Whether a user agent is a bot; calls `classify` only if the agent has changed.
    pub(crate) fn is_bot(&self, agent: &str, classify: fn(&str) -> bool) -> bool {
        let mut last = self.agent.borrow_mut();
        if last.0 != agent.as_bytes() {
            last.0.clear();
            last.0.extend_from_slice(agent.as_bytes());
            last.1 = classify(agent);
        }
        last.1
    }

    /// Whether no request is in progress, so that the connection can be parked.
    pub(crate) fn is_idle(&self) -> bool {
        self.active.get() == 0 && self.pending.borrow().is_none()
    }

    /// Starts the record of a request whose head has arrived.
    pub(crate) fn begin(
        self: &Rc<Self>,
        head: &request::Parts,
        stream: Option<Rc<StreamState>>,
    ) -> OpenRecord {
        let (started, head_at) = self.conn.take_head_times();
        self.write_pending(head_at);
        self.conn.set_phase(ConnectionPhase::Busy);
        self.conn.set_body_wanted(false);
        self.active.set(self.active.get() + 1);
        self.requests.set(self.requests.get() + 1);
        let client = if self.conn.is_proxy_trusted {
            let trusted = &self.worker.live().settings.trusted_proxies;
            forwarded::client_of(&head.headers, self.conn.client.ip(), trusted).map(Box::new)
        } else {
            None
        };
        let record = Box::new(RequestRecord {
            conn: Arc::clone(&self.conn),
            client,
            started,
            head: head_at,
            received_before: self.counted.get(),
            sent_before: self.conn.sent.load(Relaxed),
            order: self.requests.get(),
            tls_handshake: self.tls_handshake.take(),
            method: head.method.clone(),
            uri: head.uri.clone(),
            version: head.version,
            server: head.headers.get(HOST).cloned(),
            user_agent: head.headers.get(USER_AGENT).cloned(),
            referer: head.headers.get(REFERER).cloned(),
            request_id: None,
            status: 0,
            body_bytes: 0,
            queue: Nanos::ZERO,
            upstream: None,
            failure: None,
            is_beacon: false,
        });
        OpenRecord { record: Some(record), session: Rc::clone(self), stream }
    }

    fn finish(&self, record: Box<RequestRecord>) {
        if self.conn.is_h2 {
            return self.finish_now(&record);
        }
        self.active.set(self.active.get().saturating_sub(1));
        self.conn.set_flushed(false);
        self.write_pending(record.head);
        *self.pending.borrow_mut() = Some(record);
    }

    fn finish_now(&self, record: &RequestRecord) {
        self.active.set(self.active.get().saturating_sub(1));
        if self.active.get() == 0 {
            self.conn.set_phase(ConnectionPhase::Idle);
        }
        self.write(record, MonoTime::now());
    }

    fn write(&self, record: &RequestRecord, now: MonoTime) {
        let one_of = self.worker.live().settings.record_one_of;
        self.worker.recorder.borrow_mut().record_request(record, now, one_of);
        self.counted.set(self.conn.received.load(Relaxed));
    }

    /// Writes the row of a response that has been flushed; call after each poll of the connection.
    pub(crate) fn settle(&self) {
        if self.conn.is_flushed() && self.pending.borrow().is_some() {
            if self.active.get() == 0 {
                self.conn.set_phase(ConnectionPhase::Idle);
            }
            self.write_pending(MonoTime::now());
        }
    }

    fn write_pending(&self, now: MonoTime) {
        if let Some(record) = self.pending.borrow_mut().take() {
            self.write(&record, now);
        }
    }

    /// Records a response that was not flushed before the connection closed as a client failure.
    pub(crate) fn end(&self) {
        if let Some(mut record) = self.pending.borrow_mut().take() {
            record.failure.get_or_insert(self.client_failure());
            self.write(&record, MonoTime::now());
        }
    }

    fn client_failure(&self) -> RequestFailure {
        match self.conn.verdict() {
            SweepVerdict::SlowClient => RequestFailure::ClientSlow,
            _ => RequestFailure::ClientClosed,
        }
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        self.worker.unregister(self.key);
        self.conn.report_bytes();
    }
}

/// A record that always becomes a row; dropping it unfinished means that the client has gone.
pub(crate) struct OpenRecord {
    record: Option<Box<RequestRecord>>,
    session: Rc<ClientSession>,
    /// For HTTP/2: the request's stream.
    pub(crate) stream: Option<Rc<StreamState>>,
}

const OPEN: &str = "the record is taken only by methods that consume it";

impl OpenRecord {
    /// The response is complete but not yet flushed to the client.
    pub(crate) fn finish(mut self) {
        let record = self.record.take().expect(OPEN);
        self.session.finish(record);
    }

    /// Moves the record out of a place that cannot give up ownership.
    pub(crate) fn take(&mut self) -> Self {
        let (session, stream) = (Rc::clone(&self.session), self.stream.clone());
        Self { record: self.record.take(), session, stream }
    }

    /// Nothing more will be sent.
    pub(crate) fn finish_now(mut self) {
        let record = self.record.take().expect(OPEN);
        self.session.finish_now(&record);
    }
}

impl Deref for OpenRecord {
    type Target = RequestRecord;

    fn deref(&self) -> &RequestRecord {
        self.record.as_ref().expect(OPEN)
    }
}

impl DerefMut for OpenRecord {
    fn deref_mut(&mut self) -> &mut RequestRecord {
        self.record.as_mut().expect(OPEN)
    }
}

impl Drop for OpenRecord {
    fn drop(&mut self) {
        if let Some(mut record) = self.record.take() {
            let is_cancelled = self.stream.as_ref().is_some_and(|stream| stream.is_cancelled());
            let failure = match is_cancelled {
                true => RequestFailure::ClientSlow,
                false => self.session.client_failure(),
            };
            record.failure.get_or_insert(failure);
            self.session.finish_now(&record);
        }
    }
}
