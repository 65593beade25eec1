//! Output of a block's shards, sequenced in packet order.

use std::slice;
use std::vec::Drain;

use super::SHARDS;
use super::event::{ClosedConnection, CompletedRequest, EventBuffer, RequestDetails, StampedEvent};
use super::sequencer::Sequencer;
use super::shard_context::AT_END;
use super::slice::TimeSlice;

#[derive(Default)]
pub(super) struct ShardOutput {
    pub(super) out: EventBuffer,
    pub(super) slices: Vec<(u16, u32, Box<TimeSlice>)>,
}

/// State of the admission at the end of a block.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BlockEnd {
    pub(crate) start_ns: i64,
    pub(crate) now: i64,
    pub(crate) slice: u32,
}

/// Sequences the output of all shards of a block; `order` has the shard of each packet. The outputs
/// are drained.
pub(super) fn sequence_block(
    sequencer: &mut Sequencer,
    order: &[u8],
    outputs: &mut [ShardOutput; SHARDS],
    end: BlockEnd,
) {
    sequencer.start_ns = end.start_ns;
    let mut readers = outputs.each_mut().map(EventReader::new);
    let mut next_at = readers.each_ref().map(EventReader::next_at);
    for (at, number) in (0..).zip(order) {
        let number = usize::from(*number) % SHARDS;
        if next_at[number] == at {
            next_at[number] = readers[number].sequence(sequencer, number, at);
        }
    }
    for (number, mut reader) in readers.into_iter().enumerate() {
        sequencer.slice = end.slice;
        reader.sequence(sequencer, number, AT_END);
        sequencer.add_slices(number, reader.slices.drain(..));
    }
    sequencer.end_block(end.slice);
    for output in outputs {
        output.out.events.clear();
        output.out.text.clear();
    }
}

/// Reads one shard's events of a block, packet by packet.
struct EventReader<'a> {
    events: slice::Iter<'a, StampedEvent>,
    details: Drain<'a, RequestDetails>,
    completed: Drain<'a, CompletedRequest>,
    closed: Drain<'a, ClosedConnection>,
    text: &'a [u8],
    slices: &'a mut Vec<(u16, u32, Box<TimeSlice>)>,
}

impl<'a> EventReader<'a> {
    fn new(output: &'a mut ShardOutput) -> Self {
        let ShardOutput { out: EventBuffer { events, details, completed, closed, text }, slices } =
            output;
        let (details, completed, closed) =
            (details.drain(..), completed.drain(..), closed.drain(..));
        Self { events: events.iter(), details, completed, closed, text, slices }
    }

    /// Index of the packet of the next event.
    fn next_at(&self) -> u32 {
        self.events.as_slice().first().map_or(AT_END, |stamped| stamped.at)
    }

    /// Sequences the events of packet `at` and returns the index of the next event's packet.
    #[inline]
    fn sequence(&mut self, sequencer: &mut Sequencer, shard: usize, at: u32) -> u32 {
        let Self { events, details, completed, closed, text, .. } = self;
        while let Some(stamped) = events.as_slice().first() {
            if stamped.at != at {
                return stamped.at;
            }
            if at != AT_END {
                sequencer.slice = stamped.slice;
            }
            sequencer.event(shard, stamped.event, details, completed, closed, text);
            events.next();
        }
        AT_END
    }
}
