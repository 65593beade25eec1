//! Protocols over UDP: syslog, GELF, statsd. There is no answer and nothing is sent again, so losses are counted.
//!
//! Datagrams are gathered while earlier ones are made durable. When that takes too long the kernel drops datagrams;
//! it counts them by socket in `/proc/net/udp`, and from there they come into `intake_run`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::{Semaphore, watch};

use crate::counts::{Amount, Origin, Outcome};
use crate::gelf::Chunks;
use crate::harvest::Harvest;
use crate::intake::Intake;

/// Bytes of datagrams that are kept together.
const BATCH_BYTES: usize = 512 << 10;
/// Datagrams that are kept together.
const BATCH_DATAGRAMS: usize = 20_000;
/// Batches that are being made durable at one time.
const BATCHES_IN_FLIGHT: usize = 4;
/// Times that a batch is tried again, a second apart, before its datagrams are lost.
const TRIES: usize = 10;
const PAUSE: Duration = Duration::from_secs(1);
/// The largest datagram.
const MAX_DATAGRAM_BYTES: usize = 65_535;
/// How often the kernel is asked for what it dropped.
const ASK_KERNEL: Duration = Duration::from_secs(5);

/// Puts one datagram into a harvest.
pub(crate) type Read = fn(&[u8], peer: &str, &mut Harvest);

/// Datagrams that are kept together, with their senders.
#[derive(Default)]
struct Gathered {
    bytes: Vec<u8>,
    ends: Vec<(usize, IpAddr)>,
}

impl Gathered {
    fn datagrams(&self) -> impl Iterator<Item = (&[u8], IpAddr)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        starts.zip(&self.ends).map(|(start, (end, peer))| (&self.bytes[start..*end], *peer))
    }
}

impl Intake {
    /// Takes datagrams until `ended` says so, and then what the kernel still has.
    pub(crate) async fn read_datagrams(
        self: Arc<Self>,
        socket: UdpSocket,
        protocol: &'static str,
        read: Read,
        mut chunks: Option<Chunks>,
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

    /// What is there now, from those who may send; `None` when nothing is there.
    fn gather(
        &self,
        socket: &UdpSocket,
        protocol: &'static str,
        buffer: &mut [u8],
        mut chunks: Option<&mut Chunks>,
    ) -> Option<Gathered> {
        let mut gathered = Gathered::default();
        let mut datagrams = 0;
        while gathered.bytes.len() < BATCH_BYTES && datagrams < BATCH_DATAGRAMS {
            let Ok((length, peer)) = socket.try_recv_from(buffer) else { break };
            datagrams += 1;
            let peer = peer.ip().to_canonical();
            if !self.settings.access.allows(peer) {
                let origin = Origin { protocol, peer: Some(peer) };
                let amount = Amount { batches: 1, rows: 0, bytes: length };
                self.counts.add(origin, Outcome::Refused, Some("not_allowed"), amount);
                continue;
            }
            match chunks.as_mut() {
                None => gathered.bytes.extend_from_slice(&buffer[..length]),
                Some(chunks) => {
                    let whole = chunks.whole(&buffer[..length], peer, self.hub.now());
                    let Some(whole) = whole else { continue };
                    gathered.bytes.extend(whole);
                }
            }
            gathered.ends.push((gathered.bytes.len(), peer));
        }
        (datagrams > 0).then_some(gathered)
    }

    async fn keep_datagrams(
        self: &Arc<Self>,
        protocol: &'static str,
        read: Read,
        gathered: &Gathered,
    ) {
        // One batch of several senders is counted under the first: a batch has one origin, rows have their own host.
        let peer = gathered.ends.first().map(|(_, peer)| *peer);
        let origin = Origin { protocol, peer };
        for _ in 0..TRIES {
            let mut harvest = self.harvest();
            for (bytes, peer) in gathered.datagrams() {
                read(bytes, &peer.to_string(), &mut harvest);
            }
            if harvest.verdicts.is_empty() {
                return;
            }
            if self.take(origin, gathered.bytes.len(), harvest).await.is_ok() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
        let amount = Amount { batches: 1, rows: gathered.ends.len(), bytes: gathered.bytes.len() };
        self.counts.add(origin, Outcome::Lost, Some("not_kept"), amount);
    }

    /// Messages whose chunks did not all come.
    fn count_incomplete(&self, protocol: &'static str, chunks: Option<&mut Chunks>) {
        let incomplete = chunks.map_or(0, |chunks| chunks.expire(self.hub.now()));
        if incomplete > 0 {
            let origin = Origin { protocol, peer: None };
            let amount = Amount { batches: 0, rows: incomplete, bytes: 0 };
            self.counts.add(origin, Outcome::Lost, Some("chunks_missing"), amount);
        }
    }

    fn count_drops(&self, protocol: &'static str, kernel: &mut KernelDrops) {
        let dropped = kernel.since_last(Path::new("/proc/net"));
        if dropped > 0 {
            let origin = Origin { protocol, peer: None };
            let amount = Amount { batches: 0, rows: dropped, bytes: 0 };
            self.counts.add(origin, Outcome::Lost, Some("socket_buffer"), amount);
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
        let table = |name: &str| std::fs::read_to_string(proc_net.join(name)).unwrap_or_default();
        let dropped = ["udp", "udp6"].iter().find_map(|name| drops(&table(name), inode));
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

/// A bound socket with a receive buffer of `buffer_bytes`, as far as the system lets it.
pub fn bind_udp(address: SocketAddr, buffer_bytes: usize) -> io::Result<std::net::UdpSocket> {
    let socket = std::net::UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    // Root may pass `net.core.rmem_max`; for others the kernel takes what it allows.
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
    fn the_kernel_tells_what_a_full_buffer_dropped() {
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
