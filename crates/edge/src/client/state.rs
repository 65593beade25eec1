//! A client's connection: its bytes counted as they pass, and what the sweep needs to know to end it in time.
//!
//! Limits of time cost no timer: each connection says what it waits for and since when, a sweep twice a second looks at
//! all of them, and a verdict wakes the connection's task.

use std::cell::Cell;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use http::HeaderValue;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::settings::ListenerSettings;
use crate::time::now_ns;

thread_local! {
    /// The time of the last sweep of this thread, in nanoseconds: good enough for limits.
    static COARSE: Cell<u64> = const { Cell::new(0) };
}

/// The time of the last sweep.
pub(crate) fn coarse_ns() -> u64 {
    COARSE.get()
}

pub(crate) fn set_coarse(now: u64) {
    COARSE.set(now);
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ConnectionPhase {
    /// The first byte of the next request.
    Idle,
    /// The rest of a request's head.
    Head,
    /// A request is under way.
    Busy,
    /// As idle, and without buffers.
    Resting,
    /// It became a tunnel, which looks after itself.
    Tunnel,
    /// It has ended.
    Over,
}

/// What the sweep decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SweepVerdict {
    None,
    /// Idle long enough to give its buffers back.
    Park,
    /// The end: idle for too long, or the edge ends.
    Close,
    /// The head took too long.
    SlowHead,
    /// The client takes, or sends, nothing.
    SlowClient,
    /// The client closed its side, and got nothing for so long that nobody may be there.
    Gone,
}

/// An address that is listened on.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) settings: ListenerSettings,
    /// The address that it really has.
    pub(crate) address: SocketAddr,
    /// The address as rows show it.
    pub(crate) name: String,
    pub(crate) totals: Arc<ListenerTotals>,
}

/// Totals of a listener, all threads together; they go on when its settings change.
#[derive(Debug, Default)]
pub(crate) struct ListenerTotals {
    pub(crate) open: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
}

impl Listener {
    pub(crate) fn new(
        settings: ListenerSettings,
        address: SocketAddr,
        totals: Arc<ListenerTotals>,
    ) -> Self {
        Self { settings, address, name: address.to_string(), totals }
    }
}

/// What is known of a connection. Only its own thread changes it; it is atomic because hyper asks that a connection that
/// can be upgraded may move between threads.
#[derive(Debug)]
pub(crate) struct ClientState {
    pub(crate) listener: Arc<Listener>,
    pub(crate) client: SocketAddr,
    /// The client's address as rows show it.
    client_text: OnceLock<String>,
    /// The same, as backends are told it.
    client_value: OnceLock<HeaderValue>,
    /// The client's network, for rows that must not know more.
    pub(crate) client_network: OnceLock<String>,
    pub(crate) is_h2: bool,
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    /// What of both is in the listener's totals.
    told: (AtomicU64, AtomicU64),
    phase: AtomicU8,
    since: AtomicU64,
    /// When bytes last moved.
    moved: AtomicU64,
    first_byte: AtomicU64,
    /// Reads of the request that begins now.
    head_reads: AtomicU32,
    is_write_blocked: AtomicBool,
    is_body_wanted: AtomicBool,
    is_flushed: AtomicBool,
    /// Whether the connection's task shall look if the client has closed its side.
    is_look_wanted: AtomicBool,
    /// When that was first seen; 0 while it was not.
    half_closed: AtomicU64,
    verdict: AtomicU8,
    waker: Mutex<Option<Waker>>,
}

impl ClientState {
    pub(crate) fn new(listener: Arc<Listener>, client: SocketAddr, is_h2: bool) -> Self {
        let now = coarse_ns();
        Self {
            listener,
            client,
            client_text: OnceLock::new(),
            client_value: OnceLock::new(),
            client_network: OnceLock::new(),
            is_h2,
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            told: (AtomicU64::new(0), AtomicU64::new(0)),
            phase: AtomicU8::new(ConnectionPhase::Idle as u8),
            since: AtomicU64::new(now),
            moved: AtomicU64::new(now),
            first_byte: AtomicU64::new(0),
            head_reads: AtomicU32::new(0),
            is_write_blocked: AtomicBool::new(false),
            is_body_wanted: AtomicBool::new(false),
            is_flushed: AtomicBool::new(false),
            is_look_wanted: AtomicBool::new(false),
            half_closed: AtomicU64::new(0),
            verdict: AtomicU8::new(SweepVerdict::None as u8),
            waker: Mutex::new(None),
        }
    }

