//! First bytes of a connection as a PROXY header: its length is exact, and clients round-trip.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_proxy_header::{HeaderVersion, ParsedHeader, parse, write};

fuzz_target!(|bytes: &[u8]| {
    let ParsedHeader::Whole { length, addresses } = parse(bytes) else { return };
    assert_eq!(parse(&bytes[..length]), ParsedHeader::Whole { length, addresses });
    for end in 0..length {
        assert_eq!(parse(&bytes[..end]), ParsedHeader::Partial, "{end} of {length} bytes");
    }
    let Some(client) = addresses.map(|addresses| addresses.client) else { return };
    for version in [HeaderVersion::V1, HeaderVersion::V2] {
        let header = write(version, client, client);
        let ParsedHeader::Whole { length, addresses: Some(again) } = parse(&header) else {
            panic!("own header is not read: {header:?}");
        };
        assert_eq!(length, header.len());
        let again = again.client;
        assert_eq!((again.ip(), again.port()), (client.ip().to_canonical(), client.port()));
    }
});
