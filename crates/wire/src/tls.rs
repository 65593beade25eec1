//! TLS records: which bytes of a direction are application data.
//!
//! Sources: RFC 8446 §4.6, §5.1 and §6.1; RFC 5246 §6.2; RFC 9113 §4.1. In TLS 1.3 tickets, alerts,
//! key updates and the encrypted handshake all travel as application data; only order and length
//! tell them apart.
//!
//! ```text
//! client  hello                       Finished  request             close_notify (19 bytes)
//! server         hello  Finished …             tickets?  answer …
//! ```
//! A client may send its first request right behind its hello, and get the answer before its Finished
//! (RFC 8446 §2.3).
//!
//! A server that sends a record right after the client's Finished may send a ticket or an answer:
//! [`RecordMeaning::Ticket`] is an answer unless another one follows.

use crate::partial_head::PartialHead;

/// State of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TlsRecords {
    /// Remaining bytes of the current record.
    rest: u16,
    flags: u8,
    /// Handshake records of a client, tickets of a server.
    count: u8,
    meaning: RecordMeaning,
}

/// What a record is to requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum RecordMeaning {
    /// Handshake, alerts, key updates, and control frames of HTTP/2.
    #[default]
    Control,
    Data,
    /// A session ticket, or the first answer of a connection.
    Ticket,
}

/// Bytes of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordStretch {
    pub(crate) meaning: RecordMeaning,
    pub(crate) bytes: u32,
}

/// What decides the meaning of a record besides its own direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordContext {
    pub(crate) is_from_server: bool,
    pub(crate) peer: TlsRecords,
    /// Whether the connection's second request has begun.
    pub(crate) is_later: bool,
}

/// The next in-order bytes of a direction: `length` on the wire, of which `bytes` were captured.
pub(crate) struct TlsInput<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) length: u32,
}

const CHANGED_CIPHER: u8 = 1;
/// A handshake record came after the change of ciphers: TLS 1.2 or older.
const IS_OLD: u8 = 2;
const IS_TLS13: u8 = 4;
/// The client's Finished was sent.
const IS_READY: u8 = 8;
const HAS_HELLO: u8 = 16;
/// The client's hello announces early data.
const IS_EARLY: u8 = 32;
/// A hello that continues in another packet: it may announce early data.
const MAY_BE_EARLY: u8 = 64;

const HEADER_BYTES: usize = 5;
const RECORD_BYTES_MAX: u16 = (16 << 10) + 2048;
/// Lengths of a Finished in TLS 1.3, by hash and tag.
const FINISHED: [u16; 4] = [53, 69, 45, 61];
/// Records of a client's handshake in TLS 1.3: certificate, its proof, Finished.
const CLIENT_RECORDS_MAX: u8 = 4;
/// Tickets hold at most a few certificates.
const TICKET_BYTES_MAX: u16 = 2048;
const TICKETS_MAX: u8 = 8;
/// The end of early data in TLS 1.3, and a Finished behind the server's first record.
const END_OF_EARLY_DATA: u16 = 21;
/// Alert, key update, and HTTP/2's frames of 9, 13 and 17 bytes, in TLS 1.3.
const CONTROL: [u16; 5] = [19, 22, 26, 30, 34];
/// The same frames of HTTP/2 with the longer records of TLS 1.2.
const OLD_CONTROL: [u16; 5] = [25, 29, 33, 37, 41];

