//! Protocols over UDP: syslog, GELF, statsd. Nothing is acknowledged or resent, so losses are
//! counted.
//!
//! Datagrams are collected while earlier ones are made durable. When that takes too long, the
//! kernel drops datagrams and counts them per socket in `/proc/net/udp`; `intake_run` reports them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::{Semaphore, watch};
use weir_tables::Micros;

use crate::batch_builder::BatchBuilder;
use crate::counts::{BatchAmount, BatchOrigin, IntakeOutcome};
use crate::gelf::GelfChunks;
use crate::intake::Intake;
use crate::listen::OverUdp;

/// Bytes of datagrams in one batch.
const BATCH_BYTES: usize = 512 << 10;
/// Datagrams in one batch.
const BATCH_DATAGRAMS: usize = 20_000;
/// Batches that are being made durable at one time.
const BATCHES_IN_FLIGHT: usize = 4;
/// Bytes that a datagram may decompress to, for each byte; deflate's limit is 1,032.
const MAX_RATIO: usize = 1032;
/// Memory for the lines of one batch: what ends it, and the message that goes beyond.
const UNPACKED_BYTES: usize = 9 << 20;
/// Attempts to keep a batch, a second apart, before its datagrams are lost.
const TRIES: usize = 10;
const PAUSE: Duration = Duration::from_secs(1);
/// The largest datagram.
const MAX_DATAGRAM_BYTES: usize = 65_535;
/// How often the kernel's drop counter is read.
const ASK_KERNEL: Duration = Duration::from_secs(5);

/// Adds one datagram to a builder.
pub(crate) type ReadDatagram = fn(&[u8], peer: &str, &mut BatchBuilder);

/// Datagrams of one batch, with their senders.
#[derive(Default)]
struct DatagramBatch {
    bytes: Vec<u8>,
    ends: Vec<(usize, IpAddr)>,
}

impl DatagramBatch {
    /// Adds a datagram, or the message that it completes.
    fn add(&mut self, datagram: &[u8], peer: IpAddr, chunks: Option<&mut GelfChunks>, now: Micros) {
        match chunks {
            None => self.bytes.extend_from_slice(datagram),
            Some(chunks) => {
                let Some(message) = chunks.add(datagram, peer, now) else { return };
                self.bytes.extend(message);
            }
        }
        self.ends.push((self.bytes.len(), peer));
    }

    fn datagrams(&self) -> impl Iterator<Item = (&[u8], IpAddr)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        starts.zip(&self.ends).map(|(start, (end, peer))| (&self.bytes[start..*end], *peer))
    }
}

impl Intake {
    /// Receives datagrams until `ended` is true, and then the rest of the socket buffer.
    pub(crate) async fn read_datagrams(
        self: Arc<Self>,
        socket: UdpSocket,
        protocol: &'static str,
        read: ReadDatagram,
        mut chunks: Option<GelfChunks>,
        mut ended: watch::Receiver<bool>,
    ) {
        let room = Arc::new(Semaphore::new(BATCHES_IN_FLIGHT));
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        let mut kernel = KernelDrops::of(&socket);
        let mut ask_kernel = tokio::time::interval(ASK_KERNEL);
        loop {
            let is_ended = tokio::select! {
                ready = socket.readable() => ready.is_err(),
                _ = ask_kernel.tick() => {
                    self.count_drops(protocol, &mut kernel);
                    self.count_incomplete(protocol, chunks.as_mut());
                    continue;
                }
                _ = ended.wait_for(|is_ended| *is_ended) => true,
            };
            loop {
                let gathered = self.gather(&socket, protocol, &mut buffer, chunks.as_mut());
                let Some(gathered) = gathered else { break };
                if gathered.ends.is_empty() {
                    continue;
                }
                let place = Arc::clone(&room).acquire_owned().await;
                let place = place.expect("the semaphore is never closed");
                let intake = Arc::clone(&self);
                tokio::spawn(async move {
                    intake.keep_datagrams(protocol, read, &gathered).await;
                    drop(place);
                });
            }
            if is_ended {
                break;
            }
        }
        let all = u32::try_from(BATCHES_IN_FLIGHT).expect("a few");
        drop(room.acquire_many(all).await);
        self.count_drops(protocol, &mut kernel);
    }

