//! What systemd is told of this process (sd_notify(3)): that it is ready, and that another one is the main process now.
//!
//! A datagram to the socket that the variable `NOTIFY_SOCKET` names; without it nothing is sent.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

const VARIABLE: &str = "NOTIFY_SOCKET";

/// It serves.
pub fn ready() {
    tell("READY=1");
}

/// The process that took this one's place is the main one.
pub fn main_process(pid: u32) {
    tell(&format!("MAINPID={pid}"));
}

fn tell(state: &str) {
    let Some(socket) = std::env::var_os(VARIABLE).filter(|socket| !socket.is_empty()) else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(
            "cannot tell systemd `{state}` at `{}`: {error}\nhint: in the unit, `NotifyAccess=main`",
            socket.display()
        );
    }
}

/// A path, or a name in no file system after an `@` (unix(7)).
fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let from = UnixDatagram::unbound()?;
    from.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_sockets_are_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let name = format!("@weir-test-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name.as_bytes()[1..]);
        let one = UnixDatagram::bind(&path).expect("room");
        let two = UnixDatagram::bind_addr(&abstract_address.expect("a name")).expect("it is free");
        for (socket, told) in [(path.as_os_str(), one), (OsStr::new(&name), two)] {
            send(socket, "READY=1").expect("somebody listens");
            let mut buffer = [0; 16];
            let length = told.recv(&mut buffer).expect("it was sent");
            assert_eq!(&buffer[..length], b"READY=1");
        }
        assert!(send(OsStr::new("/nonexistent/notify"), "READY=1").is_err());
    }
}