impl TlsRecords {
    /// Takes the next stretch of a record; `None` at the end of the input. A head that was not
    /// captured makes the rest of the input data of an unknown record.
    pub(crate) fn next(
        &mut self,
        partial: &mut Option<Box<PartialHead>>,
        input: &mut TlsInput<'_>,
        context: RecordContext,
    ) -> Option<RecordStretch> {
        if input.length == 0 {
            return None;
        }
        if self.rest > 0 {
            let bytes = input.consume(self.rest.into());
            self.rest -= u16::try_from(bytes).unwrap_or(self.rest);
            return Some(RecordStretch { meaning: self.meaning, bytes });
        }
        let known = partial.as_ref().map_or(0, |partial| partial.0.len());
        let missing = HEADER_BYTES.saturating_sub(known);
        let Some(more) = input.bytes.get(..missing) else {
            if input.bytes.len() < input.length as usize {
                return Some(self.unknown(partial, input));
            }
            partial.get_or_insert_with(|| Box::new(PartialHead(Vec::new()))).0.extend(input.bytes);
            let bytes = input.consume(u32::MAX);
            return Some(RecordStretch { meaning: RecordMeaning::Control, bytes });
        };
        let mut head = [0; HEADER_BYTES];
        if let Some(partial) = partial {
            head[..known.min(HEADER_BYTES)].copy_from_slice(&partial.0[..known.min(HEADER_BYTES)]);
        }
        head[HEADER_BYTES - missing..].copy_from_slice(more);
        let length = u16::from_be_bytes([head[3], head[4]]);
        let is_record = matches!(head, [0x14..=0x18, 3, 0..=4, ..]) && length <= RECORD_BYTES_MAX;
        if !is_record {
            return Some(self.unknown(partial, input));
        }
        *partial = None;
        let bytes = input.consume(u32::try_from(missing).unwrap_or(0));
        self.rest = length;
        self.meaning = self.begin(head[0], length, input.bytes, context);
        Some(RecordStretch { meaning: self.meaning, bytes })
    }

    fn unknown(
        &mut self,
        partial: &mut Option<Box<PartialHead>>,
        input: &mut TlsInput<'_>,
    ) -> RecordStretch {
        *partial = None;
        RecordStretch { meaning: RecordMeaning::Data, bytes: input.consume(u32::MAX) }
    }

    /// Whether a handshake record was sent.
    pub(crate) fn has_hello(self) -> bool {
        self.flags & HAS_HELLO != 0
    }

    /// Whether a client sent its hello and no Finished.
    pub(crate) fn has_only_begun(self) -> bool {
        self.has_hello() && self.flags & (IS_READY | IS_OLD) == 0
    }

    /// Tickets came before the first request, so its answer is none.
    pub(crate) fn end_tickets(&mut self) {
        self.count = TICKETS_MAX;
    }

    /// Skips bytes that the capture lacks.
    pub(crate) fn skip(&mut self, length: u32) {
        self.rest = u16::try_from(u32::from(self.rest).saturating_sub(length)).unwrap_or(0);
    }

    fn begin(
        &mut self,
        kind: u8,
        length: u16,
        body: &[u8],
        context: RecordContext,
    ) -> RecordMeaning {
        match kind {
            0x14 => self.flags |= CHANGED_CIPHER,
            0x16 => {
                // After a HelloRetryRequest, both sides send a hello behind the change of ciphers.
                let is_encrypted = self.flags & CHANGED_CIPHER != 0 && !is_hello(body, length);
                self.flags |= HAS_HELLO | if is_encrypted { IS_OLD } else { 0 };
                if context.is_from_server && is_tls13_hello(body) {
                    self.flags |= IS_TLS13;
                } else if !context.is_from_server {
                    self.note_early_data(length, body);
                }
            }
            0x17 if context.is_from_server => return self.begin_of_server(length, context),
            0x17 => return self.begin_of_client(length, context),
            _ => {}
        }
        RecordMeaning::Control
    }

    /// A second hello takes the announcement of the first one back.
    fn note_early_data(&mut self, length: u16, body: &[u8]) {
        let announces = match extensions_of_client(body) {
            Some(extensions) if extension(extensions, [0, 0x2a]).is_some() => IS_EARLY,
            _ if body.len() < usize::from(length) => MAY_BE_EARLY,
            _ => 0,
        };
        self.flags = self.flags & !(IS_EARLY | MAY_BE_EARLY) | announces;
    }

    /// Whether a client's record is early, or may still end what was.
    fn is_early(&mut self, server: TlsRecords) -> bool {
        if self.flags & MAY_BE_EARLY != 0 && !server.has_hello() {
            self.flags |= IS_EARLY;
        }
        self.flags & (IS_EARLY | IS_READY) == IS_EARLY
    }

