//! Restores sequence numbers on the wire from the printed ones.
//!
//! Without `-S` tcpdump prints the first packet of a conversation and every SYN with absolute
//! numbers, and later ones relative to those. So the bases are remembered per conversation. A
//! packet without ACK (the first SYN, some RST) is printed as is, and neither side remembers it.
//!
//! ```text
//! first packet or SYN-ACK: seq S, ack A     base of its direction = S, of the other = A - 1
//! later:                   seq s, ack a     on the wire: base + s, base of the other direction + a
//! ```
//!
//! A pure acknowledgement has no `seq` in text; it gets the byte after the last that its sender
//! sent.

use hashbrown::HashMap;
use rustc_hash::FxSeededState;

use crate::packet::{Endpoint, Flags};

/// Conversations remembered at once, 100 bytes each. Packets of others have no sequence numbers.
pub(super) const CONVERSATIONS_MAX: usize = 4 << 20;

/// Relative numbers are below this, and absolute ones are within this of their base.
const NEAR: u32 = 1 << 24;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PrintedNumbers {
    pub(super) seq: Option<u32>,
    pub(super) ack: Option<u32>,
    pub(super) length: u32,
    pub(super) flags: Flags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WireNumbers {
    pub(super) seq: u32,
    pub(super) ack: u32,
    /// Offset added to `ack`: SACK blocks are relative to the same base.
    pub(super) ack_base: u32,
}

/// Both directions: from the smaller endpoint, and from the larger.
#[derive(Clone, Copy, Debug, Default)]
struct Conversation {
    base: [u32; 2],
    next: [u32; 2],
}

/// Whether numbers are relative: the first absolute one reveals `-S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberStyle {
    Unknown,
    Relative,
    Absolute,
}

pub(super) struct SequenceTable {
    places: HashMap<(Endpoint, Endpoint), u32, FxSeededState>,
    conversations: Vec<Conversation>,
    style: NumberStyle,
}

/// Cached index of the conversation of two endpoints.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConversationSlot(Option<u32>);

impl SequenceTable {
    pub(super) fn new(seed: usize) -> Self {
        let places = HashMap::with_hasher(FxSeededState::with_seed(seed));
        Self { places, conversations: Vec::new(), style: NumberStyle::Unknown }
    }

    /// Numbers of the next packet; `None` when the text has none, or when there are too many
    /// conversations.
    #[inline]
    pub(super) fn of(
        &mut self,
        from: Endpoint,
        to: Endpoint,
        place: &mut ConversationSlot,
        printed: PrintedNumbers,
    ) -> Option<WireNumbers> {
        if printed.seq.is_none() && printed.ack.is_none() {
            return None;
        }
        if !printed.flags.has(Flags::ACK) {
            return Some(WireNumbers { seq: printed.seq?, ack: 0, ack_base: 0 });
        }
        let own = usize::from(from > to);
        let before = self.conversations.len();
        let at = match place.0 {
            Some(at) => at,
            None => self.place(if own == 0 { (from, to) } else { (to, from) })?,
        };
        place.0 = Some(at);
        let is_new = self.conversations.len() > before || printed.flags.has(Flags::SYN);
        let conversation = &mut self.conversations[at as usize];
        let base = if is_new {
            let ack = printed.ack.unwrap_or(0);
            conversation.base[own] = printed.seq.unwrap_or(0);
            conversation.base[1 - own] = ack.wrapping_sub(1);
            conversation.next[own] = conversation.base[own];
            conversation.next[1 - own] = ack;
            [0, 0]
        } else {
            let bases = [conversation.base[own], conversation.base[1 - own]];
            self.style = self.style.after(bases, printed);
            if self.style == NumberStyle::Absolute { [0, 0] } else { conversation.base }
        };
        let seq = printed.seq.map(|seq| seq.wrapping_add(base[own]));
        let seq = seq.unwrap_or(conversation.next[own]);
        let is_numbered = printed.flags.0 & (Flags::SYN | Flags::FIN).0 != 0;
        let next = seq.wrapping_add(printed.length).wrapping_add(u32::from(is_numbered));
        // A retransmit must not move it back.
        if is_new || next.wrapping_sub(conversation.next[own]) < 1 << 31 {
            conversation.next[own] = next;
        }
        let ack_base = base[1 - own];
        Some(WireNumbers { seq, ack: printed.ack.unwrap_or(0).wrapping_add(ack_base), ack_base })
    }

    /// Index of a conversation, created unless the limit is reached; the smaller endpoint comes
    /// first.
    fn place(&mut self, key: (Endpoint, Endpoint)) -> Option<u32> {
        if let Some(at) = self.places.get(&key) {
            return Some(*at);
        }
        if self.conversations.len() >= CONVERSATIONS_MAX {
            return None;
        }
        let at = u32::try_from(self.conversations.len()).ok()?;
        self.conversations.push(Conversation::default());
        self.places.insert(key, at);
        Some(at)
    }
}

