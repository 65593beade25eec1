//! The PROXY protocol: a header that a load balancer sends before the client's bytes.
//!
//! Source: <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>, versions 1 (a line) and 2
//! (binary, with a length of up to 65,535 bytes for further fields). It may have a segment of its
//! own, share one with the request, or take several.

use memchr::memchr;

use super::framer::Framer;

/// Length of the longest line of version 1, with its end.
const LINE_BYTES_MAX: usize = 107;
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// State of a stream that begins with a PROXY header; `None` when it does not.
pub(crate) fn proxy_header(bytes: &[u8]) -> Option<Framer> {
    match bytes {
        [b'P', ..] => line(bytes),
        [b'\r', ..] => binary(bytes),
        _ => None,
    }
}

fn line(bytes: &[u8]) -> Option<Framer> {
    let rest = bytes.strip_prefix(b"PROXY ")?;
    if ![&b"TCP4 "[..], b"TCP6 ", b"UNKNOWN"].iter().any(|family| rest.starts_with(family)) {
        return None;
    }
    match memchr(b'\n', &bytes[..bytes.len().min(LINE_BYTES_MAX)]) {
        Some(at) => Some(Framer::Proxy(u32::try_from(at + 1).ok()?)),
        None if bytes.len() < LINE_BYTES_MAX => Some(Framer::ProxyLine),
        None => None,
    }
}

fn binary(bytes: &[u8]) -> Option<Framer> {
    let head = bytes.first_chunk::<16>()?;
    let is_version_2 = head.starts_with(SIGNATURE) && head[12] >> 4 == 2;
    let length = u32::from(u16::from_be_bytes([head[14], head[15]]));
    is_version_2.then_some(Framer::Proxy(16 + length))
}

impl Framer {
    /// Bytes at the beginning of the next `length` that belong to a PROXY header.
    pub(crate) fn proxy_bytes(self, bytes: &[u8], length: u32) -> u32 {
        match self {
            Self::Proxy(rest) => rest.min(length),
            Self::ProxyLine => memchr(b'\n', bytes)
                .and_then(|at| u32::try_from(at + 1).ok())
                .map_or(length, |end| end.min(length)),
            _ => 0,
        }
    }

    /// Skips the part of a PROXY header in the next bytes; returns its length.
    #[inline]
    pub(crate) fn skip_proxy(&mut self, bytes: &[u8], length: u32) -> u32 {
        if !matches!(self, Self::Proxy(_) | Self::ProxyLine) {
            return 0;
        }
        let skipped = self.proxy_bytes(bytes, length);
        *self = match *self {
            Self::Proxy(rest) if rest > skipped => Self::Proxy(rest - skipped),
            Self::ProxyLine if skipped == length && bytes.last() != Some(&b'\n') => Self::ProxyLine,
            _ => Self::Idle,
        };
        skipped
    }
}

#[cfg(test)]
mod tests {
    use super::{Framer, SIGNATURE, proxy_header};

    /// What follows a PROXY header that comes in pieces of `step` bytes.
    fn behind(stream: &[u8], step: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut framer = proxy_header(&stream[..stream.len().min(step)]).expect("a header");
        for piece in stream.chunks(step) {
            let length = u32::try_from(piece.len()).expect("short");
            let skipped = framer.skip_proxy(piece, length) as usize;
            out.extend_from_slice(&piece[skipped..]);
        }
        out
    }

    #[test]
    fn headers_of_both_versions_and_any_length_are_skipped() {
        let mut streams = vec![
            b"PROXY TCP4 198.51.100.1 10.0.0.80 50000 80\r\nGET /".to_vec(),
            b"PROXY TCP6 2001:db8::1 2001:db8::2 50000 80\r\nGET /".to_vec(),
            b"PROXY UNKNOWN\r\nGET /".to_vec(),
        ];
        for length in [0_u16, 12, 36, 536, 65_535] {
            let head = [&SIGNATURE[..], &[0x21, 0x11], &length.to_be_bytes()].concat();
            streams.push([head, vec![b'\n'; length.into()], b"GET /".to_vec()].concat());
        }
        for stream in streams {
            for step in [17, 20, 1448, stream.len()] {
                assert_eq!(behind(&stream, step), b"GET /", "{:?}", &stream[..20]);
            }
        }
        for other in
            [&b"POST / HTTP/1.1\r\n"[..], b"PROXY /a HTTP/1.1\r\n", b"\r\n\r\nGET / HTTP/1."]
        {
            assert_eq!(proxy_header(other), None::<Framer>);
        }
    }
}
