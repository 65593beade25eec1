//! Addresses of the loopback for servers that start a moment later.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::error::{DrillError, Result};

/// Below are the ports of well-known services.
const LOWEST: u16 = 10_240;
/// How far apart processes begin, so that two that run side by side look at other ports.
const APART: u32 = 97;

/// Addresses given out so far, so that each is given out once.
static COUNT: AtomicU16 = AtomicU16::new(0);

/// An address of the loopback where nobody listens.
///
/// Its port is none of those that the kernel hands out (`net.ipv4.ip_local_port_range`), so no connection and no listener "on any
/// port" takes it before it is used; where these leave none free from 10,240 on, it is one of them.
///
/// # Errors
/// When every port is taken.
pub fn free_address() -> Result<SocketAddr> {
    let ports = handed_out_from().saturating_sub(LOWEST);
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

/// The lowest port that the kernel gives to whoever does not name one.
fn handed_out_from() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    range.ok().and_then(|range| range.split_whitespace().next()?.parse().ok()).unwrap_or(LOWEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_free_each_its_own_and_none_that_a_listener_on_any_port_gets() {
        let addresses: Vec<_> = (0..50).map(|_| free_address().unwrap()).collect();
        let held: Vec<_> = addresses.iter().map(TcpListener::bind).collect();
        assert!(held.iter().all(std::result::Result::is_ok), "{held:?}");
        let is_reserved = handed_out_from() > LOWEST;
        let is_below = |one: &SocketAddr| one.port() < handed_out_from() || !is_reserved;
        assert!(addresses.iter().all(is_below), "{addresses:?}");
    }
}
