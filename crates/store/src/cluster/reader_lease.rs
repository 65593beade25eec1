//! A lease on the files of a cluster for external readers: files stay while the lease lasts, merged
//! ones included.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_datafile::{ErrorKind, StoreError};

use super::{ManifestOptions, random};
use crate::manifest::PostgresManifest;

/// Interval between renewals.
const BEAT: Duration = Duration::from_secs(10);

/// Holds files until dropped, or for a minute after the process dies.
pub(crate) struct ReaderLease {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ReaderLease {
    /// Acquires the lease and starts its renewal.
    ///
    /// # Errors
    /// `Io`, `NewerVersion`.
    pub(crate) fn new(options: &ManifestOptions) -> Result<Self, StoreError> {
        let (manifest, who) =
            (PostgresManifest::look(options)?, format!("{:016x}", random("hold")));
        manifest.hold(&who)?;
        let (stop, stopped) = channel::<()>();
        let work = move || {
            while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = manifest.hold(&who) {
                    tracing::warn!("files may be deleted while they are read: {error}");
                }
            }
            // The lease expires in any case.
            drop(manifest.let_go(&who));
        };
        let thread = std::thread::Builder::new().name("weir-hold".into()).spawn(work);
        let thread = thread.map_err(|error| {
            StoreError::new(ErrorKind::Io, format!("cannot start a thread: {error}"))
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for ReaderLease {
    fn drop(&mut self) {
        self.stop.take();
        drop(self.thread.take().map(JoinHandle::join));
    }
}
