//! Free loopback addresses for servers that start later.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::error::{DrillError, Result};

/// Lowest port to use; well-known services are below.
const LOWEST: u16 = 10_240;
/// Distance between the first ports of consecutive processes, so that parallel processes try
/// different ones.
const APART: u32 = 97;

/// Addresses returned so far, so that each is returned once.
static COUNT: AtomicU16 = AtomicU16::new(0);

/// Returns a loopback address without a listener.
///
/// Its port is outside of the ephemeral range (`net.ipv4.ip_local_port_range`), so no connection
/// and no listener on port 0 takes it before its first use. If the range leaves no port from 10,240
/// on, the address has an ephemeral port.
///
/// # Errors
/// When every port is taken.
pub fn free_address() -> Result<SocketAddr> {
    let ports = ephemeral_from().saturating_sub(LOWEST);
    let begin = std::process::id().wrapping_mul(APART);
    for _ in 0..ports {
        let step = begin.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed).into());
        let port = LOWEST + u16::try_from(step % u32::from(ports)).unwrap_or_default();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    let any = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|any| any.local_addr());
    any.map_err(DrillError::of("cannot find a free port of 127.0.0.1"))
}

/// Lowest ephemeral port.
fn ephemeral_from() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    range.ok().and_then(|range| range.split_whitespace().next()?.parse().ok()).unwrap_or(LOWEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_free_unique_and_never_ephemeral() {
        let addresses: Vec<_> = (0..50).map(|_| free_address().unwrap()).collect();
        let held: Vec<_> = addresses.iter().map(TcpListener::bind).collect();
        assert!(held.iter().all(std::result::Result::is_ok), "{held:?}");
        let is_reserved = ephemeral_from() > LOWEST;
        let mut ports = addresses.iter().map(SocketAddr::port);
        assert!(!is_reserved || ports.all(|port| port < ephemeral_from()), "{addresses:?}");
    }
}
