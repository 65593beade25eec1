//! What the kernel counts of TCP sockets, once a second, when the configuration wants it.
//!
//! A kernel or a build without support is a failure in `collector_run`; everything else keeps
//! working.

use std::path::PathBuf;
use std::time::Duration;

use weir_collect::host::NetnsNames;
use weir_config::Values;
use weir_ebpf::{CounterOptions, EbpfError, SocketCounter};
use weir_process::meter::{Stage, thread_cpu};

use super::{WatchContext, sample};

/// What could not be opened is tried again after that long.
const RETRY: Duration = Duration::from_secs(10);

/// What to count, and below which root namespaces have their names.
pub(super) struct SocketCollector {
    options: CounterOptions,
    root: PathBuf,
}

impl SocketCollector {
    /// `None` when it is not configured.
    pub(super) fn configured(values: &Values) -> Option<Self> {
        let ebpf = &values.ebpf;
        let options = CounterOptions {
            peers: size(ebpf.peers),
            peer_rows: usize::try_from(ebpf.peer_rows).unwrap_or(usize::MAX),
            queued: size(ebpf.queued),
            times_accepts: ebpf.accept_wait,
        };
        ebpf.enabled.then(|| Self { options, root: values.collect.root.clone() })
    }

    /// Counts until the stop.
    pub(super) fn run(self, context: &WatchContext) {
        let mut names = NetnsNames::new(self.root.clone());
        let mut was_refused = false;
        while let Err(error) = self.count(context, &mut names) {
            if !std::mem::replace(&mut was_refused, true) {
                tracing::error!("{error}");
            }
            context.meter.failed(Stage::Ebpf, &error.to_string());
            if context.stop.wait(RETRY) {
                return;
            }
        }
    }

    fn count(&self, context: &WatchContext, names: &mut NetnsNames) -> Result<(), EbpfError> {
        let mut sockets = SocketCounter::open(self.options, context.clock.now())?;
        tracing::info!("counting socket events");
        while !sample::wait_for_next_second(context) {
            take(&mut sockets, context, names)?;
        }
        // The second that is under way, and the one before.
        take(&mut sockets, context, names)?;
        take(&mut sockets, context, names)
    }
}

fn size(value: u64) -> u32 {
    u32::try_from(value.clamp(1, 4 << 20)).expect("it was clamped")
}

fn take(
    sockets: &mut SocketCounter,
    context: &WatchContext,
    names: &mut NetnsNames,
) -> Result<(), EbpfError> {
    let (before, now) = (thread_cpu(), context.clock.now());
    names.refresh(now);
    let sample = sockets.sample(now, &context.host, &mut |inode| names.name(inode))?;
    let rows = sample.batches.iter().map(|batch| batch.rows.num_rows()).sum();
    if !sample.batches.is_empty() {
        context.destination.send_sample(sample.batches);
    }
    context.meter.spent(Stage::Ebpf, thread_cpu().saturating_sub(before), rows);
    if let Some(lost) = sample.lost {
        context.meter.failed(Stage::Ebpf, &lost.to_string());
    }
    Ok(())
}
