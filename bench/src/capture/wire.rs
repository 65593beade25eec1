//! The simulated wire: buffers future segments and writes them in the order in which they pass the
//! tap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

use super::file::{CaptureFile, Format};
use super::segment::Segment;
use crate::random::Random;

/// Totals of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets written.
    pub packets: u64,
    /// Bytes of the capture.
    pub bytes: u64,
    /// Packets that the tap missed.
    pub missed: u64,
    /// Requests at port 80, with and without a response.
    pub requests: u64,
    /// Requests at port 80 without a response.
    pub unanswered: u64,
    /// Requests at port 8080.
    pub upstream_requests: u64,
    /// Connections opened to port 80.
    pub connections: u64,
    /// SYNs after the first of a connection.
    pub syn_retries: u64,
    /// Data segments seen again at the tap.
    pub retransmits: u64,
    /// Spurious retransmits, which the receiver reported by DSACK.
    pub spurious: u64,
    /// Packets of clients lost before the tap.
    pub lost_before: u64,
    /// Resets that hit a request.
    pub resets: u64,
    /// Zero windows of clients.
    pub zero_windows: u64,
}

/// Future segments, and the capture file.
pub(super) struct Tap<W> {
    heap: BinaryHeap<Reverse<Segment>>,
    file: CaptureFile<W>,
    random: Random,
    missing_per_mille: u32,
    order: u64,
    pub(super) summary: Summary,
}

impl<W: Write> Tap<W> {
    pub(super) fn new(out: W, format: Format, seed: u64) -> io::Result<Self> {
        Ok(Self {
            heap: BinaryHeap::new(),
            file: CaptureFile::new(out, format)?,
            random: Random::new(seed ^ 0x7a70),
            missing_per_mille: format.missing_per_mille,
            order: 0,
            summary: Summary::default(),
        })
    }

    /// Schedules a segment.
    pub(super) fn push(&mut self, mut segment: Segment) {
        segment.order = self.order;
        self.order += 1;
        self.heap.push(Reverse(segment));
    }

    /// Writes segments before `time`; later calls of [`Self::push`] must not precede it.
    pub(super) fn advance(&mut self, time: i64) -> io::Result<()> {
        while self.heap.peek().is_some_and(|next| next.0.at_ns < time) {
            let Some(Reverse(segment)) = self.heap.pop() else { break };
            if self.random.chance([u64::from(self.missing_per_mille), 1000]) {
                self.summary.missed += 1;
            } else {
                self.file.packet(&segment)?;
                self.summary.packets += 1;
            }
        }
        Ok(())
    }

    /// Writes the remaining segments.
    pub(super) fn finish(mut self) -> io::Result<Summary> {
        self.advance(i64::MAX)?;
        self.summary.bytes = self.file.finish()?;
        Ok(self.summary)
    }
}
