//! Settings of a listener.

use std::net::{IpAddr, SocketAddr};

use weir_tables::IpNetwork;

use crate::error::EdgeError;
use crate::settings::destination::resolve;

/// An address that clients connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSettings {
    /// The address; port 0 takes a free one.
    pub address: SocketAddr,
    /// Whether it speaks TLS.
    pub is_tls: bool,
    /// Whether clients use HTTP/2 from the first byte, without TLS (h2c).
    pub is_h2c: bool,
    /// Whether each connection begins with a PROXY protocol header, version 1 or 2.
    pub has_proxy_header: bool,
    /// Networks whose headers are believed. A connection from elsewhere is one of a client itself.
    pub proxy_networks: Vec<IpNetwork>,
    /// Requested length of each accept queue.
    pub backlog: u32,
}

impl ListenerSettings {
    /// A listener without PROXY header at `ADDRESS:PORT`.
    ///
    /// # Errors
    /// If `text` is not an address and a port.
    pub fn parse(text: &str, is_tls: bool, backlog: u32) -> Result<Self, EdgeError> {
        let address = resolve(text).map_err(|why| {
            EdgeError::new(format!("cannot listen on `{text}`: {why}"))
                .hint("write it as 0.0.0.0:80 or [::]:80")
        })?;
        Ok(Self {
            address,
            is_tls,
            is_h2c: false,
            has_proxy_header: false,
            proxy_networks: Vec::new(),
            backlog,
        })
    }
    /// Whether a connection from this address has to begin with a PROXY header.
    pub(crate) fn expects_proxy_header(&self, peer: IpAddr) -> bool {
        self.has_proxy_header && self.proxy_networks.iter().any(|network| network.contains(peer))
    }
}
