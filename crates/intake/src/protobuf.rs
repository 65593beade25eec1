//! Protocol Buffers' wire format, read in place: nothing is copied, nothing allocated, no length believed.
//!
//! From <https://protobuf.dev/programming-guides/encoding/>. Generated messages would make a struct of every two bytes
//! of a hostile body, a hundred times their size; this walks over fields and lets the reader stop.

/// The bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

impl<'a> Wire<'a> {
    /// A message or bytes; empty when it is something else, as if the field were absent.
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
    pub(crate) fn varints(self) -> Varints<'a> {
        let one = if let Self::Varint(value) = self { Some(value) } else { None };
        Varints { one, rest: self.bytes() }
    }
}

/// See [`Wire::varints`].
pub(crate) struct Varints<'a> {
    one: Option<u64>,
    rest: &'a [u8],
}

impl Iterator for Varints<'_> {
    type Item = u64;
    fn next(&mut self) -> Option<u64> {
        self.one.take().or_else(|| varint(&mut self.rest).ok())
    }
}

/// The fields of a message in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// Number and value of the next field; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = varint(&mut self.0)?;
        let value = match key & 7 {
            0 => Wire::Varint(varint(&mut self.0)?),
            1 => Wire::Fixed64(u64::from_le_bytes(*self.take_array::<8>()?)),
            2 => {
                let length = usize::try_from(varint(&mut self.0)?).map_err(|_| Malformed)?;
                let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
                self.0 = rest;
                Wire::Bytes(bytes)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(*self.take_array::<4>()?)),
            // Groups are of the past; nothing that is read here has them.
            _ => return Err(Malformed),
        };
        Ok(Some((key >> 3, value)))
    }

    fn take_array<const N: usize>(&mut self) -> Result<&'a [u8; N], Malformed> {
        let (array, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(array)
    }

    /// Calls `visit` with every field.
    pub(crate) fn each(
        mut self,
        mut visit: impl FnMut(u64, Wire<'a>) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        while let Some((number, value)) = self.next()? {
            visit(number, value)?;
        }
        Ok(())
    }
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(Malformed)?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Malformed)
}

/// Appends an integer.
pub(crate) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f | 0x80).expect("masked to a byte"));
        value >>= 7;
    }
    out.push(u8::try_from(value).expect("below 0x80"));
}

/// Appends the key of a field: its number and wire type (0, 1, 2 or 5).
pub(crate) fn push_key(out: &mut Vec<u8>, number: u64, wire_type: u64) {
    push_varint(out, number << 3 | wire_type);
}

/// Appends a field of bytes, text or a message.
pub(crate) fn push_bytes(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    push_key(out, number, 2);
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<(u64, Wire<'_>)>, Malformed> {
        let mut out = Vec::new();
        Fields(bytes).each(|number, value| {
            out.push((number, value));
            Ok(())
        })?;
        Ok(out)
    }

    #[test]
    fn the_example_of_the_encoding_guide_is_read() {
        assert_eq!(all(&[0x08, 0x96, 0x01]), Ok(vec![(1, Wire::Varint(150))]));
        assert_eq!(all(b"\x12\x07testing"), Ok(vec![(2, Wire::Bytes(b"testing"))]));
        let packed = [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05];
        let fields = all(&packed).expect("well formed");
        assert_eq!(fields[0].1.varints().collect::<Vec<_>>(), [3, 270, 86942]);
    }

    #[test]
    fn lengths_that_lie_and_endless_integers_are_malformed() {
        assert_eq!(all(b"\x12\x08testing"), Err(Malformed));
        assert_eq!(all(b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"), Err(Malformed));
        assert_eq!(all(&[0x08, 0x80]), Err(Malformed));
        assert_eq!(all(&[0x80; 12]), Err(Malformed));
        assert_eq!(all(&[0x0b]), Err(Malformed));
        assert_eq!(all(&[0x09, 1, 2]), Err(Malformed));
    }

    #[test]
    fn what_is_written_is_read() {
        arbtest::arbtest(|u| {
            let (number, value, bytes) =
                (u.int_in_range(1..=1000)?, u.arbitrary()?, u.arbitrary::<Vec<u8>>()?);
            let mut out = Vec::new();
            push_key(&mut out, number, 0);
            push_varint(&mut out, value);
            push_bytes(&mut out, number, &bytes);
            let expected = vec![(number, Wire::Varint(value)), (number, Wire::Bytes(&bytes))];
            assert_eq!(all(&out), Ok(expected));
            Ok(())
        });
    }
}