    pub(crate) fn phase(&self) -> ConnectionPhase {
        match self.phase.load(Relaxed) {
            0 => ConnectionPhase::Idle,
            1 => ConnectionPhase::Head,
            2 => ConnectionPhase::Busy,
            3 => ConnectionPhase::Resting,
            4 => ConnectionPhase::Tunnel,
            _ => ConnectionPhase::Over,
        }
    }

    pub(crate) fn set_phase(&self, phase: ConnectionPhase) {
        self.phase.store(phase as u8, Relaxed);
        self.since.store(coarse_ns(), Relaxed);
    }

    /// It gave its buffers back, or takes them again; the age of its idleness stays.
    pub(crate) fn set_resting(&self, is_resting: bool) {
        let phase = if is_resting { ConnectionPhase::Resting } else { ConnectionPhase::Idle };
        self.phase.store(phase as u8, Relaxed);
    }

    /// Since when it is in its phase, by the sweep's clock.
    pub(crate) fn since(&self) -> u64 {
        self.since.load(Relaxed)
    }

    /// Since when the client takes nothing of what is written, or sends nothing of a body that is wanted.
    pub(crate) fn stuck_since(&self) -> Option<u64> {
        let is_stuck = self.is_write_blocked.load(Relaxed) || self.is_body_wanted.load(Relaxed);
        is_stuck.then(|| self.moved.load(Relaxed))
    }

    pub(crate) fn set_body_wanted(&self, is_wanted: bool) {
        if is_wanted && !self.is_body_wanted.load(Relaxed) {
            self.moved.store(coarse_ns(), Relaxed);
        }
        self.is_body_wanted.store(is_wanted, Relaxed);
    }

    /// When the first byte of the request that begins now was read, and when the last one of its head was.
    pub(crate) fn take_head_times(&self) -> (u64, u64) {
        let (first, reads) = (self.first_byte.load(Relaxed), self.head_reads.load(Relaxed));
        self.first_byte.store(0, Relaxed);
        // A head that came in one piece needs no second look at the clock.
        let head = if first > 0 && reads == 1 { first } else { now_ns() };
        (if first > 0 { first } else { head }, head)
    }

    pub(crate) fn is_flushed(&self) -> bool {
        self.is_flushed.load(Relaxed)
    }

    pub(crate) fn set_unflushed(&self) {
        self.is_flushed.store(false, Relaxed);
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

    /// Tells the connection's task.
    pub(crate) fn judge(&self, verdict: SweepVerdict) {
        self.verdict.store(verdict as u8, Relaxed);
        self.wake();
    }

    /// Lets the connection's task look if the client has closed its side.
    pub(crate) fn look(&self) {
        self.is_look_wanted.store(true, Relaxed);
        self.wake();
    }

    /// Since when the client has closed its side, as far as that was seen, and got nothing.
    pub(crate) fn half_closed_since(&self) -> Option<u64> {
        let since = Some(self.half_closed.load(Relaxed)).filter(|since| *since > 0);
        since.map(|since| since.max(self.moved.load(Relaxed)))
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            waker.wake_by_ref();
        }
    }

    pub(crate) fn forget_verdict(&self) {
        self.verdict.store(SweepVerdict::None as u8, Relaxed);
    }

    /// The task that verdicts wake.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }

    /// Adds what has moved since the last time to the listener's totals.
    pub(crate) fn tell_bytes(&self) {
        let totals = &self.listener.totals;
        let pairs = [
            (&self.received, &self.told.0, &totals.received_bytes),
            (&self.sent, &self.told.1, &totals.sent_bytes),
        ];
        for (now, told, total) in pairs {
            let now = now.load(Relaxed);
            let moved = now - told.load(Relaxed);
            if moved > 0 {
                told.store(now, Relaxed);
                total.fetch_add(moved, Relaxed);
            }
        }
    }

    /// The client's address as rows show it.
    pub(crate) fn client_text(&self) -> &str {
        self.client_text.get_or_init(|| self.client.ip().to_canonical().to_string())
    }

    /// The client's address as backends are told it.
    pub(crate) fn client_value(&self) -> &HeaderValue {
        let value = || HeaderValue::try_from(self.client_text()).expect("an address is ASCII");
        self.client_value.get_or_init(value)
    }

    /// The client's address cut to its network: /24 of IPv4, /48 of IPv6.
    pub(crate) fn network(&self) -> &str {
        self.client_network.get_or_init(|| network(self.client.ip()).to_string())
    }

