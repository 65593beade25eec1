//! A request and its response while on the wire.

use crate::flow::NONE;

/// State of one request; times are nanoseconds since 1970, 0 for not seen.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) asked: [i64; 2],
    pub(crate) answered: [i64; 2],
    /// When the wait for a response ended without one.
    pub(crate) left: i64,
    pub(crate) request_bytes: u64,
    pub(crate) response_bytes: u64,
    /// Time the server waited for the client to open its window.
    pub(crate) client_wait_ns: i64,
    /// Other pauses of the server within the response.
    pub(crate) server_pause_ns: i64,
    pub(crate) text: Option<Box<RequestText>>,
    /// Sequence number after the response's last byte.
    pub(crate) end_seq: u32,
    pub(crate) next: u32,
    pub(crate) order: u32,
    pub(crate) status: u16,
    pub(crate) tier: u16,
    pub(crate) request_retransmits: u16,
    pub(crate) response_retransmits: u16,
    pub(crate) spurious: u16,
    pub(crate) interim: u16,
    /// Error code of a database, or status of gRPC; zeros for none.
    pub(crate) error: [u8; 12],
    /// Message kinds of a multi-message request, one bit each.
    pub(crate) parts: u8,
    pub(crate) is_sent: bool,
    pub(crate) is_head: bool,
    pub(crate) is_connect: bool,
    pub(crate) is_cut: bool,
    /// The response is a stream of events, which pauses because nothing happens.
    pub(crate) is_stream: bool,
    /// The error is the client's own: no failure of the server.
    pub(crate) is_client_error: bool,
    /// The response does not wait for the request alone: it began before the request was over, or
    /// comes when something happens. It has no think time.
    pub(crate) has_own_pace: bool,
    /// The server closed within the response.
    pub(crate) is_truncated: bool,
    /// All of the answer so far may be session tickets of TLS 1.3.
    pub(crate) is_ticket: bool,
    /// All of it is tickets: no answer.
    pub(crate) is_no_answer: bool,
    /// Something in it is unlike tickets and settings.
    pub(crate) has_answer: bool,
    /// The client left long after what may be tickets and no answer.
    pub(crate) is_doubtful: bool,
    /// Bytes of a body that the client sends once the server wants them (`Expect: 100-continue`);
    /// `u64::MAX` for chunks, 0 for none.
    pub(crate) withheld_bytes: u64,
}

impl Exchange {
    /// Whether the response is an error of the server.
    pub(crate) fn is_failure(&self) -> bool {
        (500..600).contains(&self.status) || (self.error[0] != 0 && !self.is_client_error)
    }
}

/// Text of the request line and headers; kept only when rows are wanted.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct RequestText {
    pub(crate) method: String,
    pub(crate) host: String,
    pub(crate) target: String,
    pub(crate) request_id: String,
}

/// Exchanges in flight; slots are reused.
#[derive(Default)]
pub(crate) struct ExchangePool {
    items: Vec<Exchange>,
    free: Vec<u32>,
}

impl ExchangePool {
    pub(crate) fn take(&mut self) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.items.push(Exchange::default());
            u32::try_from(self.items.len() - 1).expect("there are fewer than connections can have")
        });
        self.items[slot as usize] = Exchange { next: NONE, ..Exchange::default() };
        slot
    }

    /// Removes a completed exchange; its slot is reused.
    pub(crate) fn give_back(&mut self, slot: u32) -> Exchange {
        self.free.push(slot);
        std::mem::take(&mut self.items[slot as usize])
    }

    pub(crate) fn in_use(&self) -> impl Iterator<Item = &Exchange> {
        // A free slot has no request time.
        self.items.iter().filter(|item| item.asked[0] != 0)
    }

    pub(crate) fn get(&mut self, slot: u32) -> &mut Exchange {
        &mut self.items[slot as usize]
    }
}
