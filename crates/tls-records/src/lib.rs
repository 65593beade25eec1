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
//! [`RecordMeaning::Ticket`] is an answer unless another one follows. Two of one length are tickets.
//!
//! A client may put its certificate, the proof and its Finished into one record of any length. Such a
//! handshake is over when the server sends again, and what came behind its first record was a request.
//!
//! A server of HTTP/2 begins with its settings and acknowledges the client's. Tickets come before them, and
//! what comes behind both is an answer.
//!
//! Java adds 16 bytes to each record, and OpenSSL fills a server's records up to a multiple if configured
//! to.

/// State of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TlsRecords {
    /// Remaining bytes of the current record.
    rest: u16,
    flags: u16,
    /// Handshake records of a client, tickets of a server.
    count: u8,
    meaning: RecordMeaning,
    /// Length of the server's last ticket.
    ticket: u16,
    /// Start of a record's header whose rest is still to come.
    header: [u8; HEADER_BYTES - 1],
    header_bytes: u8,
}

/// What a record is to requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordMeaning {
    /// Handshake, alerts, key updates, and control frames of HTTP/2.
    #[default]
    Control,
    /// Part of a request or an answer.
    Data,
    /// A session ticket, or the first answer of a connection.
    Ticket,
    /// A ticket behind one of the same length.
    SecondTicket,
    /// Unlike the ticket before it: most likely the first answer.
    Answer,
    /// Settings and windows of HTTP/2, or a very short first answer.
    Frame,
    /// As long as a control frame: an answer if nothing else comes.
    Short,
}

/// Bytes of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordStretch {
    /// What its record is.
    pub meaning: RecordMeaning,
    /// Its length.
    pub bytes: u32,
}

/// What decides the meaning of a record besides its own direction.
#[derive(Debug, Clone, Copy)]
pub struct RecordContext {
    /// Whether the server sends it.
    pub is_from_server: bool,
    /// State of the other direction.
    pub peer: TlsRecords,
    /// Whether the connection's second request has begun.
    pub is_later: bool,
}

/// The next in-order bytes of a direction: `length` on the wire, of which `bytes` were captured.
pub struct TlsInput<'a> {
    /// What was captured.
    pub bytes: &'a [u8],
    /// Length on the wire.
    pub length: u32,
}

const CHANGED_CIPHER: u16 = 1;
/// A handshake record came after the change of ciphers: TLS 1.2 or older.
const IS_OLD: u16 = 2;
const IS_TLS13: u16 = 4;
/// The client's Finished was sent.
const IS_READY: u16 = 8;
const HAS_HELLO: u16 = 16;
/// The client's hello announces early data.
const IS_EARLY: u16 = 32;
/// A hello that continues in another packet: it may announce early data.
const MAY_BE_EARLY: u16 = 64;
/// The client has acknowledged settings of HTTP/2.
const IS_HTTP2: u16 = 128;
/// The server chose a cipher with SHA-256, so a Finished has 32 bytes.
const HAS_SHA256: u16 = 256;
/// The client is Java, by the length of its Finished.
const IS_PADDED: u16 = 512;
/// The client may be Java: its handshake is one record.
const MAY_BE_PADDED: u16 = 1024;
/// The client offers no way to use a ticket (`psk_key_exchange_modes`).
const HAS_NO_TICKETS: u16 = 2048;
/// The server has sent what may be settings of HTTP/2.
const HAS_FRAME: u16 = 4096;
/// What may acknowledge the client's settings came behind them.
const HAS_ACKNOWLEDGED: u16 = 8192;
/// An alert in clear was sent.
const HAS_ALERT: u16 = 16_384;

const HEADER_BYTES: usize = 5;
const RECORD_BYTES_MAX: u16 = (16 << 10) + 2048;
/// Lengths of a Finished in TLS 1.3, by hash and tag.
const FINISHED: [u16; 4] = [53, 69, 45, 61];
/// Lengths with Java's padding, where no other Finished has them.
const PADDED_FINISHED: [u16; 2] = [77, 85];
const JAVA_PADDING: u16 = 16;
/// Records of a client's handshake in TLS 1.3: certificate, its proof, Finished.
const CLIENT_RECORDS_MAX: u8 = 4;
/// Tickets hold at most a few certificates.
const TICKET_BYTES_MAX: u16 = 2048;
/// Longer records of one length are parts of an answer.
const SECOND_TICKET_BYTES_MAX: u16 = 700;
/// Settings of HTTP/2 with all parameters in use, and an update of the window.
const FRAME_BYTES_MAX: u16 = 80;
/// OpenSSL's padding is a multiple of this, most likely; the tag comes on top.
const PADDING: u16 = 128;
const PADDED_BYTES_MAX: u16 = 8192 + TAG;
const TAG: u16 = 16;
const TICKETS_MAX: u8 = 8;
/// The end of early data in TLS 1.3, and a Finished behind the server's first record.
const END_OF_EARLY_DATA: u16 = 21;
/// Alert, key update, and HTTP/2's frames of 9, 13 and 17 bytes, in TLS 1.3.
const CONTROL: [u16; 5] = [ALERT, 22, SETTINGS_ACK, 30, 34];
const ALERT: u16 = 19;
/// Alert and key update with Java's padding.
const PADDED_CONTROL: [u16; 2] = [ALERT + JAVA_PADDING, 22 + JAVA_PADDING];
const SETTINGS_ACK: u16 = 26;
/// The same with an update of the window.
const SETTINGS_ACK_AND_WINDOW: u16 = 39;
/// The same frames of HTTP/2 with the longer records of TLS 1.2.
const OLD_CONTROL: [u16; 5] = [25, 29, 33, 37, 41];
const OLD_SETTINGS_ACK: [u16; 2] = [25, 33];

