//! Raw files of a recorded host: copies of what the collectors read, below `raw/`.
//!
//! Never copy `/proc/PID/cmdline` or `environ`: arguments contain passwords.

use std::fs;
use std::io::Read;
use std::path::Path;

use crate::CollectError;

/// Maximum length of a copy; the rest is cut.
const FILE_LIMIT_BYTES: u64 = 1 << 20;

const FILES: &str = "\
    proc/stat proc/meminfo proc/vmstat proc/uptime proc/loadavg proc/diskstats proc/mounts \
    proc/mdstat proc/interrupts proc/softirqs proc/pressure/cpu proc/pressure/memory \
    proc/pressure/io proc/net/netstat proc/net/snmp proc/net/snmp6 proc/net/sockstat \
    proc/net/sockstat6 proc/net/softnet_stat proc/net/dev proc/net/stat/nf_conntrack \
    proc/self/cgroup proc/sys/kernel/osrelease proc/sys/kernel/arch \
    proc/sys/kernel/random/boot_id etc/os-release etc/sysctl.conf";

/// Directories whose plain files are copied, without subdirectories.
const DIRECTORIES: &str = "\
    proc/sys/net/core proc/sys/net/ipv4 proc/sys/net/netfilter proc/sys/vm etc/sysctl.d \
    run/sysctl.d usr/local/lib/sysctl.d usr/lib/sysctl.d lib/sysctl.d";

/// Name parts of files with secrets, such as the keys of TCP fast open.
const SECRET_NAMES: [&str; 3] = ["key", "secret", "seed"];

/// Copies readable files below `root` to `to`; returns their number. Missing ones are skipped.
pub(super) fn copy(root: &Path, to: &Path) -> Result<u64, CollectError> {
    let mut count = 0;
    for path in FILES.split(' ') {
        count += copy_file(root, to, Path::new(path))?;
    }
    for directory in DIRECTORIES.split(' ') {
        let entries = fs::read_dir(root.join(directory)).into_iter().flatten().flatten();
        for entry in entries.take(1024) {
            if fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_file()) {
                count += copy_file(root, to, &Path::new(directory).join(entry.file_name()))?;
            }
        }
    }
    Ok(count)
}

fn copy_file(root: &Path, to: &Path, path: &Path) -> Result<u64, CollectError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_secret = name.split('_').any(|word| SECRET_NAMES.contains(&word));
    let Ok(file) = fs::File::open(root.join(path)) else { return Ok(0) };
    let mut bytes = Vec::new();
    if is_secret || file.take(FILE_LIMIT_BYTES).read_to_end(&mut bytes).is_err() {
        return Ok(0);
    }
    let target = to.join(path);
    let written = target.parent().map_or(Ok(()), fs::create_dir_all);
    written
        .and_then(|()| fs::write(&target, bytes))
        .map_err(|error| super::writing(&target, &error))?;
    Ok(1)
}