    fn begin_of_client(&mut self, length: u16, context: RecordContext) -> RecordMeaning {
        if self.is_early(context.peer) {
            self.flags |= if FINISHED.contains(&length) { IS_READY } else { 0 };
            let is_control = self.flags & IS_READY != 0 || length == END_OF_EARLY_DATA;
            return if is_control { RecordMeaning::Control } else { RecordMeaning::Data };
        }
        let is_tls13 = context.peer.flags & IS_TLS13 != 0;
        if is_tls13 && self.flags & IS_READY == 0 {
            self.count += 1;
            if FINISHED.contains(&length) || self.count >= CLIENT_RECORDS_MAX {
                self.flags |= IS_READY;
            }
            return RecordMeaning::Control;
        }
        data_or_control(length, is_tls13)
    }

    fn begin_of_server(&mut self, length: u16, context: RecordContext) -> RecordMeaning {
        let is_client_ready = context.peer.flags & IS_READY != 0;
        if self.flags & (HAS_HELLO | IS_OLD) == HAS_HELLO && !is_client_ready {
            // Application data before any encrypted handshake record: the handshake of TLS 1.3.
            self.flags |= IS_TLS13;
            if context.peer.flags & IS_EARLY == 0 {
                return RecordMeaning::Control;
            }
            // A handshake that resumes a session has one or two records; answers may follow at once.
            self.count = self.count.saturating_add(1);
            let is_handshake = self.count == 1 || self.count == 2 && FINISHED.contains(&length);
            return if is_handshake { RecordMeaning::Control } else { RecordMeaning::Data };
        }
        let is_tls13 = self.flags & IS_TLS13 != 0;
        let may_be_ticket =
            is_tls13 && !context.is_later && length <= TICKET_BYTES_MAX && self.count < TICKETS_MAX;
        if may_be_ticket && !CONTROL.contains(&length) {
            self.count += 1;
            return RecordMeaning::Ticket;
        }
        data_or_control(length, is_tls13)
    }
}

fn data_or_control(length: u16, is_tls13: bool) -> RecordMeaning {
    let control = if is_tls13 { &CONTROL } else { &OLD_CONTROL };
    if control.contains(&length) { RecordMeaning::Control } else { RecordMeaning::Data }
}

impl TlsInput<'_> {
    fn consume(&mut self, count: u32) -> u32 {
        let count = count.min(self.length);
        self.length -= count;
        self.bytes = self.bytes.get(count as usize..).unwrap_or_default();
        count
    }
}

/// Bytes of a hello before its session id: type and length, version, random.
const SESSION_ID_AT: usize = 4 + 2 + 32;

/// Whether a record of `length` bytes is a hello in clear, by its type, length and version.
fn is_hello(message: &[u8], length: u16) -> bool {
    let [high, low] = length.saturating_sub(4).to_be_bytes();
    matches!(message, [1 | 2, 0, a, b, 3, ..] if [*a, *b] == [high, low])
}

/// What follows a value whose length is the number in its first `size` bytes.
fn behind(bytes: &[u8], size: usize) -> Option<&[u8]> {
    let (number, rest) = bytes.split_at_checked(size)?;
    let length = number.iter().fold(0, |number, byte| number << 8 | usize::from(*byte));
    rest.get(length..)
}

fn extensions_of_client(message: &[u8]) -> Option<&[u8]> {
    let session_id = message.get(SESSION_ID_AT..).filter(|_| message[0] == 1)?;
    let ciphers = behind(session_id, 1)?;
    behind(behind(ciphers, 2)?, 1)?.get(2..)
}

/// The value of an extension, as far as it was captured.
fn extension(mut rest: &[u8], wanted: [u8; 2]) -> Option<&[u8]> {
    while let [kind_high, kind_low, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if [*kind_high, *kind_low] == wanted {
            return Some(&after[..length.min(after.len())]);
        }
        rest = after.get(length..).unwrap_or_default();
    }
    None
}

/// Whether a handshake message is a ServerHello that selects TLS 1.3 (`supported_versions`).
fn is_tls13_hello(message: &[u8]) -> bool {
    let Some(session_id) = message.get(SESSION_ID_AT..).filter(|_| message[0] == 2) else {
        return false;
    };
    // Cipher suite, compression and the length of the extensions.
    let extensions = behind(session_id, 1).and_then(|rest| rest.get(2 + 1 + 2..));
    extension(extensions.unwrap_or_default(), [0, 0x2b]) == Some(&[3, 4][..])
}