impl TlsRecords {
    /// Takes the next stretch of a record; `None` at the end of the input. A head that was not
    /// captured makes the rest of the input data of an unknown record.
    pub fn next(
        &mut self,
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
        let known = usize::from(self.header_bytes);
        let missing = HEADER_BYTES - known;
        let Some(more) = input.bytes.get(..missing) else {
            if input.bytes.len() < input.length as usize {
                return Some(self.unknown(input));
            }
            self.header[known..known + input.bytes.len()].copy_from_slice(input.bytes);
            self.header_bytes += u8::try_from(input.bytes.len()).unwrap_or(0);
            let bytes = input.consume(u32::MAX);
            return Some(RecordStretch { meaning: RecordMeaning::Control, bytes });
        };
        let mut head = [0; HEADER_BYTES];
        head[..known].copy_from_slice(&self.header[..known]);
        head[known..].copy_from_slice(more);
        let length = u16::from_be_bytes([head[3], head[4]]);
        let is_record = matches!(head, [0x14..=0x18, 3, 0..=4, ..]) && length <= RECORD_BYTES_MAX;
        if !is_record {
            return Some(self.unknown(input));
        }
        self.header_bytes = 0;
        let bytes = input.consume(u32::try_from(missing).unwrap_or(0));
        self.rest = length;
        self.meaning = self.begin(head[0], length, input.bytes, context);
        Some(RecordStretch { meaning: self.meaning, bytes })
    }

    fn unknown(&mut self, input: &mut TlsInput<'_>) -> RecordStretch {
        self.header_bytes = 0;
        RecordStretch { meaning: RecordMeaning::Data, bytes: input.consume(u32::MAX) }
    }

    /// Whether a handshake record was sent.
    pub fn has_hello(self) -> bool {
        self.flags & HAS_HELLO != 0
    }

    /// Whether a client sent its hello and no Finished.
    pub fn has_only_begun(self) -> bool {
        self.has_hello() && self.flags & (IS_READY | IS_OLD) == 0
    }

    /// Whether an alert was sent in clear.
    pub fn has_alert(self) -> bool {
        self.flags & HAS_ALERT != 0
    }

    /// Whether the server chose TLS 1.3.
    pub fn is_tls13(self) -> bool {
        self.flags & IS_TLS13 != 0
    }

    /// Whether a client's handshake has begun and its Finished was not recognised.
    pub fn has_open_flight(self) -> bool {
        self.count > 0 && self.flags & (IS_READY | IS_EARLY | IS_OLD) == 0
    }

    /// Ends a client's handshake; whether a request may have followed it.
    pub fn end_flight(&mut self) -> bool {
        self.flags |= IS_READY | MAY_BE_PADDED;
        self.count > 1
    }

    /// Whether a server that speaks HTTP/2 with `client` has sent its settings and acknowledged the
    /// client's. A record behind them would be an answer.
    pub fn has_settings(self, client: Self) -> bool {
        const BOTH: u16 = HAS_FRAME | HAS_ACKNOWLEDGED;
        self.flags & BOTH == BOTH && client.flags & IS_HTTP2 != 0
    }

    /// Whether a server's only long record so far is no ticket: `client` takes none. Servers that send some
    /// all the same, such as OpenSSL's, send two.
    pub fn has_answered(self, client: Self) -> bool {
        self.count == 1 && client.flags & HAS_NO_TICKETS != 0
    }

    /// Tickets came before the first request, so its answer is none.
    pub fn end_tickets(&mut self) {
        self.count = TICKETS_MAX;
    }

