//! A connection to a database server, over TCP or the server's own socket, and what can go wrong on it.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};

use super::DatabaseTarget;
use super::secure::{DatabaseTls, fault};

/// For connecting, and for each read and write.
const WAIT: Duration = Duration::from_secs(2);
/// Longest message that is read; answers to weir's questions have a few kilobytes.
pub(super) const MESSAGE_LIMIT: usize = 4 << 20;

/// Why a server could not be asked.
#[derive(Debug)]
pub(super) enum Fault {
    /// The connection failed.
    Io(io::Error),
    /// The server refused, in its own words.
    Refused(String),
    /// It says what its protocol does not allow.
    Garbled(&'static str),
    /// It wants what weir does not do; what to do instead.
    Unsupported(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Fault {
    /// For the column `error`.
    pub(super) fn message(&self, target: &DatabaseTarget) -> String {
        let reason = match self {
            Self::Io(error) if error.kind() == io::ErrorKind::WouldBlock => {
                format!("no answer within {} s", WAIT.as_secs())
            }
            Self::Io(error) => error.to_string().to_lowercase(),
            Self::Refused(words) => words.clone(),
            Self::Garbled(what) => format!("its answer is no {} ({what})", target.system.as_str()),
            Self::Unsupported(what) => what.clone(),
        };
        format!("cannot ask `{}`: {reason}", target.address)
    }
}

/// Where a server is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Socket(PathBuf),
    Tcp(String, u16),
}

impl Place {
    pub(super) fn of(address: &str, default_port: u16) -> Result<Self, Fault> {
        if address.starts_with('/') {
            return Ok(Self::Socket(address.into()));
        }
        let (host, port) = match address.rsplit_once(':') {
            // `::1` without a port has colons of its own.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                let port = port.parse();
                let wrong = |_| Fault::Unsupported("its port is no number up to 65535".to_owned());
                (host, port.map_err(wrong)?)
            }
            _ => (address, default_port),
        };
        Ok(Self::Tcp(host.trim_matches(['[', ']']).to_owned(), port))
    }

    pub(super) fn connect(&self) -> Result<Stream, Fault> {
        let socket: Box<dyn Socket> = match self {
            Self::Socket(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(WAIT))?;
                stream.set_write_timeout(Some(WAIT))?;
                Box::new(stream)
            }
            Self::Tcp(host, port) => {
                let address = (host.as_str(), *port).to_socket_addrs()?.next();
                let address = address.ok_or(Fault::Garbled("the name has no address"))?;
                let stream = TcpStream::connect_timeout(&address, WAIT)?;
                stream.set_read_timeout(Some(WAIT))?;
                stream.set_write_timeout(Some(WAIT))?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        let is_private = match self {
            Self::Socket(_) => true,
            Self::Tcp(host, _) => matches!(host.as_str(), "localhost" | "127.0.0.1" | "::1"),
        };
        let host = match self {
            Self::Socket(_) => String::new(),
            Self::Tcp(host, _) => host.clone(),
        };
        Ok(Stream { socket, host, is_private })
    }
}

/// What a connection is made of.
trait Socket: Read + Write + Send {}

impl<S: Read + Write + Send> Socket for S {}

/// A connection.
pub(super) struct Stream {
    socket: Box<dyn Socket>,
    host: String,
    /// Whether nobody else can listen or answer: a socket of this host, the loopback, or TLS to a server that is known.
    pub(super) is_private: bool,
}

impl Stream {
    /// The same connection in TLS from here on.
    pub(super) fn secured(mut self, tls: &DatabaseTls) -> Result<Self, Fault> {
        let mut connection: ClientConnection = tls.begin(&self.host)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut self.socket).map_err(fault)?;
        }
        let is_private = self.is_private || tls.is_verified();
        let socket = Box::new(StreamOwned::new(connection, self.socket));
        Ok(Self { socket, host: self.host, is_private })
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.socket.write_all(bytes).and_then(|()| self.socket.flush()).map_err(fault)
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        self.socket.read_exact(&mut bytes).map_err(fault)?;
        Ok(bytes)
    }

    pub(super) fn vector(&mut self, length: usize) -> Result<Vec<u8>, Fault> {
        if length > MESSAGE_LIMIT {
            return Err(Fault::Garbled("a message longer than 4 MiB"));
        }
        let mut bytes = vec![0; length];
        self.socket.read_exact(&mut bytes).map_err(fault)?;
        Ok(bytes)
    }
}

/// Bytes of a message, taken from its front.
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or(Fault::Garbled("a message is cut off"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// Up to a zero byte, which is taken as well.
    pub(super) fn text(&mut self) -> Result<String, Fault> {
        let end = memchr::memchr(0, self.0).ok_or(Fault::Garbled("a text has no end"))?;
        let text = String::from_utf8_lossy(self.take(end)?).into_owned();
        self.take(1)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_socket_or_host_with_or_without_port() {
        let of = |address| Place::of(address, 5432).unwrap();
        let tcp = |host: &str, port| Place::Tcp(host.to_owned(), port);
        assert_eq!(of("/run/redis.sock"), Place::Socket("/run/redis.sock".into()));
        assert_eq!(of("db1"), tcp("db1", 5432));
        assert_eq!(of("db1:6432"), tcp("db1", 6432));
        assert_eq!(of("[::1]:6432"), tcp("::1", 6432));
        assert_eq!(of("::1"), tcp("::1", 5432));
        assert!(Place::of("db1:x", 5432).is_err());
    }
}
