//! Connects and closes.
//!
//! The surprising thing: the kernel resets a connection that is closed while received bytes are
//! unread, and servers that greet first (MySQL, SMTP, SSH) count that as a failure. So what the
//! server sends until it closes as well is read, for a short time.

use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::deadline::{Deadline, resolve};
use super::http_client::host_and_port;
use super::{CheckOutcome, CheckState};

/// How long the server may take to close its side.
const CLOSE_WAIT: Duration = Duration::from_millis(200);
/// Bytes of a greeting that are read.
const GREETING_BYTES: usize = 64 << 10;

/// An address that must accept connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpCheck {
    /// The address as it is configured: `db1:5432`.
    pub address: String,
    host: String,
    port: u16,
}

impl TcpCheck {
    /// A check of `host:port`.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn new(address: &str) -> Result<Self, String> {
        let (host, port) = host_and_port(address, None)?;
        Ok(Self { address: address.to_owned(), host, port })
    }

    pub(super) fn run(&self, timeout: Duration) -> CheckOutcome {
        let deadline = Deadline::after(timeout);
        let stream =
            resolve(&self.host, self.port).and_then(|addresses| deadline.connect(&addresses));
        match stream.and_then(close) {
            Ok(peer) => CheckOutcome::new(CheckState::Ok, format!("connected to {peer}")),
            Err(error) => CheckOutcome::new(CheckState::Critical, deadline.reason(&error)),
        }
    }
}

/// Closes a connection without a reset; returns the other end's address.
fn close(mut stream: TcpStream) -> io::Result<SocketAddr> {
    let peer = stream.peer_addr()?;
    stream.set_read_timeout(Some(CLOSE_WAIT))?;
    // A server that does not greet waits for bytes: the end of the stream is an answer for it.
    let _gone = stream.shutdown(Shutdown::Write);
    let mut buffer = [0; 4 << 10];
    let mut total = 0;
    while total < GREETING_BYTES {
        match stream.read(&mut buffer) {
            Ok(count) if count > 0 => total += count,
            _ => break,
        }
    }
    Ok(peer)
}
