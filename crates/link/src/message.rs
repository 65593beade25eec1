//! Messages: what the body of each kind of frame means. Pure; `docs/formats/link.md` is the reference.
//!
//! A body may be longer than what is known of it: a newer sender appends fields, an older receiver does not look at
//! them. That, and kinds that may be skipped, are how the protocol grows inside of one version.

use weir_tables::StreamId;

use crate::error::LinkError;
use crate::frame::{Frame, MAY_BE_SKIPPED, put};

/// The oldest version that is spoken.
pub const VERSION_MIN: u8 = 1;
/// The newest version that is spoken.
pub const VERSION_MAX: u8 = 1;
/// Streams that one [`Message::Ask`] may name.
pub const STREAMS_A_FRAME: usize = 4096;
/// Texts are cut to this many bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 1024;

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const ASK: u8 = 3;
const POSITIONS: u8 = 4;
pub(crate) const PARCEL: u8 = 5;
const ACCEPTED: u8 = 6;
const REFUSED: u8 = 7;
const COMMITTED: u8 = 8;
const CREDIT: u8 = 9;
const PAUSE: u8 = 10;
const RESUME: u8 = 11;
const PING: u8 = 12;
const PONG: u8 = 13;
const ENROL: u8 = 14;
const ENROLLED: u8 = 15;
const RENEW: u8 = 16;
const GOODBYE: u8 = 17;

/// The agent can be told that positions are in tables ([`Message::Committed`]).
pub(crate) const CAN_COMMIT: u64 = 1;
/// The agent stops at [`Message::Pause`].
pub(crate) const CAN_PAUSE: u64 = 2;
/// The hub signs new certificates ([`Message::Renew`]).
pub(crate) const CAN_RENEW: u64 = 4;
/// The hub reads parcels of version 2.
pub(crate) const CAN_PARCEL_2: u64 = 8;
/// The agent tells its clock when it is asked ([`Message::Pong`]).
pub(crate) const CAN_TELL_CLOCK: u64 = 16;
/// All that this program can.
pub const CAPABILITIES: u64 = CAN_COMMIT | CAN_PAUSE | CAN_RENEW | CAN_PARCEL_2 | CAN_TELL_CLOCK;

/// The agent's first word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Oldest and newest version that the agent speaks.
    pub versions: (u8, u8),
    /// `CAN_…`
    pub capabilities: u64,
    /// The agent's clock, microseconds since 1970.
    pub now_micros: i64,
    /// The agent's program, such as `weir 0.1.0`.
    pub program: String,
}

/// The hub's answer to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version that both speak from now on.
    pub version: u8,
    /// `CAN_…` of both.
    pub capabilities: u64,
    /// The hub's clock, microseconds since 1970.
    pub now_micros: i64,
    /// Bytes of parcels that the agent may send before more credit comes.
    pub credit_bytes: u64,
    /// Largest parcel, in bytes.
    pub parcel_bytes: u32,
    /// Each side says something at least this often, in seconds.
    pub heartbeat_seconds: u16,
    /// The hub's program.
    pub program: String,
}

/// Where a stream stands at the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The stream.
    pub stream: StreamId,
    /// Everything below survives a power loss of the hub; `None` when the hub does not know the stream.
    pub accepted: Option<u64>,
    /// Everything below is in a table's file; `None` when nothing is.
    pub committed: Option<u64>,
}

/// Why a parcel was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It starts behind the stream's position: go back to `expected`.
    Behind,
    /// No room on the hub's disk: the same parcel again later.
    Full,
    /// Too much waits in the hub's memory: the same parcel again soon.
    Busy,
    /// It is not a parcel that the hub understands; again does not help.
    Bad,
    /// The hub could not; the same parcel again later.
    Failed,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The sender ends; come again.
    Ending,
    /// What came is not in the protocol.
    Protocol,
    /// No version that both speak.
    Version,
    /// No certificate was shown.
    Stranger,
    /// The certificate is the hub's, but the hub has no such agent.
    UnknownAgent,
    /// The agent was revoked.
    Revoked,
    /// The join token is over.
    TokenExpired,
    /// The join token was used.
    TokenUsed,
    /// The join token is not one of this hub's.
    TokenUnknown,
    /// An agent of this name exists.
    NameTaken,
    /// As many connections as there may be.
    TooMany,
    /// The same agent connected again.
    Superseded,
    /// Nothing was heard for too long.
    Silent,
    /// The hub could not do it.
    Failed,
    /// A code of a newer version.
    Other(u8),
}

