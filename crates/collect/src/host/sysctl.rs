//! Kernel settings that affect traffic, with their default and the file and line that sets each.
//!
//! Source: sysctl(5), sysctl.d(5), the kernel's `ip-sysctl.rst`. A file in `/etc/sysctl.d` hides
//! files of the same name in the other directories; files apply in the order of their names,
//! `/etc/sysctl.conf` last, and the last line that sets a key wins. Settings below `net.ipv4`, and
//! `net.core.somaxconn`, are per network namespace.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use weir_tables::{Batch, Micros, Sysctl, SysctlRows};

use super::netns::{Netns, entering, inside};
use super::{CollectResult, Collector, FullRound, View, take, text};
use crate::CollectError;

const DIRECTORIES: [&str; 5] =
    ["etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d", "lib/sysctl.d"];
/// Seconds between full rounds, which report unchanged settings too.
const ALL_EVERY_SECONDS: f64 = 3599.0;
/// Maximum length of a file; the rest is ignored.
const FILE_BYTES: usize = 1 << 20;
const FILE_LIMIT: usize = 256;

struct Setting {
    name: &'static str,
    default_value: Option<&'static str>,
    is_per_netns: bool,
}

const fn host(name: &'static str, default_value: Option<&'static str>) -> Setting {
    Setting { name, default_value, is_per_netns: false }
}

const fn each(name: &'static str, default_value: Option<&'static str>) -> Setting {
    Setting { name, default_value, is_per_netns: true }
}

/// Defaults of a current kernel; `None` if they depend on memory, CPUs or version.
const SETTINGS: [Setting; 59] = [
    each("net.core.somaxconn", Some("4096")),
    host("net.core.netdev_max_backlog", Some("1000")),
    host("net.core.netdev_budget", Some("300")),
    host("net.core.netdev_budget_usecs", None),
    host("net.core.rmem_default", Some("212992")),
    each("net.core.rmem_max", None),
    host("net.core.wmem_default", Some("212992")),
    each("net.core.wmem_max", None),
    host("net.core.default_qdisc", None),
    each("net.ipv4.ip_local_port_range", Some("32768 60999")),
    each("net.ipv4.ip_local_reserved_ports", Some("")),
    each("net.ipv4.ip_unprivileged_port_start", Some("1024")),
    each("net.ipv4.tcp_abort_on_overflow", Some("0")),
    each("net.ipv4.tcp_congestion_control", None),
    each("net.ipv4.tcp_ecn", Some("2")),
    each("net.ipv4.tcp_fastopen", Some("1")),
    each("net.ipv4.tcp_fin_timeout", Some("60")),
    each("net.ipv4.tcp_keepalive_intvl", Some("75")),
    each("net.ipv4.tcp_keepalive_probes", Some("9")),
    each("net.ipv4.tcp_keepalive_time", Some("7200")),
    host("net.ipv4.tcp_max_orphans", None),
    each("net.ipv4.tcp_max_syn_backlog", None),
    each("net.ipv4.tcp_max_tw_buckets", None),
    host("net.ipv4.tcp_mem", None),
    each("net.ipv4.tcp_moderate_rcvbuf", Some("1")),
    each("net.ipv4.tcp_mtu_probing", Some("0")),
    each("net.ipv4.tcp_no_metrics_save", Some("0")),
    each("net.ipv4.tcp_notsent_lowat", Some("4294967295")),
    each("net.ipv4.tcp_orphan_retries", Some("0")),
    each("net.ipv4.tcp_retries1", Some("3")),
    each("net.ipv4.tcp_retries2", Some("15")),
    each("net.ipv4.tcp_rfc1337", Some("0")),
    each("net.ipv4.tcp_rmem", None),
    each("net.ipv4.tcp_sack", Some("1")),
    each("net.ipv4.tcp_slow_start_after_idle", Some("1")),
    each("net.ipv4.tcp_syn_retries", Some("6")),
    each("net.ipv4.tcp_synack_retries", Some("5")),
    each("net.ipv4.tcp_syncookies", Some("1")),
    each("net.ipv4.tcp_timestamps", Some("1")),
    each("net.ipv4.tcp_tw_recycle", Some("0")),
    each("net.ipv4.tcp_tw_reuse", Some("2")),
    each("net.ipv4.tcp_window_scaling", Some("1")),
    each("net.ipv4.tcp_wmem", None),
    host("net.ipv4.udp_mem", None),
    each("net.ipv4.conf.all.rp_filter", Some("0")),
    each("net.ipv4.conf.all.arp_ignore", Some("0")),
    each("net.ipv6.conf.all.disable_ipv6", Some("0")),
    host("net.netfilter.nf_conntrack_max", None),
    host("net.netfilter.nf_conntrack_buckets", None),
    host("fs.file-max", None),
    host("fs.nr_open", Some("1048576")),
    host("vm.swappiness", Some("60")),
    host("vm.overcommit_memory", Some("0")),
    host("vm.dirty_ratio", Some("20")),
    host("vm.dirty_background_ratio", Some("10")),
    host("vm.min_free_kbytes", None),
    host("vm.max_map_count", Some("65530")),
    host("kernel.pid_max", None),
    host("kernel.panic", Some("0")),
];

