//! Messages: the body of each kind of frame. No I/O; `docs/formats/link.md` is the reference.
//!
//! A body may be longer than expected: a newer sender appends fields, an older receiver ignores
//! them. This, and kinds that may be skipped, let the protocol grow within one version.

use weir_tables::StreamId;

use crate::error::LinkError;
use crate::frame::{Frame, MAY_BE_SKIPPED, put};
use crate::order::{CarriedOrder, ORDER_BYTES_MAX, OrderAnswer, OrderAnswerCode};

/// Oldest supported version.
pub const VERSION_MIN: u8 = 1;
/// Newest supported version.
pub const VERSION_MAX: u8 = 1;
/// Limit of streams in one [`Message::Ask`].
pub const STREAMS_A_FRAME: usize = 4096;
/// Size limit of texts in bytes; longer ones are truncated.
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
const ORDER: u8 = 18;
const TAKEN: u8 = 19;

/// The agent handles [`Message::Committed`].
pub(crate) const CAN_COMMIT: u64 = 1;
/// The agent stops at [`Message::Pause`].
pub(crate) const CAN_PAUSE: u64 = 2;
/// The hub signs new certificates ([`Message::Renew`]).
pub(crate) const CAN_RENEW: u64 = 4;
/// The hub reads parcels of version 2.
pub(crate) const CAN_PARCEL_2: u64 = 8;
/// The agent reports its clock in [`Message::Pong`].
pub(crate) const CAN_TELL_CLOCK: u64 = 16;
/// The agent handles [`Message::Order`].
pub(crate) const CAN_ORDER: u64 = 32;
/// All capabilities of this program.
pub const CAPABILITIES: u64 =
    CAN_COMMIT | CAN_PAUSE | CAN_RENEW | CAN_PARCEL_2 | CAN_TELL_CLOCK | CAN_ORDER;

/// The agent's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Oldest and newest version that the agent supports.
    pub versions: (u8, u8),
    /// `CAN_…` of the agent.
    pub capabilities: u64,
    /// The agent's clock, in microseconds since 1970.
    pub now_micros: i64,
    /// Name and version of the agent, such as `weir 0.1.0`.
    pub program: String,
    /// Host of the agent's rows; empty for older agents.
    pub host: String,
}

/// The hub's reply to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Version of the rest of the connection.
    pub version: u8,
    /// `CAN_…` of both sides.
    pub capabilities: u64,
    /// The hub's clock, in microseconds since 1970.
    pub now_micros: i64,
    /// Parcel bytes that the agent may send before it gets more credit.
    pub credit_bytes: u64,
    /// Largest parcel, in bytes.
    pub parcel_bytes: u32,
    /// Longest time between messages of either side, in seconds.
    pub heartbeat_seconds: u16,
    /// Name and version of the hub.
    pub program: String,
}

/// A stream's position at the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPosition {
    /// The stream.
    pub stream: StreamId,
    /// End of what survives a power loss of the hub; `None` if the hub does not know the stream.
    pub accepted: Option<u64>,
    /// End of what is in files of tables; `None` if nothing is.
    pub committed: Option<u64>,
}

/// Why a parcel was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// It starts after the stream's position: rewind to `expected`.
    Behind,
    /// The hub's disk is full: resend the parcel later.
    Full,
    /// The hub's memory queue is full: resend the parcel soon.
    Busy,
    /// The hub cannot decode it; resending does not help.
    Bad,
    /// The hub failed: resend the parcel later.
    Failed,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoodbyeCode {
    /// The sender is shutting down; reconnect.
    Ending,
    /// A message violates the protocol.
    Protocol,
    /// There is no common version.
    Version,
    /// The peer has no certificate.
    Stranger,
    /// The hub signed the certificate, but does not know the agent.
    UnknownAgent,
    /// The agent was revoked.
    Revoked,
    /// The join token has expired.
    TokenExpired,
    /// The join token has been used.
    TokenUsed,
    /// This hub did not issue the join token.
    TokenUnknown,
    /// An agent of this name exists.
    NameTaken,
    /// The hub has reached its limit of connections.
    TooMany,
    /// A newer connection of the same agent replaced this one.
    Superseded,
    /// No message arrived for too long.
    Silent,
    /// The hub failed.
    Failed,
    /// The agent sends rows of a host that it may not speak for.
    ForeignHost,
    /// A code of a newer version.
    Other(u8),
}

