//! A moment until which all steps of a check together may take.
//!
//! A timeout per read would let a server that sends a byte a second hold a check for hours.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// The end of a check's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    end: Instant,
    timeout: Duration,
}

impl Deadline {
    pub(crate) fn after(timeout: Duration) -> Self {
        Self { end: Instant::now() + timeout, timeout }
    }

    /// The time that is left; an error when none is.
    pub(crate) fn left(self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.timeout.saturating_sub(self.end.saturating_duration_since(Instant::now()))
    }

    /// The error for people: a timeout has the seconds that were waited.
    pub(crate) fn reason(self, error: &io::Error) -> String {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("no response within {} s", self.timeout.as_secs_f64())
            }
            io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            io::ErrorKind::ConnectionReset => "connection reset".to_owned(),
            io::ErrorKind::UnexpectedEof => "the connection ended early".to_owned(),
            _ => error.to_string(),
        }
    }

    /// Connects to the first of the addresses that accepts.
    pub(crate) fn connect(self, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for (index, address) in addresses.iter().enumerate() {
            // An address that does not respond must leave time for the next one.
            let rest = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
            match TcpStream::connect_timeout(address, self.left()? / rest) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// The addresses of a host, at most four, resolved as the C library does it.
pub(crate) fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let found = (host, port).to_socket_addrs().map_err(|error| {
        let text = error.to_string();
        let why = text.rsplit(": ").next().unwrap_or(&text).to_lowercase();
        io::Error::new(io::ErrorKind::NotFound, format!("cannot resolve `{host}`: {why}"))
    })?;
    Ok(found.take(4).collect())
}

/// A connection whose every read and write ends at the deadline.
#[derive(Debug)]
pub(crate) struct TimedStream {
    stream: TcpStream,
    deadline: Deadline,
}

impl TimedStream {
    pub(crate) fn new(stream: TcpStream, deadline: Deadline) -> Self {
        Self { stream, deadline }
    }
}

impl Read for TimedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.deadline.left()?))?;
        self.stream.read(buffer)
    }
}

impl Write for TimedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.deadline.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
