//! Request and response heads (RFC 9112 §2 to §5), parsed leniently: captures contain invalid
//! messages.

use memchr::memchr;

/// Relevant fields of a request's head, borrowed from its text.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestHead<'a> {
    pub(crate) method: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) host: &'a [u8],
    /// `X-Request-Id`, or the trace id of `traceparent`.
    pub(crate) request_id: &'a [u8],
    pub(crate) content_length: Option<u64>,
    pub(crate) is_chunked: bool,
    /// The client waits before it sends the body (`Expect: 100-continue`).
    pub(crate) expects_continue: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    /// 0 when cut.
    pub(crate) status: u16,
    /// First digit of the status, which may be captured when the rest is cut; else 0.
    pub(crate) class: u8,
    pub(crate) content_length: Option<u64>,
    pub(crate) is_chunked: bool,
    /// A stream of events.
    pub(crate) is_stream: bool,
    /// The connection switches to HTTP/2.
    pub(crate) is_h2c: bool,
}

const METHODS: [&[u8]; 13] = [
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"CONNECT ",
    b"TRACE ",
    b"PROPFIND ",
    b"REPORT ",
    b"PURGE ",
    b"MKCOL ",
];

/// Types of content that come while something happens.
const STREAMS: [&[u8]; 3] =
    [b"text/event-stream", b"multipart/x-mixed-replace", b"application/x-ndjson"];

/// The longest registered method has 17 bytes; the standard sets no limit.
const METHOD_BYTES_MAX: usize = 40;

/// Whether bytes can begin a request: a usual method, three letters of one (a snap length may cut
/// there), or a request line with any method.
pub(crate) fn is_request_start(bytes: &[u8]) -> bool {
    match bytes.first() {
        Some(b'C' | b'D' | b'G' | b'H' | b'M' | b'O' | b'P' | b'R' | b'T')
            if is_usual_method(bytes) =>
        {
            true
        }
        Some(first) if is_token_byte(*first) => has_request_line(bytes),
        _ => false,
    }
}

fn is_usual_method(bytes: &[u8]) -> bool {
    METHODS
        .iter()
        .any(|method| bytes.starts_with(method) || (bytes.len() >= 3 && method.starts_with(bytes)))
}

/// Whether bytes can begin the next request of an HTTP connection, which may be cut anywhere.
pub(crate) fn may_be_request(bytes: &[u8]) -> bool {
    let length = token_length(bytes);
    let is_method = bytes[..length].iter().all(|byte| !byte.is_ascii_lowercase());
    match bytes.get(length) {
        None => bytes.len() < 3 || (is_method && length < METHOD_BYTES_MAX),
        Some(b' ') if length > 0 && is_method => {
            bytes.get(length + 1).is_none_or(|byte| byte.is_ascii_graphic())
        }
        Some(_) => is_request_start(bytes),
    }
}

/// A token, a target and the version (RFC 9112 §3), all in the first line.
fn has_request_line(bytes: &[u8]) -> bool {
    let length = token_length(bytes);
    let Some((b' ', rest)) = bytes[length..].split_first() else { return false };
    let line = memchr(b'\n', rest).map_or(rest, |end| &rest[..end]);
    let (target, version) = word(line);
    !target.is_empty() && version.starts_with(b"HTTP/1.")
}

/// Length of the token at the beginning (RFC 9110 §5.6.2), up to a limit.
fn token_length(bytes: &[u8]) -> usize {
    bytes.iter().take(METHOD_BYTES_MAX).take_while(|byte| is_token_byte(**byte)).count()
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether bytes can begin a response; those of old radio servers begin with `ICY`.
pub(crate) fn is_response_start(bytes: &[u8]) -> bool {
    const START: &[u8] = b"HTTP/1.";
    bytes.starts_with(START)
        || bytes.starts_with(b"ICY 200")
        || (bytes.len() >= 4 && START.starts_with(bytes))
}

/// End of the head, searching from `from`.
pub(super) fn end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr(b'\n', bytes.get(at..)?)? + 1;
        match bytes.get(at..)? {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
}

/// Parses a request's head, complete or not; also returns where it ends.
pub(super) fn request(bytes: &[u8]) -> (RequestHead<'_>, Option<usize>) {
    let mut lines = HeadLines { bytes, at: 0, end: None };
    let first = lines.next().unwrap_or_default();
    let (method, rest) = word(first);
    let (target, _) = word(rest);
    let mut head = RequestHead { method, target, ..RequestHead::default() };
    for line in &mut lines {
        match line.first().map(|byte| byte | 0x20) {
            Some(b'h') => {
                if let Some(host) = value(line, "host") {
                    head.host = host;
                }
            }
            Some(b'c') => {
                if let Some(length) = value(line, "content-length") {
                    head.content_length = number(length);
                }
            }
            Some(b't') => {
                if let Some(coding) = value(line, "transfer-encoding") {
                    head.is_chunked = is_chunked(coding);
                } else if let Some(parent) = value(line, "traceparent")
                    && head.request_id.is_empty()
                {
                    head.request_id = parent.get(3..35).unwrap_or_default();
                }
            }
            Some(b'e') => {
                if let Some(expected) = value(line, "expect") {
                    head.expects_continue = expected.eq_ignore_ascii_case(b"100-continue");
                }
            }
            Some(b'x') => {
                if let Some(id) = value(line, "x-request-id") {
                    head.request_id = id;
                }
            }
            _ => {}
        }
    }
    (head, lines.end)
}

/// Parses a response's head, complete or not; also returns where it ends.
pub(super) fn response(bytes: &[u8]) -> (ResponseHead, Option<usize>) {
    let mut lines = HeadLines { bytes, at: 0, end: None };
    let (_, rest) = word(lines.next().unwrap_or_default());
    let (status, _) = word(rest);
    let class = status.first().map_or(0, |digit| digit.wrapping_sub(b'0'));
    let status = Some(status).filter(|status| status.len() == 3).and_then(number);
    let mut head = ResponseHead {
        status: status.and_then(|status| u16::try_from(status).ok()).unwrap_or(0),
        class: if (1..=5).contains(&class) { class } else { 0 },
        ..ResponseHead::default()
    };
    for line in &mut lines {
        match line.first().map(|byte| byte | 0x20) {
            Some(b'c') => {
                if let Some(length) = value(line, "content-length") {
                    head.content_length = number(length);
                } else if let Some(kind) = value(line, "content-type") {
                    head.is_stream |= is_stream(kind);
                }
            }
            Some(b't') => {
                if let Some(coding) = value(line, "transfer-encoding") {
                    head.is_chunked = is_chunked(coding);
                }
            }
            Some(b'i') => head.is_stream |= line.starts_with(b"icy-"),
            Some(b'u') => {
                if let Some(protocol) = value(line, "upgrade") {
                    head.is_h2c = protocol == b"h2c";
                }
            }
            _ => {}
        }
    }
    (head, lines.end)
}

/// Whether a type of content comes while something happens.
pub(crate) fn is_stream(content_type: &[u8]) -> bool {
    STREAMS.iter().any(|stream| content_type.starts_with(stream))
}

/// Lines without their ends, up to the empty line that ends the head; the last one may be cut.
struct HeadLines<'a> {
    bytes: &'a [u8],
    at: usize,
    end: Option<usize>,
}

