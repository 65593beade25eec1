//! DNS messages, as far as addresses need them: RFC 1035 §4.

use std::net::IpAddr;

/// Bytes of a message before its first question.
pub const HEADER_BYTES: usize = 12;
const CLASS_IN: u16 = 1;
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;

/// Type of the addresses that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordType {
    /// IPv4.
    A,
    /// IPv6.
    Aaaa,
}

impl RecordType {
    fn code(self) -> u16 {
        match self {
            Self::A => TYPE_A,
            Self::Aaaa => TYPE_AAAA,
        }
    }
}

/// A name server's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The id of the query.
    pub id: u16,
    /// The response code.
    pub code: u8,
    /// Whether a part is missing, which TCP would bring.
    pub is_truncated: bool,
    /// Addresses of both families.
    pub addresses: Vec<IpAddr>,
    /// The shortest TTL of all records: the TTL of an alias applies too.
    pub ttl_seconds: Option<u32>,
}

/// Encodes a query: recursion desired, one question.
pub fn encode_question(id: u16, name: &str, kind: RecordType) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[..2].copy_from_slice(&id.to_be_bytes());
    bytes[2] = 1;
    bytes[5] = 1;
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap_or_default());
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend_from_slice(&kind.code().to_be_bytes());
    bytes.extend_from_slice(&CLASS_IN.to_be_bytes());
    bytes
}

/// Parses an answer; `None` when it is no complete one.
pub fn parse_answer(bytes: &[u8]) -> Option<Answer> {
    let flags = u16_at(bytes, 2)?;
    if flags & 0x8000 == 0 {
        return None;
    }
    let mut answer = Answer {
        id: u16_at(bytes, 0)?,
        code: u8::try_from(flags & 0x0f).unwrap_or_default(),
        is_truncated: flags & 0x0200 != 0,
        ..Answer::default()
    };
    let mut at = HEADER_BYTES;
    for _ in 0..u16_at(bytes, 4)? {
        at = after_name(bytes, at)? + 4;
    }
    for _ in 0..u16_at(bytes, 6)? {
        match read_record(bytes, at, &mut answer) {
            Some(next) => at = next,
            // The cut may be inside a record.
            None if answer.is_truncated => break,
            None => return None,
        }
    }
    Some(answer)
}

/// Adds the record at an offset to `answer`; returns the offset behind it.
fn read_record(bytes: &[u8], at: usize, answer: &mut Answer) -> Option<usize> {
    let at = after_name(bytes, at)?;
    let (kind, length) = (u16_at(bytes, at)?, usize::from(u16_at(bytes, at + 8)?));
    let ttl = u32::from(u16_at(bytes, at + 4)?) << 16 | u32::from(u16_at(bytes, at + 6)?);
    // One with the highest bit set is none (RFC 2181 §8).
    let ttl = if ttl >> 31 == 1 { 0 } else { ttl };
    let data = bytes.get(at + 10..at + 10 + length)?;
    let address = match kind {
        TYPE_A => <[u8; 4]>::try_from(data).ok().map(IpAddr::from),
        TYPE_AAAA => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
        _ => None,
    };
    answer.addresses.extend(address);
    answer.ttl_seconds = Some(answer.ttl_seconds.map_or(ttl, |known| known.min(ttl)));
    Some(at + 10 + length)
}

/// The name of a response code.
pub fn code_name(code: u8) -> &'static str {
    match code {
        0 => "NOERROR",
        1 => "FORMERR",
        2 => "SERVFAIL",
        3 => "NXDOMAIN",
        4 => "NOTIMP",
        5 => "REFUSED",
        _ => "OTHER",
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Offset behind a name, which ends at its zero byte or its first pointer.
fn after_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            0 => return Some(at + 1),
            length if length & 0xc0 == 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, ttl: u32, data: &[u8]) -> Vec<u8> {
        let length = u8::try_from(data.len()).unwrap();
        let mut bytes = vec![0xc0, 12, 0, kind, 0, 1];
        bytes.extend(ttl.to_be_bytes());
        bytes.extend([0, length]);
        bytes.extend(data);
        bytes
    }

    fn answer(flags: [u8; 2], records: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = encode_question(7, "www.example.org", RecordType::A);
        bytes[2..4].copy_from_slice(&flags);
        bytes[7] = u8::try_from(records.len()).unwrap();
        bytes.extend(records.concat());
        bytes
    }

    /// envoyproxy/envoy#28925: a short alias to a name with a long TTL.
    #[test]
    fn addresses_and_the_shortest_time_to_live_are_read() {
        let alias = record(5, 10, &[0xc0, 12]);
        let address = record(1, 86_400, &[192, 0, 2, 1]);
        let read = parse_answer(&answer([0x81, 0x80], &[alias, address])).unwrap();
        assert_eq!((read.id, read.code, read.ttl_seconds), (7, 0, Some(10)));
        assert_eq!(read.addresses, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
        let odd = parse_answer(&answer([0x81, 0x80], &[record(1, 1 << 31, &[192, 0, 2, 1])]));
        assert_eq!(odd.unwrap().ttl_seconds, Some(0));
        let question = encode_question(7, "a", RecordType::Aaaa);
        assert_eq!(parse_answer(&question), None, "a question is no answer");
    }

    #[test]
    fn a_truncated_answer_may_end_inside_a_record() {
        let records = [record(1, 5, &[192, 0, 2, 1]), record(1, 5, &[192, 0, 2, 2])];
        let whole = answer([0x83, 0x80], &records);
        let cut = parse_answer(&whole[..whole.len() - 3]).unwrap();
        assert!(cut.is_truncated);
        assert_eq!(cut.addresses.len(), 1);
        let odd = answer([0x81, 0x80], &records);
        assert_eq!(parse_answer(&odd[..odd.len() - 3]), None, "it does not say that it is cut");
    }

    #[test]
    fn any_bytes_are_read_or_refused_without_panic() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            let _ = parse_answer(&bytes);
            Ok(())
        });
    }
}
