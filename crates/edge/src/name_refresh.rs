//! Keeps the addresses of backends up to date while the edge runs.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, atomic::Ordering::Relaxed};
use std::time::Duration;

use crate::live::LiveConfig;
use crate::shared::SharedState;

/// Looks names up again and again, until the sender of `ended` is dropped.
pub(crate) fn refresh_loop(shared: &SharedState, ended: &Receiver<()>) {
    // Startup resolved all names: begin with those whose lookup timed out there.
    let mut pause = Duration::ZERO;
    while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let settings = shared.live().settings.clone();
        pause = shared.names.look_up_due(&settings);
        adopt(shared);
    }
}

/// Makes addresses that have changed the ones in use.
fn adopt(shared: &SharedState) {
    let _turn = shared.changing.lock();
    let before = shared.live();
    if shared.names.expand(&before.settings.backends) == before.backends {
        return;
    }
    match LiveConfig::build(&before.settings, Some(&before), shared.parts()) {
        Ok(live) => {
            *shared.live.lock() = Arc::new(live);
            shared.generation.fetch_add(1, Relaxed);
            tracing::info!("the addresses of backends have changed");
        }
        Err(error) => tracing::warn!("cannot use new addresses of backends: {error}"),
    }
}
