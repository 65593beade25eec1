//! Packets of NSCA as clients make them, and what hostile ones do.

use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;

use super::cipher::seal;
use super::packet::packet_of;
use super::*;
use crate::check::{NOW, builder, mangled, texts};
use crate::window::Window;

const ORIGIN: StreamOrigin<'_> = StreamOrigin { peer: "192.0.2.1", source: "nsca" };
const IV: [u8; IV_BYTES] = [0xa7; IV_BYTES];
const LONG: usize = 4304;
const SHORT: usize = 720;

fn now_seconds() -> u32 {
    u32::try_from(NOW.0 / 1_000_000).expect("it fits")
}

fn key(cipher: NscaCipher) -> NscaKey {
    NscaKey { cipher, password: "hunter22 hunter22".to_owned() }
}

fn packet(size: usize, check: &str, code: i16) -> Vec<u8> {
    packet_of(size, now_seconds(), ["web1", check, "full|used=99%;80;90"], code)
}

fn results(builder: &mut BatchBuilder) -> String {
    let columns = ["host", "check", "status", "output", "observed_value"];
    let own = builder.own_rows();
    let batches = own.iter().filter(|batch| batch.table.name == "check_result");
    batches.map(|batch| texts(batch, &columns)).collect()
}

/// NagiosEnterprises/nsca#27: clients of 2.7 at a server of 2.9 are dropped for their checksum;
/// NagiosEnterprises/nsca#10: lengths of packets that differ between client and server.
#[test]
fn packets_of_both_lengths_are_read_with_each_encryption() {
    for cipher in [NscaCipher::None, NscaCipher::Xor, NscaCipher::Aes256] {
        for size in [SHORT, LONG] {
            let key = key(cipher);
            let mut builder = builder();
            let mut stream = NscaStream::with_iv(&key, &IV, NOW);
            let greeting = stream.greet();
            assert_eq!((greeting.len(), &greeting[128..]), (132, &now_seconds().to_be_bytes()[..]));
            let first = seal(&key, &IV, &packet(size, "disk", 2));
            // XOR begins each packet with the greeting's bytes, AES continues.
            let next = if cipher == NscaCipher::Aes256 { &first[size - 16..] } else { &IV[..] };
            let second = seal(&key, next, &packet(size, "load", 1));
            let bytes = [first, second].concat();
            let mut at = 0;
            for end in [100, 719, 721, size, bytes.len() - 1, bytes.len()] {
                at += stream.cut(&bytes[at..end.max(at)], ORIGIN, &mut builder).expect("packets");
            }
            assert_eq!(at, bytes.len(), "{cipher:?} {size}");
            expect![[r#"
                host=web1 check=disk status=critical output=full observed_value=99.0
                host=web1 check=load status=warn output=full observed_value=99.0
            "#]]
            .assert_eq(&results(&mut builder));
        }
    }
}

#[test]
fn another_password_or_encryption_closes_the_connection() {
    let right = key(NscaCipher::Aes256);
    let others = [
        NscaKey { password: "hunter23".to_owned(), ..right.clone() },
        key(NscaCipher::Xor),
        key(NscaCipher::None),
    ];
    for other in others {
        let bytes = seal(&other, &IV, &packet(LONG, "disk", 2));
        let mut builder = builder();
        let cut = NscaStream::with_iv(&right, &IV, NOW).cut(&bytes, ORIGIN, &mut builder);
        assert_eq!(cut, Err(BAD_CHECKSUM), "{other:?}");
        assert!(builder.verdicts.is_empty());
        // A short packet that cannot be read is seen at the end of the connection.
        let bytes = seal(&other, &IV, &packet(SHORT, "disk", 2));
        let mut stream = NscaStream::with_iv(&right, &IV, NOW);
        assert_eq!(stream.cut(&bytes, ORIGIN, &mut builder), Ok(0));
        stream.finish(&bytes, ORIGIN, &mut builder);
        assert_eq!(builder.lost["bad_checksum"], (1, SHORT));
    }
}

#[test]
fn a_packet_that_is_out_of_time_is_rejected_both_ways() {
    for (offset, is_kept) in [(-31, false), (-30, true), (0, true), (30, true), (31, false)] {
        let time = now_seconds().checked_add_signed(offset).expect("it fits");
        let bytes = packet_of(LONG, time, ["web1", "disk", "x"], 0);
        let mut builder = builder();
        let mut stream = NscaStream::with_iv(&key(NscaCipher::None), &IV, NOW);
        assert_eq!(stream.cut(&bytes, ORIGIN, &mut builder), Ok(LONG));
        let expected = if is_kept {
            ItemVerdict::Kept
        } else {
            ItemVerdict::Rejected("out_of_time".to_owned())
        };
        assert_eq!(builder.verdicts, [expected], "{offset}");
    }
}

#[test]
fn a_packet_that_is_sent_again_is_kept_once() {
    let window = Arc::new(Window::new(Duration::from_secs(60)));
    let bytes = packet(LONG, "disk", 2);
    let none = key(NscaCipher::None);
    let mut first = BatchBuilder::new(NOW, &window);
    NscaStream::with_iv(&none, &IV, NOW).cut(&bytes, ORIGIN, &mut first).expect("a packet");
    first.claims.commit(NOW);
    // Another connection has another greeting; without encryption that does not matter.
    let mut again = BatchBuilder::new(NOW, &window);
    NscaStream::with_iv(&none, &[1; IV_BYTES], NOW)
        .cut(&bytes, ORIGIN, &mut again)
        .expect("a packet");
    assert_eq!(again.verdicts, [ItemVerdict::Known]);
    // With a password the bytes of one connection are no packet in another.
    let right = key(NscaCipher::Aes256);
    let sealed = seal(&right, &IV, &bytes);
    let cut = NscaStream::with_iv(&right, &[1; IV_BYTES], NOW).cut(&sealed, ORIGIN, &mut again);
    assert_eq!(cut, Err(BAD_CHECKSUM));
}

#[test]
fn a_result_without_a_service_is_one_of_the_host() {
    for (check, code, status) in [("", 1, "critical"), ("", 0, "ok"), ("__HOST__", 2, "critical")] {
        let mut builder = builder();
        let bytes = packet(SHORT, check, code);
        let mut stream = NscaStream::with_iv(&key(NscaCipher::None), &IV, NOW);
        assert_eq!(stream.cut(&bytes, ORIGIN, &mut builder), Ok(SHORT));
        let rows = results(&mut builder);
        assert!(rows.starts_with(&format!("host=web1 check=host status={status} ")), "{rows}");
    }
}

#[test]
fn any_bytes_are_cut_without_panic() {
    arbtest::arbtest(|u| {
        let bytes = mangled(u, &packet(SHORT, "disk", 2))?;
        let mut builder = builder();
        let cipher = *u.choose(&[NscaCipher::None, NscaCipher::Xor, NscaCipher::Aes256])?;
        let mut stream = NscaStream::with_iv(&key(cipher), &IV, NOW);
        let used = stream.cut(&bytes, ORIGIN, &mut builder).unwrap_or(0);
        stream.finish(&bytes[used..], ORIGIN, &mut builder);
        let _ = results(&mut builder);
        Ok(())
    });
}
