//! Request and response heads (RFC 9112 §2 to §5), read leniently: a capture shows what was sent, not what is right.

use memchr::memchr;

/// What matters of a request's head; text points into it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestHead<'a> {
    pub(crate) method: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) host: &'a [u8],
    /// `X-Request-Id`, or the trace of `traceparent`.
    pub(crate) request_id: &'a [u8],
    pub(crate) content_length: Option<u64>,
    pub(crate) is_chunked: bool,
}

/// What matters of a response's head.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    /// 0 when the capture cuts it.
    pub(crate) status: u16,
    pub(crate) content_length: Option<u64>,
    pub(crate) is_chunked: bool,
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

/// Whether bytes can begin a request: a known method, of which a snap length may leave three letters.
pub(crate) fn is_request_start(bytes: &[u8]) -> bool {
    // Bodies come here too, and nearly all of them go again.
    let Some(b'C' | b'D' | b'G' | b'H' | b'M' | b'O' | b'P' | b'R' | b'T') = bytes.first() else {
        return false;
    };
    let begins = |method: &&[u8]| {
        bytes.starts_with(method) || (bytes.len() >= 3 && method.starts_with(bytes))
    };
    METHODS.iter().any(begins)
}

/// Whether bytes can begin a response.
pub(crate) fn is_response_start(bytes: &[u8]) -> bool {
    const START: &[u8] = b"HTTP/1.";
    bytes.starts_with(START) || (bytes.len() >= 4 && START.starts_with(bytes))
}

/// Where the head ends, if it does, looking from `from` on.
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

/// Reads a head that ends where the bytes do, or that the snap length cuts there.
pub(super) fn request(bytes: &[u8]) -> RequestHead<'_> {
    let mut lines = lines(bytes);
    let first = lines.next().unwrap_or_default();
    let mut parts = first.splitn(3, |byte| *byte == b' ');
    let mut head = RequestHead {
        method: parts.next().unwrap_or_default(),
        target: parts.next().unwrap_or_default(),
        ..RequestHead::default()
    };
    for line in lines {
        match line.first().map(|byte| byte | 0x20) {
            Some(b'h') => {
                if let Some(host) = value(line, b"host") {
                    head.host = host;
                }
            }
            Some(b'c') => {
                if let Some(length) = value(line, b"content-length") {
                    head.content_length = number(length);
                }
            }
            Some(b't') => {
                if let Some(coding) = value(line, b"transfer-encoding") {
                    head.is_chunked = is_chunked(coding);
                } else if let Some(parent) = value(line, b"traceparent")
                    && head.request_id.is_empty()
                {
                    head.request_id = parent.get(3..35).unwrap_or_default();
                }
            }
            Some(b'x') => {
                if let Some(id) = value(line, b"x-request-id") {
                    head.request_id = id;
                }
            }
            _ => {}
        }
    }
    head
}

/// Reads a head that ends where the bytes do, or that the snap length cuts there.
pub(super) fn response(bytes: &[u8]) -> ResponseHead {
    let mut lines = lines(bytes);
    let first = lines.next().unwrap_or_default();
    let status = first.splitn(3, |byte| *byte == b' ').nth(1).unwrap_or_default();
    let status = Some(status).filter(|status| status.len() == 3).and_then(number);
    let mut head = ResponseHead {
        status: status.and_then(|status| u16::try_from(status).ok()).unwrap_or(0),
        ..ResponseHead::default()
    };
    for line in lines {
        match line.first().map(|byte| byte | 0x20) {
            Some(b'c') => {
                if let Some(length) = value(line, b"content-length") {
                    head.content_length = number(length);
                }
            }
            Some(b't') => {
                if let Some(coding) = value(line, b"transfer-encoding") {
                    head.is_chunked = is_chunked(coding);
                }
            }
            _ => {}
        }
    }
    head
}

/// Lines without their ends; the last one may be cut.
fn lines(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (line, after) = match memchr(b'\n', rest) {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (rest, &rest[rest.len()..]),
        };
        rest = after;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    })
}

/// The value of a field if it is called `name` (lower case).
fn value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (field, rest) = line.split_at_checked(name.len())?;
    let (colon, value) = rest.split_first()?;
    (*colon == b':' && field.eq_ignore_ascii_case(name)).then(|| value.trim_ascii())
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The last coding decides (RFC 9112 §6.3).
fn is_chunked(coding: &[u8]) -> bool {
    coding.to_ascii_lowercase().ends_with(b"chunked")
}

#[cfg(test)]
mod tests {
    use super::{end, is_request_start, is_response_start, request, response};

    #[test]
    fn heads_give_what_decides_where_the_message_ends() {
        let bytes = b"POST /a?b HTTP/1.1\r\nHost: www\r\nX-Request-ID: 7\r\ncontent-length:  12\r\n\r\nbody";
        let length = end(bytes, 0).expect("it is whole");
        assert_eq!(&bytes[length..], b"body");
        let head = request(&bytes[..length]);
        assert_eq!(
            (head.method, head.target, head.host),
            (&b"POST"[..], &b"/a?b"[..], &b"www"[..])
        );
        assert_eq!((head.request_id, head.content_length), (&b"7"[..], Some(12)));
        let head = response(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n");
        assert_eq!((head.status, head.is_chunked, head.content_length), (200, true, None));
        assert_eq!(response(b"HTTP/1.1 2").status, 0);
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
