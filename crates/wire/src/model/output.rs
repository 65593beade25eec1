//! Output of a block's shards, sequenced in packet order.

use std::slice;
use std::vec::Drain;

use super::SHARDS;
use super::event::{Ask, Closed, Done, Out, Told};
use super::ledger::Ledger;
use super::shard::AT_END;
use super::slice::Slice;

/// Output of one shard; its buffers are reused.
#[derive(Default)]
pub(super) struct Output {
    pub(super) out: Out,
    pub(super) slices: Vec<(u16, u32, Box<Slice>)>,
}

/// Sequences the output of all shards of a block; `order` has the shard of each packet. The outputs
/// are drained.
pub(super) fn tell_block(
    ledger: &mut Ledger,
    order: &[u8],
    outputs: &mut [Output; SHARDS],
    start_ns: i64,
    slice: u32,
) {
    ledger.start_ns = start_ns;
    let mut readers = outputs.each_mut().map(Reader::new);
    let mut next_at = readers.each_ref().map(Reader::next_at);
    for (at, number) in (0..).zip(order) {
        let number = usize::from(*number) % SHARDS;
        if next_at[number] == at {
            next_at[number] = readers[number].tell(ledger, number, at);
        }
    }
    for (number, mut reader) in readers.into_iter().enumerate() {
        ledger.slice = slice;
        reader.tell(ledger, number, AT_END);
        ledger.add_slices(number, reader.slices.drain(..));
    }
    ledger.end_block(slice);
    for output in outputs {
        output.out.events.clear();
        output.out.text.clear();
    }
}

/// Reads one shard's events of a block, packet by packet.
struct Reader<'a> {
    events: slice::Iter<'a, Told>,
    asks: Drain<'a, Ask>,
    dones: Drain<'a, Done>,
    closed: Drain<'a, Closed>,
    text: &'a [u8],
    slices: &'a mut Vec<(u16, u32, Box<Slice>)>,
}

impl<'a> Reader<'a> {
    fn new(output: &'a mut Output) -> Self {
        let Output { out: Out { events, asks, dones, closed, text }, slices } = output;
        let (asks, dones, closed) = (asks.drain(..), dones.drain(..), closed.drain(..));
        Self { events: events.iter(), asks, dones, closed, text, slices }
    }

    /// Index of the packet of the next event.
    fn next_at(&self) -> u32 {
        self.events.as_slice().first().map_or(AT_END, |told| told.at)
    }

    /// Sequences the events of packet `at` and returns the index of the next event's packet.
    #[inline]
    fn tell(&mut self, ledger: &mut Ledger, shard: usize, at: u32) -> u32 {
        let Self { events, asks, dones, closed, text, .. } = self;
        while let Some(told) = events.as_slice().first() {
            if told.at != at {
                return told.at;
            }
            if at != AT_END {
                ledger.slice = told.slice;
            }
            ledger.event(shard, told.event, asks, dones, closed, text);
            events.next();
        }
        AT_END
    }
}
