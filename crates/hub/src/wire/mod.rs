//! Captures that are dropped on the page, and the JSON of what was understood of one.

pub mod json;
mod upload;

pub(crate) use upload::{Question, answer as upload};

/// FNV-1a with a seed: stable between versions and machines, which the standard library's hashes are not.
pub fn fingerprint(bytes: &[u8], seed: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
