//! Maps network namespace inodes, as the kernel reports them, to names.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_tables::Micros;

use super::is_procfs;
use super::netns::{NetnsList, named};

const REFRESH_EVERY_SECONDS: f64 = 10.0;

/// Network namespace names as in the column `netns`.
#[derive(Debug)]
pub struct NetnsNames {
    root: PathBuf,
    own: u64,
    names: HashMap<u64, Arc<str>>,
    refreshed_at: Option<Micros>,
}

impl NetnsNames {
    /// Creates the map for the host below `root`.
    pub fn new(root: PathBuf) -> Self {
        let own = NetnsList::new(&root, is_procfs(&root.join("proc"))).namespaces[0].inode;
        Self { root, own, names: HashMap::new(), refreshed_at: None }
    }

    /// Refreshes the names if the last refresh is ten seconds old.
    pub fn refresh(&mut self, now: Micros) {
        let age =
            self.refreshed_at.map_or(f64::INFINITY, |refreshed_at| now.seconds_since(refreshed_at));
        if (0.0..REFRESH_EVERY_SECONDS).contains(&age) {
            return;
        }
        self.refreshed_at = Some(now);
        let named = named(&self.root.join("run/netns")).into_iter();
        self.names = named.map(|(inode, name, _)| (inode, name)).collect();
        self.names.insert(self.own, "host".into());
    }

    /// Name of a namespace: `host` for the own one, its name under /run/netns, else `net:[inode]`.
    pub fn name(&self, inode: u32) -> Arc<str> {
        let known = self.names.get(&u64::from(inode)).cloned();
        known.unwrap_or_else(|| format!("net:[{inode}]").into())
    }
}

#[cfg(test)]
mod tests {
    use weir_tables::Micros;

    use super::NetnsNames;
    use crate::host::process::namespace_inode;

    #[test]
    fn own_namespace_is_host_and_one_without_a_name_is_its_number() {
        let mut names = NetnsNames::new("/".into());
        names.refresh(Micros(0));
        let own = namespace_inode(&std::fs::read_link("/proc/self/ns/net").unwrap()).unwrap();
        assert_eq!(&*names.name(u32::try_from(own).unwrap()), "host");
        assert_eq!(&*names.name(7), "net:[7]");
    }
}
