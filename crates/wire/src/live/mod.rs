//! Live capture: a tap on an interface, its losses, and a capture file of its packets.
//!
//! The tap is a packet socket with a ring (`ring`) behind a port filter
//! ([`kernel_filter`]); interfaces are not made promiscuous. It belongs to the network namespace of the thread that opens it. The
//! kernel counts what the tap cannot take; these losses are assigned to slices ([`LossHistory`]),
//! and a slice with losses has no verdict.

mod losses;
mod ring;
mod rows;
mod throttle;

pub use losses::{LossCounts, LossHistory, softnet_drops};
pub use rows::{LiveSink, SamplingShares, live_slices};
pub use throttle::{TapLoad, TapThrottle};
pub use weir_capture::pcapng::{FrameTruncation, PcapngWriter, TapCounts, TapFrame};

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::time::Duration;

use crate::model::Model;
use ring::{PacketRing, RawPacket};
use weir_capture::Record;
use weir_capture::SkipCounts;
use weir_capture::WireError;
use weir_capture::kernel_filter::{self, FilterSpec};
use weir_capture::packet::Direction;
use weir_capture::{Decoder, LinkType};

/// Configuration of a tap.
#[derive(Debug, Clone)]
pub struct TapOptions {
    /// The interface; all of the namespace when `None`.
    pub interface: Option<String>,
    /// Ports of either end, at most 32; all of TCP when empty.
    pub ports: Vec<u16>,
    /// Bytes kept of each packet, from its network header on.
    pub snap_bytes: u32,
    /// Size of the ring.
    pub ring_bytes: usize,
}

/// A tap on an interface.
pub struct Tap {
    ring: PacketRing,
    options: TapOptions,
    seed: u64,
    share: u32,
}

/// The share of all connections: see [`Tap::keep`].
pub const ALL_CONNECTIONS: u32 = kernel_filter::ALL;
/// Maximum ports of one tap.
pub const TAP_PORTS_MAX: usize = kernel_filter::PORTS_MAX;

impl Tap {
    /// Starts capturing.
    ///
    /// # Errors
    /// When there is no such interface, or the permission to capture is missing.
    pub fn open(options: TapOptions) -> Result<Self, WireError> {
        let name = options.interface.as_deref();
        if options.ports.len() > TAP_PORTS_MAX {
            return Err(WireError::new(
                format!("cannot capture {} ports with one tap", options.ports.len()),
                format!("the maximum is {TAP_PORTS_MAX}; without ports, all TCP is captured"),
            ));
        }
        let ring = PacketRing::open(options.ring_bytes).map_err(|error| refused(name, &error))?;
        let index = match name {
            Some(name) => ring.index(name).map_err(|_| no_interface(name))?,
            None => 0,
        };
        // An attacker who chooses ports must not know the seed.
        let seed = RandomState::new().hash_one(0);
        let mut tap = Self { ring, options, seed, share: ALL_CONNECTIONS };
        tap.set_filter()?;
        tap.ring.bind(index).map_err(|error| refused(tap.options.interface.as_deref(), &error))?;
        Ok(tap)
    }

    /// Samples this many of 65,536 connections from now on, each of them whole.
    ///
    /// # Errors
    /// When the kernel rejects the filter.
    pub fn keep(&mut self, share: u32) -> Result<(), WireError> {
        self.share = share.clamp(1, ALL_CONNECTIONS);
        self.set_filter()
    }

    fn set_filter(&mut self) -> Result<(), WireError> {
        let Self { ring, options, seed, share } = self;
        let wanted = FilterSpec {
            ports: &options.ports,
            snap_bytes: options.snap_bytes.max(1),
            share: *share,
            seed: *seed,
        };
        ring.set_filter(&kernel_filter::program(&wanted))
            .map_err(|error| WireError::new(format!("cannot set the packet filter: {error}"), ""))
    }

    /// Waits up to `timeout` for packets, passes them to `each` and returns their count.
    ///
    /// # Errors
    /// When the interface is gone or down.
    pub fn step(
        &mut self,
        timeout: Duration,
        each: &mut impl FnMut(&TapFrame<'_>),
    ) -> Result<u64, WireError> {
        let name = self.options.interface.as_deref();
        self.ring.wait(timeout).map_err(|error| refused(name, &error))?;
        let mut count = 0;
        let mut take = |raw: &RawPacket<'_>| {
            count += 1;
            if let Some(frame) = frame(raw) {
                each(&frame);
            }
        };
        // Processing more than a round of the ring would starve the caller's other work.
        for _ in 0..BLOCKS_AT_ONCE {
            if !self.ring.next_block(&mut take) {
                break;
            }
        }
        Ok(count)
    }

