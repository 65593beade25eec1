//! What lies under the processes of a scene: control groups with limits, and file systems in files.
//!
//! A limit of a control group on its own disk is invisible in the disk's figures: what waits for it waits above the device. A
//! limit on the disk *below* a file system in a file makes that file system's device slow, as a sick volume is, and nothing
//! else: the loop driver asks in the name of who asked it, when it goes past the page cache.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{DrillError, Result};
use crate::scene::{Scene, children, output, run};

impl Scene {
    /// A control group of its own for the scene's processes of that name and their children, without a limit yet. Version 1 or 2, whichever the
    /// host has for that controller.
    pub(crate) fn group(&mut self, what: &str, controller: &str) -> Result<()> {
        let group = self.group_of(controller).0;
        fs::create_dir_all(&group)
            .map_err(DrillError::of(format!("cannot make `{}`", group.display())))?;
        for (_, child) in self.processes.iter().filter(|(name, _)| *name == what) {
            fs::write(group.join("cgroup.procs"), child.id().to_string())?;
            for id in children(child.id()) {
                fs::write(group.join("cgroup.procs"), id.as_raw_nonzero().to_string())?;
            }
        }
        Ok(())
    }

    /// Sets limits of that group: files and values of version 1, and those of version 2.
    pub(crate) fn limit(
        &self,
        controller: &str,
        old: &[(&str, String)],
        new: &[(&str, String)],
    ) -> Result<()> {
        let (group, is_old) = self.group_of(controller);
        for (file, value) in if is_old { old } else { new } {
            let path = group.join(file);
            fs::write(&path, value)
                .map_err(DrillError::of(format!("cannot set `{}`", path.display())))?;
        }
        Ok(())
    }

    /// Where the group is, and whether it is one of version 1.
    fn group_of(&self, controller: &str) -> (PathBuf, bool) {
        let root = Path::new("/sys/fs/cgroup");
        let is_old = root.join(controller).is_dir();
        let base = if is_old { root.join(controller) } else { root.to_owned() };
        (base.join(&self.server), is_old)
    }

    /// A file system of its own in a file: where it is mounted.
    pub(crate) fn disk(&mut self, mebibytes: u64, inodes: u64) -> Result<PathBuf> {
        let (image, point) = (self.path("image"), self.file("disk"));
        fs::File::create(&image)?.set_len(mebibytes << 20)?;
        run("mkfs.ext4", &["-q", "-F", "-N", &inodes.to_string(), &image])?;
        fs::create_dir(&point)?;
        run("mount", &["-o", "loop", &image, &point.display().to_string()])?;
        Ok(point)
    }

    /// The same on a device that goes past the page cache of what is below it, so that it can be slow by itself.
    pub(crate) fn direct_disk(&mut self, name: &str, mebibytes: u64) -> Result<PathBuf> {
        let (image, point) = (self.path(&format!("{name}.image")), self.file(name));
        // Written once: a hole would be filled later, and that takes the disk below more than a write.
        drop(fill(Path::new(&image), mebibytes << 20)?);
        let device = output("losetup", &["--find", "--show", "--direct-io=on", &image])?;
        let made = run("mkfs.ext4", &["-q", "-F", device.trim()])
            .and_then(|()| Ok(fs::create_dir(&point)?))
            .and_then(|()| run("mount", &[device.trim(), &point.display().to_string()]));
        // It goes when it is no longer mounted, and at once when it never was.
        run("losetup", &["--detach", device.trim()])?;
        made.map(|()| point)
    }

    /// Lets the disk below do only so many writes a second for the scene's processes of that name.
    pub(crate) fn throttle_disk(&mut self, what: &str, operations: u64) -> Result<()> {
        let device = disk_of(self.dir())?;
        self.group(what, "blkio")?;
        let old = [("blkio.throttle.write_iops_device", format!("{device} {operations}"))];
        let new = [("io.max", format!("{device} wiops={operations}"))];
        self.limit("blkio", &old, &new)
    }
}

/// The number (`MAJOR:MINOR`) of the whole disk on which a directory lies.
fn disk_of(dir: &Path) -> Result<String> {
    let device = fs::metadata(dir)?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let own = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let whole = if own.join("partition").exists() { own.join("../dev") } else { own.join("dev") };
    let number = fs::read_to_string(&whole).map_err(|error| {
        DrillError::new(format!("cannot find the disk below `{}`: {error}", dir.display()))
            .hint("this fault needs a directory on a disk of its own kind, not on a file system of several")
    })?;
    Ok(number.trim().to_owned())
}

/// Appends bytes to a file until it has `bytes`, or the disk is full.
pub(crate) fn fill(path: &Path, bytes: u64) -> Result<fs::File> {
    use std::io::Write;
    let mut file = fs::File::create(path)?;
    let part = vec![b'x'; 256 << 10];
    let mut written = 0;
    while written < bytes && file.write_all(&part).is_ok() {
        written += part.len() as u64;
    }
    let _full = file.sync_all();
    Ok(file)
}