    /// Receives the datagrams of allowed senders; `None` when the socket buffer is empty.
    fn gather(
        &self,
        socket: &UdpSocket,
        protocol: &'static str,
        buffer: &mut [u8],
        mut chunks: Option<&mut GelfChunks>,
    ) -> Option<DatagramBatch> {
        let mut gathered = DatagramBatch::default();
        let mut datagrams = 0;
        while gathered.bytes.len() < BATCH_BYTES && datagrams < BATCH_DATAGRAMS {
            let Ok((length, peer)) = socket.try_recv_from(buffer) else { break };
            datagrams += 1;
            let peer = peer.ip().to_canonical();
            if !self.settings.access.allows(peer) {
                let origin = BatchOrigin { protocol, peer: Some(peer) };
                let amount = BatchAmount { batches: 1, rows: 0, bytes: length };
                self.counts.add(origin, IntakeOutcome::Refused, Some("not_allowed"), amount);
                continue;
            }
            gathered.add(&buffer[..length], peer, chunks.as_deref_mut(), self.hub.now());
        }
        (datagrams > 0).then_some(gathered)
    }

    /// Keeps datagrams of one sender that did not come from a socket.
    pub async fn keep_datagrams_of(
        self: &Arc<Self>,
        protocol: OverUdp,
        peer: IpAddr,
        datagrams: impl Iterator<Item = &[u8]> + Send,
    ) {
        let (name, read) = protocol.reader();
        let mut chunks = (protocol == OverUdp::Gelf).then(GelfChunks::default);
        let mut gathered = DatagramBatch::default();
        for datagram in datagrams {
            gathered.add(datagram, peer, chunks.as_mut(), self.hub.now());
        }
        self.keep_datagrams(name, read, &gathered).await;
        self.count_incomplete(name, chunks.as_mut());
    }

    /// Keeps the datagrams of one batch, as many at a time as there is memory for their content.
    async fn keep_datagrams(
        self: &Arc<Self>,
        protocol: &'static str,
        read: ReadDatagram,
        gathered: &DatagramBatch,
    ) {
        // Addresses of datagrams can be forged, so memory is counted for all senders together.
        let hold = self.memory.hold(BatchOrigin { protocol, peer: None });
        let ratio = if protocol == "gelf_udp" { MAX_RATIO } else { 1 };
        let mut kept = 0;
        while kept < gathered.ends.len() {
            let bytes = gathered.bytes.len().saturating_mul(ratio).min(UNPACKED_BYTES);
            hold.grow_eventually(self.memory.capped(bytes)).await;
            kept = self.keep_part(protocol, read, gathered, kept).await;
            hold.shrink_to(0);
        }
    }

    /// Keeps datagrams from number `from` on, and returns the number of the first that is left.
    async fn keep_part(
        self: &Arc<Self>,
        protocol: &'static str,
        read: ReadDatagram,
        gathered: &DatagramBatch,
        from: usize,
    ) -> usize {
        // A batch of several senders is counted under the first, because a batch has one origin.
        let peer = gathered.ends.first().map(|(_, peer)| *peer);
        let origin = BatchOrigin { protocol, peer };
        let (mut to, mut bytes) = (from, 0);
        for _ in 0..TRIES {
            let mut builder = self.builder();
            (to, bytes) = (from, 0);
            for (datagram, peer) in gathered.datagrams().skip(from) {
                if builder.is_batch_full() {
                    break;
                }
                read(datagram, &peer.to_string(), &mut builder);
                to += 1;
                bytes += datagram.len();
            }
            if builder.verdicts.is_empty() || self.take(origin, bytes, builder).await.is_ok() {
                return to;
            }
            tokio::time::sleep(PAUSE).await;
        }
        let amount = BatchAmount { batches: 1, rows: to - from, bytes };
        self.counts.add(origin, IntakeOutcome::Lost, Some("not_kept"), amount);
        to
    }

