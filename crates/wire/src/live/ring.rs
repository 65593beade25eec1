//! A packet socket with a memory-mapped ring: AF_PACKET with TPACKET_V3.
//!
//! Sources: packet(7), Documentation/networking/packet_mmap.rst, linux/if_packet.h. A separate
//! module because of its `unsafe` calls. The socket is of type SOCK_DGRAM, so each packet begins at
//! its network header on every link type.
//!
//! ```text
//! block:  version u32 · private u32 · status u32 · packets u32 · first packet u32 · …
//! packet: next u32 · seconds u32 · nanoseconds u32 · captured u32 · length u32 · status u32 ·
//!         mac u16 · net u16 · …
//!         48 bytes further: sockaddr_ll: family u16 · protocol be16 · interface i32 ·
//!         hardware u16 · direction u8 · …
//! ```
#![expect(unsafe_code, reason = "neither std nor rustix has packet rings")]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use weir_capture::kernel_filter::BpfInstruction;
use weir_capture::packet::Direction;

pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// The kernel delivers a partly filled block after this time.
const RETIRE_MILLISECONDS: u32 = 20;
/// `if_packet.h`: the block belongs to user space.
const STATUS_USER: u32 = 1;
const OUTGOING: u8 = 4;
const AT_STATUS: usize = 8;
const AT_COUNT: usize = 12;
const AT_FIRST: usize = 16;
/// Offset of `sockaddr_ll` in a packet.
const AT_ADDRESS: usize = 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RawPacket<'a> {
    pub(super) ts_ns: i64,
    pub(super) interface: u32,
    /// The EtherType.
    pub(super) protocol: u16,
    pub(super) direction: Direction,
    /// Bytes from the network header on.
    pub(super) bytes: &'a [u8],
    pub(super) length: u32,
}

/// Kernel counters since the last read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RingCounters {
    /// Packets that passed the filter, lost ones included.
    pub(super) packets: u32,
    /// Packets lost because the ring was full.
    pub(super) drops: u32,
    /// Times the ring was full.
    pub(super) freezes: u32,
}

pub(super) struct PacketRing {
    socket: OwnedFd,
    map: RingMapping,
    next: usize,
}

/// Shared memory; unmapped when dropped.
struct RingMapping {
    start: *mut u8,
    blocks: usize,
}

// SAFETY: the mapping belongs to this value alone and may be used from any thread.
unsafe impl Send for RingMapping {}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn set<T>(socket: &OwnedFd, (level, name): (i32, i32), value: &T) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).expect("options are small");
    // SAFETY: `value` is valid for reads of `length` bytes for the duration of the call.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const *value).cast(), length)
    };
    check(result).map(drop)
}