#[derive(Debug, Default)]
pub(super) struct SysctlCollector {
    rows: SysctlRows,
    /// Last reported value by namespace and setting.
    reported: HashMap<(std::sync::Arc<str>, &'static str), String>,
    full_round: FullRound,
}

impl Collector for SysctlCollector {
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult {
        if self.full_round.begin(now, ALL_EVERY_SECONDS) {
            self.reported.clear();
        }
        let names: Vec<_> = view.netns.namespaces.iter().map(|netns| &netns.name).collect();
        self.reported.retain(|(netns, _), _| names.contains(&netns));
        let mut result = Ok(());
        for netns in view.netns.namespaces.iter().filter(|netns| netns.is_sampled) {
            match read_netns(view, netns) {
                Ok(values) => self.push_changed(view, netns, values, now),
                Err(error) => result = Err(error),
            }
        }
        take(&mut self.rows, out);
        result
    }
}

impl SysctlCollector {
    fn push_changed(
        &mut self,
        view: &View,
        netns: &Netns,
        values: Vec<(&'static Setting, String)>,
        now: Micros,
    ) {
        let changed: Vec<_> = values
            .into_iter()
            .filter(|(setting, value)| {
                self.reported.get(&(netns.name.clone(), setting.name)) != Some(value)
            })
            .collect();
        // The files apply at boot, to the first namespace.
        let is_from_files = netns.is_own() && !changed.is_empty();
        let files = if is_from_files { read_files(&view.root) } else { HashMap::new() };
        for (setting, value) in changed {
            self.rows.push(&Sysctl {
                ts: now,
                host: &view.host,
                netns: &netns.name,
                name: setting.name,
                value: &value,
                default_value: setting.default_value,
                set_in: files.get(setting.name).map(String::as_str),
            });
            self.reported.insert((netns.name.clone(), setting.name), value);
        }
    }
}

fn read_netns(view: &View, netns: &Netns) -> Result<Vec<(&'static Setting, String)>, CollectError> {
    if !netns.is_own() {
        let read = inside(&netns.entrance, || read_all(Path::new("/proc/sys"), false));
        return match read {
            // It has vanished since the last scan.
            Err(_) if !netns.entrance.exists() => Ok(Vec::new()),
            read => read.map_err(|error| entering(&netns.name, &error)),
        };
    }
    let dir = view.path("proc/sys");
    let values = read_all(&dir, true);
    if values.is_empty() {
        return Err(CollectError::reading(&dir, &std::io::ErrorKind::NotFound.into()));
    }
    Ok(values)
}

/// Reads all settings of this kernel; without the host-wide ones if `is_own` is false.
fn read_all(dir: &Path, is_own: bool) -> Vec<(&'static Setting, String)> {
    let wanted = SETTINGS.iter().filter(|setting| is_own || setting.is_per_netns);
    wanted.filter_map(|setting| Some((setting, read_value(dir, setting.name)?))).collect()
}

fn read_value(dir: &Path, name: &str) -> Option<String> {
    let bytes = std::fs::read(dir.join(name.replace('.', "/"))).ok()?;
    let fields: Vec<_> = text::fields(bytes.trim_ascii()).map(String::from_utf8_lossy).collect();
    Some(fields.join(" "))
}

fn read_files(root: &Path) -> HashMap<String, String> {
    let mut by_name: BTreeMap<std::ffi::OsString, PathBuf> = BTreeMap::new();
    for directory in DIRECTORIES {
        let entries = std::fs::read_dir(root.join(directory)).into_iter().flatten().flatten();
        for entry in entries.take(FILE_LIMIT) {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "conf") {
                by_name.entry(entry.file_name()).or_insert(path);
            }
        }
    }
    let mut set_in = HashMap::new();
    for path in by_name.into_values().chain([root.join("etc/sysctl.conf")]) {
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let shown = path.strip_prefix(root).unwrap_or(&path);
        for (key, line) in assignments(&bytes[..bytes.len().min(FILE_BYTES)]) {
            set_in.insert(key, format!("/{}:{line}", shown.display()));
        }
    }
    set_in
}

/// Keys with the lines (from 1) that set them.
fn assignments(bytes: &[u8]) -> impl Iterator<Item = (String, usize)> {
    bytes.split(|&byte| byte == b'\n').enumerate().filter_map(|(index, line)| {
        let line = text::trimmed(line).into_owned();
        if line.starts_with(['#', ';']) {
            return None;
        }
        let (key, _) = line.split_once('=')?;
        Some((dotted(key.trim().trim_start_matches('-')), index + 1))
    })
}

/// The first separator decides: `net/ipv4/conf/eth0.1/x` is `net.ipv4.conf.eth0/1.x`.
fn dotted(key: &str) -> String {
    if key.find('/') < key.find('.').or(Some(usize::MAX)) && key.contains('/') {
        return key
            .chars()
            .map(|letter| match letter {
                '/' => '.',
                '.' => '/',
                other => other,
            })
            .collect();
    }
    key.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_file_by_name_wins_and_etc_hides_the_same_name_elsewhere() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, content: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        write("usr/lib/sysctl.d/10-a.conf", "net.core.somaxconn = 1\nvm.swappiness=1\n");
        write("usr/lib/sysctl.d/50-b.conf", "net.ipv4.tcp_sack = 1\n");
        write("etc/sysctl.d/50-b.conf", "# why\n\n-net/ipv4/tcp_sack = 0\n");
        write("etc/sysctl.d/README", "net.ipv4.tcp_sack = 2\n");
        write("etc/sysctl.conf", "; no\nnet.core.somaxconn = 2\nnot an assignment\n");
        let set_in = read_files(root.path());
        assert_eq!(set_in["net.core.somaxconn"], "/etc/sysctl.conf:2");
        assert_eq!(set_in["net.ipv4.tcp_sack"], "/etc/sysctl.d/50-b.conf:3");
        assert_eq!(set_in["vm.swappiness"], "/usr/lib/sysctl.d/10-a.conf:2");
    }

    #[test]
    fn both_spellings_of_a_key_are_one() {
        assert_eq!(dotted("net/ipv4/conf/eth0.1/rp_filter"), "net.ipv4.conf.eth0/1.rp_filter");
        assert_eq!(dotted("net.ipv4.conf.eth0/1.rp_filter"), "net.ipv4.conf.eth0/1.rp_filter");
        assert_eq!(dotted("vm.swappiness"), "vm.swappiness");
    }
}
