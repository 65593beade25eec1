//! How a process is told to end: Ctrl-C and SIGTERM for a long-running process, a flag for commands
//! that must undo something first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// Ctrl-C and SIGTERM.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new() -> Result<Self, Failure> {
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// Returns at the first of them, or when `or_else` does: when another process has taken this
    /// one's place.
    pub async fn wait(mut self, or_else: impl Future<Output = ()>) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = or_else => {}
        }
    }
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))
}

/// Becomes true at Ctrl-C, SIGTERM, and when the terminal goes away. Called inside of a runtime,
/// whose threads set it.
///
/// # Errors
/// When the system refuses.
pub fn ended_by_signal() -> Result<Arc<AtomicBool>, Failure> {
    let is_ended = Arc::new(AtomicBool::new(false));
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let mut signals = listen(kind)?;
        let is_ended = Arc::clone(&is_ended);
        tokio::spawn(async move {
            signals.recv().await;
            is_ended.store(true, Ordering::Relaxed);
        });
    }
    Ok(is_ended)
}