    /// Skips bytes that the capture lacks.
    pub fn skip(&mut self, length: u32) {
        self.header_bytes = 0;
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
            0x15 => self.flags |= HAS_ALERT,
            0x16 => {
                // After a HelloRetryRequest, both sides send a hello behind the change of ciphers.
                let is_encrypted = self.flags & CHANGED_CIPHER != 0 && !is_hello(body, length);
                self.flags |= HAS_HELLO | if is_encrypted { IS_OLD } else { 0 };
                if context.is_from_server && is_tls13_hello(body) {
                    self.flags |= IS_TLS13 | if has_sha256(body) { HAS_SHA256 } else { 0 };
                } else if !context.is_from_server {
                    self.note_offers(length, body);
                }
            }
            0x17 if context.is_from_server => return self.begin_of_server(length, context),
            0x17 => return self.begin_of_client(length, context),
            _ => {}
        }
        RecordMeaning::Control
    }

    /// Early data and tickets in a client's hello. A second hello takes the announcement of the first one
    /// back.
    fn note_offers(&mut self, length: u16, body: &[u8]) {
        let is_whole = body.len() >= usize::from(length);
        let (mut announces, mut has_no_tickets) = (0, 0);
        if let Some(extensions) = extensions_of_client(body) {
            let offers = |kind| extension(extensions, [0, kind]).is_some();
            announces = if offers(0x2a) { IS_EARLY } else { 0 };
            has_no_tickets = if is_whole && !offers(0x2d) { HAS_NO_TICKETS } else { 0 };
        }
        if announces == 0 && !is_whole {
            announces = MAY_BE_EARLY;
        }
        self.flags =
            self.flags & !(IS_EARLY | MAY_BE_EARLY | HAS_NO_TICKETS) | announces | has_no_tickets;
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
            let has_padded_length = PADDED_FINISHED.contains(&length);
            let is_finished = has_padded_length || FINISHED.contains(&length);
            if is_finished || self.count >= CLIENT_RECORDS_MAX {
                let has_sha256 = context.peer.flags & HAS_SHA256 != 0;
                let is_padded = has_padded_length || has_sha256 && length == 69;
                self.flags |= IS_READY | if is_padded { IS_PADDED } else { 0 };
            }
            return RecordMeaning::Control;
        }
        let padding = if self.flags & IS_PADDED != 0 { JAVA_PADDING } else { 0 };
        let length = length.saturating_sub(padding);
        let acknowledgement = if is_tls13 { &[SETTINGS_ACK][..] } else { &OLD_SETTINGS_ACK };
        self.flags |= if acknowledgement.contains(&length) { IS_HTTP2 } else { 0 };
        let is_padded_alert = self.flags & MAY_BE_PADDED != 0 && length == ALERT + JAVA_PADDING;
        let is_control = is_control(length, is_tls13) || is_padded_alert;
        if is_control { RecordMeaning::Control } else { RecordMeaning::Data }
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
        if is_tls13 && PADDED_CONTROL.contains(&length) {
            return RecordMeaning::Short;
        }
        let has_frame = self.flags & HAS_FRAME != 0;
        if has_frame && matches!(length, SETTINGS_ACK | SETTINGS_ACK_AND_WINDOW) {
            self.flags |= HAS_ACKNOWLEDGED;
        } else if has_frame && self.flags & HAS_ACKNOWLEDGED != 0 && !is_control(length, is_tls13) {
            return if context.is_later { RecordMeaning::Data } else { RecordMeaning::Answer };
        }
        if is_control(length, is_tls13) {
            // Replies such as Redis' `+OK` are as short as control frames.
            let may_answer = context.peer.flags & IS_HTTP2 == 0 && !(is_tls13 && length == ALERT);
            return if may_answer { RecordMeaning::Short } else { RecordMeaning::Control };
        }
        if is_tls13 && !context.is_later && length <= FRAME_BYTES_MAX {
            self.flags |= HAS_FRAME;
            return RecordMeaning::Frame;
        }
        let is_padded = length <= PADDED_BYTES_MAX && length % PADDING == TAG;
        let may_be_ticket = is_tls13
            && !context.is_later
            && (length <= TICKET_BYTES_MAX || is_padded)
            && self.count < TICKETS_MAX
            && !has_frame;
        if !may_be_ticket {
            return RecordMeaning::Data;
        }
        self.count += 1;
        match std::mem::replace(&mut self.ticket, length) {
            0 => RecordMeaning::Ticket,
            _ if is_padded => RecordMeaning::Ticket,
            before if before != length => RecordMeaning::Answer,
            _ if length > SECOND_TICKET_BYTES_MAX => RecordMeaning::Ticket,
            _ => RecordMeaning::SecondTicket,
        }
    }
}

fn is_control(length: u16, is_tls13: bool) -> bool {
    if is_tls13 { &CONTROL } else { &OLD_CONTROL }.contains(&length)
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

/// Whether a ServerHello selects AES-128-GCM or ChaCha20 of TLS 1.3, which come with SHA-256.
fn has_sha256(message: &[u8]) -> bool {
    let suite = message.get(SESSION_ID_AT..).and_then(|session_id| behind(session_id, 1));
    suite.is_some_and(|suite| matches!(suite, [0x13, 1 | 3, ..]))
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
            let mut data = [0_u32; 7];
            for piece in bytes.chunks(7) {
                let length = u32::try_from(piece.len()).expect("short");
                let mut input = TlsInput { bytes: piece, length };
                let context = RecordContext { is_from_server, peer, is_later: self.is_later };
                while let Some(part) = self.sides[own].next(&mut input, context) {
                    data[part.meaning as usize] += part.bytes;
                }
            }
            let names = ["control ", "data ", "ticket ", "second ", "answer ", "frame ", "short "];
            names.iter().zip(data).filter(|(_, count)| *count > 5).map(|(name, _)| *name).collect()
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
        assert_eq!(line.feed(true, &[(0x17, 250), (0x17, 250)]), "ticket second ");
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
