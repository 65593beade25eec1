//! A netlink socket. A dump is one request answered by messages until the kernel sends "done"; a
//! single query is answered by one message. Source: netlink(7).
//!
//! ```text
//! nlmsghdr  0 length u32  4 type u16  6 flags u16  8 sequence u32  12 port id u32
//! ```
//!
//! Attributes follow the body: length u16, type u16, bytes, aligned to 4.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{self, AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
pub(super) const HEADER_LENGTH: usize = 16;
/// The kernel fills at most 32 KiB per reply.
const BUFFER_LENGTH: usize = 32 << 10;
const ANSWER_LENGTH: usize = 4 << 10;
/// Type of an attribute without its flags.
const TYPE_MASK: u16 = 0x3fff;

/// A netlink socket. It belongs to the network namespace in which it was created.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket in the network namespace of the calling thread; `None` is protocol 0.
    pub(super) fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?;
        // A reply comes at once or never; the timeout keeps a lost one from blocking the agent.
        let limit = Some(Duration::from_secs(2));
        net::sockopt::set_socket_timeout(&socket, net::sockopt::Timeout::Recv, limit)?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Requests all objects of `kind`; passes messages of at least `least` bytes to `take`.
    pub(super) fn dump(
        &mut self,
        kind: u16,
        body: &[u8],
        least: usize,
        mut take: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.send(kind, body, NLM_F_REQUEST | NLM_F_DUMP)?;
        let mut buffer = vec![0; BUFFER_LENGTH];
        while !self.receive(&mut buffer, least, &mut take)? {}
        Ok(())
    }

    /// Requests one object of `kind`; `None` if there is none, or its reply is below `least` bytes.
    pub(super) fn ask(
        &mut self,
        kind: u16,
        body: &[u8],
        least: usize,
    ) -> io::Result<Option<Vec<u8>>> {
        self.send(kind, body, NLM_F_REQUEST)?;
        let mut answer = None;
        let mut buffer = vec![0; ANSWER_LENGTH];
        match self.receive(&mut buffer, least, &mut |message| answer = Some(message.to_vec())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            received => received.map(|_| answer),
        }
    }

    fn send(&mut self, kind: u16, body: &[u8], flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = vec![0_u8; HEADER_LENGTH];
        request.extend_from_slice(body);
        let length = u32::try_from(request.len()).expect("requests are short");
        request[0..4].copy_from_slice(&length.to_ne_bytes());
        request[4..6].copy_from_slice(&kind.to_ne_bytes());
        request[6..8].copy_from_slice(&flags.to_ne_bytes());
        request[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        let kernel = SocketAddrNetlink::new(0, 0);
        net::sendto(&self.socket, &request, SendFlags::empty(), &kernel)?;
        Ok(())
    }

    /// Receives one datagram; true when the dump is complete.
    fn receive(
        &self,
        buffer: &mut [u8],
        least: usize,
        take: &mut impl FnMut(&[u8]),
    ) -> io::Result<bool> {
        let (length, _) = net::recv(&self.socket, &mut *buffer, RecvFlags::empty())?;
        walk(&buffer[..length], self.sequence, least, take)
    }
}

/// Passes each message of at least `least` bytes to `take`; true when the dump is complete.
pub(super) fn walk(
    mut rest: &[u8],
    sequence: u32,
    least: usize,
    take: &mut impl FnMut(&[u8]),
) -> io::Result<bool> {
    while rest.len() >= HEADER_LENGTH {
        let length = (u32_at(rest, 0) as usize).clamp(HEADER_LENGTH, rest.len());
        let (message, tail) = rest.split_at(length);
        rest = &tail[(length.next_multiple_of(4) - length).min(tail.len())..];
        if u32_at(message, 8) != sequence {
            continue; // the late end of an abandoned dump
        }
        match u16::from_ne_bytes([message[4], message[5]]) {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => return Err(refusal(message)),
            _ if message.len() >= least => take(message),
            _ => {}
        }
    }
    Ok(false)
}

fn refusal(message: &[u8]) -> io::Error {
    let code = message
        .get(16..20)
        .map_or(0, |bytes| i32::from_ne_bytes(bytes.try_into().expect("the slice has four bytes")));
    io::Error::from_raw_os_error(code.wrapping_neg())
}

/// Type and value of each attribute.
pub(super) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        if rest.len() < 4 {
            return None;
        }
        let length = usize::from(u16::from_ne_bytes([rest[0], rest[1]])).clamp(4, rest.len());
        let kind = u16::from_ne_bytes([rest[2], rest[3]]) & TYPE_MASK;
        let value = &rest[4..length];
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        Some((kind, value))
    })
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("the slice has four bytes"))
}