impl NumberStyle {
    /// The style that a later packet's numbers reveal, given the bases of both directions.
    fn after(self, bases: [u32; 2], printed: PrintedNumbers) -> NumberStyle {
        if self != NumberStyle::Unknown {
            return self;
        }
        let numbers = bases.into_iter().zip([printed.seq, printed.ack]);
        let mut told = numbers.filter_map(|(base, number)| {
            let number = number?;
            if number >= NEAR && number.wrapping_sub(base) < NEAR {
                Some(NumberStyle::Absolute)
            } else if number < NEAR && base >= NEAR {
                Some(NumberStyle::Relative)
            } else {
                None
            }
        });
        told.next().unwrap_or(NumberStyle::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(port: u16) -> Endpoint {
        Endpoint::new(std::net::Ipv4Addr::LOCALHOST.into(), port)
    }

    fn printed(flags: Flags, seq: Option<u32>, ack: Option<u32>, length: u32) -> PrintedNumbers {
        PrintedNumbers { seq, ack, length, flags }
    }

    fn of(all: &mut SequenceTable, ports: (u16, u16), printed: PrintedNumbers) -> (u32, u32) {
        let (from, to) = (end(ports.0), end(ports.1));
        let mut place = ConversationSlot::default();
        let numbers = all.of(from, to, &mut place, printed).expect("it has numbers");
        (numbers.seq, numbers.ack)
    }

    #[test]
    fn relative_numbers_become_what_they_were() {
        let mut all = SequenceTable::new(1);
        let (there, back) = ((9, 80), (80, 9));
        let syn = printed(Flags::SYN, Some(4_294_967_290), None, 0);
        assert_eq!(of(&mut all, there, syn), (4_294_967_290, 0));
        let syn_ack = printed(Flags::SYN | Flags::ACK, Some(1000), Some(4_294_967_291), 0);
        assert_eq!(of(&mut all, back, syn_ack), (1000, 4_294_967_291));
        // Six bytes later the numbers wrap to 0.
        assert_eq!(
            of(&mut all, there, printed(Flags::ACK, None, Some(1), 0)),
            (4_294_967_291, 1001)
        );
        let data = printed(Flags::ACK, Some(1), Some(1), 100);
        assert_eq!(of(&mut all, there, data), (4_294_967_291, 1001));
        assert_eq!(of(&mut all, back, printed(Flags::ACK, None, Some(101), 0)), (1001, 95));
        let more = printed(Flags::ACK, Some(101), Some(1), 5);
        assert_eq!(of(&mut all, there, more), (95, 1001));
        // A retransmit does not change the next pure acknowledgement.
        assert_eq!(of(&mut all, there, data), (4_294_967_291, 1001));
        assert_eq!(of(&mut all, there, printed(Flags::ACK, None, Some(8), 0)), (100, 1008));
        // A reset without ACK is printed as is.
        assert_eq!(of(&mut all, back, printed(Flags::RST, Some(1008), None, 0)), (1008, 0));
        // The port is reused.
        let again = printed(Flags::SYN, Some(77_000_000), None, 0);
        assert_eq!(of(&mut all, there, again), (77_000_000, 0));
        let syn_ack = printed(Flags::SYN | Flags::ACK, Some(9), Some(77_000_001), 0);
        assert_eq!(of(&mut all, back, syn_ack), (9, 77_000_001));
        assert_eq!(of(&mut all, there, printed(Flags::ACK, Some(1), Some(1), 3)).0, 77_000_001);
    }

    #[test]
    fn absolute_numbers_stay_as_they_are() {
        let mut all = SequenceTable::new(1);
        let syn = printed(Flags::SYN, Some(3_000_000_000), None, 0);
        assert_eq!(of(&mut all, (9, 80), syn), (3_000_000_000, 0));
        let syn_ack = printed(Flags::SYN | Flags::ACK, Some(2_000_000_000), Some(3_000_000_001), 0);
        assert_eq!(of(&mut all, (80, 9), syn_ack), (2_000_000_000, 3_000_000_001));
        let last = printed(Flags::ACK, None, Some(2_000_000_001), 0);
        assert_eq!(of(&mut all, (9, 80), last), (3_000_000_001, 2_000_000_001));
        let data = printed(Flags::ACK, Some(3_000_000_001), Some(2_000_000_001), 10);
        assert_eq!(of(&mut all, (9, 80), data), (3_000_000_001, 2_000_000_001));
        let back = printed(Flags::ACK, Some(2_000_000_001), Some(3_000_000_011), 10);
        assert_eq!(of(&mut all, (80, 9), back), (2_000_000_001, 3_000_000_011));
    }

    #[test]
    fn a_conversation_that_is_met_in_the_middle_is_consistent() {
        let mut all = SequenceTable::new(1);
        let first = printed(Flags::ACK, Some(500_000_000), Some(900_000_000), 100);
        assert_eq!(of(&mut all, (9, 80), first), (500_000_000, 900_000_000));
        assert_eq!(
            of(&mut all, (80, 9), printed(Flags::ACK, Some(1), Some(100), 7)),
            (900_000_000, 500_000_100)
        );
        assert_eq!(
            of(&mut all, (9, 80), printed(Flags::ACK, Some(100), Some(8), 1)),
            (500_000_100, 900_000_007)
        );
        assert_eq!(
            all.of(end(1), end(2), &mut ConversationSlot::default(), PrintedNumbers::default()),
            None
        );
    }
}
