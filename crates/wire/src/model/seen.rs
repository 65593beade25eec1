//! What the model hands to those who want rows: each request and each connection when it is over, and who listens.

use crate::flow::Protocol;
use crate::packet::Endpoint;

/// Where the clock stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireTier {
    /// Client to edge.
    Edge,
    /// Edge to upstream.
    Upstream,
}

impl WireTier {
    /// As the column `tier` has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Edge => "wire_edge",
            Self::Upstream => "wire_upstream",
        }
    }
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With a whole response.
    Ok,
    /// The connection was reset.
    Reset,
    /// The connection was closed.
    Closed,
    /// The capture ended first.
    Unanswered,
    /// The client has a response that the capture does not hold.
    Unseen,
    /// The response was not over when the capture, or the connection, ended.
    Cut,
}

impl End {
    /// The name in output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::Unanswered => "unanswered",
            Self::Unseen => "unseen",
            Self::Cut => "cut",
        }
    }
}

/// One request, as the wire saw it. Times are nanoseconds since 1970 UTC; `None` is not seen.
#[derive(Debug, Clone, Copy)]
pub struct RequestSeen<'a> {
    /// Counts from 1 in this capture.
    pub number: u64,
    /// Its connection.
    pub connection: u64,
    /// Its place in the connection, from 1.
    pub order: u32,
    /// Edge or upstream.
    pub tier: WireTier,
    /// Who asked.
    pub client: Endpoint,
    /// Who was asked.
    pub server: Endpoint,
    /// What is spoken.
    pub protocol: Protocol,
    /// Of a database the command, such as `COM_QUERY`. Empty when not readable; so are the next four.
    pub method: &'a str,
    /// The header Host.
    pub host: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// `X-Request-Id`, or the trace.
    pub request_id: &'a str,
    /// The path with ids taken out.
    pub template: &'a str,
    /// The status, if it was readable.
    pub status: Option<u16>,
    /// A database's code of the error that it answered with; empty for none.
    pub error: &'a str,
    /// First and last byte of the request.
    pub asked: [i64; 2],
    /// First and last byte of the response.
    pub answered: Option<[i64; 2]>,
    /// When the client had acknowledged the last byte.
    pub acknowledged: Option<i64>,
    /// Bytes with heads.
    pub request_bytes: u64,
    /// Bytes with heads.
    pub response_bytes: u64,
    /// Segments of the request that were sent again.
    pub request_retransmits: u16,
    /// Segments of the response that were sent again.
    pub response_retransmits: u16,
    /// Of these, what the client had already (DSACK).
    pub spurious: u16,
    /// 1xx responses before the real one.
    pub interim: u16,
    /// The edge's request that this one was made for.
    pub parent: Option<u64>,
    /// Whether the parent was found by header, not by time.
    pub is_matched_by_header: bool,
    /// Whether the snap length cut a head.
    pub is_cut: bool,
    /// How it ended.
    pub end: End,
}

/// One connection, when it is over or the capture is.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionSeen {
    /// Counts from 1 in this capture.
    pub number: u64,
    /// Who opened it.
    pub client: Endpoint,
    /// Who was called.
    pub server: Endpoint,
    /// What is spoken.
    pub protocol: Protocol,
    /// First packet, ns.
    pub first_ts: i64,
    /// Last packet, ns.
    pub last_ts: i64,
    /// SYNs of the client, the first included; 0 when the capture began later.
    pub syns: u8,
    /// SYN-ACKs of the server.
    pub synacks: u8,
    /// First SYN to SYN-ACK, µs.
    pub syn_wait_us: Option<u32>,
    /// SYN-ACK to its ACK, µs.
    pub handshake_us: Option<u32>,
    /// Shortest round trip from the tap to the client, and to the server, µs.
    pub rtt_us: [Option<u32>; 2],
    /// Largest one-way delay variation of the client's packets, µs.
    pub delay_max_us: Option<u32>,
    /// One tick of the client's clock, µs.
    pub tick_us: Option<u16>,
    /// Requests.
    pub requests: u32,
    /// Payload bytes of client and server.
    pub bytes: [u64; 2],
    /// Packets of client and server.
    pub packets: [u32; 2],
    /// Segments sent again by client and server.
    pub retransmits: [u32; 2],
    /// Of these, what the other side had already.
    pub spurious: [u32; 2],
    /// Segments that came later than what follows them.
    pub filled: [u32; 2],
    /// Packets lost before the tap, by IP identification; `None` where these mean nothing.
    pub missing: [Option<u32>; 2],
    /// How often the receive window was shut, and how long, µs: client and server.
    pub zero_windows: [u16; 2],
    /// How long it was shut, µs.
    pub zero_window_us: [u32; 2],
    /// "client" or "server".
    pub fin_by: Option<&'static str>,
    /// "client" or "server".
    pub rst_by: Option<&'static str>,
    /// Whether it was reset while a request waited for its response.
    pub is_rst_in_flight: bool,
    /// Requests behind the server's FIN.
    pub late_requests: u8,
    /// pcapng's or SLL2's number of the interface.
    pub interface: u32,
}

/// Takes rows.
pub trait Sink: Send {
    /// A request is over.
    fn request(&mut self, request: &RequestSeen<'_>);
    /// A connection is over.
    fn connection(&mut self, connection: &ConnectionSeen);
    /// What waits is wanted now.
    fn flush(&mut self) {}
}
