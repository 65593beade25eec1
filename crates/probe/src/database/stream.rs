//! A connection to a database server, over TCP or its unix socket, and its errors.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};

use super::DatabaseTarget;
use super::secure::{DatabaseTls, fault};

/// Timeout for connecting, and for each read and write.
const WAIT: Duration = Duration::from_secs(2);
/// Maximum length of a message; replies to weir's queries have a few kilobytes.
pub(super) const MESSAGE_LIMIT: usize = 4 << 20;

pub(super) const CLEARTEXT_REFUSED: &str = "it requires the password in cleartext, which weir sends \
    only over a unix socket, the loopback or verified TLS";

#[derive(Debug)]
pub(super) enum ProbeError {
    Io(io::Error),
    Refused(String),
    /// The server violated its protocol.
    Protocol(&'static str),
    /// The server requires an unsupported method; the text names an alternative.
    Unsupported(String),
}

impl From<io::Error> for ProbeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl ProbeError {
    pub(super) fn message(&self, target: &DatabaseTarget) -> String {
        let reason = match self {
            Self::Io(error) if error.kind() == io::ErrorKind::WouldBlock => {
                format!("no answer within {} s", WAIT.as_secs())
            }
            Self::Io(error) => error.to_string().to_lowercase(),
            Self::Refused(words) => words.clone(),
            Self::Protocol(what) => {
                format!("its reply is not valid {} ({what})", target.system.as_str())
            }
            Self::Unsupported(what) => what.clone(),
        };
        format!("cannot query `{}`: {reason}", target.address)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServerAddress {
    Socket(PathBuf),
    Tcp(String, u16),
}

impl ServerAddress {
    pub(super) fn parse(address: &str, default_port: u16) -> Result<Self, ProbeError> {
        if address.starts_with('/') {
            return Ok(Self::Socket(address.into()));
        }
        let (host, port) = match address.rsplit_once(':') {
            // `::1` without a port contains colons.
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                let port = port.parse().map_err(|_| {
                    ProbeError::Unsupported("its port is not a number up to 65535".to_owned())
                })?;
                (host, port)
            }
            _ => (address, default_port),
        };
        Ok(Self::Tcp(host.trim_matches(['[', ']']).to_owned(), port))
    }

    pub(super) fn connect(&self) -> Result<ServerStream, ProbeError> {
        let socket: Box<dyn DuplexSocket> = match self {
            Self::Socket(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(WAIT))?;
                stream.set_write_timeout(Some(WAIT))?;
                Box::new(stream)
            }
            Self::Tcp(host, port) => {
                let address = (host.as_str(), *port).to_socket_addrs()?.next();
                let address =
                    address.ok_or(ProbeError::Protocol("the host name has no address"))?;
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
        Ok(ServerStream { socket, host, is_private })
    }
}

trait DuplexSocket: Read + Write + Send {}

impl<S: Read + Write + Send> DuplexSocket for S {}

pub(super) struct ServerStream {
    socket: Box<dyn DuplexSocket>,
    host: String,
    /// Whether nothing can be intercepted: a unix socket, the loopback, or verified TLS.
    pub(super) is_private: bool,
}

impl ServerStream {
    pub(super) fn secured(mut self, tls: &DatabaseTls) -> Result<Self, ProbeError> {
        let mut connection: ClientConnection = tls.begin(&self.host)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut self.socket).map_err(fault)?;
        }
        let is_private = self.is_private || tls.is_verified();
        let socket = Box::new(StreamOwned::new(connection, self.socket));
        Ok(Self { socket, host: self.host, is_private })
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), ProbeError> {
        self.socket.write_all(bytes).and_then(|()| self.socket.flush()).map_err(fault)
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], ProbeError> {
        let mut bytes = [0; N];
        self.socket.read_exact(&mut bytes).map_err(fault)?;
        Ok(bytes)
    }

    pub(super) fn vector(&mut self, length: usize) -> Result<Vec<u8>, ProbeError> {
        if length > MESSAGE_LIMIT {
            return Err(ProbeError::Protocol("a message longer than 4 MiB"));
        }
        let mut bytes = vec![0; length];
        self.socket.read_exact(&mut bytes).map_err(fault)?;
        Ok(bytes)
    }
}

pub(super) struct MessageFields<'a>(pub(super) &'a [u8]);

impl<'a> MessageFields<'a> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], ProbeError> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(ProbeError::Protocol("a message is truncated"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads up to a zero byte, which is consumed.
    pub(super) fn text(&mut self) -> Result<String, ProbeError> {
        let end = memchr::memchr(0, self.0).ok_or(ProbeError::Protocol("a string has no end"))?;
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
        let path = ServerAddress::Socket("/run/redis.sock".into());
        assert_eq!(ServerAddress::parse("/run/redis.sock", 5432).unwrap(), path);
        for (address, host, port) in [
            ("db1", "db1", 5432),
            ("db1:6432", "db1", 6432),
            ("[::1]:6432", "::1", 6432),
            ("::1", "::1", 5432),
        ] {
            let expected = ServerAddress::Tcp(host.to_owned(), port);
            assert_eq!(ServerAddress::parse(address, 5432).unwrap(), expected);
        }
        assert!(ServerAddress::parse("db1:x", 5432).is_err());
    }
}
