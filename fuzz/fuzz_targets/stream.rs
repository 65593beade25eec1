//! Bytes of a connection of syslog, Fluent, Lumberjack, GELF or Graphite: as many rows are kept
//! however the bytes arrive. The first byte selects the protocol, the second one the length of a
//! read, the rest is the connection.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use weir_fuzz::{PEER, intake, runtime};
use weir_intake::OverTcp;

const PROTOCOLS: [OverTcp; 5] =
    [OverTcp::Syslog, OverTcp::Fluent, OverTcp::Lumberjack, OverTcp::Gelf, OverTcp::Graphite];

fuzz_target!(|bytes: &[u8]| {
    let [protocol, read_bytes, bytes @ ..] = bytes else { return };
    let protocol = PROTOCOLS[usize::from(*protocol) % PROTOCOLS.len()];
    let in_pieces = rows(protocol, bytes, usize::from(*read_bytes).max(1));
    let at_once = rows(protocol, bytes, bytes.len().max(1));
    // Whether NUL ends a frame of syslog, and a newline a message of GELF, depends on what follows.
    let has_lookahead = match protocol {
        OverTcp::Syslog => bytes.contains(&0),
        OverTcp::Gelf => bytes.contains(&b'\n'),
        OverTcp::Fluent | OverTcp::Lumberjack | OverTcp::Graphite | OverTcp::Nsca => false,
    };
    assert!(has_lookahead || in_pieces == at_once, "{in_pieces} rows in pieces, {at_once} at once");
});

/// Rows of a connection whose bytes arrive in pieces of this length.
fn rows(protocol: OverTcp, bytes: &[u8], read_bytes: usize) -> usize {
    let (hub, intake) = intake();
    runtime().block_on(async {
        let (mut client, server) = tokio::io::duplex(read_bytes);
        let (_end, ended) = watch::channel(false);
        let write = async {
            // A connection that is closed for a bad frame takes no more.
            let _ = client.write_all(bytes).await;
            drop(client);
        };
        tokio::join!(write, intake.read_bytes_of(server, protocol, PEER, ended));
    });
    hub.rows()
}
