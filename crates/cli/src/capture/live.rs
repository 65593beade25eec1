//! A tap for a person: packets of some seconds into a model.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_agent_core::capture::{TapPlace, wire_failure};
use weir_process::clock::SystemClock;
use weir_process::failure::Failure;
use weir_tables::Clock;
use weir_wire::live::{Tap, TapOptions};
use weir_wire::{Decoder, Model, SkipCounts};

/// Captured bytes of a packet: heads of requests, not bodies.
const SNAP_BYTES: u32 = 1024;
const RING_BYTES: usize = 32 << 20;
/// How long a wait may keep the end from being noticed.
const STEP: Duration = Duration::from_millis(100);

/// What the tap says beside packets.
pub(crate) struct TapSummary {
    pub(crate) skipped: SkipCounts,
    pub(crate) tap_drops: u64,
}

/// Fills `model` for `span`, or until `is_over`.
pub(crate) fn watch_for(
    place: &TapPlace,
    ports: &[u16],
    span: Duration,
    is_over: &AtomicBool,
    model: &mut Model,
) -> Result<TapSummary, Failure> {
    let options = TapOptions {
        interface: place.interface.clone(),
        ports: ports.to_vec(),
        snap_bytes: SNAP_BYTES,
        ring_bytes: RING_BYTES,
    };
    place.inside(|| {
        let mut tap = Tap::open(options).map_err(wire_failure)?;
        let (mut decoder, mut skipped) = (Decoder::default(), SkipCounts::default());
        let end = SystemClock.now() + span;
        while SystemClock.now() < end && !is_over.load(Ordering::Relaxed) {
            tap.feed(STEP, &mut decoder, &mut skipped, model).map_err(wire_failure)?;
        }
        let tap_drops = tap.counts().map_err(wire_failure)?.drops;
        Ok(TapSummary { skipped, tap_drops })
    })
}
