//! Random numbers, fingerprints and hexadecimal digits.

use ring::rand::SecureRandom;
pub(crate) use weir_tables::hex;

/// Random bytes from the system.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    ring::rand::SystemRandom::new()
        .fill(&mut bytes)
        .expect("the kernel's random numbers do not fail once they are seeded");
    bytes
}

/// A random secret of 192 bits, in hexadecimal digits.
pub fn random_secret() -> String {
    hex(&random::<24>())
}

/// SHA-256 of bytes.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// A secret that is compared in a time that depends on the length only.
pub struct SecretBytes<'a>(pub &'a [u8]);

impl SecretBytes<'_> {
    /// Whether `given` is this secret.
    pub fn is_same(&self, given: &[u8]) -> bool {
        let differing = self.0.iter().zip(given).fold(0, |sum, (a, b)| sum | (a ^ b));
        std::hint::black_box(differing) == 0 && self.0.len() == given.len()
    }
}

/// Decodes what [`hex`] encodes.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != N * 2 || !text.is_ascii() {
        return None;
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).ok()?;
    }
    Some(bytes)
}
