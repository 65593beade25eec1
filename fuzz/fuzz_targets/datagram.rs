//! Datagrams of syslog, GELF (compressed, in chunks) or statsd. The first byte selects the protocol;
//! each datagram has its length in front, in two bytes, big endian.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::{PEER, intake, runtime};
use weir_intake::OverUdp;

const PROTOCOLS: [OverUdp; 3] = [OverUdp::Syslog, OverUdp::Gelf, OverUdp::Statsd];

fuzz_target!(|bytes: &[u8]| {
    let Some((protocol, mut rest)) = bytes.split_first() else { return };
    let protocol = PROTOCOLS[usize::from(*protocol) % PROTOCOLS.len()];
    let mut datagrams = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(behind.len());
        let (datagram, behind) = behind.split_at(length);
        datagrams.push(datagram);
        rest = behind;
    }
    let (hub, intake) = intake();
    runtime().block_on(intake.keep_datagrams_of(protocol, PEER, datagrams.iter().copied()));
    let most = match protocol {
        OverUdp::Statsd => bytes.len(),
        OverUdp::Syslog | OverUdp::Gelf => datagrams.len(),
    };
    assert!(hub.rows() <= most, "{} rows of {} datagrams", hub.rows(), datagrams.len());
});
