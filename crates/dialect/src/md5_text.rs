//! MD5 of a text, for `md5(…)`: a name for a group of rows, not for security.

use md5::{Digest, Md5};

/// MD5 of the bytes, as 32 hexadecimal digits.
pub fn md5_text(bytes: &[u8]) -> String {
    weir_tables::hex(&Md5::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_rfc() {
        assert_eq!(md5_text(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(md5_text(b"message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        let long = "1234567890".repeat(8);
        assert_eq!(md5_text(long.as_bytes()), "57edf4a22be3c955ac49da2e2107b67a");
    }
}
