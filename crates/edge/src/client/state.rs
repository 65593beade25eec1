//! What the sweep knows about a client's connection, and its verdict on it.
//!
//! Timeouts use no timers: a connection publishes its phase and when the phase began, a sweep
//! checks all connections twice a second, and a verdict wakes the connection's task.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use http::HeaderValue;
use parking_lot::Mutex;

use crate::client::interim::InterimBuffer;
use crate::client::listener::Listener;
use crate::time::{AtomicTime, MonoTime, coarse_now};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ConnectionPhase {
    /// Waiting for the first byte of the next request.
    Idle,
    /// Reading the rest of a request's head.
    Head,
    /// A request is in progress.
    Busy,
    /// Idle, with its HTTP buffers released.
    Parked,
    /// Upgraded to a tunnel, which has its own timeout.
    Tunnel,
    Closed,
}

/// The sweep's decision about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SweepVerdict {
    None,
    /// Idle long enough to release its buffers.
    Park,
    /// Close: idle for too long, or the edge is shutting down.
    Close,
    /// The request head took too long.
    SlowHead,
    /// The client stopped reading the response or sending its body.
    SlowClient,
    /// The client closed its side and has received nothing since: it is probably gone.
    Gone,
}

/// The two ends of a client's connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionPeer {
    /// The peer, or the client that its PROXY header names.
    pub(crate) client: SocketAddr,
    /// The address that the client has connected to.
    pub(crate) server: SocketAddr,
    /// Whether the peer is a proxy whose word about its clients counts.
    pub(crate) is_trusted: bool,
}

/// State of a client's connection.
///
/// Only the connection's own thread changes it. The fields are atomic because hyper requires
/// connections that can be upgraded to be `Send`.
#[derive(Debug)]
pub(crate) struct ClientState {
    pub(crate) listener: Arc<Listener>,
    pub(crate) client: SocketAddr,
    /// The address that the client has connected to.
    pub(crate) server: SocketAddr,
    /// Whether the peer is a proxy whose word about its clients counts.
    pub(crate) is_proxy_trusted: bool,
    /// The client's address as rows show it.
    client_text: OnceLock<String>,
    /// The client's address for `X-Forwarded-For`.
    client_value: OnceLock<HeaderValue>,
    /// The client's network, for rows that must not identify the client.
    client_network: OnceLock<String>,
    pub(crate) is_h2: bool,
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    /// The parts of `received` and `sent` that the listener's totals include.
    reported: (AtomicU64, AtomicU64),
    phase: AtomicU8,
    since: AtomicTime,
    /// When bytes last moved.
    moved: AtomicTime,
    first_byte: AtomicTime,
    /// Reads of the request whose head is being received.
    head_reads: AtomicU32,
    is_write_blocked: AtomicBool,
    /// Nothing was written since hyper last flushed all that it had.
    is_between_writes: AtomicBool,
    is_body_wanted: AtomicBool,
    is_flushed: AtomicBool,
    /// Interim responses (1xx) that the client has not received yet.
    pub(crate) interim: InterimBuffer,
    /// Whether the client may still send the body of its last request.
    is_body_left: AtomicBool,
    /// Whether the request under way is the last one of an HTTP/1.1 connection.
    is_last: AtomicBool,
    /// Whether the head that begins asks the server as a whole.
    is_whole_server: AtomicBool,
    /// The sweep wants to know whether the client has closed its side.
    is_probe_wanted: AtomicBool,
    /// When a probe first found the client's side closed.
    half_closed: AtomicTime,
    verdict: AtomicU8,
    waker: Mutex<Option<Waker>>,
}

impl ClientState {
    pub(crate) fn new(listener: Arc<Listener>, peer: ConnectionPeer, is_h2: bool) -> Self {
        let now = coarse_now();
        Self {
            listener,
            client: peer.client,
            server: peer.server,
            is_proxy_trusted: peer.is_trusted,
            client_text: OnceLock::new(),
            client_value: OnceLock::new(),
            client_network: OnceLock::new(),
            is_h2,
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            reported: (AtomicU64::new(0), AtomicU64::new(0)),
            phase: AtomicU8::new(ConnectionPhase::Idle as u8),
            since: AtomicTime::new(now),
            moved: AtomicTime::new(now),
            first_byte: AtomicTime::default(),
            head_reads: AtomicU32::new(0),
            is_write_blocked: AtomicBool::new(false),
            is_between_writes: AtomicBool::new(true),
            is_body_wanted: AtomicBool::new(false),
            is_flushed: AtomicBool::new(false),
            interim: InterimBuffer::default(),
            is_body_left: AtomicBool::new(false),
            is_last: AtomicBool::new(false),
            is_whole_server: AtomicBool::new(false),
            is_probe_wanted: AtomicBool::new(false),
            half_closed: AtomicTime::default(),
            verdict: AtomicU8::new(SweepVerdict::None as u8),
            waker: Mutex::new(None),
        }
    }

