//! Syslog over UDP (RFC 5426), TCP (RFC 6587) and TLS (RFC 5425): frames, and the host of a frame.
//!
//! The frame itself goes to the line parser, which knows RFC 3164, RFC 5424 and the logs of HAProxy
//! and nginx inside. A stream may switch its framing from frame to frame; rsyslog does. No frame
//! ends a connection: what is too long is skipped up to its end and counted as lost.
//!
//! ```text
//!  frame = count ' ' '<' …     digits, one space and `<`; else a line, whatever it begins with
//!        | line '\n'           a NUL inside of the line is text
//!        | line NUL            Python's SysLogHandler; a newline inside of the line is text
//! ```

use memchr::{memchr_iter, memchr2_iter};
use weir_parse::syslog_host;

use crate::batch_builder::{BatchBuilder, RejectCause, RowOrigin};
use crate::stream::{StreamError, StreamOrigin, StreamProtocol};

/// Longest frame; of longer ones this much is kept in `reject`. rsyslog's default is 8 KiB,
/// journald's lines end at 48 KiB.
pub(crate) const MAX_FRAME_BYTES: usize = 64 << 10;
/// Digits of an octet count.
const MAX_COUNT_DIGITS: usize = 7;

/// Frames of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct SyslogStream {
    /// The rest of an overlong frame, which is discarded.
    skipped: Option<FrameRest>,
    /// Whether the last line ended with NUL; `None` before the first line.
    ends_with_nul: Option<bool>,
}

/// Where an overlong frame ends.
#[derive(Clone, Copy, Debug)]
enum FrameRest {
    /// Behind this many bytes.
    Counted(usize),
    /// At the end of the line.
    Line,
}

/// What the bytes at the front begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameStart {
    /// Too few bytes to know.
    Open,
    /// A line.
    Line,
    /// Bytes of the count with its space, and the count.
    Counted(usize, usize),
}

impl StreamProtocol for SyslogStream {
    fn cut(
        &mut self,
        bytes: &[u8],
        origin: StreamOrigin<'_>,
        builder: &mut BatchBuilder,
    ) -> Result<usize, StreamError> {
        let mut used = 0;
        while used < bytes.len() && !builder.is_batch_full() {
            let rest = &bytes[used..];
            let length = match (self.skipped, frame_start(rest)) {
                (Some(skipped), _) => self.skip(skipped, rest, builder),
                (None, FrameStart::Open) => 0,
                (None, FrameStart::Line) => self.line(rest, origin, builder),
                (None, FrameStart::Counted(head, count)) => self
                    .counted(&rest[head..], count, origin, builder)
                    .map_or(0, |used| head + used),
            };
            if length == 0 {
                break;
            }
            used += length;
        }
        Ok(used)
    }

