//! HPACK: the fields of a header block, with the table that earlier blocks filled (RFC 7541).
//!
//! Of a field only what judges a request is kept; of all others, the table keeps the length, since
//! lengths decide which entries are evicted. After a gap in the capture the table is unknown:
//! references into it give no field, and entries that are inserted from then on have their right
//! index, since the newest comes first.

mod huffman;

use std::collections::VecDeque;

/// Fields that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldName {
    /// `:method`.
    Method,
    /// `:path`.
    Path,
    /// `:authority` or `host`.
    Authority,
    /// `:status`.
    Status,
    /// `content-type`.
    ContentType,
    /// `grpc-status`.
    GrpcStatus,
    /// `x-request-id`.
    RequestId,
    /// `traceparent`.
    TraceParent,
    /// Any other.
    Other,
}

/// A field of a block.
pub struct HeaderField<'a> {
    /// Its name.
    pub name: FieldName,
    /// Its text; an entry of the table that is not read has none.
    pub value: &'a [u8],
}

/// Fields that decoders remember for one direction.
#[derive(Debug)]
pub struct HeaderTable {
    /// The newest first.
    entries: VecDeque<TableEntry>,
    bytes: u32,
    bytes_max: u32,
}

#[derive(Debug)]
struct TableEntry {
    name: FieldName,
    name_bytes: u32,
    value_bytes: u32,
    /// Empty for fields that are not read.
    value: Box<[u8]>,
}

/// Limit of a table; peers that agree on more lose what exceeds it.
const TABLE_BYTES_MAX: u32 = 64 << 10;
/// Size before the peers agree on another.
const TABLE_BYTES: u32 = 4096;
/// What an entry takes beyond its text (RFC 7541 §4.1).
const ENTRY_BYTES: u32 = 32;
/// Entries of the static table.
const STATIC_ENTRIES: u32 = 61;

impl Default for HeaderTable {
    fn default() -> Self {
        Self::new()
    }
}

impl HeaderTable {
    /// A table of a connection that begins.
    pub fn new() -> Self {
        Self { entries: VecDeque::new(), bytes: 0, bytes_max: TABLE_BYTES }
    }

    /// Drops what is no longer certain; from now on the size agreed upon is unknown, too.
    pub fn forget(&mut self) {
        *self = Self { bytes_max: TABLE_BYTES_MAX, ..Self::new() };
    }

