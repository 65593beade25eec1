//! What lies on each disk: arrays, volumes and file systems, from `/sys/block` and `mountinfo`.
//!
//! A file system is found by its device number; btrfs has another number, so there the name of
//! the mounted device counts. Of several mounts of a device, those of its root come first.

use std::collections::HashMap;

use weir_tables::{Batch, BlockDevice, BlockDeviceRows, Micros};

use super::block_tree::{BlockNode, BlockTree};
use super::mounts::{host_file, unescape};
use super::{CollectResult, Collector, View, take, text};

const MOUNT_LIMIT: usize = 4096;
/// Mount points that a row lists.
const SHOWN_LIMIT: usize = 8;

#[derive(Debug, Default)]
pub(super) struct BlockDeviceCollector {
    rows: BlockDeviceRows,
}

#[derive(Debug, PartialEq)]
struct MountInfo {
    number: String,
    is_root: bool,
    point: String,
    filesystem_type: String,
    source: String,
}

impl Collector for BlockDeviceCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        let tree = BlockTree::read(&view.path("sys/block"));
        let mounts = std::fs::read(host_file(view, "mountinfo")).unwrap_or_default();
        let mounted = mounted(&tree, parse(&mounts));
        for node in &tree.nodes {
            self.push(&view.host, now, &tree, node, &mounted);
        }
        take(&mut self.rows, out);
        Ok(())
    }
}

impl BlockDeviceCollector {
    fn push(
        &mut self,
        host: &str,
        now: Micros,
        tree: &BlockTree,
        node: &BlockNode,
        mounted: &HashMap<&str, Vec<MountInfo>>,
    ) {
        let above = tree.above(&node.name);
        let arrays = above.iter().filter(|node| node.kind == "raid").map(|node| node.name.as_str());
        let volumes = above.iter().filter_map(|node| node.volume.as_deref());
        let mounts = above.iter().filter_map(|node| mounted.get(node.name.as_str())).flatten();
        let points = mounts.clone().map(|mount| mount.point.as_str()).take(SHOWN_LIMIT);
        let below = tree.below(&node.name);
        let disks: Vec<&str> = below
            .iter()
            .filter(|node| node.parents.is_empty())
            .map(|node| node.name.as_str())
            .collect();
        self.rows.push(&BlockDevice {
            ts: now,
            host,
            device: &node.name,
            kind: node.kind,
            name: node.volume.as_deref(),
            parents: joined(node.parents.iter().map(String::as_str)).as_deref(),
            disks: &disks.join(" "),
            arrays: joined(arrays).as_deref(),
            volumes: joined(volumes).as_deref(),
            mount_points: joined(points).as_deref(),
            filesystem_type: mounts.clone().next().map(|mount| mount.filesystem_type.as_str()),
            size_bytes: node.size_bytes,
            serial: node.serial.as_deref(),
        });
    }
}

fn joined<'a>(words: impl Iterator<Item = &'a str>) -> Option<String> {
    let words: Vec<&str> = words.collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// The mounts of each device; those of a file system's root hide its bind mounts.
fn mounted(tree: &BlockTree, mounts: Vec<MountInfo>) -> HashMap<&str, Vec<MountInfo>> {
    let mut found: HashMap<&str, Vec<MountInfo>> = HashMap::new();
    for mount in mounts {
        let named = mount.source.strip_prefix("/dev/").unwrap_or(&mount.source);
        let volume = named.strip_prefix("mapper/");
        let node = tree.nodes.iter().find(|node| node.number == mount.number).or_else(|| {
            let is_meant = |node: &&BlockNode| {
                node.name == named || volume.is_some() && node.volume.as_deref() == volume
            };
            tree.nodes.iter().find(is_meant)
        });
        if let Some(node) = node {
            found.entry(&node.name).or_default().push(mount);
        }
    }
    for mounts in found.values_mut() {
        if mounts.iter().any(|mount| mount.is_root) {
            mounts.retain(|mount| mount.is_root);
        }
    }
    found
}

fn parse(bytes: &[u8]) -> Vec<MountInfo> {
    text::lines(bytes).take(MOUNT_LIMIT).filter_map(parse_line).collect()
}

/// `36 35 8:1 / /srv rw,noatime shared:1 - ext4 /dev/sda1 rw` (proc_pid_mountinfo(5)).
fn parse_line(line: &[u8]) -> Option<MountInfo> {
    let lossy = |field: &[u8]| String::from_utf8_lossy(&unescape(field)).into_owned();
    let mut fields = text::fields(line).skip(2);
    let number = lossy(fields.next()?);
    let is_root = fields.next()? == b"/";
    let point = lossy(fields.next()?);
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    Some(MountInfo {
        number,
        is_root,
        point,
        filesystem_type: lossy(rest.next()?),
        source: lossy(rest.next()?),
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn write(root: &std::path::Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn array_volume_and_mounts_of_a_disk_are_found_through_partitions() {
        let dir = tempfile::tempdir().unwrap();
        write(
            dir.path(),
            &[
                ("sda/dev", "8:0"),
                ("sda/size", "1000"),
                ("sda/device/wwid", "naa.5000"),
                ("sda/sda1/partition", "1"),
                ("sda/sda1/dev", "8:1"),
                ("sda/sda2/partition", "2"),
                ("sda/sda2/dev", "8:2"),
                ("sdb/dev", "8:16"),
                ("md0/md/level", "raid1"),
                ("md0/dev", "9:0"),
                ("md0/slaves/sda2/dev", "8:2"),
                ("md0/slaves/sdb/dev", "8:16"),
                ("dm-0/dm/name", "vg-data"),
                ("dm-0/dev", "253:0"),
                ("dm-0/slaves/md0/dev", "9:0"),
                ("loop0/dev", "7:0"),
                ("ram0/dev", "1:0"),
            ],
        );
        let tree = BlockTree::read(dir.path());
        let mounts = parse(
            b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 253:0 /mysql /var/lib/my\\040sql rw shared:1 - xfs /dev/mapper/vg-data rw\n\
              3 1 253:0 / /data rw - xfs /dev/mapper/vg-data rw\n4 1 0:33 /@ /btr rw - btrfs /dev/sdb rw\nbroken\n",
        );
        let mounted = mounted(&tree, mounts);
        let mut shown = String::new();
        for node in &tree.nodes {
            let above: Vec<&str> =
                tree.above(&node.name).iter().map(|node| node.name.as_str()).collect();
            let below: Vec<&str> =
                tree.below(&node.name).iter().map(|node| node.name.as_str()).collect();
            let points: Vec<&str> = mounted
                .get(node.name.as_str())
                .into_iter()
                .flatten()
                .map(|mount| mount.point.as_str())
                .collect();
            shown += &format!("{} {}: {above:?} {below:?} {points:?}\n", node.kind, node.name);
        }
        expect![[r#"
            volume dm-0: ["dm-0"] ["dm-0", "md0", "sda2", "sdb", "sda"] ["/data"]
            raid md0: ["md0", "dm-0"] ["md0", "sda2", "sdb", "sda"] []
            disk sda: ["sda", "sda1", "sda2", "md0", "dm-0"] ["sda"] []
            partition sda1: ["sda1"] ["sda1", "sda"] ["/"]
            partition sda2: ["sda2", "md0", "dm-0"] ["sda2", "sda"] []
            disk sdb: ["sdb", "md0", "dm-0"] ["sdb"] ["/btr"]
        "#]]
        .assert_eq(&shown);
    }

    #[test]
    fn any_mountinfo_is_no_panic() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            parse(&bytes);
            Ok(())
        });
    }
}
