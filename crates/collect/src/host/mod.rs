//! One host, sampled once a second: kernel counters, sockets, disks and settings to rows.
//!
//! Each collector is one file and one line in `collectors`. They share what is dear to find out (`View`: network
//! namespaces, processes, owners of listeners), pace themselves, and cannot stop each other: what one cannot read is
//! an `error` in its row of `collector_run`. How dear each way of reading is was measured first; that is why there is no
//! `/proc/net/tcp` here and no dump of TIME_WAIT.

mod file;
mod kernel_call;
mod mounts;
mod netlink;
mod netns;
mod netns_name;
mod process;
mod route_link;
mod run;
mod sock_diag;
mod text;

mod cgroup_stat;
mod cgroup_walk;
mod clock_stat;
mod conntrack_stat;
mod cpu_stat;
mod deleted_file;
mod disk_stat;
mod filesystem;
mod host_info;
mod idle_close;
mod kmsg;
mod listener;
mod mem_stat;
mod net_dev;
mod nic_stat;
mod pressure;
mod process_stat;
mod qdisc;
mod raid;
mod sock_stat;
mod softnet_stat;
mod sysctl;
mod tcp_stat;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_tables::{Batch, Micros, Rows};

use crate::CollectError;
use netns::NetnsList;
pub(crate) use netns::inside as inside_netns;
pub use netns_name::NetnsNames;
use process::{Owner, ProcessTable};
use run::RunLog;

#[cfg(test)]
mod tests;

/// What to sample, and as whom.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Everything is read below it; `/` for the host itself.
    pub root: PathBuf,
    /// The value of the column `host`.
    pub host: String,
    /// weir's version, for `host_info`.
    pub agent_version: String,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            root: "/".into(),
            host: String::new(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Reads one host's kernel, second by second.
pub struct HostSampler {
    view: View,
    collectors: Vec<Box<dyn Collector>>,
    log: RunLog,
}

impl HostSampler {
    /// A sampler that has read nothing yet.
    pub fn new(options: HostOptions) -> Self {
        let view = View::new(options);
        let collectors = collectors(&view);
        let log = RunLog::new(collectors.iter().map(|collector| collector.name()));
        Self { view, collectors, log }
    }

    /// One round, to be called once a second: rows of all tables that are due. Never fails and never panics on what
    /// it reads; failures are rows of `collector_run`.
    pub fn sample(&mut self, now: Micros) -> Vec<Batch> {
        let mut batches = Vec::with_capacity(16);
        self.view.round += 1;
        for (index, collector) in self.collectors.iter_mut().enumerate() {
            if !self.log.is_due(index, collector.every_seconds(), now) {
                continue;
            }
            let started = run::Stopwatch::start();
            let count_before = batches.len();
            let result = collector.collect(&mut self.view, now, &mut batches);
            let rows = batches[count_before..].iter().map(|batch| batch.rows.num_rows()).sum();
            self.log.note(index, now, started.stop(), rows, result.err());
        }
        self.log.report(&self.view.host, now, &mut batches);
        batches
    }

    /// Who listens, as of the last round.
    pub fn listeners(&self) -> Vec<ListenerSummary> {
        self.view.listeners.iter().map(|listener| listener.summary(&self.view.owners)).collect()
    }

    /// Processor and wall seconds that each collector took since the sampler was made, and in how many runs.
    pub fn costs(&self) -> Vec<CollectorCost> {
        self.log.costs()
    }
}

/// What a collector cost so far.
#[derive(Clone, Debug)]
pub struct CollectorCost {
    /// Its name.
    pub collector: &'static str,
    /// How often it ran.
    pub runs: u64,
    /// Processor time of all runs.
    pub cpu_seconds: f64,
    /// Wall time of all runs.
    pub duration_seconds: f64,
}

/// One listening socket, for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSummary {
    /// Network namespace as in the table `listener`.
    pub netns: String,
    /// The address listened on.
    pub address: String,
    /// The port listened on.
    pub port: u16,
    /// Name of the owner; `None` when it could not be read.
    pub process_name: Option<String>,
    /// Lowest process id that holds the socket.
    pub process_id: Option<u32>,
}

