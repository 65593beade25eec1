//! One host, sampled once a second: kernel counters, sockets, disks and settings to rows.
//!
//! Each collector is one file and one line in `collectors`. They share what is expensive to find
//! out (`View`: network namespaces, processes, owners of listeners), pace themselves, and cannot
//! stop each other: a failed read becomes an `error` in the row of `collector_run`. Measured costs
//! are why nothing here reads `/proc/net/tcp` or dumps TIME_WAIT.

mod accept_process;
mod destination;
mod file;
mod kernel_call;
mod mounts;
mod netlink;
mod netns;
mod netns_name;
mod nf_tables;
mod process;
mod route_link;
mod run;
mod sock_diag;
mod text;
mod unix_diag;

mod block_device;
mod block_tree;
mod cgroup_stat;
mod cgroup_walk;
mod clock_stat;
mod conntrack_stat;
mod cpu_stat;
mod deleted_file;
mod disk_stat;
mod file_lock_wait;
mod filesystem;
mod firewall_rule;
mod host_info;
mod idle_close;
mod kernel_message;
mod kmsg;
mod listener;
mod mdstat;
mod mem_stat;
mod net_dev;
mod nic_stat;
mod pg_activity;
mod pressure;
mod process_stat;
mod qdisc;
mod raid;
mod raid_layout;
mod raid_member;
mod sock_stat;
mod softnet_stat;
mod sysctl;
mod tcp_connect;
mod tcp_path;
mod tcp_stat;
mod tcp_wait;
mod unix_listener;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_tables::{Batch, Micros, Rows};

use crate::CollectError;
pub use kernel_message::KernelMessage;
use netns::NetnsList;
pub use netns::inside as inside_netns;
pub use netns_name::NetnsNames;
use process::{ProcessTable, SocketOwner};
use run::RunLog;

#[cfg(test)]
mod tests;

/// Options of a [`HostSampler`].
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Directory that all paths are read below; `/` for the host itself.
    pub root: PathBuf,
    /// Value of the column `host`.
    pub host: String,
    /// weir's version, for `host_info`.
    pub agent_version: String,
    /// What the host is for, for `host_info`.
    pub role: Option<String>,
    /// Where the host is, for `host_info`.
    pub zone: Option<String>,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            root: "/".into(),
            host: String::new(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            role: None,
            zone: None,
        }
    }
}

/// Reads one host's kernel, second by second.
pub struct HostSampler {
    view: View,
    collectors: Vec<CollectorEntry>,
    log: RunLog,
}

impl HostSampler {
    /// A sampler that has read nothing yet.
    pub fn new(options: HostOptions) -> Self {
        let view = View::new(options);
        let collectors = collectors(&view);
        let log = RunLog::new(collectors.iter().map(|entry| entry.name));
        Self { view, collectors, log }
    }

    /// Runs one round, to be called once a second, and returns the rows of all tables that are due.
    /// Never fails or panics on what it reads; failures are rows of `collector_run`.
    pub fn sample(&mut self, now: Micros) -> Vec<Batch> {
        let mut batches = Vec::with_capacity(16);
        self.view.round += 1;
        for (index, entry) in self.collectors.iter_mut().enumerate() {
            if !self.log.is_due(index, entry.every_seconds, now) {
                continue;
            }
            let started = run::Stopwatch::start();
            let count_before = batches.len();
            let result = entry.collector.collect(&mut self.view, now, &mut batches);
            let rows = batches[count_before..].iter().map(|batch| batch.rows.num_rows()).sum();
            self.log.note(index, now, started.stop(), rows, result.err());
        }
        self.log.report(&self.view.host, now, &mut batches);
        batches
    }

    /// Returns the listening sockets found in the last round.
    pub fn listeners(&self) -> Vec<ListenerSummary> {
        self.view.listeners.iter().map(|listener| listener.summary(&self.view.owners)).collect()
    }

    /// Returns the CPU and wall time of each collector since the sampler was created.
    pub fn costs(&self) -> Vec<CollectorCost> {
        self.log.costs()
    }
}

/// Accumulated cost of one collector.
#[derive(Clone, Debug)]
pub struct CollectorCost {
    /// Name of the collector.
    pub collector: &'static str,
    /// Number of runs.
    pub runs: u64,
    /// CPU time of all runs.
    pub cpu_seconds: f64,
    /// Wall time of all runs.
    pub duration_seconds: f64,
}

/// One listening socket, as shown to users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSummary {
    /// Network namespace, as in the table `listener`.
    pub netns: String,
    /// Local address.
    pub address: String,
    /// Local port.
    pub port: u16,
    /// Name of the owner; `None` when it could not be read.
    pub process_name: Option<String>,
    /// Lowest process id that holds the socket.
    pub process_id: Option<u32>,
}

