//! A connection: its endpoints, its two directions, how it began and ended.
//!
//! Small by design: a capture may hold a million at once.

use super::{HalfConnection, SenderClock};
use crate::http2::Http2State;
use weir_capture::packet::Endpoint;

/// No exchange.
pub(crate) const NONE: u32 = u32::MAX;

/// How long a closed connection is remembered for stragglers.
pub(crate) const LINGER_NS: i64 = 2_000_000_000;

/// Endpoint of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Application protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// No payload seen yet.
    #[default]
    Unknown,
    /// HTTP/1.x in clear.
    Http,
    /// HTTP/2 in clear, gRPC's included.
    Http2,
    /// TLS: requests by timing only.
    Tls,
    /// Another protocol: requests by timing only.
    Opaque,
    /// MySQL or MariaDB.
    Mysql,
    /// PostgreSQL.
    Postgresql,
    /// Redis.
    Redis,
    /// MongoDB.
    Mongodb,
}

impl Protocol {
    /// All protocols, in the order of their numbers.
    pub(crate) const ALL: [Self; Self::COUNT] = [
        Self::Unknown,
        Self::Http,
        Self::Http2,
        Self::Tls,
        Self::Opaque,
        Self::Mysql,
        Self::Postgresql,
        Self::Redis,
        Self::Mongodb,
    ];
    pub(crate) const COUNT: usize = 9;

    /// Whether it is a database protocol whose messages are parsed.
    pub fn is_database(self) -> bool {
        matches!(self, Self::Mysql | Self::Postgresql | Self::Redis | Self::Mongodb)
    }

    /// Name in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Http => "http",
            Self::Http2 => "http2",
            Self::Tls => "tls",
            Self::Opaque => "opaque",
            Self::Mysql => "mysql",
            Self::Postgresql => "postgresql",
            Self::Redis => "redis",
            Self::Mongodb => "mongodb",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    /// Client, server.
    addresses: [u128; 2],
    pub(crate) halves: [HalfConnection; 2],
    pub(crate) clock: SenderClock,
    /// Set while the protocol is HTTP/2.
    pub(crate) http2: Option<Box<Http2State>>,
    pub(crate) number: u32,
    pub(crate) first_ts: i64,
    pub(crate) last_ts: i64,
    /// Time of the SYN-ACK until the handshake is complete, then of the server's FIN; 0 for not
    /// yet.
    mark_ts: i64,
    ports: [u16; 2],
    /// The smaller of the sizes of segments that both ends accept; 0 when not seen.
    segment_bytes_max: u16,
    /// From the first SYN to the SYN-ACK, µs; `NONE` when not seen.
    pub(crate) syn_wait_us: u32,
    /// From the SYN-ACK to its ACK, µs; `NONE` when not seen.
    pub(crate) handshake_us: u32,
    /// Oldest exchange without a complete response; `newest` began last, and the response of
    /// `unacknowledged` is complete.
    pub(crate) current: u32,
    pub(crate) newest: u32,
    pub(crate) unacknowledged: u32,
    pub(crate) requests: u32,
    /// Slice in which its delay was last counted.
    pub(crate) delay_slice: u32,
    pub(crate) interface: u32,
    pub(crate) client_isn: u32,
    pub(crate) tier: u16,
    pub(crate) syn_count: u8,
    pub(crate) synack_count: u8,
    pub(crate) late_requests: u8,
    pub(crate) protocol: Protocol,
    pub(crate) fin_by: Option<Side>,
    pub(crate) rst_by: Option<Side>,
    pub(crate) is_rst_in_flight: bool,
    pub(crate) is_established: bool,
    pub(crate) has_tier: bool,
    pub(crate) has_cut_requests: bool,
    pub(crate) has_raced: bool,
    /// A further path of a connection of Multipath TCP.
    pub(crate) is_subflow: bool,
    is_closing: bool,
    is_queued: bool,
    is_live: bool,
}

impl Connection {
    pub(crate) fn new(client: Endpoint, server: Endpoint, ts: i64, number: u32) -> Self {
        Self {
            addresses: [client.address, server.address],
            ports: [client.port, server.port],
            halves: [HalfConnection::new(), HalfConnection::new()],
            clock: SenderClock::default(),
            http2: None,
            number,
            first_ts: ts,
            last_ts: ts,
            mark_ts: 0,
            segment_bytes_max: 0,
            syn_wait_us: NONE,
            handshake_us: NONE,
            current: NONE,
            newest: NONE,
            unacknowledged: NONE,
            requests: 0,
            delay_slice: NONE,
            interface: 0,
            client_isn: 0,
            tier: 0,
            syn_count: 0,
            synack_count: 0,
            late_requests: 0,
            protocol: Protocol::Unknown,
            fin_by: None,
            rst_by: None,
            is_rst_in_flight: false,
            is_established: false,
            has_tier: false,
            has_cut_requests: false,
            has_raced: false,
            is_subflow: false,
            is_closing: false,
            is_queued: false,
            is_live: true,
        }
    }

