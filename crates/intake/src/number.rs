//! Conversions of numbers to columns, and of bytes to hex digits.

use std::fmt::Write;

#[expect(
    clippy::cast_precision_loss,
    reason = "a double is what the column holds; above 2^53 it is rounded"
)]
pub(crate) fn unsigned(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a double is what the column holds; above 2^53 it is rounded"
)]
pub(crate) fn signed(value: i64) -> f64 {
    value as f64
}

/// Bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        write!(out, "{byte:02x}").expect("a string takes all");
        out
    })
}
