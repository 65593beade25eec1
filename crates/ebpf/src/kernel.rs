//! Loads the eBPF program and reads its maps.
//!
//! Source: bpf(2) and the crate aya. Programs of type "tracing" attach to tracepoints by BTF. The
//! kernel detaches them when their file descriptors close, also after `kill -9`.

use aya::maps::{Array, HashMap, Map, MapError, PerCpuArray};
use aya::programs::{BtfTracePoint, ProgramError};
use aya::{Btf, BtfError, Ebpf, EbpfError as AyaError, EbpfLoader, Pod};
use std::io;

use crate::error::{LISTENERS, PORTS};
use crate::histogram::{BUCKETS, WaitHistogram};
use crate::rows::{AcceptCounts, ConnectionSide, CounterKey, SocketCounts};
use crate::{CounterOptions, EbpfError};

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/sockets.bpf.o"));

/// Function of `sockets.bpf.c` and the tracepoint it attaches to.
#[derive(Clone, Copy)]
struct Program {
    function: &'static str,
    tracepoint: &'static str,
}

/// Functions of `sockets.bpf.c` and their tracepoints.
const PROGRAMS: [Program; 5] = [
    Program { function: "on_state", tracepoint: "inet_sock_set_state" },
    Program { function: "on_retransmit", tracepoint: "tcp_retransmit_skb" },
    Program { function: "on_retransmit_synack", tracepoint: "tcp_retransmit_synack" },
    Program { function: "on_send_reset", tracepoint: "tcp_send_reset" },
    Program { function: "on_receive_reset", tracepoint: "tcp_receive_reset" },
];
const ON_ACCEPT: Program = Program { function: "on_sys_exit", tracepoint: "sys_exit" };

const EPERM: i32 = 1;
const KEY_BYTES: usize = 28;
const HALF_AT: usize = 8;
const ACCEPTS_BYTES: usize = 32 + 4 * BUCKETS;

type RawKey = [u8; KEY_BYTES];

/// Loaded programs and maps; the kernel frees them on drop.
pub(crate) struct KernelCounter {
    ebpf: Ebpf,
    active: u32,
}

impl KernelCounter {
    pub(crate) fn open(options: &CounterOptions) -> Result<Self, EbpfError> {
        let btf = Btf::from_sys_fs().map_err(|error| btf_error(&error))?;
        let times_accepts = u32::from(options.times_accepts);
        let queued = if options.times_accepts { options.queued.max(1) } else { 1 };
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&btf))
            .override_global("times_accepts", &times_accepts, true)
            .map_max_entries("states", PORTS)
            .map_max_entries("peers", options.peers.max(1))
            .map_max_entries("listeners", if options.times_accepts { LISTENERS } else { 1 })
            .map_max_entries("queued", queued)
            .load(OBJECT)
            .map_err(|error| map_error("load", &error))?;
        for program in PROGRAMS.into_iter().chain(options.times_accepts.then_some(ON_ACCEPT)) {
            attach(&mut ebpf, program, &btf)
                .map_err(|error| attach_error(program.tracepoint, &error))?;
        }
        Ok(Self { ebpf, active: 0 })
    }

    /// Makes the programs write to the other half.
    pub(crate) fn change_half(&mut self) -> Result<(), EbpfError> {
        let next = 1 - self.active;
        let map = self.ebpf.map_mut("active_half").expect("the program has this map");
        Array::try_from(map)
            .and_then(|mut array: Array<_, u32>| array.set(0, next, 0))
            .map_err(|error| map_error("switch", &error.into()))?;
        self.active = next;
        Ok(())
    }

    /// Reads and clears the half that the programs do not write to.
    pub(crate) fn take_idle_half(&mut self) -> Result<SocketCounts, EbpfError> {
        let states = self.take("states", |raw: [u64; 5]| raw)?;
        let peers = self.take("peers", |raw: [u64; 5]| raw)?;
        let listeners = self.take("listeners", |raw: [u8; ACCEPTS_BYTES]| accepts(&raw))?;
        Ok(SocketCounts { states, peers, listeners })
    }

    /// Events dropped by full maps since the start, by map.
    pub(crate) fn lost(&self) -> Result<[u64; 4], EbpfError> {
        let map = self.ebpf.map("lost").expect("the program has this map");
        sum_per_cpu(map).map_err(|error| map_error("read", &error.into()))
    }

    fn take<V: Pod, T>(
        &mut self,
        name: &str,
        read: impl Fn(V) -> T,
    ) -> Result<Vec<(CounterKey, T)>, EbpfError> {
        let half = 1 - self.active;
        let map = self.ebpf.map_mut(name).expect("the program has this map");
        take_half(map, half, read).map_err(|error| map_error("read", &error.into()))
    }
}

