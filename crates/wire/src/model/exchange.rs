//! A request and its response while they are on the wire.

use crate::flow::NONE;

/// What is known of a request; times are nanoseconds since 1970, 0 for not seen.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) number: u64,
    /// First and last byte of the request.
    pub(crate) asked: [i64; 2],
    /// First and last byte of the response.
    pub(crate) answered: [i64; 2],
    pub(crate) request_bytes: u64,
    pub(crate) response_bytes: u64,
    /// Time in which the server waited for the client to take more.
    pub(crate) client_wait_ns: i64,
    /// What the upstream was asked for this request.
    pub(crate) upstream: Upstream,
    /// Hashes of the id in its head and of what it asks for; 0 for none.
    pub(crate) keys: [u64; 2],
    /// The edge's request that this upstream's request belongs to, and its number.
    pub(crate) parent: Option<(u32, u64)>,
    pub(crate) text: Option<Box<Text>>,
    /// Behind the response's last byte.
    pub(crate) end_seq: u32,
    pub(crate) next: u32,
    pub(crate) order: u32,
    pub(crate) url: u32,
    pub(crate) status: u16,
    pub(crate) tier: u16,
    pub(crate) request_retransmits: u16,
    pub(crate) response_retransmits: u16,
    pub(crate) spurious: u16,
    pub(crate) interim: u16,
    pub(crate) is_sent: bool,
    pub(crate) is_head: bool,
    pub(crate) is_connect: bool,
    pub(crate) is_cut: bool,
    pub(crate) is_matched_by_header: bool,
    pub(crate) is_in_use: bool,
}

/// First request byte and first and last response byte of the (first) upstream request; how many there were.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Upstream {
    pub(crate) asked: i64,
    pub(crate) answered: [i64; 2],
    pub(crate) think_ns: i64,
    pub(crate) tries: u16,
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
        self.items[slot as usize] = Exchange { next: NONE, is_in_use: true, ..Exchange::default() };
        slot
    }

    pub(crate) fn give_back(&mut self, slot: u32) {
        let item = &mut self.items[slot as usize];
        item.is_in_use = false;
        item.text = None;
        self.free.push(slot);
    }

    /// All that are under way.
    pub(crate) fn in_use(&mut self) -> impl Iterator<Item = &mut Exchange> {
        self.items.iter_mut().filter(|item| item.is_in_use)
    }

    pub(crate) fn get(&mut self, slot: u32) -> &mut Exchange {
        &mut self.items[slot as usize]
    }

    /// The exchange in `slot`, if it is still number `number`.
    pub(crate) fn find(&mut self, slot: u32, number: u64) -> Option<&mut Exchange> {
        let item = self.items.get_mut(slot as usize)?;
        (item.is_in_use && item.number == number).then_some(item)
    }
}
