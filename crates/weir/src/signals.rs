//! A flag that says that a command should end, for commands that must take something back first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

/// Becomes true at Ctrl-C, SIGTERM, and when the terminal goes away. Called inside of a runtime, whose threads set it.
pub(crate) fn ended_by_signal() -> Result<Arc<AtomicBool>, Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let is_ended = Arc::new(AtomicBool::new(false));
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let mut signals = signal(kind)
            .map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))?;
        let is_ended = Arc::clone(&is_ended);
        tokio::spawn(async move {
            signals.recv().await;
            is_ended.store(true, Ordering::Relaxed);
        });
    }
    Ok(is_ended)
}