    fn note_read(&self, count: u64) {
        add(&self.received, count);
        self.moved.store(coarse_ns(), Relaxed);
        if self.is_h2 {
            return;
        }
        if self.phase.load(Relaxed) == ConnectionPhase::Idle as u8 {
            self.first_byte.store(now_ns(), Relaxed);
            self.head_reads.store(1, Relaxed);
            self.set_phase(ConnectionPhase::Head);
        } else {
            self.head_reads.store(2, Relaxed);
        }
    }

    fn note_write(&self, poll: &Poll<std::io::Result<usize>>) {
        match poll {
            Poll::Ready(Ok(count)) => {
                add(&self.sent, *count as u64);
                self.moved.store(coarse_ns(), Relaxed);
                self.is_write_blocked.store(false, Relaxed);
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.is_write_blocked.store(true, Relaxed),
        }
    }
}

/// Adds to a number that only this thread changes: without the lock that `fetch_add` takes.
fn add(total: &AtomicU64, count: u64) {
    total.store(total.load(Relaxed) + count, Relaxed);
}

/// An address without the part that tells a person.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & (u32::MAX << 8)).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 80)).into(),
    }
}

/// Bytes as they come, or as TLS carries them.
#[derive(Debug)]
pub(crate) enum ClientStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl ClientStream {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

/// A connection's stream with its count.
#[derive(Debug)]
pub(crate) struct ClientIo {
    pub(crate) stream: ClientStream,
    pub(crate) conn: Arc<ClientState>,
}

impl ClientIo {
    /// Notes when the client has closed its side; the reactor knows, no system call is made.
    fn look(&self) {
        self.conn.is_look_wanted.store(false, Relaxed);
        let ready = pin!(self.stream.socket().ready(Interest::READABLE));
        if let Poll::Ready(Ok(ready)) = ready.poll(&mut Context::from_waker(Waker::noop()))
            && ready.is_read_closed()
        {
            let now = coarse_ns();
            let _first = self.conn.half_closed.compare_exchange(0, now, Relaxed, Relaxed);
        }
    }

    /// Until there is something to read, or the end.
    pub(crate) async fn readable(&self) -> std::io::Result<()> {
        self.stream.socket().readable().await
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let poll = match &mut self.stream {
            ClientStream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            ClientStream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        };
        let count = buf.filled().len() - before;
        if count > 0 {
            self.conn.note_read(count as u64);
        }
        poll
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let poll = match &mut self.stream {
            ClientStream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            ClientStream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        };
        self.conn.note_write(&poll);
        poll
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let poll = match &mut self.stream {
            ClientStream::Plain(stream) => write_pieces(stream, cx, bufs),
            ClientStream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        };
        self.conn.note_write(&poll);
        poll
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let poll = match &mut self.stream {
            ClientStream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            ClientStream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        };
        if matches!(poll, Poll::Ready(Ok(()))) {
            self.conn.is_flushed.store(true, Relaxed);
        }
        // hyper comes by here whenever it is polled, and while a request is under way reads nothing.
        if self.conn.is_look_wanted.load(Relaxed) {
            self.look();
        }
        poll
    }

    /// hyper closes a socket at once when this is done: then closing says the same to the client, with one system call
    /// less. A tunnel ends one direction and goes on with the other.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let is_tunnel = self.conn.phase() == ConnectionPhase::Tunnel;
        match &mut self.stream {
            ClientStream::Plain(_) if !is_tunnel => Poll::Ready(Ok(())),
            ClientStream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            ClientStream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// Pieces together up to this size are copied into one: the kernel takes one piece faster than several.
const COPIED_BYTES_MAX: usize = 2048;

/// Writes a head and a body in one go.
pub(crate) fn write_pieces(
    stream: &mut TcpStream,
    cx: &mut Context<'_>,
    bufs: &[std::io::IoSlice<'_>],
) -> Poll<std::io::Result<usize>> {
    if let [piece] = bufs {
        return Pin::new(stream).poll_write(cx, piece);
    }
    let length: usize = bufs.iter().map(|piece| piece.len()).sum();
    if length > COPIED_BYTES_MAX {
        return Pin::new(stream).poll_write_vectored(cx, bufs);
    }
    let mut copy = [0; COPIED_BYTES_MAX];
    let mut at = 0;
    for piece in bufs {
        copy[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    Pin::new(stream).poll_write(cx, &copy[..length])
}

#[cfg(test)]
mod tests {
    use super::network;

    #[test]
    fn an_address_is_cut_to_its_network() {
        for (address, cut) in [
            ("192.0.2.77", "192.0.2.0"),
            ("::ffff:192.0.2.77", "192.0.2.0"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::"),
        ] {
            assert_eq!(network(address.parse().unwrap()).to_string(), cut);
        }
    }
}