const CODES: [GoodbyeCode; 15] = [
    GoodbyeCode::Ending,
    GoodbyeCode::Protocol,
    GoodbyeCode::Version,
    GoodbyeCode::Stranger,
    GoodbyeCode::UnknownAgent,
    GoodbyeCode::Revoked,
    GoodbyeCode::TokenExpired,
    GoodbyeCode::TokenUsed,
    GoodbyeCode::TokenUnknown,
    GoodbyeCode::NameTaken,
    GoodbyeCode::TooMany,
    GoodbyeCode::Superseded,
    GoodbyeCode::Silent,
    GoodbyeCode::Failed,
    GoodbyeCode::ForeignHost,
];

const REASONS: [RefusalReason; 5] = [
    RefusalReason::Behind,
    RefusalReason::Full,
    RefusalReason::Busy,
    RefusalReason::Bad,
    RefusalReason::Failed,
];

/// Any message of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Agent: first message.
    Hello(Hello),
    /// Hub: reply to [`Message::Hello`].
    Welcome(Welcome),
    /// Agent: queries the positions of streams.
    Ask {
        /// Returned in the reply.
        id: u32,
        /// Whether the hub must report later commits of these streams.
        is_watching: bool,
        /// At most [`STREAMS_A_FRAME`].
        streams: Vec<StreamId>,
    },
    /// Hub: reply to [`Message::Ask`], in its order.
    Positions {
        /// `id` of the query.
        id: u32,
        /// One per stream.
        positions: Vec<StreamPosition>,
    },
    /// Agent: rows, as in `docs/formats/parcel.md`.
    Parcel {
        /// Number of the parcel on this connection, from 0.
        sequence: u64,
        /// The encoded parcel.
        bytes: Vec<u8>,
    },
    /// Hub: the parcel survives a power loss.
    Accepted {
        /// Number of the parcel.
        sequence: u64,
        /// Rows that were new.
        rows: u64,
        /// New position of its stream; `None` for a parcel without a range.
        position: Option<u64>,
    },
    /// Hub: the parcel was refused.
    Refused {
        /// Number of the parcel.
        sequence: u64,
        /// Why.
        reason: RefusalReason,
        /// For [`RefusalReason::Behind`], where the next parcel must start; otherwise 0.
        expected: u64,
        /// Why, for people.
        text: String,
        /// What to do, for people.
        hint: String,
    },
    /// Hub: watched streams are in tables up to these positions.
    Committed(Vec<(StreamId, u64)>),
    /// Hub: limit of parcel bytes since the start of the connection.
    Credit {
        /// Never decreases.
        bytes: u64,
    },
    /// Hub: send no parcels until [`Message::Resume`].
    Pause {
        /// Why, for people.
        text: String,
    },
    /// Hub: ends [`Message::Pause`].
    Resume,
    /// Either side: heartbeat.
    Ping {
        /// Returned in the reply.
        nonce: u64,
    },
    /// Either side: reply to [`Message::Ping`].
    Pong {
        /// `nonce` of the ping.
        nonce: u64,
        /// The agent's clock, in microseconds since 1970. Hubs and older agents omit it.
        now_micros: Option<i64>,
    },
    /// Stranger: asks to become an agent.
    Enrol {
        /// Public half of the invitation.
        invite: [u8; 8],
        /// Secret half of the invitation.
        secret: [u8; 16],
        /// Requested name.
        name: String,
        /// A certificate signing request (PKCS #10, DER).
        request: Vec<u8>,
    },
    /// Hub: reply to [`Message::Enrol`] and [`Message::Renew`].
    Enrolled {
        /// The agent's name.
        name: String,
        /// The agent's certificate (X.509, DER).
        certificate: Vec<u8>,
    },
    /// Agent: requests a new certificate for the same name.
    Renew {
        /// A certificate signing request (PKCS #10, DER).
        request: Vec<u8>,
    },
    /// Hub: an order for the agent's host.
    Order(CarriedOrder),
    /// Agent: reply to [`Message::Order`].
    Taken {
        /// The order's identity.
        id: [u8; 16],
        /// What the host did.
        answer: OrderAnswer,
    },
    /// Either side: last message.
    Goodbye {
        /// Why.
        code: GoodbyeCode,
        /// Why, for people.
        text: String,
        /// What to do, for people.
        hint: String,
    },
}

