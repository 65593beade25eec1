//! Orders without an outcome, one file each, so that an agent that dies reports it at its next
//! start. A file is not proof that an order ran: the helper's journal is.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use weir_act::{SignedOrder, order_id_text};

/// Orders that are kept at a time.
const KEPT: usize = 64;

pub(super) struct PendingOrders {
    dir: PathBuf,
}

impl PendingOrders {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Keeps a signed order; returns why it cannot.
    pub(super) fn keep(&self, id: &[u8; 16], bytes: &[u8]) -> Result<(), String> {
        let path = self.path(id);
        self.write(&path, bytes).map_err(|error| {
            let path = path.display();
            format!("cannot write `{path}`: {error}; check the free space of the agent's disk")
        })
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        if !path.exists() && fs::read_dir(&self.dir)?.count() >= KEPT {
            return Err(std::io::Error::other(format!("{KEPT} orders have no outcome")));
        }
        let next = path.with_extension("new");
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&next)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&next, path)
    }

    pub(super) fn remove(&self, id: &[u8; 16]) {
        let _ = fs::remove_file(self.path(id));
    }

    /// Every order that is kept. A file that is no order, cut off by a loss of power, is removed.
    pub(super) fn all(&self) -> Vec<SignedOrder> {
        let mut orders = Vec::new();
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            match fs::read(entry.path()).map(SignedOrder::from_bytes) {
                Ok(Ok(order)) => orders.push(order),
                Ok(Err(_)) => _ = fs::remove_file(entry.path()),
                Err(error) => tracing::warn!("cannot read `{}`: {error}", entry.path().display()),
            }
        }
        orders
    }

    fn path(&self, id: &[u8; 16]) -> PathBuf {
        self.dir.join(order_id_text(id))
    }
}
