//! Protocol Buffers' wire format, read in place: no copies, no allocations, no trusted lengths.
//!
//! From <https://protobuf.dev/programming-guides/encoding/>. Generated messages would allocate a
//! struct for every two bytes of a hostile body, a hundred times their size; this iterates over
//! fields, and the caller can stop at any time.
//!
//! ```text
//!  for field in FieldReader(bytes) {
//!      let (number, value) = field?;
//!      match number { 1 => name = value.text(), 2 => seconds = value.signed(), _ => {} }
//!  }
//! ```

/// The bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MalformedMessage;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WireValue<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

impl<'a> WireValue<'a> {
    /// A message or bytes; empty for another type, as if the field were absent.
    pub(crate) fn bytes(self) -> &'a [u8] {
        if let Self::Bytes(bytes) = self { bytes } else { &[] }
    }

    /// Text; `None` when it is not UTF-8.
    pub(crate) fn text(self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()).ok()
    }

    /// Any integer.
    pub(crate) fn integer(self) -> u64 {
        match self {
            Self::Varint(value) | Self::Fixed64(value) => value,
            Self::Fixed32(value) => u64::from(value),
            Self::Bytes(_) => 0,
        }
    }

    /// Any integer with a sign.
    pub(crate) fn signed(self) -> i64 {
        self.integer().cast_signed()
    }

    /// A double.
    pub(crate) fn double(self) -> f64 {
        match self {
            Self::Fixed64(bits) => f64::from_bits(bits),
            Self::Fixed32(bits) => f64::from(f32::from_bits(bits)),
            Self::Varint(_) | Self::Bytes(_) => 0.0,
        }
    }

    /// Repeated fixed 64 bit values: one, or packed into bytes.
    pub(crate) fn fixed64s(self) -> impl Iterator<Item = u64> + use<'a> {
        let one = if let Self::Fixed64(value) = self { Some(value) } else { None };
        let (chunks, _) = self.bytes().as_chunks::<8>();
        one.into_iter().chain(chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)))
    }

    /// Repeated varints: one, or packed into bytes.
    pub(crate) fn varints(self) -> VarintIter<'a> {
        let one = if let Self::Varint(value) = self { Some(value) } else { None };
        VarintIter { one, rest: self.bytes() }
    }
}

/// See [`WireValue::varints`].
pub(crate) struct VarintIter<'a> {
    one: Option<u64>,
    rest: &'a [u8],
}

impl Iterator for VarintIter<'_> {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        self.one.take().or_else(|| varint(&mut self.rest).ok())
    }
}

/// Iterates over the fields of a message: number and value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldReader<'a>(pub(crate) &'a [u8]);

impl<'a> FieldReader<'a> {
    fn read(&mut self) -> Result<Option<(u64, WireValue<'a>)>, MalformedMessage> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = varint(&mut self.0)?;
        let value = match key & 7 {
            0 => WireValue::Varint(varint(&mut self.0)?),
            1 => WireValue::Fixed64(u64::from_le_bytes(*self.take_array::<8>()?)),
            2 => {
                let length = usize::try_from(varint(&mut self.0)?).map_err(|_| MalformedMessage)?;
                let (bytes, rest) = self.0.split_at_checked(length).ok_or(MalformedMessage)?;
                self.0 = rest;
                WireValue::Bytes(bytes)
            }
            5 => WireValue::Fixed32(u32::from_le_bytes(*self.take_array::<4>()?)),
            // Groups are obsolete; no message read here has them.
            _ => return Err(MalformedMessage),
        };
        Ok(Some((key >> 3, value)))
    }

    fn take_array<const N: usize>(&mut self) -> Result<&'a [u8; N], MalformedMessage> {
        let (array, rest) = self.0.split_first_chunk::<N>().ok_or(MalformedMessage)?;
        self.0 = rest;
        Ok(array)
    }

    /// Iterates over the messages in the fields with this number.
    pub(crate) fn messages(
        self,
        wanted: u64,
    ) -> impl Iterator<Item = Result<&'a [u8], MalformedMessage>> {
        self.filter_map(move |field| match field {
            Ok((number, value)) => (number == wanted).then(|| Ok(value.bytes())),
            Err(error) => Some(Err(error)),
        })
    }
}

impl<'a> Iterator for FieldReader<'a> {
    type Item = Result<(u64, WireValue<'a>), MalformedMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        let field = self.read();
        if field.is_err() {
            // What follows a malformed field is unknown.
            self.0 = &[];
        }
        field.transpose()
    }
}

/// The text in bytes.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, MalformedMessage> {
    std::str::from_utf8(bytes).map_err(|_| MalformedMessage)
}

/// Reads a message of a name (field 1) and a value (field 2).
pub(crate) fn read_pair(bytes: &[u8]) -> Result<(&str, &str), MalformedMessage> {
    let (mut name, mut value) = ("", "");
    for field in FieldReader(bytes) {
        match field? {
            (1, text) => name = utf8(text.bytes())?,
            (2, text) => value = utf8(text.bytes())?,
            _ => {}
        }
    }
    Ok((name, value))
}

fn varint(bytes: &mut &[u8]) -> Result<u64, MalformedMessage> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(MalformedMessage)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(MalformedMessage)
}

/// Appends an integer.
pub(crate) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f | 0x80).expect("masked to a byte"));
        value >>= 7;
    }
    out.push(u8::try_from(value).expect("below 0x80"));
}

/// Wire types of fields that are written.
#[derive(Clone, Copy)]
pub(crate) enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
}

/// Appends the key of a field: its number and wire type.
pub(crate) fn push_key(out: &mut Vec<u8>, number: u64, wire_type: WireType) {
    push_varint(out, number << 3 | wire_type as u64);
}

/// Appends a field of bytes, text or a message.
pub(crate) fn push_bytes(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    push_key(out, number, WireType::Bytes);
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<(u64, WireValue<'_>)>, MalformedMessage> {
        FieldReader(bytes).collect()
    }

    #[test]
    fn the_example_of_the_encoding_guide_is_read() {
        assert_eq!(all(&[0x08, 0x96, 0x01]), Ok(vec![(1, WireValue::Varint(150))]));
        assert_eq!(all(b"\x12\x07testing"), Ok(vec![(2, WireValue::Bytes(b"testing"))]));
        let packed = [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05];
        let fields = all(&packed).expect("well formed");
        assert_eq!(fields[0].1.varints().collect::<Vec<_>>(), [3, 270, 86942]);
    }

    #[test]
    fn false_lengths_and_endless_integers_are_malformed() {
        assert_eq!(all(b"\x12\x08testing"), Err(MalformedMessage));
        assert_eq!(all(b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"), Err(MalformedMessage));
        assert_eq!(all(&[0x08, 0x80]), Err(MalformedMessage));
        assert_eq!(all(&[0x80; 12]), Err(MalformedMessage));
        assert_eq!(all(&[0x0b]), Err(MalformedMessage));
        assert_eq!(all(&[0x09, 1, 2]), Err(MalformedMessage));
    }

    #[test]
    fn written_fields_are_read_back() {
        arbtest::arbtest(|u| {
            let (number, value, bytes) =
                (u.int_in_range(1..=1000)?, u.arbitrary()?, u.arbitrary::<Vec<u8>>()?);
            let mut out = Vec::new();
            push_key(&mut out, number, WireType::Varint);
            push_varint(&mut out, value);
            push_bytes(&mut out, number, &bytes);
            let expected =
                vec![(number, WireValue::Varint(value)), (number, WireValue::Bytes(&bytes))];
            assert_eq!(all(&out), Ok(expected));
            Ok(())
        });
    }
}