impl PacketRing {
    /// Opens a socket that captures nothing until [`PacketRing::bind`].
    pub(super) fn open(bytes: usize) -> io::Result<Self> {
        // SAFETY: socket(2) takes numbers only; protocol 0 means that no packet is taken yet.
        let fd = check(unsafe {
            libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)
        })?;
        // SAFETY: the descriptor was created above and has no other owner.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let version = 2_i32; // TPACKET_V3
        set(&socket, (libc::SOL_PACKET, libc::PACKET_VERSION), &version)?;
        let blocks = (bytes / BLOCK_BYTES).max(2);
        let expected = "the ring is below 4 GiB";
        let request = libc::tpacket_req3 {
            tp_block_size: u32::try_from(BLOCK_BYTES).expect(expected),
            tp_block_nr: u32::try_from(blocks).expect(expected),
            tp_frame_size: 2048,
            tp_frame_nr: u32::try_from(blocks * (BLOCK_BYTES / 2048)).expect(expected),
            tp_retire_blk_tov: RETIRE_MILLISECONDS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, (libc::SOL_PACKET, libc::PACKET_RX_RING), &request)?;
        let map = RingMapping::new(&socket, blocks)?;
        Ok(Self { socket, map, next: 0 })
    }

    /// Sets the BPF program for further packets; it also returns how many bytes to keep.
    pub(super) fn set_filter(&self, program: &[BpfInstruction]) -> io::Result<()> {
        let mut code: Vec<libc::sock_filter> = program
            .iter()
            .map(|i| libc::sock_filter { code: i.code, jt: i.jump_true, jf: i.jump_false, k: i.k })
            .collect();
        let length = u16::try_from(code.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        // `code` lives until the kernel has copied it in the call below.
        let program = libc::sock_fprog { len: length, filter: code.as_mut_ptr() };
        set(&self.socket, (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER), &program)
    }

    /// Starts capturing on an interface, or on all when `interface` is 0.
    pub(super) fn bind(&self, interface: i32) -> io::Result<()> {
        // SAFETY: all bytes 0 is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = u16::try_from(libc::AF_PACKET).expect("a small constant");
        address.sll_protocol = u16::try_from(libc::ETH_P_ALL).expect("a small constant").to_be();
        address.sll_ifindex = interface;
        let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).expect("small");
        // SAFETY: `address` is a sockaddr_ll of `length` bytes.
        let result =
            unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), length) };
        check(result).map(drop)
    }

    /// Index of an interface in this thread's network namespace.
    pub(super) fn index(&self, name: &str) -> io::Result<i32> {
        let index = rustix::net::netdevice::name_to_index(&self.socket, name)?;
        i32::try_from(index).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Waits up to `timeout` for a block; returns the interface's errors.
    pub(super) fn wait(&self, timeout: Duration) -> io::Result<()> {
        if self.is_ready() {
            return Ok(());
        }
        let milliseconds = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        let events = libc::POLLIN | libc::POLLERR;
        let mut asked = libc::pollfd { fd: self.socket.as_raw_fd(), events, revents: 0 };
        // SAFETY: `asked` is one pollfd.
        match check(unsafe { libc::poll(&raw mut asked, 1, milliseconds) }) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        if asked.revents & libc::POLLERR != 0 {
            rustix::net::sockopt::socket_error(&self.socket)??;
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.map.status(self.next).load(Ordering::Acquire) & STATUS_USER != 0
    }

    /// Passes the packets of the next block to `each` and returns the block to the kernel; false
    /// when there is none.
    pub(super) fn next_block(&mut self, each: &mut impl FnMut(&RawPacket<'_>)) -> bool {
        if !self.is_ready() {
            return false;
        }
        walk(self.map.block(self.next), each);
        self.map.status(self.next).store(0, Ordering::Release);
        self.next = (self.next + 1) % self.map.blocks;
        true
    }

    /// Reads the counters, which sets them to 0.
    pub(super) fn statistics(&self) -> io::Result<RingCounters> {
        let mut found = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        let mut length = libc::socklen_t::try_from(size_of_val(&found)).expect("three numbers");
        // SAFETY: `found` is valid for writes of `length` bytes.
        check(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut found).cast(),
                &raw mut length,
            )
        })?;
        Ok(RingCounters {
            packets: found.tp_packets,
            drops: found.tp_drops,
            freezes: found.tp_freeze_q_cnt,
        })
    }
}

impl RingMapping {
    fn new(socket: &OwnedFd, blocks: usize) -> io::Result<Self> {
        let length = blocks * BLOCK_BYTES;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new shared mapping at an address that the kernel chooses touches no memory of
        // this program.
        let start = unsafe {
            let none = std::ptr::null_mut();
            libc::mmap(none, length, rights, libc::MAP_SHARED, socket.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), blocks })
    }

    fn status(&self, block: usize) -> &AtomicU32 {
        assert!(block < self.blocks, "a ring has its blocks");
        // SAFETY: the word lies inside the mapping, which lives as long as `self`, is aligned since
        // blocks begin on pages, and both sides change it atomically.
        unsafe { AtomicU32::from_ptr(self.start.add(block * BLOCK_BYTES + AT_STATUS).cast()) }
    }

    fn block(&self, block: usize) -> &[u8] {
        assert!(block < self.blocks, "a ring has its blocks");
        // SAFETY: the block lies inside the mapping; its status gives it to user space, so the
        // kernel does not write to it until `next_block`, which has the only reference, returns it.
        unsafe { std::slice::from_raw_parts(self.start.add(block * BLOCK_BYTES), BLOCK_BYTES) }
    }
}

