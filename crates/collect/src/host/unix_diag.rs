//! Listening Unix sockets of one network namespace, with their accept queues.
//!
//! Source: `linux/unix_diag.h`, `net/unix/diag.c`, `net/unix/af_unix.c`. For a listening socket
//! `UNIX_DIAG_RQLEN` has the length of the accept queue and its limit; the kernel refuses a
//! connection when length > limit, so a full queue shows limit + 1. The kernel filters by state
//! before it builds a message, so connected sockets cost little.
//!
//! ```text
//! unix_diag_req  family u8, protocol u8, pad u16, states u32, inode u32, show u32, cookie 2 x u32
//! unix_diag_msg  16 family u8, type u8, state u8, pad u8  20 inode u32  24 cookie 2 x u32
//! ```

use std::io;

use super::netlink::{attributes, u32_at};
use super::sock_diag::SockDiag;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_LENGTH: usize = 24;
const MESSAGE_LENGTH: usize = 32;
const LISTEN: u8 = 10;

const SHOW_NAME: u32 = 0x01;
const SHOW_QUEUE: u32 = 0x10;
const SHOW_USER: u32 = 0x40;
const NAME: u16 = 0;
const QUEUE: u16 = 4;
const USER: u16 = 7;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UnixListenSocket {
    /// Empty for a socket without a name; an abstract name begins with `@`.
    pub(super) path: String,
    pub(super) queue_length: u32,
    pub(super) queue_limit: u32,
    pub(super) user_id: Option<u32>,
    pub(super) inode: u32,
}

impl SockDiag {
    /// Appends at most `limit` listening Unix sockets to `out`. None where the kernel has no
    /// `unix_diag`.
    pub(super) fn unix_listeners(
        &mut self,
        limit: usize,
        out: &mut Vec<UnixListenSocket>,
    ) -> io::Result<()> {
        let mut body = [0; REQUEST_LENGTH];
        body[0] = u8::try_from(libc::AF_UNIX).expect("the family is 1");
        body[4..8].copy_from_slice(&(1_u32 << LISTEN).to_ne_bytes());
        body[12..16].copy_from_slice(&(SHOW_NAME | SHOW_QUEUE | SHOW_USER).to_ne_bytes());
        let dumped = self.0.dump(SOCK_DIAG_BY_FAMILY, &body, MESSAGE_LENGTH, |message| {
            if out.len() < limit {
                out.extend(listen_socket(message));
            }
        });
        match dumped {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            dumped => dumped,
        }
    }
}

fn listen_socket(message: &[u8]) -> Option<UnixListenSocket> {
    if message.get(18) != Some(&LISTEN) {
        return None;
    }
    let mut socket = UnixListenSocket { inode: u32_at(message, 20), ..UnixListenSocket::default() };
    for (kind, value) in attributes(message.get(MESSAGE_LENGTH..)?) {
        match kind {
            NAME => socket.path = path(value),
            QUEUE if value.len() >= 8 => {
                (socket.queue_length, socket.queue_limit) = (u32_at(value, 0), u32_at(value, 4));
            }
            USER if value.len() >= 4 => socket.user_id = Some(u32_at(value, 0)),
            _ => {}
        }
    }
    Some(socket)
}

/// An abstract name begins with a zero byte, shown as `@`; a path ends at the first one.
fn path(name: &[u8]) -> String {
    if let [0, rest @ ..] = name {
        return format!("@{}", String::from_utf8_lossy(rest).replace('\0', "@"));
    }
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::super::netlink::walk;
    use super::*;

    #[test]
    fn own_listener_is_found_with_the_connections_that_wait() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let clients = [(); 3].map(|()| UnixStream::connect(&path).unwrap());
        let mut found = Vec::new();
        SockDiag::open().unwrap().unix_listeners(10_000, &mut found).unwrap();
        let socket = found.iter().find(|socket| socket.path == path.to_string_lossy()).unwrap();
        assert_eq!(socket.queue_length, u32::try_from(clients.len()).unwrap());
        assert!(socket.queue_limit >= 128, "{socket:?}");
        assert_eq!(socket.user_id, Some(rustix::process::getuid().as_raw()));
        assert!(found.iter().all(|socket| socket.inode > 0));
    }

    #[test]
    fn abstract_names_begin_with_an_at_sign() {
        assert_eq!(path(b"\0app\0one"), "@app@one");
        assert_eq!(path(b"/run/app.sock\0"), "/run/app.sock");
        assert_eq!(path(b""), "");
    }

    #[test]
    fn broken_replies_do_not_panic() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            let _ = walk(&bytes, 0, MESSAGE_LENGTH, &mut |message| {
                let _ = listen_socket(message);
            });
            Ok(())
        });
    }
}