    /// An unterminated line is complete when the connection ends; part of a counted frame is not.
    fn finish(&mut self, bytes: &[u8], origin: StreamOrigin<'_>, builder: &mut BatchBuilder) {
        if self.skipped.is_some() {
            return builder.lose("too_long", 0, bytes.len());
        }
        if matches!(frame_start(bytes), FrameStart::Counted(..)) {
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
    /// Reads a line and returns its length with its end, 0 when its end has not come.
    fn line(&mut self, rest: &[u8], origin: StreamOrigin<'_>, builder: &mut BatchBuilder) -> usize {
        match self.line_end(rest) {
            Some(length) => {
                self.ends_with_nul = Some(rest[length] == 0);
                if length > MAX_FRAME_BYTES {
                    too_long(&rest[..length], length - MAX_FRAME_BYTES, origin, builder);
                } else {
                    frame(&rest[..length], origin, builder);
                }
                length + 1
            }
            None if rest.len() > MAX_FRAME_BYTES => {
                too_long(rest, rest.len() - MAX_FRAME_BYTES, origin, builder);
                self.skipped = Some(FrameRest::Line);
                rest.len()
            }
            None => 0,
        }
    }

    /// Reads a counted frame and returns the bytes used; `None` when more have to come.
    fn counted(
        &mut self,
        rest: &[u8],
        count: usize,
        origin: StreamOrigin<'_>,
        builder: &mut BatchBuilder,
    ) -> Option<usize> {
        if count <= MAX_FRAME_BYTES {
            frame(rest.get(..count)?, origin, builder);
            return Some(count);
        }
        too_long(rest.get(..MAX_FRAME_BYTES)?, 0, origin, builder);
        self.skipped = Some(FrameRest::Counted(count - MAX_FRAME_BYTES));
        Some(MAX_FRAME_BYTES)
    }

    fn skip(&mut self, skipped: FrameRest, rest: &[u8], builder: &mut BatchBuilder) -> usize {
        let (length, is_open) = match skipped {
            FrameRest::Counted(count) => {
                let length = count.min(rest.len());
                self.skipped = Some(FrameRest::Counted(count - length));
                (length, length < count)
            }
            FrameRest::Line => match self.line_end(rest) {
                Some(length) => (length + 1, false),
                None => (rest.len(), true),
            },
        };
        if !is_open {
            self.skipped = None;
        }
        builder.lose("too_long", 0, length);
        length
    }

    /// The length of the line at the front, if its end has come.
    ///
    /// A traceback of Python has newlines inside of a frame that ends with NUL, and a program's
    /// line may have a NUL inside. So the other end byte counts only where the next frame begins
    /// behind it.
    fn line_end(&self, rest: &[u8]) -> Option<usize> {
        let is_end = |at: &usize| {
            let behind = &rest[at + 1..];
            matches!(behind, [] | [b'\n' | b'\r' | 0, ..]) || begins_frame(behind)
        };
        let ends_with_nul =
            self.ends_with_nul.unwrap_or_else(|| memchr_iter(0, rest).any(|at| is_end(&at)));
        memchr2_iter(b'\n', 0, rest).find(|at| match (rest[*at], ends_with_nul) {
            (b'\n', false) | (0, true) => true,
            (b'\n', true) => begins_frame(&rest[at + 1..]),
            _ => is_end(at),
        })
    }
}

/// Whether bytes begin with a priority or an octet count.
fn begins_frame(bytes: &[u8]) -> bool {
    bytes.first() == Some(&b'<') || matches!(frame_start(bytes), FrameStart::Counted(..))
}

/// Tells an octet count from a line that begins with digits, such as a time or an address.
fn frame_start(bytes: &[u8]) -> FrameStart {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=MAX_COUNT_DIGITS).contains(&digits) || bytes[0] == b'0' {
        return FrameStart::Line;
    }
    let count = bytes[..digits].iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    match &bytes[digits..] {
        [] | [b' '] => FrameStart::Open,
        [b' ', b'<', ..] => FrameStart::Counted(digits + 1, count),
        _ => FrameStart::Line,
    }
}

/// Keeps the start of an overlong frame in `reject` and counts the frame as lost; `discarded` are
/// the bytes that are not kept.
fn too_long(bytes: &[u8], discarded: usize, origin: StreamOrigin<'_>, builder: &mut BatchBuilder) {
    let StreamOrigin { peer, source } = origin;
    let detail = format!("more than {MAX_FRAME_BYTES} bytes in one frame");
    let fault = RejectCause { parser: "syslog", reason: "too_long", detail: &detail };
    builder.reject(RowOrigin { host: syslog_host(bytes).unwrap_or(peer), source }, &fault, bytes);
    builder.lose("too_long", 1, discarded);
}

/// Reads one frame or datagram. Ignores blank ones.
pub(crate) fn frame(frame: &[u8], origin: StreamOrigin<'_>, builder: &mut BatchBuilder) {
    let StreamOrigin { peer, source } = origin;
    // `logger --octet-count` counts datagrams as well.
    let frame = match frame_start(frame) {
        FrameStart::Counted(head, count) if frame.len() == head + count => &frame[head..],
        _ => frame,
    };
    let frame = frame.trim_ascii_end();
    let frame = frame.strip_suffix(b"\0").unwrap_or(frame).trim_ascii_end();
    if frame.is_empty() {
        return;
    }
    let place = RowOrigin { host: syslog_host(frame).unwrap_or(peer), source };
    builder.line(place, payload(frame), None);
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
        for chunk in chunks {
            buffer.extend_from_slice(chunk);
            let used = stream.cut(&buffer, ORIGIN, &mut builder).expect("never fails");
            buffer.drain(..used);
        }
        stream.finish(&buffer, ORIGIN, &mut builder);
        expected.assert_eq(&dump(&mut builder));
    }

