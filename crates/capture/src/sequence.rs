//! Wrapping sequence numbers: compares by the shorter distance (RFC 9293 §3.4).

/// Order of wrapping sequence numbers.
pub trait SequenceNumber: Copy {
    /// Whether it comes after `other`.
    fn is_after(self, other: Self) -> bool;
    /// Whether it comes before `other`.
    fn is_before(self, other: Self) -> bool;
    /// Whether it is `other` or comes before it.
    fn is_at_most(self, other: Self) -> bool;
    /// Bytes up to `end`, which must not be before it.
    fn distance_to(self, end: Self) -> u32;
}

impl SequenceNumber for u32 {
    #[inline]
    fn is_after(self, other: u32) -> bool {
        self.wrapping_sub(other).cast_signed() > 0
    }

    #[inline]
    fn is_before(self, other: u32) -> bool {
        self.wrapping_sub(other).cast_signed() < 0
    }

    #[inline]
    fn is_at_most(self, other: u32) -> bool {
        other.wrapping_sub(self).cast_signed() >= 0
    }

    #[inline]
    fn distance_to(self, end: u32) -> u32 {
        end.wrapping_sub(self)
    }
}