    pub(crate) fn phase(&self) -> ConnectionPhase {
        match self.phase.load(Relaxed) {
            0 => ConnectionPhase::Idle,
            1 => ConnectionPhase::Head,
            2 => ConnectionPhase::Busy,
            3 => ConnectionPhase::Parked,
            4 => ConnectionPhase::Tunnel,
            _ => ConnectionPhase::Closed,
        }
    }

    pub(crate) fn set_phase(&self, phase: ConnectionPhase) {
        self.phase.store(phase as u8, Relaxed);
        self.since.set(coarse_now());
    }

    /// Switches between idle and parked without resetting the idle time.
    pub(crate) fn set_parked(&self, is_parked: bool) {
        let phase = if is_parked { ConnectionPhase::Parked } else { ConnectionPhase::Idle };
        self.phase.store(phase as u8, Relaxed);
    }

    /// When the current phase began, by the sweep's clock.
    pub(crate) fn since(&self) -> MonoTime {
        self.since.get()
    }

    /// Since when the client has blocked the transfer: it does not read the response, or does not
    /// send a body that the backend waits for.
    pub(crate) fn stuck_since(&self) -> Option<MonoTime> {
        let is_stuck = self.is_write_blocked.load(Relaxed) || self.is_body_wanted.load(Relaxed);
        is_stuck.then(|| self.moved.get())
    }

    pub(crate) fn set_body_wanted(&self, is_wanted: bool) {
        if is_wanted && !self.is_body_wanted.load(Relaxed) {
            self.moved.set(coarse_now());
        }
        self.is_body_wanted.store(is_wanted, Relaxed);
    }

    /// Whether the client may still send the body of its last request.
    pub(crate) fn is_body_left(&self) -> bool {
        self.is_body_left.load(Relaxed)
    }

    pub(crate) fn set_body_left(&self, is_left: bool) {
        self.is_body_left.store(is_left, Relaxed);
    }

    /// Makes this request the last one. hyper ends trailers at `\r\n\r\n`, and a line that ends
    /// without return hides the next request in them from it, but not from other servers.
    pub(crate) fn note_trailers(&self) {
        self.is_last.store(!self.is_h2, Relaxed);
    }

    /// Whether no request follows the one under way.
    pub(crate) fn is_last(&self) -> bool {
        self.is_last.load(Relaxed)
    }

    /// When the first byte of the request that begins now was read, and the last one of its head.
    pub(crate) fn take_head_times(&self) -> (MonoTime, MonoTime) {
        let (first, reads) = (self.first_byte.get(), self.head_reads.load(Relaxed));
        self.first_byte.set(MonoTime::NEVER);
        // A head that came in one read needs no second reading of the clock.
        let head = if !first.is_never() && reads == 1 { first } else { MonoTime::now() };
        (if first.is_never() { head } else { first }, head)
    }

    pub(crate) fn is_flushed(&self) -> bool {
        self.is_flushed.load(Relaxed)
    }

    pub(crate) fn set_flushed(&self, is_flushed: bool) {
        self.is_flushed.store(is_flushed, Relaxed);
    }

    pub(crate) fn verdict(&self) -> SweepVerdict {
        match self.verdict.load(Relaxed) {
            0 => SweepVerdict::None,
            1 => SweepVerdict::Park,
            2 => SweepVerdict::Close,
            3 => SweepVerdict::SlowHead,
            4 => SweepVerdict::SlowClient,
            _ => SweepVerdict::Gone,
        }
    }

    /// Sets the verdict and wakes the connection's task.
    pub(crate) fn set_verdict(&self, verdict: SweepVerdict) {
        self.verdict.store(verdict as u8, Relaxed);
        self.wake();
    }

    pub(crate) fn clear_verdict(&self) {
        self.verdict.store(SweepVerdict::None as u8, Relaxed);
    }

    /// Makes the connection's task probe whether the client has closed its side.
    pub(crate) fn request_probe(&self) {
        self.is_probe_wanted.store(true, Relaxed);
        self.wake();
    }

    pub(super) fn is_probe_wanted(&self) -> bool {
        self.is_probe_wanted.load(Relaxed)
    }

    pub(super) fn finish_probe(&self, is_half_closed: bool) {
        self.is_probe_wanted.store(false, Relaxed);
        if is_half_closed {
            self.half_closed.replace(MonoTime::NEVER, coarse_now());
        }
    }

    /// Since when the client's side has been closed and the client has received nothing.
    pub(crate) fn half_closed_since(&self) -> Option<MonoTime> {
        let since = Some(self.half_closed.get()).filter(|since| !since.is_never());
        since.map(|since| since.max(self.moved.get()))
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.lock().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Sets the task that verdicts wake.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        *self.waker.lock() = Some(waker.clone());
    }

