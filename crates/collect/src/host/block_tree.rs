//! Block devices and what each is made of: `/sys/block`.
//!
//! A disk has its partitions as directories, a stacked device (md, dm, loop) its members in
//! `slaves`. Only names are read, so that a device that does not answer cannot hold this up.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::raid_member::read;

const DEVICE_LIMIT: usize = 2048;
const SECTOR_BYTES: i64 = 512;
/// Devices that store nothing themselves: memory, floppies, CD drives.
const SKIPPED: [&str; 5] = ["ram", "zram", "fd", "sr", "nbd"];

#[derive(Debug, Default, PartialEq)]
pub(super) struct BlockNode {
    /// Kernel name as in `/proc/diskstats`.
    pub(super) name: String,
    /// Major and minor number, such as `8:1`.
    pub(super) number: String,
    pub(super) kind: &'static str,
    pub(super) volume: Option<String>,
    pub(super) parents: Vec<String>,
    pub(super) size_bytes: Option<i64>,
    pub(super) serial: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct BlockTree {
    pub(super) nodes: Vec<BlockNode>,
    by_name: HashMap<String, usize>,
    children: HashMap<String, Vec<usize>>,
}

impl BlockTree {
    /// Reads the tree below `block`, which is `/sys/block` of a host; empty if there is none.
    pub(super) fn read(block: &Path) -> Self {
        let mut tree = Self::default();
        for directory in sorted(block) {
            let Some(node) = whole(&directory) else { continue };
            let partitions: Vec<_> = sorted(&directory)
                .into_iter()
                .filter(|path| path.join("partition").exists())
                .collect();
            let disk = node.name.clone();
            tree.add(node);
            for path in partitions {
                tree.add(BlockNode { parents: vec![disk.clone()], ..node_of(&path, "partition") });
            }
        }
        tree
    }

    fn add(&mut self, node: BlockNode) {
        if self.nodes.len() >= DEVICE_LIMIT {
            return;
        }
        let index = self.nodes.len();
        self.by_name.insert(node.name.clone(), index);
        for parent in &node.parents {
            self.children.entry(parent.clone()).or_default().push(index);
        }
        self.nodes.push(node);
    }

    /// The device itself and everything on it, nearest first.
    pub(super) fn above(&self, name: &str) -> Vec<&BlockNode> {
        self.walk(name, |node| self.children.get(&node.name).cloned().unwrap_or_default())
    }

    /// The device itself and everything that it is made of, nearest first.
    pub(super) fn below(&self, name: &str) -> Vec<&BlockNode> {
        let parents = |node: &BlockNode| {
            node.parents.iter().filter_map(|parent| self.by_name.get(parent).copied()).collect()
        };
        self.walk(name, parents)
    }

    fn walk(&self, name: &str, next: impl Fn(&BlockNode) -> Vec<usize>) -> Vec<&BlockNode> {
        let mut found: Vec<usize> = self.by_name.get(name).copied().into_iter().collect();
        let mut place = 0;
        while let Some(index) = found.get(place).copied() {
            for neighbour in next(&self.nodes[index]) {
                if !found.contains(&neighbour) {
                    found.push(neighbour);
                }
            }
            place += 1;
        }
        found.into_iter().map(|index| &self.nodes[index]).collect()
    }
}

/// A directory of `/sys/block`; `None` for what stores nothing itself.
fn whole(directory: &Path) -> Option<BlockNode> {
    let name = directory.file_name()?.to_str()?;
    let is_skipped = SKIPPED.iter().any(|prefix| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    let is_unused_loop = name.starts_with("loop") && !directory.join("loop/backing_file").exists();
    if is_skipped || is_unused_loop {
        return None;
    }
    let kind = match () {
        () if directory.join("md").exists() => "raid",
        () if directory.join("dm").exists() => "volume",
        () if name.starts_with("loop") => "loop",
        () => "disk",
    };
    let parents = sorted(&directory.join("slaves")).iter().map(|path| kernel_name(path)).collect();
    let serial = ["serial", "device/serial", "device/wwid", "wwid"]
        .iter()
        .find_map(|file| read(&directory.join(file)).filter(|serial| !serial.is_empty()));
    Some(BlockNode {
        volume: read(&directory.join("dm/name")),
        parents,
        serial: serial.filter(|_| kind == "disk"),
        ..node_of(directory, kind)
    })
}

fn node_of(directory: &Path, kind: &'static str) -> BlockNode {
    let sectors = read(&directory.join("size")).and_then(|sectors| sectors.parse::<i64>().ok());
    BlockNode {
        name: kernel_name(directory),
        number: read(&directory.join("dev")).unwrap_or_default(),
        kind,
        size_bytes: sectors.map(|sectors| sectors.saturating_mul(SECTOR_BYTES)),
        ..BlockNode::default()
    }
}

/// sysfs writes `!` for the `/` in names such as cciss/c0d0.
fn kernel_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().replace('!', "/")
}

fn sorted(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.take(DEVICE_LIMIT).map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}
