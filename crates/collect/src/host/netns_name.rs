//! Names of network namespaces by their numbers, for those whom the kernel tells numbers only.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_tables::Micros;

use super::is_procfs;
use super::netns::{NetnsList, named};

/// Seconds after which new names are looked for.
const LOOK_EVERY_SECONDS: f64 = 10.0;

/// Names as in the column `netns`.
#[derive(Debug)]
pub struct NetnsNames {
    root: PathBuf,
    own: u64,
    names: HashMap<u64, Arc<str>>,
    looked: Option<Micros>,
}

impl NetnsNames {
    /// Of the host below `root`.
    pub fn new(root: PathBuf) -> Self {
        let own = NetnsList::new(&root, is_procfs(&root.join("proc"))).namespaces[0].inode;
        Self { root, own, names: HashMap::new(), looked: None }
    }

    /// Looks for new names when the last look is ten seconds old.
    pub fn refresh(&mut self, now: Micros) {
        let age = self.looked.map_or(f64::INFINITY, |looked| now.seconds_since(looked));
        if (0.0..LOOK_EVERY_SECONDS).contains(&age) {
            return;
        }
        self.looked = Some(now);
        let named = named(&self.root.join("run/netns")).into_iter();
        self.names = named.map(|(inode, name, _)| (inode, name)).collect();
        self.names.insert(self.own, "host".into());
    }

    /// `host` for the own one, its name under /run/netns, else `net:[inode]`.
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
