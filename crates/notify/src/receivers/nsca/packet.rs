//! NSCA's packet of version 3 and its encryption, as `nsca.h` and `utils.c` of NSCA 2.10 have them.
//!
//! ```text
//!   0  version  i16    4  CRC-32  u32     8  time  u32    12  state  i16
//!  14  host  64 bytes    78  service  128    206  output  4096    4302  2 bytes of padding
//! ```
//!
//! Numbers are big-endian. Method 14 is called "Rijndael-128" after its block, but its key has 32
//! bytes: AES-256 in 8-bit CFB.

use aes::Aes256;
use aes::cipher::KeyIvInit;

use crate::forms::cut_bytes;
use crate::settings::SecretText;

pub(crate) const PACKET_BYTES: usize = 4304;
pub(crate) const IV_BYTES: usize = 128;
/// IV and time.
pub(crate) const GREETING_BYTES: usize = IV_BYTES + 4;
const VERSION: u16 = 3;
const AES_IV_BYTES: usize = 16;
const AES_KEY_BYTES: usize = 32;

/// What the server sends first.
pub(crate) struct ServerGreeting {
    pub(crate) iv: [u8; IV_BYTES],
    /// The server's time, which the packet repeats.
    pub(crate) time: [u8; 4],
}

impl ServerGreeting {
    pub(crate) fn read(bytes: &[u8; GREETING_BYTES]) -> Self {
        let (mut iv, mut time) = ([0; IV_BYTES], [0; 4]);
        iv.copy_from_slice(&bytes[..IV_BYTES]);
        time.copy_from_slice(&bytes[IV_BYTES..]);
        Self { iv, time }
    }
}

/// A passive check result.
pub(crate) struct CheckResult {
    pub(crate) state: u8,
    pub(crate) host: String,
    pub(crate) service: String,
    pub(crate) output: String,
}

impl CheckResult {
    /// The packet in the clear. Every text ends with a zero within its field.
    pub(crate) fn packet(&self, time: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0; PACKET_BYTES];
        packet[..2].copy_from_slice(&VERSION.to_be_bytes());
        packet[8..12].copy_from_slice(&time);
        packet[12..14].copy_from_slice(&u16::from(self.state).to_be_bytes());
        for (start, size, text) in
            [(14, 64, &self.host), (78, 128, &self.service), (206, 4096, &self.output)]
        {
            let text = cut_bytes(text, size - 1);
            packet[start..start + text.len()].copy_from_slice(text.as_bytes());
        }
        let sum = crc32fast::hash(&packet);
        packet[4..8].copy_from_slice(&sum.to_be_bytes());
        packet
    }
}

/// How packets are encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketEncryption {
    /// Method 0.
    None,
    /// Method 1, which hides nothing from those who see the IV and know the text.
    Xor,
    /// Method 14.
    Aes256,
}

impl PacketEncryption {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            "none" | "0" => Some(Self::None),
            "xor" | "1" => Some(Self::Xor),
            "aes256" | "14" => Some(Self::Aes256),
            _ => None,
        }
    }

    pub(crate) fn apply(self, packet: &mut [u8], iv: &[u8], password: &SecretText) {
        match self {
            Self::None => {}
            Self::Xor => xor(packet, iv, password),
            Self::Aes256 => {
                let (key, iv) = aes_parts(iv, password);
                cfb8::Encryptor::<Aes256>::new(&key.into(), &iv.into()).encrypt(packet);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn undo(self, packet: &mut [u8], iv: &[u8], password: &SecretText) {
        match self {
            Self::None => {}
            Self::Xor => xor(packet, iv, password),
            Self::Aes256 => {
                let (key, iv) = aes_parts(iv, password);
                cfb8::Decryptor::<Aes256>::new(&key.into(), &iv.into()).decrypt(packet);
            }
        }
    }
}

fn xor(packet: &mut [u8], iv: &[u8], password: &SecretText) {
    for key in [iv, password.0.as_bytes()] {
        packet.iter_mut().zip(key.iter().cycle()).for_each(|(byte, with)| *byte ^= with);
    }
}

/// The password padded with zeros to the length of a key, and the start of the server's IV.
fn aes_parts(iv: &[u8], password: &SecretText) -> ([u8; AES_KEY_BYTES], [u8; AES_IV_BYTES]) {
    let (mut key, mut start) = ([0; AES_KEY_BYTES], [0; AES_IV_BYTES]);
    key.iter_mut().zip(password.0.bytes()).for_each(|(byte, letter)| *byte = letter);
    start.iter_mut().zip(iv).for_each(|(byte, from)| *byte = *from);
    (key, start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn aes_is_that_of_nist() {
        // SP 800-38A, F.3.11: CFB8-AES256.Encrypt.
        let key = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
        let iv = bytes("000102030405060708090a0b0c0d0e0f");
        let mut text = bytes("6bc1bee22e409f96e93d7e117393172aae2d");
        let key: [u8; 32] = bytes(key).try_into().unwrap();
        let iv: [u8; 16] = iv.try_into().unwrap();
        cfb8::Encryptor::<Aes256>::new(&key.into(), &iv.into()).encrypt(&mut text);
        assert_eq!(text, bytes("dc1f1a8520a64db55fcc8ac554844e889700"));
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let pairs = (0..hex.len()).step_by(2);
        pairs.map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn a_password_is_padded_or_cut_to_the_key() {
        let (key, _) = aes_parts(&[7; IV_BYTES], &SecretText("ab".to_owned()));
        assert_eq!((&key[..3], key[31]), (&b"ab\0"[..], 0));
        let (key, iv) = aes_parts(&[7; IV_BYTES], &SecretText("x".repeat(99)));
        assert_eq!((key, iv), ([b'x'; 32], [7; 16]));
    }
}
