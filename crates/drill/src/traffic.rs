//! Traffic of a testbed besides visitors: packets with forged senders, and datagrams with a
//! receiver that may be too slow. Both are hidden commands of weir that run in a namespace.
//!
//! Sources: RFC 791 §3.1 and RFC 9293 §3.1 (headers), RFC 1071 (checksum), raw(7): the kernel fills
//! in length and checksum of the IP header.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with,
};

use crate::error::{DrillError, Result};
use crate::pause;

/// Network of forged senders: the upper half of RFC 2544's network for benchmarks.
pub(crate) const FORGED: &str = "198.19.0.0/16";
/// Sockets that send datagrams in turn.
const SOCKETS: usize = 64;
/// Packets between two checks of the clock, unless there are bursts.
pub const STEP: u64 = 16;

/// Options of a flood of unrelated packets.
pub struct FloodOptions {
    /// Target address.
    pub address: SocketAddr,
    /// Packets per second.
    pub per_second: u64,
    /// Sends datagrams instead of SYNs with forged senders.
    pub datagrams: bool,
    /// Packets per burst; bursts are paced to the rate.
    pub burst: u64,
}

/// Options of a datagram receiver.
pub struct ReceiveOptions {
    /// Listening address.
    pub address: SocketAddr,
    /// Microseconds of pause after each datagram.
    pub pause_micros: u64,
    /// File to append datagrams to, one per line without their priority, as a syslog daemon does.
    pub file: Option<PathBuf>,
}

/// Sends until killed.
///
/// # Errors
/// When it cannot send at all. It waits for a full queue.
pub fn flood(args: &FloodOptions) -> Result<()> {
    let SocketAddr::V4(target) = args.address else {
        return Err(DrillError::new("cannot send to an IPv6 address"));
    };
    let send: Box<dyn FnMut(u64) -> bool> = if args.datagrams {
        // Use several sockets: each can have only as many datagrams in flight as its buffer holds.
        let connect =
            |_| UdpSocket::bind("0.0.0.0:0").and_then(|own| own.connect(target).map(|()| own));
        let sockets = (0..SOCKETS).map(connect).collect::<std::io::Result<Vec<UdpSocket>>>()?;
        let mut turns = (0..sockets.len()).cycle();
        Box::new(move |_| {
            let own = turns.next().and_then(|turn| sockets.get(turn));
            own.is_some_and(|own| own.send(&[b'x'; 200]).is_ok())
        })
    } else {
        let raw = socket_with(
            AddressFamily::INET,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(ipproto::RAW),
        )?;
        Box::new(move |number| {
            sendto(&raw, &syn(target, number), SendFlags::empty(), &args.address).is_ok()
        })
    };
    send_paced(args, send)
}

fn send_paced(args: &FloodOptions, mut send: Box<dyn FnMut(u64) -> bool + '_>) -> Result<()> {
    let (per_second, burst) = (args.per_second.max(1), args.burst.max(1));
    let begin = Instant::now();
    let mut number = 0;
    loop {
        for _ in 0..burst {
            number += 1;
            if !send(number) {
                pause(Duration::from_millis(1));
            }
        }
        let due = Duration::from_secs(1).mul_f64(as_float(number) / as_float(per_second));
        pause(due.saturating_sub(begin.elapsed()));
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of packets of minutes")]
fn as_float(number: u64) -> f64 {
    number as f64
}

/// Builds a SYN whose sender and port derive from its number, unique among four billion.
fn syn(target: SocketAddrV4, number: u64) -> Vec<u8> {
    let [.., d, c, b, a] = (number.wrapping_mul(0x9e37_79b1)).to_be_bytes();
    let source = Ipv4Addr::new(198, 19, d, c);
    let mut tcp = Vec::with_capacity(20);
    tcp.extend_from_slice(&[b | 0x80, a]);
    tcp.extend_from_slice(&target.port().to_be_bytes());
    tcp.extend_from_slice(&number.to_be_bytes()[4..]);
    // No acknowledgement, a header of 20 bytes, SYN, a window.
    tcp.extend_from_slice(&[0, 0, 0, 0, 0x50, 0x02, 0xff, 0xff, 0, 0, 0, 0]);
    let pseudo = [&source.octets()[..], &target.ip().octets(), &[0, 6, 0, 20], &tcp].concat();
    let sum = checksum(&pseudo).to_be_bytes();
    tcp[16..18].copy_from_slice(&sum);
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 6, 0, 0];
    packet.extend_from_slice(&source.octets());
    packet.extend_from_slice(&target.ip().octets());
    packet.extend_from_slice(&tcp);
    packet
}

/// The Internet checksum: complement of the ones' complement sum of all byte pairs.
fn checksum(bytes: &[u8]) -> u16 {
    let pairs = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |second| u32::from(*second)));
    let mut sum: u32 = pairs.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or_default()
}

/// Receives until killed.
///
/// # Errors
/// When it cannot listen, or cannot write its file.
pub fn receive(args: &ReceiveOptions) -> Result<()> {
    let socket = UdpSocket::bind(args.address)?;
    let mut options = OpenOptions::new();
    let options = options.create(true).append(true);
    let mut file = args.file.as_ref().map(|path| options.open(path)).transpose()?;
    let mut datagram = vec![0; 16 << 10];
    loop {
        let length = socket.recv(&mut datagram)?;
        if let Some(file) = &mut file {
            let text = String::from_utf8_lossy(&datagram[..length]).into_owned();
            let line = text.split_once('>').map_or(&*text, |(_, line)| line).trim_end();
            writeln!(file, "{line}")?;
        }
        if args.pause_micros > 0 {
            pause(Duration::from_micros(args.pause_micros));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_that_of_the_standard() {
        // RFC 1071 §3: the sum of these is ddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    #[test]
    fn each_syn_has_a_unique_sender_and_a_valid_checksum() {
        let target = SocketAddrV4::new(Ipv4Addr::new(198, 18, 7, 1), 80);
        let mut senders = std::collections::BTreeSet::new();
        for number in 0..5000 {
            let packet = syn(target, number);
            assert_eq!(packet.len(), 40);
            assert_eq!(packet[12..14], [198, 19]);
            senders.insert(packet[12..22].to_vec());
            let pseudo = [&packet[12..20], &[0, 6, 0, 20], &packet[20..]].concat();
            assert_eq!(checksum(&pseudo), 0);
        }
        assert_eq!(senders.len(), 5000);
    }
}
