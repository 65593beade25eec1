//! A client's connection while it is served: its requests become records, and records rows when the last byte is out.
//!
//! ```text
//!   begin ──► proxy, beacon ──► finish: the body is whole ──► flushed: the socket has it ──► row
//!                  └── client gone, backend failed ─────────────────────────────────────────► row, with the reason
//! ```

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use http::header::{HOST, REFERER, USER_AGENT};
use http::request;

use crate::client::state::{ClientState, ConnectionPhase, Listener, SweepVerdict};
use crate::record::{RequestFailure, RequestRecord};
use crate::time::now_ns;
use crate::worker::{SharedState, Worker};

/// A connection that counts against the limits; dropping it ends that.
pub(crate) struct AdmissionGuard {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) listener: Arc<Listener>,
    pub(crate) address: IpAddr,
}

impl Drop for AdmissionGuard {
    fn drop(&mut self) {
        self.shared.dismiss(self.address);
        self.listener.totals.open.fetch_sub(1, Relaxed);
    }
}

/// A connection being served.
pub(crate) struct ClientSession {
    pub(crate) conn: Arc<ClientState>,
    pub(crate) worker: Rc<Worker>,
    /// Whole, but not known to be out.
    pending: RefCell<Option<Box<RequestRecord>>>,
    requests: Cell<u32>,
    /// The user agent of the last beacon, and whether it is a program's: a connection has one browser, mostly.
    agent: RefCell<(Vec<u8>, bool)>,
    active: Cell<u32>,
    tls_handshake_ns: Cell<Option<u64>>,
    /// Bytes received that belong to requests before.
    counted: Cell<u64>,
    /// Where the sweep finds the connection.
    key: usize,
    _admission: AdmissionGuard,
}

impl ClientSession {
    pub(crate) fn new(
        conn: Arc<ClientState>,
        worker: Rc<Worker>,
        tls_handshake_ns: Option<u64>,
        admission: AdmissionGuard,
    ) -> Self {
        Self {
            key: worker.look_after(&conn),
            _admission: admission,
            conn,
            worker,
            pending: RefCell::new(None),
            requests: Cell::new(0),
            agent: RefCell::default(),
            active: Cell::new(0),
            tls_handshake_ns: Cell::new(tls_handshake_ns),
            counted: Cell::new(0),
        }
    }

    /// How many requests came.
    pub(crate) fn requests(&self) -> u32 {
        self.requests.get()
    }

    /// Whether a user agent is a program's, by `judge` when it is another than the last.
    pub(crate) fn is_bot(&self, agent: &str, judge: fn(&str) -> bool) -> bool {
        let mut last = self.agent.borrow_mut();
        if last.0 != agent.as_bytes() {
            last.0.clear();
            last.0.extend_from_slice(agent.as_bytes());
            last.1 = judge(agent);
        }
        last.1
    }

    /// Whether nothing is under way, so that the connection can be put to rest.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.active.get() == 0 && self.pending.borrow().is_none()
    }

    /// A request's head has come.
    pub(crate) fn begin(self: &Rc<Self>, head: &request::Parts) -> OpenRecord {
        let (started, head_at) = self.conn.take_head_times();
        self.write_pending(head_at);
        self.conn.set_phase(ConnectionPhase::Busy);
        self.conn.set_body_wanted(false);
        self.active.set(self.active.get() + 1);
        self.requests.set(self.requests.get() + 1);
        let record = Box::new(RequestRecord {
            conn: Arc::clone(&self.conn),
            started,
            head: head_at,
            received_before: self.counted.get(),
            sent_before: self.conn.sent.load(Relaxed),
            order: self.requests.get(),
            tls_handshake_ns: self.tls_handshake_ns.take(),
            method: head.method.clone(),
            uri: head.uri.clone(),
            version: head.version,
            server: head.headers.get(HOST).cloned(),
            user_agent: head.headers.get(USER_AGENT).cloned(),
            referer: head.headers.get(REFERER).cloned(),
            request_id: None,
            status: 0,
            body_bytes: 0,
            queue_ns: 0,
            upstream: None,
            failure: None,
            is_beacon: false,
        });
        OpenRecord { record: Some(record), serving: Rc::clone(self) }
    }

    fn finish(&self, record: Box<RequestRecord>) {
        if self.conn.is_h2 {
            return self.finish_now(&record);
        }
        self.active.set(self.active.get().saturating_sub(1));
        self.conn.set_unflushed();
        self.write_pending(record.head);
        *self.pending.borrow_mut() = Some(record);
    }

    fn finish_now(&self, record: &RequestRecord) {
        self.active.set(self.active.get().saturating_sub(1));
        if self.active.get() == 0 {
            self.conn.set_phase(ConnectionPhase::Idle);
        }
        self.write(record, now_ns());
    }

    fn write(&self, record: &RequestRecord, now: u64) {
        let one_of = self.worker.live().settings.record_one_of;
        self.worker.recorder.borrow_mut().finished(record, now, one_of);
        self.counted.set(self.conn.received.load(Relaxed));
    }

    /// After each poll of the connection: what is out becomes a row.
    pub(crate) fn settle(&self) {
        if self.conn.is_flushed() && self.pending.borrow().is_some() {
            if self.active.get() == 0 {
                self.conn.set_phase(ConnectionPhase::Idle);
            }
            self.write_pending(now_ns());
        }
    }

    fn write_pending(&self, now: u64) {
        if let Some(record) = self.pending.borrow_mut().take() {
            self.write(&record, now);
        }
    }

    /// The connection is over: what was not out by then never will be.
    pub(crate) fn end(&self) {
        if let Some(mut record) = self.pending.borrow_mut().take() {
            record.failure.get_or_insert(self.client_failure());
            self.write(&record, now_ns());
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
        self.worker.forget(self.key);
        self.conn.tell_bytes();
    }
}

/// A record that becomes a row whatever happens: who drops it says that the client has gone.
pub(crate) struct OpenRecord {
    record: Option<Box<RequestRecord>>,
    serving: Rc<ClientSession>,
}

const OPEN: &str = "it is taken only by what consumes it";

impl OpenRecord {
    /// The answer is whole, but for its way to the client.
    pub(crate) fn finish(mut self) {
        let record = self.record.take().expect(OPEN);
        self.serving.finish(record);
    }

    /// Takes it out of what holds it, which then has none.
    pub(crate) fn take(&mut self) -> Self {
        Self { record: self.record.take(), serving: Rc::clone(&self.serving) }
    }

    /// Nothing more will go out.
    pub(crate) fn finish_now(mut self) {
        let record = self.record.take().expect(OPEN);
        self.serving.finish_now(&record);
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
            record.failure.get_or_insert(self.serving.client_failure());
            self.serving.finish_now(&record);
        }
    }
}