    /// Waits up to `timeout` for packets and passes their TCP segments to the model; counts others
    /// in `skipped`.
    ///
    /// # Errors
    /// When the interface is gone or down.
    pub fn feed(
        &mut self,
        timeout: Duration,
        decoder: &mut Decoder,
        skipped: &mut SkipCounts,
        model: &mut Model,
    ) -> Result<u64, WireError> {
        self.step(timeout, &mut |frame| feed(frame, decoder, skipped, model))
    }

    /// Kernel counters since the last call.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn counts(&self) -> Result<TapCounts, WireError> {
        let found = self.ring.statistics().map_err(|error| {
            WireError::new(format!("cannot read the tap's drop counters: {error}"), "")
        })?;
        Ok(TapCounts {
            packets: found.packets.into(),
            drops: found.drops.into(),
            freezes: found.freezes.into(),
        })
    }
}

/// Blocks processed before control returns to the caller: 8 MiB.
const BLOCKS_AT_ONCE: usize = 8;

/// Passes a packet's TCP segment to the model, or counts it in `skipped`.
fn feed(frame: &TapFrame<'_>, decoder: &mut Decoder, skipped: &mut SkipCounts, model: &mut Model) {
    let record = Record {
        ts_ns: frame.ts_ns,
        link: LinkType::Raw,
        interface: frame.interface,
        wire_length: frame.wire_length,
        bytes: frame.bytes,
    };
    let decoded = decoder.decode_directed(&record, frame.direction, skipped, &mut |packet| {
        model.packet(packet);
    });
    if let Err(Some(reason)) = decoded {
        skipped.add(reason);
    }
}

/// Converts a packet to one that begins at its IP header: an incoming packet has an inner VLAN tag
/// before it.
fn frame<'a>(raw: &RawPacket<'a>) -> Option<TapFrame<'a>> {
    let is_tagged = matches!(raw.protocol, 0x8100 | 0x88a8) && raw.direction == Direction::In;
    let before = if is_tagged { 4 } else { 0 };
    Some(TapFrame {
        ts_ns: raw.ts_ns,
        interface: raw.interface,
        direction: raw.direction,
        bytes: raw.bytes.get(before..)?,
        wire_length: raw.length.checked_sub(u32::try_from(before).ok()?)?,
    })
}

fn refused(interface: Option<&str>, error: &io::Error) -> WireError {
    let what = match interface {
        Some(name) => format!("cannot capture on `{name}`: {error}"),
        None => format!("cannot capture: {error}"),
    };
    let hint = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "capturing needs CAP_NET_RAW: `setcap cap_net_raw+ep $(command -v weir)`, \
             `AmbientCapabilities=CAP_NET_RAW` in the systemd unit, or root"
        }
        Some(libc::ENETDOWN) => "the interface is down: `ip link set NAME up`",
        Some(libc::ENOMEM | libc::ENOBUFS) => "not enough memory for the ring; reduce its size",
        Some(libc::EAFNOSUPPORT) => "packet sockets are unavailable in this kernel or sandbox",
        _ => "",
    };
    WireError::new(what, hint)
}

fn no_interface(name: &str) -> WireError {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let names: Vec<&str> =
        table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).take(20).collect();
    WireError::new(
        format!("cannot capture on `{name}`: there is no such interface"),
        format!("interfaces: {}; `any` captures on all", names.join(", ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_what_is_missing() {
        let denied = io::Error::from_raw_os_error(libc::EPERM);
        let error = refused(Some("eth0"), &denied);
        assert!(error.message().contains("`eth0`") && error.hint().contains("cap_net_raw+ep"));
        let error = no_interface("eth99");
        assert!(error.hint().contains("lo"), "{}", error.hint());
    }

    #[test]
    fn a_tag_before_the_header_is_taken_off() {
        let bytes = [0, 7, 8, 0, 0x45, 0];
        let raw = RawPacket {
            ts_ns: 1,
            interface: 2,
            protocol: 0x8100,
            direction: Direction::In,
            bytes: &bytes,
            length: 64,
        };
        let found = frame(&raw).expect("it is long enough");
        assert_eq!((found.bytes, found.wire_length), (&bytes[4..], 60));
        let going = RawPacket { direction: Direction::Out, bytes: &bytes[4..], ..raw };
        assert_eq!(frame(&going).expect("nothing is taken off").wire_length, 64);
    }
}
