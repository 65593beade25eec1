//! Names that agent and hub share on the wire: the media type of a parcel, and streams as text.

use weir_tables::StreamId;

/// The media type of an encoded parcel.
pub const PARCEL_TYPE: &str = "application/vnd.weir.parcel";

/// 32 hex digits.
pub fn parse_stream(text: &str) -> Option<StreamId> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(StreamId)
}

#[cfg(test)]
mod tests {
    use weir_tables::StreamId;

    use super::parse_stream;

    #[test]
    fn streams_are_32_hex_digits_and_nothing_else() {
        let stream = StreamId(0x1234_5678_9abc_def0);
        assert_eq!(parse_stream(&stream.to_string()), Some(stream));
        for bad in
            ["", "12", "+2345678901234567890123456789012", "g2345678901234567890123456789012"]
        {
            assert_eq!(parse_stream(bad), None, "{bad}");
        }
    }
}
