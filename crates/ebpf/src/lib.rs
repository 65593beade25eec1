//! What TCP sockets do, counted in the kernel by eBPF: changes of state, segments sent again, waits for accept().
//!
//! ```text
//!  tracepoint ─► program (sockets.bpf.c) ─► maps, two halves ── once a second ─► rows
//! ```
//! Nothing comes to user space for a single connection: programs add to maps of limited size, and what finds no room is
//! counted. Programs and maps live as long as the process that opened them; nothing stays in the kernel after it.
//! Without the feature `kernel` only the rows are here, and opening fails with a hint.

mod error;
mod histogram;
#[cfg_attr(not(feature = "kernel"), path = "absent.rs")]
mod kernel;
mod rows;

use std::sync::Arc;

use weir_tables::{Batch, Micros};

pub use error::EbpfError;
use kernel::Kernel;
use rows::Place;

/// How much is counted.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Peers with retransmits or resets that are told apart within a second; 120 bytes of the kernel's memory each.
    pub peers: u32,
    /// Rows of `tcp_peer` for each second; the rest is summed.
    pub peer_rows: usize,
    /// Connections that are in accept queues at one time; 96 bytes of the kernel's memory each.
    pub queued: u32,
    /// Whether waits for accept() are measured, which needs a look at each system call of the host.
    pub times_accepts: bool,
}

/// The rows of one stretch of time.
#[derive(Debug, Default)]
pub struct Sample {
    /// Rows of `tcp_state`, `tcp_accept` and `tcp_peer`.
    pub batches: Vec<Batch>,
    /// What was not counted since a map was full.
    pub lost: Option<EbpfError>,
}

/// Names a network namespace, as the column `netns` has it, by its inode number.
pub type NameNetns<'a> = &'a mut dyn FnMut(u32) -> Arc<str>;

/// Programs that count, attached to the kernel's tracepoints until this is dropped.
pub struct Sockets {
    kernel: Kernel,
    options: Options,
    /// The stretch that ended last and is not read yet: its begin and its end.
    ended: Option<(Micros, Micros)>,
    began: Micros,
    lost: [u64; 4],
}

impl Sockets {
    /// Loads and attaches the programs; counting begins `now`.
    ///
    /// # Errors
    /// When weir was built without them, the kernel has no BTF or is too old, or the process lacks CAP_BPF and
    /// CAP_PERFMON.
    pub fn open(options: Options, now: Micros) -> Result<Self, EbpfError> {
        let kernel = Kernel::open(&options)?;
        Ok(Self { kernel, options, ended: None, began: now, lost: [0; 4] })
    }

    /// To be called once a second: the rows of the stretch before the one that ends `now`. So no program is still adding
    /// to what is read.
    ///
    /// # Errors
    /// When the kernel refuses to have its maps read.
    pub fn sample(
        &mut self,
        now: Micros,
        host: &str,
        netns: NameNetns<'_>,
    ) -> Result<Sample, EbpfError> {
        let sample = self.read(host, netns)?;
        self.kernel.change_half()?;
        self.ended = Some((self.began, now));
        self.began = now;
        Ok(sample)
    }

    fn read(&mut self, host: &str, netns: NameNetns<'_>) -> Result<Sample, EbpfError> {
        let Some((began, ended)) = self.ended.take() else { return Ok(Sample::default()) };
        let counted = self.kernel.take_idle_half()?;
        let place = Place {
            ts: ended,
            host,
            interval_seconds: ended.seconds_since(began),
            peer_rows: self.options.peer_rows,
        };
        let lost = self.newly_lost()?;
        Ok(Sample { batches: rows::batches(&counted, &place, netns), lost })
    }

    fn newly_lost(&mut self) -> Result<Option<EbpfError>, EbpfError> {
        let before = std::mem::replace(&mut self.lost, self.kernel.lost()?);
        let new: [u64; 4] = std::array::from_fn(|at| self.lost[at].saturating_sub(before[at]));
        Ok(EbpfError::of_full_maps(new, &self.options))
    }
}
