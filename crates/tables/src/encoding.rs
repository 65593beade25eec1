//! Texts of values for other languages: literals of SQL and hexadecimal digits.

/// Quotes a text as an SQL literal, so that it cannot end the literal.
pub fn sql_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Encodes bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// Digit of a number below 16.
fn digit(half: u8) -> char {
    char::from(b"0123456789abcdef"[usize::from(half)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_in_a_literal_are_doubled() {
        assert_eq!(sql_literal("it's"), "'it''s'");
    }

    #[test]
    fn every_byte_has_two_digits() {
        assert_eq!(hex(&[0, 0x0f, 0xa0, 0xff]), "000fa0ff");
        assert_eq!(hex(&[]), "");
    }
}
