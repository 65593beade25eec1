//! Frames: the parts of a connection's byte stream that hold one message each. No I/O;
//! `docs/formats/link.md` has the diagram.
//!
//! The length in a header is only a claim: memory is allocated for received bytes, never for
//! announced ones, and a length above the limit of its kind ends the connection before the body is
//! read.

use crate::error::{LinkError, LinkErrorKind};

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 8;
/// Flag: a receiver skips the frame if it does not know its kind, instead of ending the connection.
pub const MAY_BE_SKIPPED: u8 = 1;
/// Size limit of a body other than a parcel, in bytes.
pub const BODY_BYTES_MAX: usize = 512 << 10;
/// Size limit of a body before a peer is authenticated, in bytes.
pub const STRANGER_BYTES_MAX: usize = 16 << 10;

/// A received frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Kind of message in the body.
    pub kind: u8,
    /// [`MAY_BE_SKIPPED`] and reserved bits.
    pub flags: u8,
    /// The body.
    pub body: Vec<u8>,
}

/// Size limits of received frames.
#[derive(Clone, Copy, Debug)]
pub struct FrameLimits {
    /// Limit of a parcel's body, in bytes.
    pub parcel: usize,
    /// Limit of any other body, in bytes.
    pub other: usize,
}

/// Limits before a peer is authenticated.
pub(crate) const STRANGER: FrameLimits = FrameLimits { parcel: 0, other: STRANGER_BYTES_MAX };

/// Appends a frame with this kind and these flags to `out`; `write` appends the body.
pub(crate) fn put(out: &mut Vec<u8>, [kind, flags]: [u8; 2], write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0, 0, 0, 0, kind, flags, 0, 0]);
    write(out);
    let length = u32::try_from(out.len() - at - HEADER_BYTES).expect("bodies are below 4 GiB");
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// Splits received bytes into frames.
#[derive(Debug)]
pub struct Decoder {
    limits: FrameLimits,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were returned already.
    used: usize,
}

impl Decoder {
    /// An empty decoder.
    pub fn new(limits: FrameLimits) -> Self {
        Self { limits, buffer: Vec::new(), used: 0 }
    }

    /// Changes the limits for later frames.
    pub fn set_limits(&mut self, limits: FrameLimits) {
        self.limits = limits;
    }

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.used > 0 && self.used * 2 >= self.buffer.len() {
            self.buffer.drain(..self.used);
            self.used = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes of an incomplete frame.
    pub fn waiting(&self) -> usize {
        self.buffer.len() - self.used
    }

    /// The next complete frame; `None` until more bytes arrive.
    ///
    /// # Errors
    /// [`LinkErrorKind::Protocol`] when a frame exceeds its limit.
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
                "a frame of kind {kind} has {length} bytes, more than its limit of {limit}"
            );
            return Err(LinkError::new(LinkErrorKind::Protocol, text));
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

    const LIMITS: FrameLimits = FrameLimits { parcel: 1 << 20, other: 1 << 10 };

    fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, [kind, 0], |out| out.extend_from_slice(body));
        out
    }

    #[test]
    fn frames_are_complete_however_their_bytes_are_split() {
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
    fn a_claimed_length_allocates_no_memory_and_one_above_the_limit_is_an_error() {
        let mut decoder = Decoder::new(LIMITS);
        decoder.push(&[0, 0, 15, 0, crate::message::PARCEL, 0, 0, 0]); // 983,040 bytes that never arrive
        assert_eq!(decoder.next_frame().expect("it is within the limit"), None);
        assert!(decoder.buffer.capacity() < 1024);
        let mut decoder = Decoder::new(LIMITS);
        decoder.push(&[0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
        let error = decoder.next_frame().expect_err("4 GiB");
        assert_eq!(error.kind, LinkErrorKind::Protocol);
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
