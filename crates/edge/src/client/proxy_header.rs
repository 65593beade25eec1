//! The PROXY header in front of a client's connection, read without a byte of what follows, and the one
//! for backends.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
pub(crate) use weir_proxy_header::ProxiedAddresses;
use weir_proxy_header::{
    HeaderVersion, ParsedHeader, SIGNATURE, V1_BYTES_MAX, V2_BYTES_MIN, parse,
};

use crate::settings::ProxyHeader;

/// Pause before a partial header of version 1 is read again.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// The error of a connection that was closed or reset without a byte.
pub(crate) const NOTHING_SENT: io::ErrorKind = io::ErrorKind::ConnectionAborted;

/// Reads exactly the header; the bytes after it belong to TLS or HTTP.
pub(crate) async fn read(stream: &mut TcpStream) -> io::Result<Option<ProxiedAddresses>> {
    let mut bytes = vec![0; V1_BYTES_MAX];
    if stream.peek(&mut bytes).await.unwrap_or(0) == 0 {
        return Err(NOTHING_SENT.into());
    }
    loop {
        let count = stream.peek(&mut bytes).await?;
        match parse(&bytes[..count]) {
            ParsedHeader::Whole { length, addresses } if length <= count => {
                stream.read_exact(&mut bytes[..length]).await?;
                return Ok(addresses);
            }
            ParsedHeader::Partial if count >= V2_BYTES_MIN && bytes.starts_with(SIGNATURE) => {
                return read_v2(stream).await;
            }
            // A peeked socket stays readable, so readiness cannot signal more bytes.
            ParsedHeader::Partial => tokio::time::sleep(RETRY_PAUSE).await,
            _ => return Err(io::Error::other("not a PROXY header")),
        }
    }
}

/// Reads a header of version 2 whose length has arrived.
async fn read_v2(stream: &mut TcpStream) -> io::Result<Option<ProxiedAddresses>> {
    let mut bytes = vec![0; V2_BYTES_MIN];
    stream.read_exact(&mut bytes).await?;
    let rest = usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
    bytes.resize(V2_BYTES_MIN + rest, 0);
    stream.read_exact(&mut bytes[V2_BYTES_MIN..]).await?;
    match parse(&bytes) {
        ParsedHeader::Whole { addresses, .. } => Ok(addresses),
        _ => Err(io::Error::other("not a PROXY header")),
    }
}

/// The header of a connection that has no client, such as a health check.
pub(crate) fn write_local(header: ProxyHeader) -> Vec<u8> {
    version(header).map_or_else(Vec::new, weir_proxy_header::write_local)
}

/// The header with the client's address, for a backend.
pub(crate) fn write(header: ProxyHeader, client: SocketAddr, server: SocketAddr) -> Vec<u8> {
    let version = version(header);
    version.map_or_else(Vec::new, |version| weir_proxy_header::write(version, client, server))
}

fn version(header: ProxyHeader) -> Option<HeaderVersion> {
    match header {
        ProxyHeader::Off => None,
        ProxyHeader::V1 => Some(HeaderVersion::V1),
        ProxyHeader::V2 => Some(HeaderVersion::V2),
    }
}