#[cfg(test)]
mod tests {
    use super::{RecordContext, TlsInput, TlsRecords};

    fn record(kind: u8, length: u16) -> Vec<u8> {
        let mut out = vec![kind, 3, 3];
        out.extend(length.to_be_bytes());
        out.resize(5 + usize::from(length), 0xee);
        out
    }

    /// Both directions of a connection.
    #[derive(Default)]
    struct TlsConnection {
        sides: [TlsRecords; 2],
        is_later: bool,
    }

    impl TlsConnection {
        /// Meanings of the records, in pieces of 7 bytes.
        fn feed(&mut self, is_from_server: bool, records: &[(u8, u16)]) -> String {
            let bytes: Vec<u8> = records.iter().flat_map(|(kind, n)| record(*kind, *n)).collect();
            let [own, peer] = if is_from_server { [1, 0] } else { [0, 1] };
            let peer = self.sides[peer];
            let (mut partial, mut data) = (None, [0_u32; 3]);
            for piece in bytes.chunks(7) {
                let length = u32::try_from(piece.len()).expect("short");
                let mut input = TlsInput { bytes: piece, length };
                let context = RecordContext { is_from_server, peer, is_later: self.is_later };
                while let Some(part) = self.sides[own].next(&mut partial, &mut input, context) {
                    data[part.meaning as usize] += part.bytes;
                }
            }
            let [control, data, ticket] = data.map(|count| count > 5);
            let names = [(control, "control "), (data, "data "), (ticket, "ticket ")];
            names.iter().filter(|(is_there, _)| *is_there).map(|(_, name)| *name).collect()
        }
    }

    #[test]
    fn records_of_tls_1_3_are_told_apart_by_order_and_length() {
        let mut line = TlsConnection::default();
        assert_eq!(line.feed(false, &[(0x16, 250)]), "control ");
        assert_eq!(line.feed(true, &[(0x16, 122), (0x14, 1), (0x17, 30), (0x17, 900)]), "control ");
        assert_eq!(line.feed(true, &[(0x17, 290), (0x17, 69)]), "control ");
        assert_eq!(line.feed(false, &[(0x14, 1), (0x17, 69)]), "control ");
        assert_eq!(line.feed(false, &[(0x17, 120)]), "data ");
        assert_eq!(line.feed(true, &[(0x17, 250), (0x17, 250)]), "ticket ");
        assert_eq!(line.feed(true, &[(0x17, 5000)]), "data ");
        line.is_later = true;
        assert_eq!(line.feed(false, &[(0x17, 22)]), "control ");
        assert_eq!(line.feed(true, &[(0x17, 250)]), "data ");
        assert_eq!(line.feed(false, &[(0x17, 19)]), "control ");
    }

    #[test]
    fn a_client_certificate_and_tls_1_2_are_handshakes_too() {
        let mut line = TlsConnection::default();
        line.feed(false, &[(0x16, 250)]);
        line.feed(true, &[(0x16, 122), (0x17, 2000)]);
        assert_eq!(line.feed(false, &[(0x17, 1200), (0x17, 286), (0x17, 53)]), "control ");
        assert_eq!(line.feed(false, &[(0x17, 200)]), "data ");
        let mut line = TlsConnection::default();
        line.feed(false, &[(0x16, 250)]);
        line.feed(true, &[(0x16, 2500)]);
        line.feed(false, &[(0x16, 80), (0x14, 1), (0x16, 40)]);
        line.feed(true, &[(0x14, 1), (0x16, 40)]);
        assert_eq!(line.feed(false, &[(0x17, 69)]), "data ");
        assert_eq!(line.feed(true, &[(0x17, 250)]), "data ");
    }

    #[test]
    fn a_capture_that_begins_late_has_data_at_once() {
        let mut line = TlsConnection::default();
        assert_eq!(line.feed(false, &[(0x17, 69)]), "data ");
        assert_eq!(line.feed(true, &[(0x17, 250)]), "data ");
    }
}
