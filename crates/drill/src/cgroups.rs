//! Control groups with limits, and file systems in image files.
//!
//! A limit of a control group on its own disk is invisible in the disk's statistics, because I/O
//! waits above the device. A limit on the disk *below* a file system in an image file makes only
//! that file system's device slow, as a failing volume would be: with direct I/O, the loop driver
//! charges each request to the process that issued it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::command::{children, output, run};
use crate::error::{DrillError, Result};
use crate::testbed::TestBed;

/// A cgroup controller.
#[derive(Clone, Copy)]
pub(crate) enum Controller {
    Memory,
    CpuAcct,
    Cpu,
    BlockIo,
}

impl Controller {
    /// Name of its hierarchy in version 1.
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::CpuAcct => "cpuacct",
            Self::Cpu => "cpu",
            Self::BlockIo => "blkio",
        }
    }
}

/// Size of an ext4 file system.
pub(crate) struct DiskSize {
    pub(crate) mebibytes: u64,
    pub(crate) inodes: u64,
}

impl TestBed {
    /// Puts the processes called `what` and their children into the testbed's control group, which
    /// has no limit yet. Uses version 1 or 2, whichever the host has for that controller.
    pub(crate) fn group(&mut self, what: &str, controller: Controller) -> Result<()> {
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

    /// Sets limits of that group, as pairs of file and value: `v1` for version 1, `v2` for
    /// version 2.
    pub(crate) fn limit(
        &self,
        controller: Controller,
        v1: &[(&str, String)],
        v2: &[(&str, String)],
    ) -> Result<()> {
        let (group, is_v1) = self.group_of(controller);
        for (file, value) in if is_v1 { v1 } else { v2 } {
            let path = group.join(file);
            fs::write(&path, value)
                .map_err(DrillError::of(format!("cannot set `{}`", path.display())))?;
        }
        Ok(())
    }

    /// Path of the testbed's group, and whether it belongs to version 1.
    fn group_of(&self, controller: Controller) -> (PathBuf, bool) {
        let root = Path::new("/sys/fs/cgroup");
        let hierarchy = root.join(controller.name());
        let is_v1 = hierarchy.is_dir();
        let base = if is_v1 { hierarchy } else { root.to_owned() };
        (base.join(&*self.server), is_v1)
    }

    /// Mounts a new file system in an image file and returns its mount point.
    pub(crate) fn disk(&mut self, size: DiskSize) -> Result<PathBuf> {
        let (image, point) = (self.path("image"), self.file("disk"));
        fs::File::create(&image)?.set_len(size.mebibytes << 20)?;
        run("mkfs.ext4", &["-q", "-F", "-N", &size.inodes.to_string(), &image])?;
        fs::create_dir(&point)?;
        run("mount", &["-o", "loop", &image, &point.display().to_string()])?;
        Ok(point)
    }

    /// Mounts a new file system on a loop device that bypasses the page cache below it, so that
    /// this device alone can be slow.
    pub(crate) fn direct_disk(&mut self, name: &str, mebibytes: u64) -> Result<PathBuf> {
        let (image, point) = (self.path(&format!("{name}.image")), self.file(name));
        // Allocate all blocks now: filling a hole later costs the disk below more than one write.
        drop(fill(Path::new(&image), mebibytes << 20)?);
        let device = output("losetup", &["--find", "--show", "--direct-io=on", &image])?;
        let made = run("mkfs.ext4", &["-q", "-F", device.trim()])
            .and_then(|()| Ok(fs::create_dir(&point)?))
            .and_then(|()| run("mount", &[device.trim(), &point.display().to_string()]));
        // Takes effect at the unmount, or at once if the mount failed.
        run("losetup", &["--detach", device.trim()])?;
        made.map(|()| point)
    }

    /// Limits the writes per second that the processes called `what` get from the disk below the
    /// testbed.
    pub(crate) fn throttle_disk(&mut self, what: &str, operations: u64) -> Result<()> {
        let device = disk_of(self.dir())?;
        self.group(what, Controller::BlockIo)?;
        let v1 = [("blkio.throttle.write_iops_device", format!("{device} {operations}"))];
        let v2 = [("io.max", format!("{device} wiops={operations}"))];
        self.limit(Controller::BlockIo, &v1, &v2)
    }
}

/// The number (`MAJOR:MINOR`) of the whole disk that holds a directory.
fn disk_of(dir: &Path) -> Result<String> {
    let device = fs::metadata(dir)?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let own = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let whole = if own.join("partition").exists() { own.join("../dev") } else { own.join("dev") };
    let number = fs::read_to_string(&whole).map_err(|error| {
        DrillError::new(format!("cannot find the disk below `{}`: {error}", dir.display()))
            .hint("this fault needs a directory on a single disk, not on a file system that spans several")
    })?;
    Ok(number.trim().to_owned())
}

/// Appends to a file until it has `bytes` bytes, or the disk is full.
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
