//! Wireless frames (IEEE 802.11 §9.2), alone or behind a radiotap header.
//!
//! ```text
//! control u16 · duration u16 · addresses 3 × 6 · sequence u16 [· address 6] [· QoS u16] [· HT u32] · SNAP
//! ```
//! One surprise: a capture in monitor mode of a protected network has only encrypted bytes.

use super::FrameSlice;
use super::link::{behind_snap, by_ethertype, cut};
use crate::skip::SkipReason;

const TYPE: u16 = 0x000c;
const DATA: u16 = 0x0008;
/// Subtypes without data, and those with a field for quality of service.
const HAS_NO_DATA: u16 = 0x0040;
const HAS_QOS: u16 = 0x0080;
const BOTH_SYSTEMS: u16 = 0x0300;
const PROTECTED: u16 = 0x4000;
const HAS_HT: u16 = 0x8000;

/// The IP datagram in a frame behind a radiotap header, which states its own length.
pub(super) fn behind_radiotap(frame: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    let head = frame.bytes.first_chunk::<4>().ok_or(SkipReason::HeaderCut)?;
    open(cut(frame, usize::from(u16::from_le_bytes([head[2], head[3]])))?)
}

/// The IP datagram in a frame.
pub(super) fn open(frame: FrameSlice<'_>) -> Result<FrameSlice<'_>, SkipReason> {
    let head = frame.bytes.first_chunk::<2>().ok_or(SkipReason::HeaderCut)?;
    let control = u16::from_le_bytes(*head);
    if control & TYPE != DATA || control & HAS_NO_DATA != 0 {
        return Err(SkipReason::NotIp);
    }
    if control & PROTECTED != 0 {
        return Err(SkipReason::Tunnel);
    }
    let has_qos = control & HAS_QOS != 0;
    let optional = [
        (control & BOTH_SYSTEMS == BOTH_SYSTEMS, 6),
        (has_qos, 2),
        (has_qos && control & HAS_HT != 0, 4),
    ];
    let more: usize = optional.iter().filter(|(is_there, _)| *is_there).map(|(_, size)| size).sum();
    let (protocol, part) = behind_snap(cut(frame, 24 + more)?)?;
    by_ethertype(protocol, part)
}
