//! A request and its response while they are on the wire.

use crate::flow::NONE;

/// What is known of a request; times are nanoseconds since 1970, 0 for not seen.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// First and last byte of the request.
    pub(crate) asked: [i64; 2],
    /// First and last byte of the response.
    pub(crate) answered: [i64; 2],
    pub(crate) request_bytes: u64,
    pub(crate) response_bytes: u64,
    /// Time in which the server waited for the client to take more.
    pub(crate) client_wait_ns: i64,
    pub(crate) text: Option<Box<Text>>,
    /// Behind the response's last byte.
    pub(crate) end_seq: u32,
    pub(crate) next: u32,
    pub(crate) order: u32,
    pub(crate) status: u16,
    pub(crate) tier: u16,
    pub(crate) request_retransmits: u16,
    pub(crate) response_retransmits: u16,
    pub(crate) spurious: u16,
    pub(crate) interim: u16,
    /// A database's code of the error that it answered with; zeros for none.
    pub(crate) error: [u8; 12],
    /// Messages of a request that takes several, one bit each.
    pub(crate) parts: u8,
    pub(crate) is_sent: bool,
    pub(crate) is_head: bool,
    pub(crate) is_connect: bool,
    pub(crate) is_cut: bool,
}

/// What the request line and the head say; kept only when somebody wants rows.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) method: String,
    pub(crate) host: String,
    pub(crate) target: String,
    pub(crate) request_id: String,
}

/// Exchanges in flight, used again and again.
#[derive(Default)]
pub(crate) struct Pool {
    items: Vec<Exchange>,
    free: Vec<u32>,
}

impl Pool {
    pub(crate) fn take(&mut self) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.items.push(Exchange::default());
            u32::try_from(self.items.len() - 1).expect("there are fewer than connections can have")
        });
        self.items[slot as usize] = Exchange { next: NONE, ..Exchange::default() };
        slot
    }

    /// Takes out one that is over; its slot is used again.
    pub(crate) fn give_back(&mut self, slot: u32) -> Exchange {
        self.free.push(slot);
        std::mem::take(&mut self.items[slot as usize])
    }

    /// All that are under way.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = &Exchange> {
        // What is not used has never been asked.
        self.items.iter().filter(|item| item.asked[0] != 0)
    }

    pub(crate) fn get(&mut self, slot: u32) -> &mut Exchange {
        &mut self.items[slot as usize]
    }
}
