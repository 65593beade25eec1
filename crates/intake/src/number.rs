//! Conversions of numbers to columns.

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