impl<'a> Iterator for HeadLines<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let Some(length) = memchr(b'\n', rest) else {
            self.at = self.bytes.len();
            return (!rest.is_empty()).then(|| rest.strip_suffix(b"\r").unwrap_or(rest));
        };
        let is_first = self.at == 0;
        self.at += length + 1;
        let line = rest[..length].strip_suffix(b"\r").unwrap_or(&rest[..length]);
        if line.is_empty() && !is_first {
            self.end = Some(self.at);
            return None;
        }
        Some(line)
    }
}

fn word(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|byte| *byte == b' ') {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => (line, &[]),
    }
}

/// Value of the field `name` (lower case), if the line is that field.
fn value<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (field, rest) = line.split_at_checked(name.len())?;
    let (colon, value) = rest.split_first()?;
    (*colon == b':' && field.eq_ignore_ascii_case(name.as_bytes())).then(|| value.trim_ascii())
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = u64::from(digit.wrapping_sub(b'0'));
        number.checked_mul(10)?.checked_add(digit).filter(|_| digit < 10)
    })
}

/// The last coding decides (RFC 9112 §6.3).
fn is_chunked(coding: &[u8]) -> bool {
    coding.to_ascii_lowercase().ends_with(b"chunked")
}

#[cfg(test)]
mod tests {
    use super::{end, is_request_start, is_response_start, may_be_request, request, response};

    #[test]
    fn heads_give_what_decides_where_the_message_ends() {
        let bytes = b"POST /a?b HTTP/1.1\r\nHost: www\r\nX-Request-ID: 7\r\ncontent-length:  12\r\n\r\nbody";
        let length = end(bytes, 0).expect("it is whole");
        assert_eq!(&bytes[length..], b"body");
        let (head, found) = request(bytes);
        assert_eq!(found, Some(length));
        assert_eq!(
            (head.method, head.target, head.host),
            (&b"POST"[..], &b"/a?b"[..], &b"www"[..])
        );
        assert_eq!((head.request_id, head.content_length), (&b"7"[..], Some(12)));
        let (head, _) = response(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n");
        assert_eq!((head.status, head.is_chunked, head.content_length), (200, true, None));
        assert_eq!(response(b"HTTP/1.1 2").0.status, 0);
    }

    #[test]
    fn any_token_is_a_method_if_a_request_line_follows() {
        for line in ["M-SEARCH * HTTP/1.1", "LOCK /dav HTTP/1.1", "x!y /a?b=c HTTP/1.0"] {
            let request = format!("{line}\r\nHost: www\r\n\r\n");
            assert!(is_request_start(request.as_bytes()), "{line}");
        }
        for other in
            ["LOCK /dav", "INVITE sip:a@b SIP/2.0\r\n", "a b c HTTP/1.1\r\n", "a  HTTP/1.1"]
        {
            assert!(!is_request_start(other.as_bytes()), "{other}");
        }
        assert!(may_be_request(b"M-SEA") && may_be_request(b"QUERY /a") && may_be_request(b"LO"));
        assert!(!may_be_request(b"trash") && !may_be_request(b"QUERY \x01"));
    }

    #[test]
    fn starts_are_known_from_few_bytes() {
        assert!(is_request_start(b"GET") && is_request_start(b"DELETE /x"));
        assert!(
            !is_request_start(b"GE") && !is_request_start(b"GETS /x") && !is_request_start(b"")
        );
        assert!(is_response_start(b"HTTP") && is_response_start(b"HTTP/1.0 200"));
        assert!(!is_response_start(b"HTTP/2") && !is_response_start(b""));
    }
}
