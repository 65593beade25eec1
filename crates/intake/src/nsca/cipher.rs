//! Encryption of NSCA: none (0), XOR (1), and AES-256 in 8-bit CFB (14, called "Rijndael-128" after its block).
//!
//! In 8-bit CFB the state is the last block of encrypted bytes, so a packet begins with the end of the one before.

use std::fmt;

use aes::Aes256;
use aes::cipher::KeyIvInit;

const AES_BLOCK_BYTES: usize = 16;
const AES_KEY_BYTES: usize = 32;

/// A method of encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NscaCipher {
    /// Method 0.
    None,
    /// Method 1, which hides nothing from a reader of the greeting that can guess the text.
    Xor,
    /// Method 14.
    Aes256,
}

impl NscaCipher {
    /// The method of a name, or of its number in `send_nsca.cfg`.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "none" | "0" => Some(Self::None),
            "xor" | "1" => Some(Self::Xor),
            "aes256" | "14" => Some(Self::Aes256),
            _ => None,
        }
    }
}

/// Method and password of all connections.
#[derive(Clone)]
pub struct NscaKey {
    /// The method.
    pub cipher: NscaCipher,
    /// The password; empty is none.
    pub password: String,
}

impl fmt::Debug for NscaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NscaKey({:?})", self.cipher)
    }
}

/// Decryption within a connection.
#[derive(Clone)]
pub(super) struct CipherState {
    key: NscaKey,
    /// What the next packet begins with: the greeting's bytes for XOR, a block for AES.
    iv: Vec<u8>,
}

impl CipherState {
    pub(super) fn new(key: &NscaKey, iv: &[u8]) -> Self {
        Self { key: key.clone(), iv: iv.to_vec() }
    }

    /// Decrypts a packet; the next one continues behind it.
    pub(super) fn open(&mut self, sealed: &[u8]) -> Vec<u8> {
        let mut bytes = sealed.to_vec();
        match self.key.cipher {
            NscaCipher::None => {}
            NscaCipher::Xor => xor(&mut bytes, &self.iv, self.key.password.as_bytes()),
            NscaCipher::Aes256 => {
                let (key, iv) = aes_parts(self.key.password.as_bytes(), &self.iv);
                cfb8::Decryptor::<Aes256>::new(&key.into(), &iv.into()).decrypt(&mut bytes);
                self.iv = sealed[sealed.len().saturating_sub(AES_BLOCK_BYTES)..].to_vec();
            }
        }
        bytes
    }
}

fn xor(bytes: &mut [u8], iv: &[u8], password: &[u8]) {
    for key in [iv, password] {
        bytes.iter_mut().zip(key.iter().cycle()).for_each(|(byte, with)| *byte ^= with);
    }
}

/// The password padded with zeros to the length of a key, and the first block of the IV.
fn aes_parts(password: &[u8], iv: &[u8]) -> ([u8; AES_KEY_BYTES], [u8; AES_BLOCK_BYTES]) {
    let (mut key, mut block) = ([0; AES_KEY_BYTES], [0; AES_BLOCK_BYTES]);
    key.iter_mut().zip(password).for_each(|(byte, letter)| *byte = *letter);
    block.iter_mut().zip(iv).for_each(|(byte, from)| *byte = *from);
    (key, block)
}

#[cfg(test)]
pub(super) fn seal(key: &NscaKey, iv: &[u8], packet: &[u8]) -> Vec<u8> {
    let mut bytes = packet.to_vec();
    match key.cipher {
        NscaCipher::None => {}
        NscaCipher::Xor => xor(&mut bytes, iv, key.password.as_bytes()),
        NscaCipher::Aes256 => {
            let (aes, iv) = aes_parts(key.password.as_bytes(), iv);
            cfb8::Encryptor::<Aes256>::new(&aes.into(), &iv.into()).encrypt(&mut bytes);
        }
    }
    bytes
}
