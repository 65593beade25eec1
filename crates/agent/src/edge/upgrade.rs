//! SIGUSR2: this program is started once more, such as its new version, and takes the place of this
//! process.
//!
//! The new process is a child of this one, so that it stays in the same systemd unit; systemd
//! learns the new main PID when the handover is complete ([`super::handover`]). A failure before
//! that leaves this process unchanged.

use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use weir_process::failure::Failure;

const REPLACE: &str = "--replace";

/// Waits for signals until it is aborted.
pub(super) async fn upgrade_always() {
    let Ok(mut signals) = signal(SignalKind::user_defined2()) else {
        return tracing::error!("cannot wait for SIGUSR2: no other program takes this one's place");
    };
    while signals.recv().await.is_some() {
        if let Err(failure) = upgrade().await {
            tracing::error!("the edge keeps serving: {failure}");
        }
    }
}

/// Returns only on failure: after a handover this process ends.
async fn upgrade() -> Result<(), Failure> {
    let mut words: Vec<_> = std::env::args_os().collect();
    if words.is_empty() {
        return Err(Failure::new("its own path is unknown"));
    }
    // As it was called, not as the file is that runs: that one may have been replaced.
    let program = words.remove(0);
    if !words.iter().any(|word| word == REPLACE) {
        words.push(REPLACE.into());
    }
    tracing::info!("SIGUSR2: `{}` is started to take the edge's place", program.display());
    let started = Command::new(&program).args(words).spawn();
    let mut child = started.map_err(|error| {
        Failure::new(format!("cannot start `{}`: {error}", program.display()))
            .hint("start weir with its whole path, which must be there")
    })?;
    let status = child.wait().await.map_err(|error| Failure::new(error.to_string()))?;
    Err(Failure::new(format!("its successor ended ({status})")).hint("the reason is on stderr"))
}
