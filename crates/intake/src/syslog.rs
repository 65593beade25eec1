//! Syslog over UDP (RFC 5426), TCP (RFC 6587) and TLS (RFC 5425): frames, and the host of a frame.
//!
//! The frame itself goes to the line parser, which knows RFC 3164, RFC 5424 and the logs of HAProxy
//! and nginx inside. A stream may switch between octet counting and newlines per frame; rsyslog
//! does.

use memchr::memchr;

use crate::batch_builder::{BatchBuilder, RejectCause, RowOrigin};
use crate::stream::{StreamError, StreamOrigin, StreamProtocol};

/// Longest frame; longer ones become rejects. rsyslog's default is 8 KiB, journald's lines end at
/// 48 KiB.
pub(crate) const MAX_FRAME_BYTES: usize = 64 << 10;
/// Digits of an octet count.
const MAX_COUNT_DIGITS: usize = 7;

const BAD_COUNT: StreamError =
    StreamError { reason: "bad_count", detail: "an octet count is not a number" };

/// Frames of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct SyslogStream {
    /// Whether the rest of an overlong line is being discarded.
    is_skipping: bool,
}

impl StreamProtocol for SyslogStream {
    fn cut(
        &mut self,
        bytes: &[u8],
        origin: StreamOrigin<'_>,
        builder: &mut BatchBuilder,
    ) -> Result<usize, StreamError> {
        let mut used = 0;
        while !builder.is_full() {
            let rest = &bytes[used..];
            let Some(first) = rest.first() else { break };
            used += match first {
                _ if self.is_skipping => self.skip(rest),
                b'1'..=b'9' => match counted(rest)? {
                    Some((head, length)) => {
                        frame(&rest[head..head + length], origin, builder);
                        head + length
                    }
                    None => break,
                },
                _ => match memchr(b'\n', rest) {
                    Some(length) => {
                        frame(&rest[..length], origin, builder);
                        length + 1
                    }
                    None if rest.len() > MAX_FRAME_BYTES => {
                        too_long(rest, origin, builder);
                        self.is_skipping = true;
                        rest.len()
                    }
                    None => break,
                },
            };
        }
        Ok(used)
    }

    /// An unterminated line is complete when the connection ends; part of a counted frame is not.
    fn finish(&mut self, bytes: &[u8], origin: StreamOrigin<'_>, builder: &mut BatchBuilder) {
        if self.is_skipping || bytes.is_empty() {
            return;
        }
        if matches!(bytes[0], b'1'..=b'9') && counted(bytes).is_ok() {
            let fault = RejectCause {
                parser: "syslog",
                reason: "cut_off",
                detail: "the connection ended inside a frame",
            };
            return builder.reject(
                RowOrigin { host: origin.peer, source: origin.source },
                &fault,
                bytes,
            );
        }
        frame(bytes, origin, builder);
    }
}

impl SyslogStream {
    fn skip(&mut self, rest: &[u8]) -> usize {
        match memchr(b'\n', rest) {
            Some(length) => {
                self.is_skipping = false;
                length + 1
            }
            None => rest.len(),
        }
    }
}

/// Header and length of an octet-counted frame; `None` if incomplete.
fn counted(bytes: &[u8]) -> Result<Option<(usize, usize)>, StreamError> {
    let Some(space) = memchr(b' ', &bytes[..bytes.len().min(MAX_COUNT_DIGITS + 1)]) else {
        let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_open = digits == bytes.len() && digits <= MAX_COUNT_DIGITS;
        return if is_open { Ok(None) } else { Err(BAD_COUNT) };
    };
    let length =
        std::str::from_utf8(&bytes[..space]).ok().and_then(|digits| digits.parse::<usize>().ok());
    let Some(length) = length else {
        return Err(BAD_COUNT);
    };
    if length > MAX_FRAME_BYTES {
        let detail = "an octet count exceeds the limit";
        return Err(StreamError { reason: "too_long", detail });
    }
    let head = space + 1;
    Ok((bytes.len() >= head + length).then_some((head, length)))
}

fn too_long(bytes: &[u8], origin: StreamOrigin<'_>, builder: &mut BatchBuilder) {
    let StreamOrigin { peer, source } = origin;
    let detail = format!("more than {MAX_FRAME_BYTES} bytes without an end");
    let fault = RejectCause { parser: "syslog", reason: "too_long", detail: &detail };
    builder.reject(RowOrigin { host: host(bytes).unwrap_or(peer), source }, &fault, bytes);
}

/// Reads one frame or datagram. Ignores blank ones.
pub(crate) fn frame(frame: &[u8], origin: StreamOrigin<'_>, builder: &mut BatchBuilder) {
    let StreamOrigin { peer, source } = origin;
    let frame = frame.trim_ascii_end();
    let frame = frame.strip_suffix(b"\0").unwrap_or(frame).trim_ascii_end();
    if frame.is_empty() {
        return;
    }
    let place = RowOrigin { host: host(frame).unwrap_or(peer), source };
    builder.line(place, payload(frame), None);
}