/// Encodes a missing position. Positions are below 2⁶³.
const NONE: u64 = u64::MAX;

impl Message {
    /// Appends the message as one frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let flags = match self {
            Self::Committed(_) => MAY_BE_SKIPPED,
            _ => 0,
        };
        put(out, [self.kind(), flags], |out| self.write(&mut BodyWriter(out)));
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
            Self::Order(_) => ORDER,
            Self::Taken { .. } => TAKEN,
        }
    }

    fn write(&self, out: &mut BodyWriter<'_>) {
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
                    GoodbyeCode::Other(index) => Some(usize::from(*index).wrapping_sub(1)),
                    code => CODES.iter().position(|known| known == code),
                };
                out.index(index).text(text).text(hint);
            }
            Self::Order(order) => {
                out.bytes(&order.id);
                out.u64(order.not_after_micros.cast_unsigned()).blob(&order.body);
            }
            Self::Taken { id, answer } => {
                out.bytes(id);
                out.index(Some(answer.code.index())).text(&answer.why);
            }
        }
    }

    /// Decodes a frame; `None` if its kind is unknown and may be skipped.
    ///
    /// # Errors
    /// [`crate::LinkErrorKind::Protocol`] when the body ends too early, or the kind is unknown.
    pub fn decode(frame: &Frame) -> Result<Option<Self>, LinkError> {
        let mut body = BodyReader { kind: frame.kind, rest: &frame.body };
        let message = match frame.kind {
            HELLO => Self::Hello(Hello::read(&mut body)?),
            WELCOME => Self::Welcome(Welcome::read(&mut body)?),
            ASK => {
                let (id, is_watching) = (body.u32()?, body.u8()? & 1 == 1);
                Self::Ask { id, is_watching, streams: body.many(16, BodyReader::stream)? }
            }
            POSITIONS => {
                let id = body.u32()?;
                Self::Positions { id, positions: body.many(32, BodyReader::position)? }
            }
            PARCEL => Self::Parcel { sequence: body.u64()?, bytes: body.rest.to_vec() },
            ACCEPTED => {
                let (sequence, rows) = (body.u64()?, body.u64()?);
                Self::Accepted { sequence, rows, position: body.option()? }
            }
            REFUSED => body.refused()?,
            COMMITTED => Self::Committed(body.many(24, |body| Ok((body.stream()?, body.u64()?)))?),
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
                let code = known.copied().unwrap_or(GoodbyeCode::Other(index));
                Self::Goodbye { code, text: body.text()?, hint: body.text()? }
            }
            ORDER => Self::Order(body.order()?),
            TAKEN => Self::Taken { id: body.array()?, answer: body.order_answer()? },
            _ if frame.flags & MAY_BE_SKIPPED != 0 => return Ok(None),
            kind => {
                return Err(LinkError::protocol(format!("a frame has the unknown kind {kind}"))
                    .hint(
                        "the other side runs a newer weir than it announced; update both to one version",
                    ));
            }
        };
        Ok(Some(message))
    }
}

