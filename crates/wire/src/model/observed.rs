//! Rows of the model: each request and each connection once it is complete.

use crate::flow::Protocol;
use weir_capture::packet::Endpoint;

/// Where the tap measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireTier {
    /// Client to edge.
    Edge,
    /// Edge to upstream.
    Upstream,
}

impl WireTier {
    /// Value of the column `tier`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Edge => "wire_edge",
            Self::Upstream => "wire_upstream",
        }
    }
}

/// End of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestEnd {
    /// With a complete response.
    Ok,
    /// The connection was reset.
    Reset,
    /// The connection was closed.
    Closed,
    /// The capture ended first.
    Unanswered,
    /// The client has a response that the capture lacks.
    Unseen,
    /// The response was incomplete when the capture or the connection ended.
    Cut,
}

impl RequestEnd {
    /// Name in output.
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

/// One request, as seen on the wire. Times are nanoseconds since 1970 UTC; `None` means not seen.
#[derive(Debug, Clone, Copy)]
pub struct ObservedRequest<'a> {
    /// Number in this capture, from 1.
    pub number: u64,
    /// Number of its connection.
    pub connection: u64,
    /// Position in the connection, from 1.
    pub order: u32,
    /// Edge or upstream.
    pub tier: WireTier,
    /// The client.
    pub client: Endpoint,
    /// The server.
    pub server: Endpoint,
    /// Application protocol.
    pub protocol: Protocol,
    /// Method, or a database command such as `COM_QUERY`. Empty when not readable, as are the next
    /// four.
    pub method: &'a str,
    /// The `Host` header.
    pub host: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// `X-Request-Id`, or the trace id.
    pub request_id: &'a str,
    /// The path with ids replaced.
    pub template: &'a str,
    /// Status code, if readable.
    pub status: Option<u16>,
    /// Error code of a database, or status of gRPC; empty for none.
    pub error: &'a str,
    /// First and last byte of the request.
    pub asked: [i64; 2],
    /// First and last byte of the response.
    pub answered: Option<[i64; 2]>,
    /// When the client had acknowledged the last byte.
    pub acknowledged: Option<i64>,
    /// Bytes with headers.
    pub request_bytes: u64,
    /// Bytes with headers.
    pub response_bytes: u64,
    /// Retransmitted segments of the request.
    pub request_retransmits: u16,
    /// Retransmitted segments of the response.
    pub response_retransmits: u16,
    /// Spurious retransmits of the response (DSACK).
    pub spurious: u16,
    /// 1xx responses before the final one.
    pub interim: u16,
    /// The edge request it was made for.
    pub parent: Option<u64>,
    /// Whether the parent was matched by header, not by time.
    pub is_matched_by_header: bool,
    /// Whether the snap length cut a header.
    pub is_cut: bool,
    /// End of the request.
    pub end: RequestEnd,
}

/// One connection, reported when it or the capture ends.
#[derive(Debug, Clone, Copy)]
pub struct ObservedConnection {
    /// Number in this capture, from 1.
    pub number: u64,
    /// The client.
    pub client: Endpoint,
    /// The server.
    pub server: Endpoint,
    /// Application protocol.
    pub protocol: Protocol,
    /// First packet, ns.
    pub first_ts: i64,
    /// Last packet, ns.
    pub last_ts: i64,
    /// SYNs of the client, the first included; 0 for a connection seen mid-stream.
    pub syns: u8,
    /// SYN-ACKs of the server.
    pub synacks: u8,
    /// First SYN to SYN-ACK, µs.
    pub syn_wait_us: Option<u32>,
    /// SYN-ACK to its ACK, µs.
    pub handshake_us: Option<u32>,
    /// Minimum round trip from the tap to the client and to the server, µs.
    pub rtt_us: [Option<u32>; 2],
    /// Maximum one-way delay variation of the client's packets, µs.
    pub delay_max_us: Option<u32>,
    /// Tick of the client's timestamp clock, µs.
    pub tick_us: Option<u32>,
    /// Number of requests.
    pub requests: u32,
    /// Payload bytes of client and server.
    pub bytes: [u64; 2],
    /// Packets of client and server.
    pub packets: [u32; 2],
    /// Segments retransmitted by client and server.
    pub retransmits: [u32; 2],
    /// Spurious retransmits of client and server (DSACK).
    pub spurious: [u32; 2],
    /// Segments that filled a hole.
    pub filled: [u32; 2],
    /// Packets lost before the tap, by IP identification; `None` where identifications are
    /// unusable.
    pub missing: [Option<u32>; 2],
    /// Zero-window episodes of client and server.
    pub zero_windows: [u16; 2],
    /// Time with a zero window, µs.
    pub zero_window_us: [u32; 2],
    /// "client" or "server".
    pub fin_by: Option<&'static str>,
    /// "client" or "server".
    pub rst_by: Option<&'static str>,
    /// Whether it was reset while a request waited for its response.
    pub is_rst_in_flight: bool,
    /// Requests after the server's FIN.
    pub late_requests: u8,
    /// Interface number of pcapng or SLL2.
    pub interface: u32,
}

/// Receives rows.
pub trait RowSink: Send {
    /// A request is complete.
    fn request(&mut self, request: &ObservedRequest<'_>);
    /// A connection is closed.
    fn connection(&mut self, connection: &ObservedConnection);
    /// Flushes buffered rows.
    fn flush(&mut self) {}
}
