//! Sends frames of TCP connections from an interface at a steady rate: a packet socket and
//! sendmmsg(2).
//!
//! Sources: packet(7), sendmmsg(2). Cheap enough to leave a core to the program under test. A
//! separate module for its `unsafe` calls.
#![expect(unsafe_code, reason = "neither std nor rustix binds packet sockets")]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::data::pause;

/// Frames per system call.
const BATCH: usize = 64;
/// Interval of rate checks.
const STEP: Duration = Duration::from_millis(2);

/// Sends whole Ethernet frames.
pub(crate) struct FrameSender {
    socket: OwnedFd,
}

impl FrameSender {
    /// Opens interface `name` of this thread's network namespace.
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        // SAFETY: socket(2) takes numbers only; protocol 0 means that nothing is received.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was made above and is not shared.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let index = rustix::net::netdevice::name_to_index(&socket, name)?;
        // SAFETY: all bytes 0 is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = u16::try_from(libc::AF_PACKET).expect("a small number");
        address.sll_ifindex = i32::try_from(index).map_err(|_| io::ErrorKind::InvalidData)?;
        let length = libc::socklen_t::try_from(size_of::<libc::sockaddr_ll>()).expect("small");
        // SAFETY: `address` is a sockaddr_ll of `length` bytes.
        let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
        if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(Self { socket }) }
    }

    /// Sends `frames` at `rate` per second, `rounds` times; `change` may modify them before each
    /// round. Returns the number of frames sent and the time.
    pub(crate) fn send(
        &self,
        frames: &mut [Vec<u8>],
        rate: u64,
        rounds: u32,
        mut change: impl FnMut(u32, &mut [Vec<u8>]),
    ) -> io::Result<(u64, Duration)> {
        let begun = Instant::now();
        let mut sent = 0_u64;
        for round in 0..rounds {
            change(round, frames);
            for batch in frames.chunks(BATCH) {
                while u128::from(sent) * 1_000_000 > begun.elapsed().as_micros() * u128::from(rate)
                {
                    pause(STEP);
                }
                sent += self.batch(batch)? as u64;
            }
        }
        Ok((sent, begun.elapsed()))
    }

    /// Sends a batch and returns its number of frames.
    fn batch(&self, frames: &[Vec<u8>]) -> io::Result<usize> {
        let mut parts: Vec<libc::iovec> = frames
            .iter()
            .map(|frame| libc::iovec {
                iov_base: frame.as_ptr().cast_mut().cast(),
                iov_len: frame.len(),
            })
            .collect();
        let mut messages: Vec<libc::mmsghdr> = parts
            .iter_mut()
            .map(|part| {
                // SAFETY: all bytes 0 is a valid mmsghdr.
                let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                message.msg_hdr.msg_iov = part;
                message.msg_hdr.msg_iovlen = 1;
                message
            })
            .collect();
        let mut done = 0;
        while done < messages.len() {
            let rest = &mut messages[done..];
            let count = libc::c_uint::try_from(rest.len()).expect("a batch is small");
            // SAFETY: `rest` holds `count` messages whose parts point to frames that outlive this
            // call; sending does not write to them.
            let sent =
                unsafe { libc::sendmmsg(self.socket.as_raw_fd(), rest.as_mut_ptr(), count, 0) };
            match usize::try_from(sent) {
                Ok(sent) => done += sent,
                Err(_) => match io::Error::last_os_error() {
                    error if error.raw_os_error() == Some(libc::ENOBUFS) => pause(STEP),
                    error => return Err(error),
                },
            }
        }
        Ok(done)
    }
}