/// The host in a frame's header: the word after the timestamp.
fn host(frame: &[u8]) -> Option<&str> {
    let head = &frame[..frame.len().min(320)];
    let head = head.strip_prefix(b"<")?;
    let rest = &head[memchr(b'>', &head[..head.len().min(4)])? + 1..];
    let (behind_stamp, is_modern) = match rest.strip_prefix(b"1 ") {
        Some(rest) => (&rest[memchr(b' ', rest)? + 1..], true),
        // `Nov  2 12:00:00 ` or an RFC 3339 timestamp.
        None if rest.first()?.is_ascii_alphabetic() => (rest.get(16..)?, false),
        None => (&rest[memchr(b' ', rest)? + 1..], false),
    };
    let word = behind_stamp.split(|byte| *byte == b' ').next()?;
    let fits = (1..=255).contains(&word.len())
        && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b".-_:%".contains(byte));
    // `app: text` has no host; the colon belongs to the tag.
    let is_tag = !is_modern && word.ends_with(b":");
    let text = std::str::from_utf8(word).ok()?;
    (fits && !is_tag && text != "-").then_some(text)
}

/// Strips the syslog header that nginx adds to access log lines; it only adds the host.
fn payload(frame: &[u8]) -> &[u8] {
    let tag = b" nginx: ";
    let window = &frame[..frame.len().min(320)];
    let Some(at) = memchr::memmem::find(window, tag) else { return frame };
    let message = &frame[at + tag.len()..];
    if crate::document::is_access_line(message) || crate::document::is_object(message) {
        message
    } else {
        frame
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::check::{builder, dump, mangled};

    const ORIGIN: StreamOrigin<'_> = StreamOrigin { peer: "192.0.2.1", source: "syslog_tcp" };

    fn check(chunks: &[&[u8]], expected: &Expect) {
        let (mut stream, mut builder, mut buffer) =
            (SyslogStream::default(), builder(), Vec::new());
        let mut broken = String::new();
        for chunk in chunks {
            buffer.extend_from_slice(chunk);
            match stream.cut(&buffer, ORIGIN, &mut builder) {
                Ok(used) => drop(buffer.drain(..used)),
                Err(why) => {
                    broken = format!("broken: {}\n", why.reason);
                    buffer.clear();
                    break;
                }
            }
        }
        stream.finish(&buffer, ORIGIN, &mut builder);
        expected.assert_eq(&(dump(&mut builder) + &broken));
    }

    #[test]
    fn both_framings_are_told_apart_frame_by_frame_and_over_reads() {
        check(
            &[
                b"35 <13>1 2026-11-20T12:00:00Z web1 a ",
                b"b<13>Nov 20 12:00:00 web2 app: a\n<13>Nov 20",
                b" 12:00:00 app: no host\n3 ab\n\n",
                b"<13>2026-11-20T12:00:00.1+01:00 web3 app: c",
            ],
            &expect![[r#"
                web1 syslog_tcp
                  <13>1 2026-11-20T12:00:00Z web1 a b
                web2 syslog_tcp
                  <13>Nov 20 12:00:00 web2 app: a
                192.0.2.1 syslog_tcp
                  <13>Nov 20 12:00:00 app: no host
                  ab
                web3 syslog_tcp
                  <13>2026-11-20T12:00:00.1+01:00 web3 app: c
            "#]],
        );
    }

    #[test]
    fn line_ends_inside_of_a_counted_frame_stay_inside() {
        check(
            &[b"9 one\ntwo3\n"],
            &expect![[r#"
            192.0.2.1 syslog_tcp
              one#012two3
        "#]],
        );
    }

    #[test]
    fn counts_that_lie_end_the_connection_and_half_a_frame_is_kept_raw() {
        check(&[b"99999999 <13>x"], &expect!["broken: bad_count\n"]);
        check(&[b"9999999 <13>x"], &expect!["broken: too_long\n"]);
        check(&[b"12x <13>x"], &expect!["broken: bad_count\n"]);
        check(&[b"20 <13>half"], &expect!["reject: 1 rows\n"]);
    }

    #[test]
    fn a_line_without_end_is_cut_once_and_the_next_is_read() {
        let long = [b"<13>".as_slice(), &vec![b'x'; MAX_FRAME_BYTES]].concat();
        check(
            &[&long, b"still the same\n<13>Nov 20 12:00:00 web1 a: b\n"],
            &expect![[r#"
            web1 syslog_tcp
              <13>Nov 20 12:00:00 web1 a: b
            reject: 1 rows
        "#]],
        );
    }

    #[test]
    fn the_access_log_of_nginx_leaves_its_envelope() {
        check(
            &[b"<190>Nov 20 12:00:00 web1 nginx: 10.0.0.1 - - [20/Nov/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"-\"\n<187>Nov 20 12:00:00 web1 nginx: 2026/11/20 12:00:00 [error] 1#1: x\n"],
            &expect![[r#"
                web1 syslog_tcp
                  10.0.0.1 - - [20/Nov/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-"
                  <187>Nov 20 12:00:00 web1 nginx: 2026/11/20 12:00:00 [error] 1#1: x
            "#]],
        );
    }

    #[test]
    fn any_bytes_are_cut_without_panic_and_never_past_their_end() {
        let seed =
            b"35 <13>1 2026-11-20T12:00:00Z web1 a b<13>Nov 20 12:00:00 web2 app: a\n9999 x\n";
        arbtest::arbtest(|u| {
            let bytes = mangled(u, seed)?;
            let (mut stream, mut builder) = (SyslogStream::default(), builder());
            if let Ok(used) = stream.cut(&bytes, ORIGIN, &mut builder) {
                assert!(used <= bytes.len());
                stream.finish(&bytes[used..], ORIGIN, &mut builder);
            }
            Ok(())
        });
    }
}