impl Hello {
    fn write(&self, out: &mut BodyWriter<'_>) {
        out.u8(self.versions.0).u8(self.versions.1).u64(self.capabilities);
        out.u64(self.now_micros.cast_unsigned()).text(&self.program).text(&self.host);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, LinkError> {
        Ok(Self {
            versions: (body.u8()?, body.u8()?),
            capabilities: body.u64()?,
            now_micros: body.u64()?.cast_signed(),
            program: body.text()?,
            host: body.text().unwrap_or_default(),
        })
    }
}

impl Welcome {
    fn write(&self, out: &mut BodyWriter<'_>) {
        out.u8(self.version).u64(self.capabilities).u64(self.now_micros.cast_unsigned());
        out.u64(self.credit_bytes).u32(self.parcel_bytes).u16(self.heartbeat_seconds);
        out.text(&self.program);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, LinkError> {
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

/// Appends little-endian integers and values made of them.
struct BodyWriter<'a>(&'a mut Vec<u8>);

impl BodyWriter<'_> {
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

    /// Index in a list, from 1.
    fn index(&mut self, at: Option<usize>) -> &mut Self {
        let at = at.and_then(|at| u8::try_from(at.wrapping_add(1)).ok());
        self.u8(at.unwrap_or(u8::MAX))
    }

    fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).expect("callers limit their lists"));
    }

    /// Truncates at a character boundary.
    fn text(&mut self, text: &str) -> &mut Self {
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        self.u16(u16::try_from(end).expect("it is truncated"));
        self.bytes(&text.as_bytes()[..end]);
        self
    }

    fn blob(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).expect("blobs are short"));
        self.bytes(bytes);
    }
}

/// Reads what [`BodyWriter`] writes.
struct BodyReader<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl<'a> BodyReader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], LinkError> {
        let Some((head, tail)) = self.rest.split_at_checked(length) else {
            let text = format!("a frame of kind {} is truncated", self.kind);
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

    fn position(&mut self) -> Result<StreamPosition, LinkError> {
        let stream = self.stream()?;
        Ok(StreamPosition { stream, accepted: self.option()?, committed: self.option()? })
    }

    fn refused(&mut self) -> Result<Message, LinkError> {
        let (sequence, index) = (self.u64()?, usize::from(self.u8()?));
        let reason = index.checked_sub(1).and_then(|at| REASONS.get(at)).copied();
        Ok(Message::Refused {
            sequence,
            reason: reason.unwrap_or(RefusalReason::Failed),
            expected: self.u64()?,
            text: self.text()?,
            hint: self.text()?,
        })
    }

    fn order(&mut self) -> Result<CarriedOrder, LinkError> {
        let (id, not_after) = (self.array()?, self.u64()?);
        let body = self.blob()?;
        if body.len() > ORDER_BYTES_MAX {
            let text = format!("an order has {} bytes, more than {ORDER_BYTES_MAX}", body.len());
            return Err(LinkError::protocol(text));
        }
        Ok(CarriedOrder { id, not_after_micros: not_after.cast_signed(), body })
    }

    fn order_answer(&mut self) -> Result<OrderAnswer, LinkError> {
        let code = OrderAnswerCode::at(usize::from(self.u8()?).wrapping_sub(1));
        Ok(OrderAnswer { code, why: self.text()? })
    }

    /// A list of items of `width` bytes. Detects a wrong count before it allocates memory.
    fn many<T>(
        &mut self,
        width: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, LinkError>,
    ) -> Result<Vec<T>, LinkError> {
        let count = self.u32()? as usize;
        if count > STREAMS_A_FRAME {
            let text = format!(
                "a frame of kind {} has {count} streams, more than {STREAMS_A_FRAME}",
                self.kind
            );
            return Err(LinkError::protocol(text));
        }
        let mut items = Self { kind: self.kind, rest: self.take(count * width)? };
        (0..count).map(|_| item(&mut items)).collect()
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
