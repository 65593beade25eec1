//! Counts TCP socket events in the kernel with eBPF: state changes, retransmits, accept waits.
//!
//! ```text
//!  tracepoint ─► program (sockets.bpf.c) ─► maps, two halves ── once a second ─► rows
//! ```
//! The kernel sends nothing to user space per connection: programs add to maps of limited size, and
//! events that a full map drops are counted. Programs and maps are freed with the process that
//! opened them. Without the feature `kernel` this crate only has the rows, and opening fails with
//! a hint.

mod error;
mod histogram;
#[cfg_attr(not(feature = "kernel"), path = "absent.rs")]
mod kernel;
mod rows;

use std::sync::Arc;

use weir_tables::{Batch, Micros};

pub use error::EbpfError;
use kernel::KernelCounter;
use rows::RowContext;

/// Limits of the socket counter.
#[derive(Clone, Copy, Debug)]
pub struct CounterOptions {
    /// Maximum number of peers counted separately per second; 120 bytes of kernel memory each.
    pub peers: u32,
    /// Maximum rows of `tcp_peer` per second; the other peers are summed.
    pub peer_rows: usize,
    /// Maximum number of connections in accept queues; 96 bytes of kernel memory each.
    pub queued: u32,
    /// Whether to measure accept waits, which runs a program on every system call of the host.
    pub times_accepts: bool,
}

/// Rows of one interval.
#[derive(Debug, Default)]
pub struct SocketSample {
    /// Rows of `tcp_state`, `tcp_accept` and `tcp_peer`.
    pub batches: Vec<Batch>,
    /// Error that reports events dropped by a full map.
    pub lost: Option<EbpfError>,
}

/// Maps the inode of a network namespace to its value in the column `netns`.
pub type NameNetns<'a> = &'a mut dyn FnMut(u32) -> Arc<str>;

/// Attached eBPF programs that count socket events; dropping it detaches them.
pub struct SocketCounter {
    kernel: KernelCounter,
    options: CounterOptions,
    /// Start and end of the last interval, while it is unread.
    ended: Option<(Micros, Micros)>,
    began: Micros,
    lost: [u64; 4],
}

impl SocketCounter {
    /// Loads and attaches the programs; counting starts at `now`.
    ///
    /// # Errors
    /// When weir was built without eBPF, the kernel has no BTF or is too old, or the process lacks
    /// CAP_BPF and CAP_PERFMON.
    pub fn open(options: CounterOptions, now: Micros) -> Result<Self, EbpfError> {
        let kernel = KernelCounter::open(&options)?;
        Ok(Self { kernel, options, ended: None, began: now, lost: [0; 4] })
    }

    /// Returns the rows of the interval before the one that ends at `now`; call it once a second.
    ///
    /// Reading one interval late ensures that no program still writes to the half being read.
    ///
    /// # Errors
    /// When the kernel does not let the maps be read.
    pub fn sample(
        &mut self,
        now: Micros,
        host: &str,
        netns: NameNetns<'_>,
    ) -> Result<SocketSample, EbpfError> {
        let sample = self.read(host, netns)?;
        self.kernel.change_half()?;
        self.ended = Some((self.began, now));
        self.began = now;
        Ok(sample)
    }

    fn read(&mut self, host: &str, netns: NameNetns<'_>) -> Result<SocketSample, EbpfError> {
        let Some((began, ended)) = self.ended.take() else { return Ok(SocketSample::default()) };
        let counted = self.kernel.take_idle_half()?;
        let context = RowContext {
            ts: ended,
            host,
            interval_seconds: ended.seconds_since(began),
            peer_rows: self.options.peer_rows,
        };
        let lost = self.newly_lost()?;
        Ok(SocketSample { batches: rows::batches(&counted, &context, netns), lost })
    }

    fn newly_lost(&mut self) -> Result<Option<EbpfError>, EbpfError> {
        let before = std::mem::replace(&mut self.lost, self.kernel.lost()?);
        let new: [u64; 4] = std::array::from_fn(|at| self.lost[at].saturating_sub(before[at]));
        Ok(EbpfError::of_full_maps(new, &self.options))
    }
}
