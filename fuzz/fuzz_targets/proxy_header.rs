//! First bytes of a connection as a PROXY header: its length is exact, and clients round-trip.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_edge::ProxyHeader;
use weir_edge::proxy_header::{ParsedHeader, parse, write};

fuzz_target!(|bytes: &[u8]| {
    let ParsedHeader::Whole { length, client } = parse(bytes) else { return };
    assert_eq!(parse(&bytes[..length]), ParsedHeader::Whole { length, client });
    for end in 0..length {
        assert_eq!(parse(&bytes[..end]), ParsedHeader::Partial, "{end} of {length} bytes");
    }
    let Some(client) = client else { return };
    for version in [ProxyHeader::V1, ProxyHeader::V2] {
        let header = write(version, client, client);
        let ParsedHeader::Whole { length, client: Some(again) } = parse(&header) else {
            panic!("own header is not read: {header:?}");
        };
        assert_eq!(length, header.len());
        assert_eq!((again.ip(), again.port()), (client.ip().to_canonical(), client.port()));
    }
});