const CODES: [Code; 14] = [
    Code::Ending,
    Code::Protocol,
    Code::Version,
    Code::Stranger,
    Code::UnknownAgent,
    Code::Revoked,
    Code::TokenExpired,
    Code::TokenUsed,
    Code::TokenUnknown,
    Code::NameTaken,
    Code::TooMany,
    Code::Superseded,
    Code::Silent,
    Code::Failed,
];

const REASONS: [Reason; 5] =
    [Reason::Behind, Reason::Full, Reason::Busy, Reason::Bad, Reason::Failed];

/// Everything that is said on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Agent: first word.
    Hello(Hello),
    /// Hub: answer to it.
    Welcome(Welcome),
    /// Agent: where do these streams stand?
    Ask {
        /// Comes back with the answer.
        id: u32,
        /// Whether the hub shall tell when more of them is in tables.
        is_watching: bool,
        /// At most [`STREAMS_A_FRAME`].
        streams: Vec<StreamId>,
    },
    /// Hub: answer to it, in the order asked.
    Positions {
        /// That of the question.
        id: u32,
        /// One for each stream.
        positions: Vec<Position>,
    },
    /// Agent: rows; `docs/formats/parcel.md`.
    Parcel {
        /// Counts the parcels of a connection from 0.
        sequence: u64,
        /// The encoded parcel.
        bytes: Vec<u8>,
    },
    /// Hub: the parcel survives a power loss.
    Accepted {
        /// Which parcel.
        sequence: u64,
        /// Rows that were new.
        rows: u64,
        /// Where its stream stands now; `None` for a parcel without a range.
        position: Option<u64>,
    },
    /// Hub: the parcel was not taken.
    Refused {
        /// Which parcel.
        sequence: u64,
        /// Why.
        reason: Reason,
        /// For [`Reason::Behind`], where the next parcel has to start; else 0.
        expected: u64,
        /// Why, for a person.
        text: String,
        /// What to do, for a person.
        hint: String,
    },
    /// Hub: streams that are watched are in tables up to here.
    Committed(Vec<(StreamId, u64)>),
    /// Hub: bytes of parcels that may have been sent on this connection in all.
    Credit {
        /// Grows only.
        bytes: u64,
    },
    /// Hub: send no parcels until [`Message::Resume`].
    Pause {
        /// Why, for a person.
        text: String,
    },
    /// Hub: go on.
    Resume,
    /// Either: are you there?
    Ping {
        /// Comes back.
        nonce: u64,
    },
    /// Either: yes.
    Pong {
        /// That of the question.
        nonce: u64,
        /// The agent's clock, microseconds since 1970; hubs and older agents do not tell theirs.
        now_micros: Option<i64>,
    },
    /// Stranger: make me an agent.
    Enrol {
        /// The invitation's public half.
        invite: [u8; 8],
        /// Its secret half.
        secret: [u8; 16],
        /// The name that the agent wants.
        name: String,
        /// A certificate signing request (PKCS #10, DER).
        request: Vec<u8>,
    },
    /// Hub: answer to that and to [`Message::Renew`].
    Enrolled {
        /// The agent's name.
        name: String,
        /// Its certificate (X.509, DER).
        certificate: Vec<u8>,
    },
    /// Agent: a new certificate for the same name.
    Renew {
        /// A certificate signing request (PKCS #10, DER).
        request: Vec<u8>,
    },
    /// Either: the last word.
    Goodbye {
        /// Why.
        code: Code,
        /// Why, for a person.
        text: String,
        /// What to do, for a person.
        hint: String,
    },
}

/// Stands for "none" where a position is meant; positions are below 2⁶³.
const NONE: u64 = u64::MAX;

