//! Reassembles IP fragments in bounded memory.
//!
//! Only datagrams that begin with TCP are kept; a tunnel whose outer datagram is fragmented is
//! skipped and counted.

use std::collections::VecDeque;

use super::FrameSlice;
use super::ip::{Datagram, Fragment, TCP};
use crate::skip::SkipReason;

/// Incomplete datagrams; the oldest is dropped first.
const WAITING_MAX: usize = 256;
/// Pieces of one datagram: 64 KiB in pieces of 576 bytes, some repeated.
const PIECES_MAX: usize = 256;
const BODY_BYTES_MAX: usize = 65_535;

#[derive(Default)]
pub(super) struct Reassembler {
    waiting: VecDeque<PendingDatagram>,
    assembled: Vec<u8>,
    wire_length: usize,
}

struct PendingDatagram {
    key: (u128, u128, u32),
    pieces: Vec<Piece>,
    /// Known once the last piece has come.
    total: Option<usize>,
}

struct Piece {
    offset: usize,
    wire_length: usize,
    bytes: Vec<u8>,
}

pub(super) struct ReassemblyOutcome {
    pub(super) is_whole: bool,
    pub(super) count: u64,
}

impl Reassembler {
    pub(super) fn add(&mut self, datagram: &Datagram<'_>, fragment: Fragment) -> ReassemblyOutcome {
        let end = fragment.offset + datagram.body.wire_length;
        if datagram.protocol != TCP || end > BODY_BYTES_MAX {
            return ReassemblyOutcome { is_whole: false, count: 1 };
        }
        let key = (datagram.from, datagram.to, fragment.id);
        let mut count = 0;
        let at = self.waiting.iter().position(|waiting| waiting.key == key);
        let at = at.unwrap_or_else(|| {
            if self.waiting.len() == WAITING_MAX {
                count += self.waiting.pop_front().map_or(0, |old| old.pieces.len() as u64);
            }
            self.waiting.push_back(PendingDatagram { key, pieces: Vec::new(), total: None });
            self.waiting.len() - 1
        });
        let waiting = &mut self.waiting[at];
        if waiting.pieces.len() == PIECES_MAX {
            return ReassemblyOutcome { is_whole: false, count: count + 1 };
        }
        if fragment.is_last {
            waiting.total = Some(end);
        }
        waiting.pieces.push(Piece {
            offset: fragment.offset,
            wire_length: datagram.body.wire_length,
            bytes: datagram.body.bytes.to_vec(),
        });
        let is_whole = waiting.is_whole();
        if is_whole && let Some(waiting) = self.waiting.remove(at) {
            self.wire_length = waiting.total.unwrap_or_default();
            self.assembled.clear();
            for piece in &waiting.pieces {
                // A piece cut by the snap length ends the known bytes.
                if piece.offset <= self.assembled.len() {
                    let known = self.assembled.len() - piece.offset;
                    self.assembled.extend_from_slice(piece.bytes.get(known..).unwrap_or_default());
                }
            }
        }
        ReassemblyOutcome { is_whole, count }
    }

    /// The datagram just completed; `like` is its last fragment.
    pub(super) fn whole<'a>(&'a self, like: &Datagram<'_>) -> Result<Datagram<'a>, SkipReason> {
        let body = FrameSlice { bytes: &self.assembled, wire_length: self.wire_length };
        if self.assembled.is_empty() {
            return Err(SkipReason::HeaderCut);
        }
        let Datagram { from, to, ip_id, protocol, .. } = *like;
        Ok(Datagram { from, to, ip_id, protocol, body })
    }

    pub(super) fn waiting(&self) -> u64 {
        self.waiting.iter().map(|waiting| waiting.pieces.len() as u64).sum()
    }
}

impl PendingDatagram {
    /// Sorts the pieces; true when they cover the datagram without a hole.
    fn is_whole(&mut self) -> bool {
        let Some(total) = self.total else { return false };
        self.pieces.sort_by_key(|piece| piece.offset);
        let mut reach = 0;
        for piece in &self.pieces {
            if piece.offset > reach {
                return false;
            }
            reach = reach.max(piece.offset + piece.wire_length);
        }
        reach == total
    }
}
