//! Who reads many files of a cluster from outside holds them: none is deleted meanwhile, also of those that are merged.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_datafile::{ErrorKind, StoreError};

use super::{ManifestOptions, random};
use crate::manifest::PostgresManifest;

/// How often it is said again.
const BEAT: Duration = Duration::from_secs(10);

/// Files are held until this is dropped, or for a minute after its process is gone.
pub(crate) struct ReaderLease {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ReaderLease {
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
            // It ends by itself otherwise.
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