    /// Adds the bytes moved since the last call to the listener's totals.
    pub(crate) fn report_bytes(&self) {
        let totals = &self.listener.totals;
        let pairs = [
            (&self.received, &self.reported.0, &totals.received_bytes),
            (&self.sent, &self.reported.1, &totals.sent_bytes),
        ];
        for (now, reported, total) in pairs {
            let now = now.load(Relaxed);
            let moved = now - reported.load(Relaxed);
            if moved > 0 {
                reported.store(now, Relaxed);
                total.fetch_add(moved, Relaxed);
            }
        }
    }

    pub(crate) fn client_text(&self) -> &str {
        self.client_text.get_or_init(|| self.client.ip().to_canonical().to_string())
    }

    pub(crate) fn client_value(&self) -> &HeaderValue {
        self.client_value
            .get_or_init(|| HeaderValue::try_from(self.client_text()).expect("an address is ASCII"))
    }

    /// The network of the client's address, see [`network_of`].
    pub(crate) fn network(&self) -> &str {
        self.client_network.get_or_init(|| network_of(self.client.ip()).to_string())
    }

    /// Whether the request that begins now is an OPTIONS for the whole server, see
    /// [`asks_whole_server`].
    pub(crate) fn take_whole_server(&self) -> bool {
        self.is_whole_server.load(Relaxed) && self.is_whole_server.swap(false, Relaxed)
    }

    pub(super) fn note_read(&self, bytes: &[u8]) {
        add(&self.received, bytes.len() as u64);
        self.moved.set(coarse_now());
        if self.is_h2 {
            return;
        }
        if self.phase.load(Relaxed) == ConnectionPhase::Idle as u8 {
            self.first_byte.set(MonoTime::now());
            self.head_reads.store(1, Relaxed);
            self.is_whole_server.store(asks_whole_server(bytes), Relaxed);
            self.set_phase(ConnectionPhase::Head);
        } else {
            self.head_reads.store(2, Relaxed);
        }
    }

    /// Hyper has no bytes left to write.
    pub(super) fn note_flush(&self) {
        self.set_flushed(true);
        self.is_between_writes.store(true, Relaxed);
    }

    /// Whether interim responses that wait must be written before anything else.
    pub(super) fn is_interim_due(&self) -> bool {
        self.interim.is_due(self.is_between_writes.load(Relaxed))
    }

    /// Drops interim responses that would come too late, because a response is ready and bytes
    /// before it still wait.
    pub(crate) fn settle_interim(&self) {
        if !self.is_between_writes.load(Relaxed) {
            self.interim.drop_unwritten();
        }
    }

    pub(super) fn note_write(&self, poll: &Poll<std::io::Result<usize>>) {
        self.is_between_writes.store(false, Relaxed);
        self.note_interim_write(poll);
    }

    /// Notes a write that does not end the place between two messages.
    pub(super) fn note_interim_write(&self, poll: &Poll<std::io::Result<usize>>) {
        match poll {
            Poll::Ready(Ok(count)) => {
                add(&self.sent, *count as u64);
                self.moved.set(coarse_now());
                self.is_write_blocked.store(false, Relaxed);
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.is_write_blocked.store(true, Relaxed),
        }
    }
}

/// Whether a head begins with OPTIONS and an absolute target without a path, which means the server
/// as a whole (RFC 9112 §3.2.4). `Uri` does not show it: an empty path becomes `/`.
fn asks_whole_server(head: &[u8]) -> bool {
    let Some(target) = head.strip_prefix(b"OPTIONS http") else { return false };
    let target = target.strip_prefix(b"s").unwrap_or(target);
    let mut rest = target.strip_prefix(b"://").unwrap_or_default().iter();
    rest.find(|byte| b"/?# ".contains(byte)) == Some(&b' ')
}

/// Adds to a counter that only this thread changes, without the bus lock of `fetch_add`.
fn add(total: &AtomicU64, count: u64) {
    total.store(total.load(Relaxed) + count, Relaxed);
}

/// The part of an address that does not identify a person: /24 for IPv4, /48 for IPv6.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & (u32::MAX << 8)).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 80)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{asks_whole_server, network_of};

    #[test]
    fn an_address_is_cut_to_its_network() {
        for (address, cut) in [
            ("192.0.2.77", "192.0.2.0"),
            ("::ffff:192.0.2.77", "192.0.2.0"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
        ] {
            assert_eq!(network_of(address.parse().unwrap()).to_string(), cut);
        }
    }

    #[test]
    fn an_options_without_a_path_asks_the_whole_server() {
        for (head, expected) in [
            ("OPTIONS http://a HTTP/1.1\r\n", true),
            ("OPTIONS https://[::1]:8443 HTTP/1.1\r\n", true),
            ("OPTIONS http://a/ HTTP/1.1\r\n", false),
            ("OPTIONS http://a?q HTTP/1.1\r\n", false),
            ("OPTIONS http://a", false),
            ("OPTIONS httpx HTTP/1.1\r\n", false),
            ("OPTIONS / HTTP/1.1\r\n", false),
            ("GET http://a HTTP/1.1\r\n", false),
        ] {
            assert_eq!(asks_whole_server(head.as_bytes()), expected, "{head}");
        }
    }
}