    #[inline]
    pub(crate) fn client(&self) -> Endpoint {
        Endpoint { address: self.addresses[0], port: self.ports[0] }
    }

    #[inline]
    pub(crate) fn server(&self) -> Endpoint {
        Endpoint { address: self.addresses[1], port: self.ports[1] }
    }

    #[inline]
    pub(crate) fn half(&mut self, side: Side) -> &mut HalfConnection {
        &mut self.halves[usize::from(side == Side::Server)]
    }

    /// The side that sent a packet from `from`.
    #[inline]
    pub(crate) fn side(&self, from: Endpoint) -> Side {
        if self.ports[0] == from.port && self.addresses[0] == from.address {
            Side::Client
        } else {
            Side::Server
        }
    }

    #[inline]
    pub(crate) fn is_between(&self, a: Endpoint, b: Endpoint) -> bool {
        (self.is_end(0, a) && self.is_end(1, b)) || (self.is_end(0, b) && self.is_end(1, a))
    }

    #[inline]
    fn is_end(&self, at: usize, end: Endpoint) -> bool {
        self.ports[at] == end.port && self.addresses[at] == end.address
    }

    /// Swaps client and server, which were mistaken for each other.
    pub(crate) fn flip(&mut self) {
        self.addresses.swap(0, 1);
        self.ports.swap(0, 1);
        self.halves.swap(0, 1);
        self.clock = SenderClock::default();
    }

    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    pub(crate) fn forget(&mut self) {
        self.is_live = false;
        self.http2 = None;
        for half in &mut self.halves {
            *half = HalfConnection::default();
        }
    }

    /// Whether it is closed and has been silent so long that a new packet belongs to another
    /// connection.
    #[inline]
    pub(crate) fn is_forgotten(&self, now: i64) -> bool {
        self.is_closing && now - self.last_ts > LINGER_NS
    }

    /// Marks it as closing: only stragglers will come.
    pub(crate) fn start_closing(&mut self) {
        self.is_closing = true;
    }

    /// True once, when the connection has closed.
    #[inline]
    pub(crate) fn is_closing_now(&mut self) -> bool {
        self.is_closing && !std::mem::replace(&mut self.is_queued, self.is_closing)
    }

    /// Notes the size of segments that an end accepts.
    pub(crate) fn limit_segments(&mut self, bytes: u16) {
        let known = self.segment_bytes_max;
        self.segment_bytes_max = if known == 0 { bytes } else { known.min(bytes) };
    }

    /// Payload of a full segment, at most.
    #[inline]
    pub(crate) fn segment_bytes(&self, has_timestamps: bool) -> u32 {
        const OF_ETHERNET: u16 = 1460;
        const TIMESTAMPS: u16 = 12;
        let bytes = match self.segment_bytes_max {
            0 => OF_ETHERNET,
            bytes if has_timestamps => bytes.saturating_sub(TIMESTAMPS),
            bytes => bytes,
        };
        bytes.max(1).into()
    }

    /// Time of the SYN-ACK, until its ACK is seen.
    pub(crate) fn synack_ts(&self) -> Option<i64> {
        (!self.is_established && self.mark_ts != 0).then_some(self.mark_ts)
    }

    pub(crate) fn set_synack(&mut self, ts: i64) {
        if !self.is_established && self.mark_ts == 0 {
            self.mark_ts = ts;
        }
    }

    /// Marks the handshake as complete (or missed by the capture).
    pub(crate) fn establish(&mut self) {
        if !self.is_established {
            self.is_established = true;
            self.mark_ts = 0;
        }
    }

    pub(crate) fn server_fin_ts(&self) -> Option<i64> {
        (self.is_established && self.mark_ts != 0).then_some(self.mark_ts)
    }

    pub(crate) fn set_server_fin(&mut self, ts: i64) {
        self.establish();
        if self.mark_ts == 0 {
            self.mark_ts = ts;
        }
    }

    /// Whether the server ended the connection, as far as the capture has what it sent.
    pub(crate) fn is_broken_off(&self) -> bool {
        let ended_by = (self.fin_by, self.rst_by);
        matches!(ended_by, (Some(Side::Server), _) | (None, Some(Side::Server)))
            && !self.halves[1].is_ahead_of_tap()
    }

    /// Minimum round trip from the tap to the client and back, µs.
    pub(crate) fn client_rtt_us(&self) -> Option<u32> {
        let shortest = self.halves[1].rtt_us.min(self.handshake_us);
        (shortest != u32::MAX).then_some(shortest)
    }
}

#[cfg(test)]
mod tests {
    use super::Connection;

    #[test]
    fn a_live_connection_takes_less_than_400_bytes() {
        // Plus slot and hash in a half-empty index and its number in the sequencer: at most 28
        // bytes.
        let size = size_of::<Connection>() + 28;
        assert!(size < 400, "{size}");
    }
}