impl Message {
    /// Appends the message as one frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let flags = match self {
            Self::Committed(_) => MAY_BE_SKIPPED,
            _ => 0,
        };
        put(out, self.kind(), flags, |out| self.write(&mut Writer(out)));
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => HELLO,
            Self::Welcome(_) => WELCOME,
            Self::Ask { .. } => ASK,
            Self::Positions { .. } => POSITIONS,
            Self::Parcel { .. } => PARCEL,
            Self::Accepted { .. } => ACCEPTED,
            Self::Refused { .. } => REFUSED,
            Self::Committed(_) => COMMITTED,
            Self::Credit { .. } => CREDIT,
            Self::Pause { .. } => PAUSE,
            Self::Resume => RESUME,
            Self::Ping { .. } => PING,
            Self::Pong { .. } => PONG,
            Self::Enrol { .. } => ENROL,
            Self::Enrolled { .. } => ENROLLED,
            Self::Renew { .. } => RENEW,
            Self::Goodbye { .. } => GOODBYE,
        }
    }

    fn write(&self, out: &mut Writer<'_>) {
        match self {
            Self::Hello(hello) => hello.write(out),
            Self::Welcome(welcome) => welcome.write(out),
            Self::Ask { id, is_watching, streams } => {
                out.u32(*id).u8(u8::from(*is_watching)).count(streams.len());
                for stream in streams {
                    out.u128(stream.0);
                }
            }
            Self::Positions { id, positions } => {
                out.u32(*id).count(positions.len());
                for position in positions {
                    let [accepted, committed] = [position.accepted, position.committed];
                    out.u128(position.stream.0).u64(accepted.unwrap_or(NONE));
                    out.u64(committed.unwrap_or(NONE));
                }
            }
            Self::Parcel { sequence, bytes } => out.u64(*sequence).bytes(bytes),
            Self::Accepted { sequence, rows, position } => {
                out.u64(*sequence).u64(*rows).u64(position.unwrap_or(NONE));
            }
            Self::Refused { sequence, reason, expected, text, hint } => {
                let reason = REASONS.iter().position(|known| known == reason);
                out.u64(*sequence).index(reason).u64(*expected).text(text).text(hint);
            }
            Self::Committed(positions) => {
                out.count(positions.len());
                for (stream, to) in positions {
                    out.u128(stream.0).u64(*to);
                }
            }
            Self::Credit { bytes } => _ = out.u64(*bytes),
            Self::Pause { text } => _ = out.text(text),
            Self::Resume => {}
            Self::Ping { nonce } => _ = out.u64(*nonce),
            Self::Pong { nonce, now_micros } => {
                out.u64(*nonce);
                if let Some(now) = now_micros {
                    out.u64(now.cast_unsigned());
                }
            }
            Self::Enrol { invite, secret, name, request } => {
                out.bytes(invite);
                out.bytes(secret);
                out.text(name).blob(request);
            }
            Self::Enrolled { name, certificate } => out.text(name).blob(certificate),
            Self::Renew { request } => out.blob(request),
            Self::Goodbye { code, text, hint } => {
                let index = match code {
                    Code::Other(index) => Some(usize::from(*index).wrapping_sub(1)),
                    code => CODES.iter().position(|known| known == code),
                };
                out.index(index).text(text).text(hint);
            }
        }
    }

    /// Reads a frame; `None` when it is of a kind that is not known and may be skipped.
    ///
    /// # Errors
    /// [`crate::Kind::Protocol`] when the body ends too early, or the kind is not known.
    pub fn decode(frame: &Frame) -> Result<Option<Self>, LinkError> {
        let mut body = Reader { kind: frame.kind, rest: &frame.body };
        let message = match frame.kind {
            HELLO => Self::Hello(Hello::read(&mut body)?),
            WELCOME => Self::Welcome(Welcome::read(&mut body)?),
            ASK => {
                let (id, is_watching) = (body.u32()?, body.u8()? & 1 == 1);
                Self::Ask { id, is_watching, streams: body.many(16, Reader::stream)? }
            }
            POSITIONS => {
                let id = body.u32()?;
                Self::Positions { id, positions: body.many(32, Reader::position)? }
            }
            PARCEL => Self::Parcel { sequence: body.u64()?, bytes: body.rest.to_vec() },
            ACCEPTED => {
                let (sequence, rows) = (body.u64()?, body.u64()?);
                Self::Accepted { sequence, rows, position: body.option()? }
            }
            REFUSED => body.refused()?,
            COMMITTED => {
                let pair = |body: &mut Reader<'_>| Ok((body.stream()?, body.u64()?));
                Self::Committed(body.many(24, pair)?)
            }
            CREDIT => Self::Credit { bytes: body.u64()? },
            PAUSE => Self::Pause { text: body.text()? },
            RESUME => Self::Resume,
            PING => Self::Ping { nonce: body.u64()? },
            PONG => {
                let nonce = body.u64()?;
                Self::Pong { nonce, now_micros: body.u64().ok().map(u64::cast_signed) }
            }
            ENROL => {
                let (invite, secret) = (body.array()?, body.array()?);
                Self::Enrol { invite, secret, name: body.text()?, request: body.blob()? }
            }
            ENROLLED => Self::Enrolled { name: body.text()?, certificate: body.blob()? },
            RENEW => Self::Renew { request: body.blob()? },
            GOODBYE => {
                let index = body.u8()?;
                let known = usize::from(index).checked_sub(1).and_then(|at| CODES.get(at));
                let code = known.copied().unwrap_or(Code::Other(index));
                Self::Goodbye { code, text: body.text()?, hint: body.text()? }
            }
            _ if frame.flags & MAY_BE_SKIPPED != 0 => return Ok(None),
            kind => {
                return Err(LinkError::protocol(format!("a frame has the unknown kind {kind}"))
                    .hint(
                        "the other side's weir is newer than it says; bring both to one version",
                    ));
            }
        };
        Ok(Some(message))
    }
}