impl Drop for RingMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and no reference to it outlives
        // `self`.
        let _ = unsafe { libc::munmap(self.start.cast(), self.blocks * BLOCK_BYTES) };
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn walk(block: &[u8], each: &mut impl FnMut(&RawPacket<'_>)) {
    let count = u32_at(block, AT_COUNT).unwrap_or(0);
    let mut at = u32_at(block, AT_FIRST).unwrap_or(0) as usize;
    for _ in 0..count {
        let Some((packet, next)) = packet(block, at) else { return };
        each(&packet);
        if next == 0 {
            return;
        }
        at += next;
    }
}

fn packet(block: &[u8], at: usize) -> Option<(RawPacket<'_>, usize)> {
    let head = block.get(at..)?;
    let next = u32_at(head, 0)? as usize;
    let ts_ns = i64::from(u32_at(head, 4)?) * 1_000_000_000 + i64::from(u32_at(head, 8)?);
    let captured = u32_at(head, 12)? as usize;
    let net = usize::from(u16_at(head, 26)?);
    let address = head.get(AT_ADDRESS..AT_ADDRESS + 12)?;
    let is_outgoing = address[10] == OUTGOING;
    let raw = RawPacket {
        ts_ns,
        interface: u32_at(address, 4)?,
        protocol: u16::from_be(u16_at(address, 2)?),
        direction: if is_outgoing { Direction::Out } else { Direction::In },
        bytes: head.get(net..net + captured)?,
        length: u32_at(head, 16)?,
    };
    Some((raw, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_lies_about_its_lengths_is_left_where_it_ends() {
        let mut block = vec![0_u8; 256];
        block[AT_COUNT..AT_COUNT + 4].copy_from_slice(&9_u32.to_ne_bytes());
        block[AT_FIRST..AT_FIRST + 4].copy_from_slice(&48_u32.to_ne_bytes());
        let head = &mut block[48..];
        head[0..4].copy_from_slice(&96_u32.to_ne_bytes());
        head[4..8].copy_from_slice(&7_u32.to_ne_bytes());
        head[12..16].copy_from_slice(&2_u32.to_ne_bytes());
        head[16..20].copy_from_slice(&60_u32.to_ne_bytes());
        head[26..28].copy_from_slice(&80_u16.to_ne_bytes());
        head[50..52].copy_from_slice(&0x0800_u16.to_be_bytes());
        head[58] = OUTGOING;
        head[80..82].copy_from_slice(&[0x45, 0]);
        // The second packet claims to be longer than its block.
        head[96 + 12..96 + 16].copy_from_slice(&4096_u32.to_ne_bytes());
        let mut found = Vec::new();
        walk(&block, &mut |raw| {
            found.push((raw.ts_ns, raw.protocol, raw.direction, raw.bytes.len()))
        });
        assert_eq!(found, [(7_000_000_000, 0x0800, Direction::Out, 2)]);
        for length in 0..block.len() {
            walk(&block[..length], &mut |_| {});
        }
        arbtest::arbtest(|u| {
            let mut bytes = block.clone();
            for _ in 0..u.int_in_range(0..=8)? {
                let at = u.choose_index(bytes.len())?;
                bytes[at] = u.arbitrary()?;
            }
            let mut held = 0;
            walk(&bytes, &mut |raw| held += raw.bytes.len());
            assert!(held <= 9 * bytes.len(), "{held}");
            Ok(())
        });
    }
}
