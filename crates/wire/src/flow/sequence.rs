//! Wrapping sequence numbers: compares by the shorter distance (RFC 9293 §3.4).

/// Whether `a` comes after `b`.
#[inline]
pub(crate) fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// Whether `a` comes before `b`.
#[inline]
pub(crate) fn is_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

/// Bytes from `from` to `to`, which must not be before it.
#[inline]
pub(crate) fn span(from: u32, to: u32) -> u32 {
    to.wrapping_sub(from)
}