    /// Counts messages with missing chunks.
    fn count_incomplete(&self, protocol: &'static str, chunks: Option<&mut GelfChunks>) {
        let Some(chunks) = chunks else { return };
        let lost = [
            ("chunks_missing", chunks.expire(self.hub.now())),
            ("chunks_refused", chunks.take_refused()),
        ];
        for (reason, rows) in lost.into_iter().filter(|(_, rows)| *rows > 0) {
            let origin = BatchOrigin { protocol, peer: None };
            let amount = BatchAmount { batches: 0, rows, bytes: 0 };
            self.counts.add(origin, IntakeOutcome::Lost, Some(reason), amount);
        }
    }

    fn count_drops(&self, protocol: &'static str, kernel: &mut KernelDrops) {
        let dropped = kernel.since_last(Path::new("/proc/net"));
        if dropped > 0 {
            let origin = BatchOrigin { protocol, peer: None };
            let amount = BatchAmount { batches: 0, rows: dropped, bytes: 0 };
            self.counts.add(origin, IntakeOutcome::Lost, Some("socket_buffer"), amount);
            tracing::warn!(
                "the kernel dropped {dropped} datagrams of {protocol}: the socket's buffer was full"
            );
        }
    }
}

/// Datagrams that the kernel dropped at one socket, from the last column of `/proc/net/udp`.
#[derive(Debug)]
struct KernelDrops {
    inode: Option<u64>,
    seen: usize,
}

impl KernelDrops {
    fn of(socket: &UdpSocket) -> Self {
        let inode = rustix::fs::fstat(socket.as_fd()).ok().map(|stat| stat.st_ino);
        Self { inode, seen: 0 }
    }

    fn since_last(&mut self, proc_net: &Path) -> usize {
        let Some(inode) = self.inode else { return 0 };
        let dropped = ["udp", "udp6"].iter().find_map(|name| {
            let table = std::fs::read_to_string(proc_net.join(name)).unwrap_or_default();
            drops(&table, inode)
        });
        let now = dropped.unwrap_or(self.seen);
        now.saturating_sub(std::mem::replace(&mut self.seen, now))
    }
}

/// The drops of the socket with an inode.
fn drops(table: &str, inode: u64) -> Option<usize> {
    let inode = inode.to_string();
    let line = table.lines().skip(1).find(|line| line.split_whitespace().nth(9) == Some(&inode))?;
    line.split_whitespace().nth(12)?.parse().ok()
}

/// A bound socket with a receive buffer of `buffer_bytes`, or as much as the system allows.
pub fn bind_udp(address: SocketAddr, buffer_bytes: usize) -> io::Result<std::net::UdpSocket> {
    let socket = std::net::UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    // Root may exceed `net.core.rmem_max`; for others the kernel caps the value.
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, buffer_bytes).is_err() {
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, buffer_bytes)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_read_by_inode() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            53: 0100007F:0202 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 41234 2 0000000000000000 17\n";
        assert_eq!(drops(table, 41234), Some(17));
        assert_eq!(drops(table, 1), None);
        assert_eq!(drops("", 1), None);
    }

    #[test]
    fn the_kernel_counts_what_a_full_buffer_dropped() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("threads").block_on(async {
            let socket = bind_udp("127.0.0.1:0".parse().expect("an address"), 4096).expect("free");
            let address = socket.local_addr().expect("bound");
            let socket = UdpSocket::from_std(socket).expect("bound");
            let mut kernel = KernelDrops::of(&socket);
            let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("free");
            for _ in 0..200 {
                sender.send_to(&[b'x'; 1000], address).expect("loopback takes all");
            }
            socket.readable().await.expect("something came");
            let mut buffer = [0; 2000];
            let received = std::iter::from_fn(|| socket.try_recv_from(&mut buffer).ok()).count();
            let dropped = kernel.since_last(Path::new("/proc/net"));
            assert!(dropped > 0);
            assert_eq!(dropped + received, 200);
            assert_eq!(kernel.since_last(Path::new("/proc/net")), 0);
        });
    }
}