/// All collectors in run order, with the name of their table and the seconds between runs (1 means
/// every round). Adding one takes a file and a line here.
fn collectors(view: &View) -> Vec<CollectorEntry> {
    vec![
        entry("listener", 1.0, listener::ListenerCollector::default()),
        entry("unix_listener", 1.0, unix_listener::UnixListenerCollector::default()),
        entry("tcp_stat", 1.0, tcp_stat::TcpStatCollector::default()),
        entry("sock_stat", 1.0, sock_stat::SockStatCollector::default()),
        entry("net_dev", 1.0, net_dev::NetDevCollector::default()),
        entry("softnet_stat", 1.0, softnet_stat::SoftnetStatCollector::new(view)),
        entry("cpu_stat", 1.0, cpu_stat::CpuStatCollector::new(view)),
        entry("pressure", 1.0, pressure::PressureCollector::new(view)),
        entry("mem_stat", 1.0, mem_stat::MemStatCollector::new(view)),
        entry("cgroup_stat", 1.0, cgroup_stat::CgroupStatCollector::default()),
        entry("disk_stat", 1.0, disk_stat::DiskStatCollector::new(view)),
        entry("filesystem", 2.0, filesystem::FilesystemCollector::default()),
        entry("file_lock_wait", 2.0, file_lock_wait::FileLockWaitCollector::default()),
        entry("pg_activity", 1.0, pg_activity::PgActivityCollector::default()),
        entry("process_stat", 1.0, process_stat::ProcessStatCollector::default()),
        entry("raid", 10.0, raid::RaidCollector::new(view)),
        entry("block_device", 60.0, block_device::BlockDeviceCollector::default()),
        entry("qdisc", 1.0, qdisc::QdiscCollector::default()),
        entry("nic_stat", 10.0, nic_stat::NicStatCollector::default()),
        entry("conntrack_stat", 5.0, conntrack_stat::ConntrackStatCollector::default()),
        entry("firewall_rule", 1.0, firewall_rule::FirewallRuleCollector::default()),
        entry("tcp_path", 1.0, tcp_path::TcpPathCollector::default()),
        entry("deleted_file", 10.0, deleted_file::DeletedFileCollector::default()),
        entry("idle_close", 1.0, idle_close::IdleCloseCollector::default()),
        entry("clock_stat", 1.0, clock_stat::ClockStatCollector::default()),
        entry("kmsg", 1.0, kmsg::KmsgCollector::new(view)),
        entry("sysctl", 10.0, sysctl::SysctlCollector::default()),
        entry("host_info", 3600.0, host_info::HostInfoCollector::default()),
    ]
}

struct CollectorEntry {
    name: &'static str,
    every_seconds: f64,
    collector: Box<dyn Collector>,
}

fn entry(
    name: &'static str,
    every_seconds: f64,
    collector: impl Collector + 'static,
) -> CollectorEntry {
    CollectorEntry { name, every_seconds, collector: Box::new(collector) }
}

type CollectResult = Result<(), CollectError>;

/// Reads one kernel interface and turns it into rows.
trait Collector: Send {
    /// Appends the current rows. After an error, `out` still holds the rows that could be made.
    fn collect(&mut self, view: &mut View, now: Micros, out: &mut Vec<Batch>) -> CollectResult;
}

#[derive(Debug)]
struct View {
    root: PathBuf,
    host: Arc<str>,
    agent_version: String,
    role: Option<String>,
    zone: Option<String>,
    /// Whether the root contains the running kernel's `/proc`, so that sockets can be queried.
    is_live: bool,
    round: u64,
    page_bytes: i64,
    processes: ProcessTable,
    netns: NetnsList,
    listeners: Vec<listener::NetnsListener>,
    unix_listeners: Vec<unix_listener::NetnsUnixListener>,
    /// Owner by inode of a listening socket; `None` if none was found.
    owners: HashMap<u32, Option<SocketOwner>>,
}

impl View {
    fn new(options: HostOptions) -> Self {
        let HostOptions { root, host, agent_version, role, zone } = options;
        let is_live = is_procfs(&root.join("proc"));
        Self {
            processes: ProcessTable::new(root.join("proc")),
            netns: NetnsList::new(&root, is_live),
            root,
            host: host.into(),
            agent_version,
            role,
            zone,
            is_live,
            round: 0,
            page_bytes: page_bytes(),
            listeners: Vec::new(),
            unix_listeners: Vec::new(),
            owners: HashMap::new(),
        }
    }

    /// # Errors
    /// When the root is not the running host: only that kernel can be queried.
    fn require_live(&self, attempt: &str) -> Result<(), CollectError> {
        if self.is_live {
            return Ok(());
        }
        let what = format_args!("{attempt} below `{}`", self.root.display());
        Err(CollectError::new(what, "its `/proc` is not the running kernel's"))
    }

    /// Joins `path` to the root; a leading `/` is stripped.
    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

/// Time of the last full round, for collectors that otherwise write only changes.
#[derive(Clone, Copy, Debug, Default)]
struct FullRound(Option<Micros>);

impl FullRound {
    /// Whether a full round is due: the first time, every `seconds`, and after a clock step back.
    fn begin(&mut self, now: Micros, seconds: f64) -> bool {
        let age = self.0.map(|last| now.seconds_since(last));
        let is_due = age.is_none_or(|age| !(0.0..seconds).contains(&age));
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

fn is_procfs(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

/// Memory page size from the auxiliary vector (getauxval(3), `AT_PAGESZ` = 6); 4096 if unreadable.
fn page_bytes() -> i64 {
    const WORD: usize = size_of::<usize>();
    let vector = std::fs::read("/proc/self/auxv").unwrap_or_default();
    let pair = vector.chunks_exact(2 * WORD).find(|pair| native_word(&pair[..WORD]) == 6);
    pair.and_then(|pair| i64::try_from(native_word(&pair[WORD..])).ok()).unwrap_or(4096)
}

fn native_word(bytes: &[u8]) -> usize {
    usize::from_ne_bytes(bytes.try_into().expect("the slice is one word"))
}

fn take<R: Rows>(rows: &mut R, out: &mut Vec<Batch>) {
    if !rows.is_empty() {
        out.push(Batch { table: R::SPEC, rows: rows.finish() });
    }
}