/// The list of collectors, in the order in which they run. A new one is a file and a line here.
fn collectors(view: &View) -> Vec<Box<dyn Collector>> {
    vec![
        Box::new(listener::ListenerCollector::default()),
        Box::new(tcp_stat::TcpStatCollector::default()),
        Box::new(sock_stat::SockStatCollector::default()),
        Box::new(net_dev::NetDevCollector::default()),
        Box::new(softnet_stat::SoftnetStatCollector::new(view)),
        Box::new(cpu_stat::CpuStatCollector::new(view)),
        Box::new(pressure::PressureCollector::new(view)),
        Box::new(mem_stat::MemStatCollector::new(view)),
        Box::new(cgroup_stat::CgroupStatCollector::new(view)),
        Box::new(disk_stat::DiskStatCollector::new(view)),
        Box::new(filesystem::FilesystemCollector::new(view)),
        Box::new(process_stat::ProcessStatCollector::default()),
        Box::new(raid::RaidCollector::new(view)),
        Box::new(qdisc::QdiscCollector::default()),
        Box::new(nic_stat::NicStatCollector::default()),
        Box::new(conntrack_stat::ConntrackStatCollector::default()),
        Box::new(deleted_file::DeletedFileCollector::default()),
        Box::new(idle_close::IdleCloseCollector::default()),
        Box::new(clock_stat::ClockStatCollector::default()),
        Box::new(kmsg::KmsgCollector::new(view)),
        Box::new(sysctl::SysctlCollector::default()),
        Box::new(host_info::HostInfoCollector::default()),
    ]
}

/// Reads one thing and makes rows of it.
trait Collector: Send {
    /// As in the column `collector` of `collector_run`: the name of its table.
    fn name(&self) -> &'static str;

    /// Seconds between two runs; 1 means at every round.
    fn every_seconds(&self) -> f64 {
        1.0
    }

    /// Appends the rows of this moment. After an error the rows that could be made are in `out` all the same.
    fn collect(
        &mut self,
        view: &mut View,
        now: Micros,
        out: &mut Vec<Batch>,
    ) -> Result<(), CollectError>;
}

/// What collectors share.
#[derive(Debug)]
struct View {
    root: PathBuf,
    host: Arc<str>,
    agent_version: String,
    /// Whether the root has the running kernel's `/proc`, so that sockets can be asked for.
    is_live: bool,
    round: u64,
    page_bytes: i64,
    processes: ProcessTable,
    netns: NetnsList,
    listeners: Vec<listener::Listening>,
    /// By inode of a listening socket; `None` when nobody was found.
    owners: HashMap<u32, Option<Owner>>,
}

impl View {
    fn new(options: HostOptions) -> Self {
        let HostOptions { root, host, agent_version } = options;
        let is_live = is_procfs(&root.join("proc"));
        Self {
            processes: ProcessTable::new(root.join("proc")),
            netns: NetnsList::new(&root, is_live),
            root,
            host: host.into(),
            agent_version,
            is_live,
            round: 0,
            page_bytes: page_bytes(),
            listeners: Vec::new(),
            owners: HashMap::new(),
        }
    }

    /// # Errors
    /// When the root is not the running host's, of which alone the kernel can be asked.
    fn require_live(&self, attempt: &str) -> Result<(), CollectError> {
        if self.is_live {
            return Ok(());
        }
        let what = format_args!("{attempt} below `{}`", self.root.display());
        Err(CollectError::new(what, "its `/proc` is not the running kernel's"))
    }

    /// The path below the root; a leading `/` is taken off.
    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

/// When all was last written by a collector that otherwise writes what has changed.
#[derive(Clone, Copy, Debug, Default)]
struct FullRound(Option<Micros>);

impl FullRound {
    /// Whether all is to be written now: the first time, every `seconds`, and when the clock went back.
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

/// The size of a page of memory, from the auxiliary vector (getauxval(3), `AT_PAGESZ` = 6); 4096 when unreadable.
fn page_bytes() -> i64 {
    const WORD: usize = size_of::<usize>();
    let vector = std::fs::read("/proc/self/auxv").unwrap_or_default();
    let word = |bytes: &[u8]| usize::from_ne_bytes(bytes.try_into().expect("one word"));
    let pair = vector.chunks_exact(2 * WORD).find(|pair| word(&pair[..WORD]) == 6);
    pair.and_then(|pair| i64::try_from(word(&pair[WORD..])).ok()).unwrap_or(4096)
}

/// Moves the rows made so far into `out`.
fn take<R: Rows>(rows: &mut R, out: &mut Vec<Batch>) {
    if !rows.is_empty() {
        out.push(Batch { table: R::SPEC, rows: rows.finish() });
    }
}