fn sum_per_cpu(map: &Map) -> Result<[u64; 4], MapError> {
    let array: PerCpuArray<_, u64> = PerCpuArray::try_from(map)?;
    let mut sums = [0; 4];
    for (sum, index) in sums.iter_mut().zip(0..) {
        *sum = array.get(&index, 0)?.iter().sum();
    }
    Ok(sums)
}

fn take_half<V: Pod, T>(
    map: &mut Map,
    half: u32,
    read: impl Fn(V) -> T,
) -> Result<Vec<(CounterKey, T)>, MapError> {
    let mut map: HashMap<_, RawKey, V> = HashMap::try_from(map)?;
    // Collect all keys first: iteration restarts from the beginning when its last key was deleted.
    let keys = map
        .keys()
        .filter(|key| key.as_ref().map_or(true, |key| u32::from(key[HALF_AT]) == half))
        .collect::<Result<Vec<_>, _>>()?;
    keys.into_iter()
        .map(|raw| {
            let value = read(map.get(&raw, 0)?);
            map.remove(&raw)?;
            Ok((key(&raw), value))
        })
        .collect()
}

/// Decodes `struct key` of `sockets.bpf.c`.
fn key(raw: &RawKey) -> CounterKey {
    let (netns, rest) = raw.split_first_chunk().expect("28 bytes");
    let (port, rest) = rest.split_first_chunk().expect("24 bytes");
    let (_, address) = raw.split_last_chunk().expect("28 bytes");
    CounterKey {
        netns: u32::from_ne_bytes(*netns),
        port: u16::from_ne_bytes(*port),
        side: if rest[0] == 1 { ConnectionSide::Server } else { ConnectionSide::Client },
        address: CounterKey::address(rest[1], *address),
    }
}

/// Decodes `struct accepts` of `sockets.bpf.c`.
fn accepts(raw: &[u8; ACCEPTS_BYTES]) -> AcceptCounts {
    let (numbers, buckets) = raw.split_at(32);
    let [accepted, abandoned, sum_us, max_us] = std::array::from_fn(|at| {
        u64::from_ne_bytes(numbers[8 * at..][..8].try_into().expect("eight bytes"))
    });
    let buckets = std::array::from_fn(|at| {
        u32::from_ne_bytes(buckets[4 * at..][..4].try_into().expect("four bytes"))
    });
    AcceptCounts { accepted, abandoned, waits: WaitHistogram { buckets, sum_us, max_us } }
}

fn attach(ebpf: &mut Ebpf, program: Program, btf: &Btf) -> Result<(), ProgramError> {
    let loaded = ebpf.program_mut(program.function).expect("the object has this program");
    let loaded: &mut BtfTracePoint = loaded.try_into()?;
    loaded.load(program.tracepoint, btf)?;
    loaded.attach()?;
    Ok(())
}

const RIGHTS: &str = "run weir as root or with CAP_BPF and CAP_PERFMON";
const KERNEL: &str =
    "use Linux 5.11 or newer with CONFIG_DEBUG_INFO_BTF, or set `ebpf.enabled = false`";

fn btf_error(error: &BtfError) -> EbpfError {
    EbpfError::new(format!("cannot count socket events: {}", error_chain(error)), KERNEL)
}

fn attach_error(tracepoint: &str, error: &ProgramError) -> EbpfError {
    let hint = if is_denied(error) { RIGHTS } else { KERNEL };
    let why = match error {
        // The verifier's log is pages long and ends with the reason.
        ProgramError::LoadError { io_error, verifier_log } => {
            let log = verifier_log.to_string();
            let last = log.lines().map(str::trim).rfind(|line| is_reason(line));
            last.map_or_else(|| io_error.to_string(), |last| format!("{io_error}: {last}"))
        }
        other => error_chain(other),
    };
    EbpfError::new(format!("cannot attach to the tracepoint `{tracepoint}`: {why}"), hint)
}

fn map_error(what: &str, error: &AyaError) -> EbpfError {
    let hint = if is_denied(error) { RIGHTS } else { KERNEL };
    EbpfError::new(format!("cannot {what} the socket counter: {}", error_chain(error)), hint)
}

/// Whether a line of the verifier's log is text and not one of the statistics at its end.
fn is_reason(line: &str) -> bool {
    let statistics = ["processed ", "verification time", "stack depth"];
    !line.is_empty() && !statistics.iter().any(|start| line.starts_with(start))
}

/// Error and its sources in one line.
fn error_chain(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let mut parts: Vec<String> = chain.map(|error| error.to_string().replace('\n', " ")).collect();
    // Some errors repeat the text of their source.
    parts.dedup_by(|next, before| before.ends_with(next.as_str()));
    parts.join(": ")
}

fn is_denied(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<io::Error>())
        // EACCES is not a missing capability: the verifier returns it for a rejected program.
        .any(|error| error.raw_os_error() == Some(EPERM))
}
