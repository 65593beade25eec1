//! A packet of NSCA without version, time and checksum, in the clear: it is one row, whatever it says.
//! The first byte selects the length and whether bytes of another packet follow.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use weir_fuzz::{NOW, PEER, intake_with, runtime};
use weir_intake::{NscaCipher, NscaKey, OverTcp};

const SIZES: [usize; 2] = [720, 4304];
/// Where the code begins; host, check and output follow.
const CODE_AT: usize = 12;

fuzz_target!(|bytes: &[u8]| {
    let Some((flags, content)) = bytes.split_first() else { return };
    let packet = packet(SIZES[usize::from(flags & 1)], content);
    let rest = if flags & 2 == 0 { &[] } else { content };
    // A packet that is not whole is reported as well.
    let most = if rest.is_empty() { 1 } else { 2 + rest.len() / SIZES[0] };
    let rows = rows(&[&packet, rest].concat());
    assert!((1..=most).contains(&rows), "{rows} rows");
});

fn packet(size: usize, content: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; size];
    packet[1] = 3;
    let seconds = u32::try_from(NOW.0 / 1_000_000).expect("before 2106");
    packet[8..CODE_AT].copy_from_slice(&seconds.to_be_bytes());
    for (to, byte) in packet[CODE_AT..].iter_mut().zip(content) {
        *to = *byte;
    }
    let sum = crc32fast::hash(&packet);
    packet[4..8].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Rows of a connection that sends these bytes.
fn rows(bytes: &[u8]) -> usize {
    let cipher = NscaCipher::parse("none").expect("a cipher");
    let key = NscaKey { cipher, password: String::new() };
    let (hub, intake) = intake_with(|settings| settings.nsca = Some(key));
    runtime().block_on(async {
        let (mut client, server) = tokio::io::duplex(8192);
        let (_end, ended) = watch::channel(false);
        let write = async {
            let mut greeting = [0; 132];
            client.read_exact(&mut greeting).await.expect("the greeting");
            // A connection that is closed for a bad packet takes no more.
            let _ = client.write_all(bytes).await;
            drop(client);
        };
        tokio::join!(write, intake.read_bytes_of(server, OverTcp::Nsca, PEER, ended));
    });
    hub.rows()
}