impl Hello {
    fn write(&self, out: &mut Writer<'_>) {
        out.u8(self.versions.0).u8(self.versions.1).u64(self.capabilities);
        out.u64(self.now_micros.cast_unsigned()).text(&self.program);
    }

    fn read(body: &mut Reader<'_>) -> Result<Self, LinkError> {
        Ok(Self {
            versions: (body.u8()?, body.u8()?),
            capabilities: body.u64()?,
            now_micros: body.u64()?.cast_signed(),
            program: body.text()?,
        })
    }
}

impl Welcome {
    fn write(&self, out: &mut Writer<'_>) {
        out.u8(self.version).u64(self.capabilities).u64(self.now_micros.cast_unsigned());
        out.u64(self.credit_bytes).u32(self.parcel_bytes).u16(self.heartbeat_seconds);
        out.text(&self.program);
    }

    fn read(body: &mut Reader<'_>) -> Result<Self, LinkError> {
        Ok(Self {
            version: body.u8()?,
            capabilities: body.u64()?,
            now_micros: body.u64()?.cast_signed(),
            credit_bytes: body.u64()?,
            parcel_bytes: body.u32()?,
            heartbeat_seconds: body.u16()?,
            program: body.text()?,
        })
    }
}

/// Appends integers, little endian, and what is made of them.
struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes());
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_le_bytes());
        self
    }

    fn u128(&mut self, value: u128) -> &mut Self {
        self.bytes(&value.to_le_bytes());
        self
    }

    /// Place in a list, from 1.
    fn index(&mut self, at: Option<usize>) -> &mut Self {
        let at = at.and_then(|at| u8::try_from(at.wrapping_add(1)).ok());
        self.u8(at.unwrap_or(u8::MAX))
    }

    fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("callers cut their lists"));
    }

    /// Cut at a whole letter.
    fn text(&mut self, text: &str) -> &mut Self {
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        self.u16(u16::try_from(end).expect("it was cut"));
        self.bytes(&text.as_bytes()[..end]);
        self
    }

    fn blob(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).expect("certificates are short"));
        self.bytes(bytes);
    }
}

/// The other way round.
struct Reader<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], LinkError> {
        let Some((head, tail)) = self.rest.split_at_checked(length) else {
            let text = format!("a frame of kind {} ends before its content does", self.kind);
            return Err(LinkError::protocol(text));
        };
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], LinkError> {
        Ok(self.take(N)?.try_into().expect("take gives N bytes"))
    }

    fn u8(&mut self) -> Result<u8, LinkError> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16, LinkError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, LinkError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, LinkError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn option(&mut self) -> Result<Option<u64>, LinkError> {
        Ok(Some(self.u64()?).filter(|value| *value != NONE))
    }

    fn stream(&mut self) -> Result<StreamId, LinkError> {
        Ok(StreamId(u128::from_le_bytes(self.array()?)))
    }

    fn position(&mut self) -> Result<Position, LinkError> {
        let stream = self.stream()?;
        Ok(Position { stream, accepted: self.option()?, committed: self.option()? })
    }

    fn refused(&mut self) -> Result<Message, LinkError> {
        let (sequence, index) = (self.u64()?, usize::from(self.u8()?));
        let reason = index.checked_sub(1).and_then(|at| REASONS.get(at)).copied();
        Ok(Message::Refused {
            sequence,
            reason: reason.unwrap_or(Reason::Failed),
            expected: self.u64()?,
            text: self.text()?,
            hint: self.text()?,
        })
    }

    /// A list whose items have `width` bytes: a count that lies is found out before memory is taken for it.
    fn many<T>(
        &mut self,
        width: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, LinkError>,
    ) -> Result<Vec<T>, LinkError> {
        let count = self.u32()? as usize;
        if count > STREAMS_A_FRAME {
            let text = format!(
                "a frame of kind {} names {count} streams, more than {STREAMS_A_FRAME}",
                self.kind
            );
            return Err(LinkError::protocol(text));
        }
        let mut own = Self { kind: self.kind, rest: self.take(count * width)? };
        (0..count).map(|_| item(&mut own)).collect()
    }

    fn text(&mut self) -> Result<String, LinkError> {
        let length = usize::from(self.u16()?);
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }

    fn blob(&mut self) -> Result<Vec<u8>, LinkError> {
        let length = self.u32()? as usize;
        Ok(self.take(length)?.to_vec())
    }
}