    #[test]
    fn both_framings_are_told_apart_frame_by_frame_and_over_reads() {
        check(
            &[
                b"35 <13>1 2026-11-20T12:00:00Z web1 a ",
                b"b<13>Nov 20 12:00:00 web2 app: a\n<13>Nov 20",
                b" 12:00:00 app: no host\n6 <13>ab\n\n",
                b"<13>2026-11-20T12:00:00.1+01:00 web3 app: c",
            ],
            &expect![[r#"
                web1 syslog_tcp
                  <13>1 2026-11-20T12:00:00Z web1 a b
                web2 syslog_tcp
                  <13>Nov 20 12:00:00 web2 app: a
                192.0.2.1 syslog_tcp
                  <13>Nov 20 12:00:00 app: no host
                  <13>ab
                web3 syslog_tcp
                  <13>2026-11-20T12:00:00.1+01:00 web3 app: c
            "#]],
        );
    }

    /// util-linux/util-linux#210: `logger --octet-count` over UDP. fluent/fluentd#1679 and
    /// vectordotdev/vector#2690 over TCP, also without a line end between frames.
    #[test]
    fn count_before_a_frame_is_no_text() {
        let frame_text = "<14>1 2026-11-20T12:00:00.000000+01:00 zc4430 kernel - - - Link is Down";
        let counted = format!("{} {frame_text}", frame_text.len());
        let mut builder = builder();
        frame(counted.as_bytes(), ORIGIN, &mut builder);
        frame(format!("{counted}!").as_bytes(), ORIGIN, &mut builder);
        let expected =
            format!("zc4430 syslog_tcp\n  {frame_text}\n192.0.2.1 syslog_tcp\n  {counted}!\n");
        assert_eq!(dump(&mut builder), expected);
        check(
            &[counted.as_bytes(), format!("{counted}\n{counted}").as_bytes()],
            &expect![[r#"
                zc4430 syslog_tcp
                  <14>1 2026-11-20T12:00:00.000000+01:00 zc4430 kernel - - - Link is Down
                  <14>1 2026-11-20T12:00:00.000000+01:00 zc4430 kernel - - - Link is Down
                  <14>1 2026-11-20T12:00:00.000000+01:00 zc4430 kernel - - - Link is Down
            "#]],
        );
    }

    #[test]
    fn line_ends_inside_of_a_counted_frame_stay_inside() {
        check(
            &[b"11 <13>one\ntwo5 <13>\n"],
            &expect![[r#"
                192.0.2.1 syslog_tcp
                  <13>one⏎two
                  <13>
            "#]],
        );
    }

    /// Field cases: rsyslog#3484 and syslog-ng#5167 (lines that begin with a time or an address),
    /// serilog-sinks-syslog#43 (a count in front of the priority is no text).
    #[test]
    fn a_line_that_begins_with_digits_is_a_line() {
        check(
            &[
                b"<13>Nov 26 08:20:00 web1 app: before\n2026-11-26T08:20:01.464+01:00 192.0.2.94 CEF:0|x\n",
                b"10.0.0.1 - - [26/Nov/2026:08:20:03 +0000] \"GET / HTTP/1.1\" 200 5\n",
                b"12x <13>x\n99999999 <13>x\n7 samurai\n007 <13>x\n42\n",
                b"<13>Nov 26 08:20:04 web1 app: behind\n2",
                b"026",
                b" was a year\n8",
                b" ",
                b"<13>half",
                b"\n",
            ],
            &expect![[r#"
                web1 syslog_tcp
                  <13>Nov 26 08:20:00 web1 app: before
                  <13>Nov 26 08:20:04 web1 app: behind
                192.0.2.1 syslog_tcp
                  2026-11-26T08:20:01.464+01:00 192.0.2.94 CEF:0|x
                  10.0.0.1 - - [26/Nov/2026:08:20:03 +0000] "GET / HTTP/1.1" 200 5
                  12x <13>x
                  99999999 <13>x
                  7 samurai
                  007 <13>x
                  42
                  2026 was a year
                  <13>half
            "#]],
        );
    }

    /// Field cases: fluentd#1270, ha-addon-syslog#40, logbook#241 (Python ends messages with NUL,
    /// and a traceback has newlines), fluent-bit#2741 (a NUL inside of a line is text).
    #[test]
    fn nul_ends_a_frame_and_a_newline_inside_of_it_is_text() {
        check(
            &[b"<11>order 1 failed\0", b"<11>order 2 failed\nTraceback\n  File x\0<11>order 3\0"],
            &expect![[r#"
                192.0.2.1 syslog_tcp
                  <11>order 1 failed
                  <11>order 2 failed⏎Traceback⏎  File x
                  <11>order 3
            "#]],
        );
        check(
            &[
                b"<11>first\nTraceback\0<13>web1 ends\n<13>with lines\n\0<13>\0",
                b"8 <13>four5 <13>\0",
            ],
            &expect![[r#"
                192.0.2.1 syslog_tcp
                  <11>first⏎Traceback
                  <13>web1 ends
                  <13>with lines
                  <13>
                  <13>four
                  <13>
            "#]],
        );
        let (mut stream, mut builder) = (SyslogStream::default(), builder());
        let bytes = b"<13>a\0b\n<13>c\n";
        assert_eq!(stream.cut(bytes, ORIGIN, &mut builder), Ok(bytes.len()));
        assert_eq!(dump(&mut builder), "192.0.2.1 syslog_tcp\n  <13>a\0b\n  <13>c\n");
    }

    #[test]
    fn half_a_counted_frame_is_kept_raw() {
        check(&[b"20 <13>half"], &expect!["reject: 1 rows\n"]);
    }

    /// A frame beyond the limit by each framing, in one read and in many: the next one is read.
    #[test]
    fn an_overlong_frame_is_skipped_counted_as_lost_and_the_next_is_read() {
        let text = vec![b'x'; MAX_FRAME_BYTES + 10];
        let line = [b"<13>".as_slice(), &text].concat();
        let next = b"<13>Nov 20 12:00:00 web1 a: b\n".as_slice();
        let counted = format!("{} ", line.len()).into_bytes();
        for (bytes, lost) in [
            ([&line, b"\n".as_slice(), next].concat(), 14),
            ([&line, b"\0".as_slice(), next].concat(), 14),
            ([&counted, &line, next].concat(), 14),
            (
                [b"9999999 ".as_slice(), &line, &vec![b'y'; 9_999_999 - line.len()], next].concat(),
                9_934_463,
            ),
        ] {
            for step in [bytes.len(), 50_000] {
                let (mut stream, mut builder) = (SyslogStream::default(), builder());
                let mut buffer = Vec::new();
                for read in bytes.chunks(step) {
                    buffer.extend_from_slice(read);
                    let used = stream.cut(&buffer, ORIGIN, &mut builder).expect("never fails");
                    buffer.drain(..used);
                }
                stream.finish(&buffer, ORIGIN, &mut builder);
                // The byte that ends a line is skipped with it when the line was cut before.
                let (rows, bytes) = builder.lost["too_long"];
                assert_eq!((rows, bytes.saturating_sub(lost) <= 1), (1, true), "{bytes} {lost}");
                assert_eq!(
                    dump(&mut builder),
                    "web1 syslog_tcp\n  <13>Nov 20 12:00:00 web1 a: b\nreject: 1 rows\n"
                );
            }
        }
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
            let used = stream.cut(&bytes, ORIGIN, &mut builder).expect("never fails");
            assert!(used <= bytes.len());
            stream.finish(&bytes[used..], ORIGIN, &mut builder);
            Ok(())
        });
    }
}