    /// Decodes a block, of which the end may be missing; `false` when it breaks off or is wrong, so
    /// that the table is no longer certain.
    pub fn decode(&mut self, block: &[u8], each: &mut impl FnMut(HeaderField<'_>)) -> bool {
        let mut input = BlockInput(block);
        let mut scratch = FieldText::default();
        while !input.0.is_empty() {
            if self.field(&mut input, &mut scratch, each).is_none() {
                return false;
            }
        }
        true
    }

    fn field(
        &mut self,
        input: &mut BlockInput<'_>,
        scratch: &mut FieldText,
        each: &mut impl FnMut(HeaderField<'_>),
    ) -> Option<()> {
        let first = *input.0.first()?;
        if first & 0x80 != 0 {
            let index = input.integer(7)?;
            self.indexed(index, each);
            return Some(());
        }
        if first & 0xe0 == 0x20 {
            let size = input.integer(5)?;
            self.bytes_max = size.min(TABLE_BYTES_MAX);
            self.evict(0);
            return Some(());
        }
        let is_inserted = first & 0x40 != 0;
        let index = input.integer(if is_inserted { 6 } else { 4 })?;
        let (name, name_bytes) = match index {
            0 => {
                input.string(&mut scratch.name)?;
                (FieldName::of(&scratch.name), length_of(&scratch.name))
            }
            index => self.name(index),
        };
        input.string(&mut scratch.value)?;
        let value = scratch.value.as_slice();
        each(HeaderField { name, value });
        if is_inserted {
            self.insert(TableEntry {
                name,
                name_bytes,
                value_bytes: length_of(value),
                value: if name == FieldName::Other { Box::default() } else { value.into() },
            });
        }
        Some(())
    }

    fn indexed(&self, index: u32, each: &mut impl FnMut(HeaderField<'_>)) {
        let field = match static_value(index) {
            Some((name, value)) => HeaderField { name, value },
            None => match self.entry(index) {
                Some(entry) => HeaderField { name: entry.name, value: &entry.value },
                None => return,
            },
        };
        each(field);
    }

    fn entry(&self, index: u32) -> Option<&TableEntry> {
        self.entries.get(index.checked_sub(STATIC_ENTRIES + 1)? as usize)
    }

    /// Name of an entry, with its length. Lengths of unknown names are too short, so that entries
    /// are evicted later than they are at the peer, which then refers to them no more.
    fn name(&self, index: u32) -> (FieldName, u32) {
        if index <= STATIC_ENTRIES {
            return static_name(index);
        }
        self.entry(index).map_or((FieldName::Other, 0), |entry| (entry.name, entry.name_bytes))
    }

    fn insert(&mut self, entry: TableEntry) {
        let bytes = entry.bytes();
        self.evict(bytes);
        // An entry larger than the table empties it (RFC 7541 §4.4).
        if bytes <= self.bytes_max {
            self.bytes += bytes;
            self.entries.push_front(entry);
        }
    }

    /// Evicts the oldest entries until there is space for `bytes`.
    fn evict(&mut self, bytes: u32) {
        while self.bytes.saturating_add(bytes) > self.bytes_max {
            let Some(entry) = self.entries.pop_back() else { return };
            self.bytes -= entry.bytes();
        }
    }
}

impl TableEntry {
    fn bytes(&self) -> u32 {
        self.name_bytes.saturating_add(self.value_bytes).saturating_add(ENTRY_BYTES)
    }
}

/// Buffers for the text of a field.
#[derive(Default)]
struct FieldText {
    name: Vec<u8>,
    value: Vec<u8>,
}

struct BlockInput<'a>(&'a [u8]);

impl BlockInput<'_> {
    /// Integer whose first byte has `bits` bits of it (RFC 7541 §5.1).
    fn integer(&mut self, bits: u32) -> Option<u32> {
        let (first, mut rest) = self.0.split_first()?;
        let mask = (1_u32 << bits) - 1;
        let mut number = u32::from(*first) & mask;
        if number == mask {
            let mut shift = 0;
            loop {
                let (byte, more) = rest.split_first()?;
                rest = more;
                let part = u32::from(byte & 0x7f);
                number = number.checked_add(part.checked_shl(shift)?)?;
                if byte & 0x80 == 0 {
                    break;
                }
                shift += 7;
                // Larger numbers are no lengths of a block that is kept.
                if shift > 21 {
                    return None;
                }
            }
        }
        self.0 = rest;
        Some(number)
    }

    fn string(&mut self, out: &mut Vec<u8>) -> Option<()> {
        out.clear();
        let is_huffman = self.0.first()? & 0x80 != 0;
        let length = self.integer(7)? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        if is_huffman {
            return huffman::decode(text, out);
        }
        out.extend_from_slice(text);
        Some(())
    }
}

fn length_of(text: &[u8]) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

impl FieldName {
    fn of(name: &[u8]) -> Self {
        match name {
            b":method" => Self::Method,
            b":path" => Self::Path,
            b":authority" | b"host" => Self::Authority,
            b":status" => Self::Status,
            b"content-type" => Self::ContentType,
            b"grpc-status" => Self::GrpcStatus,
            b"x-request-id" => Self::RequestId,
            b"traceparent" => Self::TraceParent,
            _ => Self::Other,
        }
    }
}

/// Name of an entry of the static table (RFC 7541 appendix A), with its length.
fn static_name(index: u32) -> (FieldName, u32) {
    /// Lengths of the names, from index 1 on.
    const NAME_BYTES: [u8; 61] = [
        10, 7, 7, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16,
        14, 16, 13, 12, 6, 4, 4, 6, 7, 4, 4, 8, 17, 13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11,
        6, 10, 25, 17, 10, 4, 3, 16,
    ];
    let name = match index {
        1 | 38 => FieldName::Authority,
        2 | 3 => FieldName::Method,
        4 | 5 => FieldName::Path,
        8..=14 => FieldName::Status,
        31 => FieldName::ContentType,
        _ => FieldName::Other,
    };
    let bytes = (index as usize).checked_sub(1).and_then(|at| NAME_BYTES.get(at));
    (name, bytes.copied().unwrap_or(0).into())
}

/// Field that an index of the static table stands for; `None` beyond the table.
fn static_value(index: u32) -> Option<(FieldName, &'static [u8])> {
    let value: &[u8] = match index {
        2 => b"GET",
        3 => b"POST",
        4 => b"/",
        5 => b"/index.html",
        8 => b"200",
        9 => b"204",
        10 => b"206",
        11 => b"304",
        12 => b"400",
        13 => b"404",
        14 => b"500",
        _ => b"",
    };
    (index <= STATIC_ENTRIES).then(|| (static_name(index).0, value))
}

#[cfg(test)]
mod tests;
