//! Frames: what cuts the byte stream of a connection into messages. Pure; `docs/formats/link.md` has the diagram.
//!
//! The length in a header is the sender's claim: memory is taken for bytes that came, never for bytes that were
//! announced, and a claim above the limit of its kind ends the connection before a byte of the body is read.

use crate::error::{Kind, LinkError};

/// Bytes before a frame's body.
pub const HEADER_BYTES: usize = 8;
/// A receiver that does not know the kind of a frame with this flag skips it; without the flag it ends the connection.
pub const MAY_BE_SKIPPED: u8 = 1;
/// The largest body of a frame that is no parcel, in bytes.
pub const BODY_BYTES_MAX: usize = 512 << 10;
/// The largest body before a peer has shown who it is, in bytes.
pub const STRANGER_BYTES_MAX: usize = 16 << 10;

/// One frame as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What the body is.
    pub kind: u8,
    /// [`MAY_BE_SKIPPED`] and bits without a meaning yet.
    pub flags: u8,
    /// The body.
    pub body: Vec<u8>,
}

/// How large frames may be that are received.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest body of a parcel, in bytes.
    pub parcel: usize,
    /// Largest body of anything else, in bytes.
    pub other: usize,
}

/// Before a peer has shown who it is.
pub(crate) const STRANGER: Limits = Limits { parcel: 0, other: STRANGER_BYTES_MAX };

/// Appends a frame to `out`; `write` appends the body.
pub(crate) fn put(out: &mut Vec<u8>, kind: u8, flags: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, kind, flags, 0, 0]);
    write(out);
    let length = u32::try_from(out.len() - at - HEADER_BYTES).expect("bodies are below 4 GiB");
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Cuts bytes as they come into frames.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were handed out.
    used: usize,
}

impl Decoder {
    /// A decoder that has seen nothing.
    pub fn new(limits: Limits) -> Self {
        Self { limits, buffer: Vec::new(), used: 0 }
    }

    /// Frames from now on may be larger or smaller.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Takes bytes that came.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.used > 0 && self.used * 2 >= self.buffer.len() {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes that wait for the rest of their frame.
    pub fn waiting(&self) -> usize {
        self.buffer.len() - self.used
    }

    /// The next whole frame; `None` until more bytes come.
    ///
    /// # Errors
    /// [`Kind::Protocol`] when a frame claims to be larger than it may be.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, LinkError> {
        let rest = &self.buffer[self.used..];
        let Some((header, body)) = rest.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let [a, b, c, d, kind, flags, _, _] = *header;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let limit =
            if kind == crate::message::PARCEL { self.limits.parcel } else { self.limits.other };
        if length > limit {
            let text = format!(
                "a frame of kind {kind} claims {length} bytes, more than the {limit} that it may have"
            );
            return Err(LinkError::new(Kind::Protocol, text));
        }
        let Some(body) = body.get(..length) else { return Ok(None) };
        let frame = Frame { kind, flags, body: body.to_vec() };
        self.used += HEADER_BYTES + length;
        if self.used == self.buffer.len() {
            self.used = 0;
            self.buffer.clear();
            self.buffer.shrink_to(1 << 16);
        }
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { parcel: 1 << 20, other: 1 << 10 };

    fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, kind, 0, |out| out.extend_from_slice(body));
        out
    }

    #[test]
    fn frames_come_out_whole_however_their_bytes_are_cut() {
        arbtest::arbtest(|u| {
            let bodies: Vec<(u8, Vec<u8>)> =
                u.arbitrary_iter()?.take(20).collect::<Result<_, _>>()?;
            let bodies: Vec<_> =
                bodies.into_iter().filter(|(_, body)| body.len() <= LIMITS.other).collect();
            let bytes: Vec<u8> =
                bodies.iter().flat_map(|(kind, body)| frame(*kind, body)).collect();
            let mut decoder = Decoder::new(LIMITS);
            let (mut at, mut out) = (0, Vec::new());
            while at < bytes.len() {
                let step = u.int_in_range(1..=(bytes.len() - at).min(64))?;
                decoder.push(&bytes[at..at + step]);
                at += step;
                while let Some(frame) = decoder.next_frame().expect("within the limits") {
                    out.push((frame.kind, frame.body));
                }
            }
            assert_eq!(out, bodies);
            assert_eq!(decoder.waiting(), 0);
            Ok(())
        });
    }

    #[test]
    fn a_claimed_length_takes_no_memory_and_too_large_a_claim_is_an_error() {
        let mut decoder = Decoder::new(LIMITS);
        decoder.push(&[0, 0, 15, 0, crate::message::PARCEL, 0, 0, 0]); // 983,040 bytes that never come
        assert_eq!(decoder.next_frame().expect("it may be so large"), None);
        assert!(decoder.buffer.capacity() < 1024);
        let mut decoder = Decoder::new(LIMITS);
        decoder.push(&[0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
        let error = decoder.next_frame().expect_err("4 GiB");
        assert_eq!(error.kind, Kind::Protocol);
        assert!(error.message.contains("4294967295"), "{error}");
    }

    #[test]
    fn random_bytes_are_frames_or_an_error_and_memory_stays_bounded() {
        arbtest::arbtest(|u| {
            let mut decoder = Decoder::new(LIMITS);
            for _ in 0..u.int_in_range(1..=50)? {
                let piece: Vec<u8> = u.arbitrary()?;
                decoder.push(&piece);
                loop {
                    match decoder.next_frame() {
                        Ok(Some(frame)) => drop(crate::Message::decode(&frame)),
                        Ok(None) => break,
                        Err(_) => return Ok(()),
                    }
                }
                assert!(decoder.waiting() <= LIMITS.parcel + HEADER_BYTES + piece.len());
            }
            Ok(())
        });
    }
}
