//! The kernel's side: the program is loaded, its maps are read.
//!
//! Source: bpf(2), the crate aya. Programs of the type "tracing" are attached to tracepoints by their BTF; the kernel
//! detaches them when the descriptors are closed, also after `kill -9`.

use aya::maps::{Array, HashMap, Map, MapError, PerCpuArray};
use aya::programs::{BtfTracePoint, ProgramError};
use aya::{Btf, BtfError, Ebpf, EbpfError as AyaError, EbpfLoader, Pod};
use std::io;

use crate::error::{LISTENERS, PORTS};
use crate::histogram::{BUCKETS, Waits};
use crate::rows::{Accepts, Counted, Key, Side};
use crate::{EbpfError, Options};

const OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/sockets.bpf.o"));

/// Functions of `sockets.bpf.c` and their tracepoints.
const PROGRAMS: [(&str, &str); 5] = [
    ("on_state", "inet_sock_set_state"),
    ("on_retransmit", "tcp_retransmit_skb"),
    ("on_retransmit_synack", "tcp_retransmit_synack"),
    ("on_send_reset", "tcp_send_reset"),
    ("on_receive_reset", "tcp_receive_reset"),
];
const ON_ACCEPT: (&str, &str) = ("on_sys_exit", "sys_exit");

const EPERM: i32 = 1;
const KEY_BYTES: usize = 28;
const HALF_AT: usize = 8;
const ACCEPTS_BYTES: usize = 32 + 4 * BUCKETS;

type RawKey = [u8; KEY_BYTES];

/// Programs and maps, in the kernel until this is dropped.
pub(crate) struct Kernel {
    ebpf: Ebpf,
    active: u32,
}

impl Kernel {
    pub(crate) fn open(options: &Options) -> Result<Self, EbpfError> {
        let btf = Btf::from_sys_fs().map_err(|error| no_btf(&error))?;
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
            .map_err(|error| refused("load", &error))?;
        for (function, tracepoint) in
            PROGRAMS.into_iter().chain(options.times_accepts.then_some(ON_ACCEPT))
        {
            attach(&mut ebpf, function, tracepoint, &btf)
                .map_err(|error| not_attached(tracepoint, &error))?;
        }
        Ok(Self { ebpf, active: 0 })
    }

    /// From now on programs add to the other half.
    pub(crate) fn change_half(&mut self) -> Result<(), EbpfError> {
        let next = 1 - self.active;
        let map = self.ebpf.map_mut("active_half").expect("the program has this map");
        Array::try_from(map)
            .and_then(|mut array: Array<_, u32>| array.set(0, next, 0))
            .map_err(|error| refused("switch", &error.into()))?;
        self.active = next;
        Ok(())
    }

    /// Empties the half that no program adds to.
    pub(crate) fn take_idle_half(&mut self) -> Result<Counted, EbpfError> {
        let states = self.take("states", |raw: [u64; 5]| raw)?;
        let peers = self.take("peers", |raw: [u64; 5]| raw)?;
        let listeners = self.take("listeners", |raw: [u8; ACCEPTS_BYTES]| accepts(&raw))?;
        Ok(Counted { states, peers, listeners })
    }

    /// Events that found no room, by the map, since the beginning.
    pub(crate) fn lost(&self) -> Result<[u64; 4], EbpfError> {
        let map = self.ebpf.map("lost").expect("the program has this map");
        let read = || -> Result<[u64; 4], MapError> {
            let array: PerCpuArray<_, u64> = PerCpuArray::try_from(map)?;
            let mut sums = [0; 4];
            for (sum, index) in sums.iter_mut().zip(0..) {
                *sum = array.get(&index, 0)?.iter().sum();
            }
            Ok(sums)
        };
        read().map_err(|error| refused("read", &error.into()))
    }

    fn take<V: Pod, T>(
        &mut self,
        name: &str,
        read: impl Fn(V) -> T,
    ) -> Result<Vec<(Key, T)>, EbpfError> {
        let half = 1 - self.active;
        let map = self.ebpf.map_mut(name).expect("the program has this map");
        take_half(map, half, read).map_err(|error| refused("read", &error.into()))
    }
}

fn take_half<V: Pod, T>(
    map: &mut Map,
    half: u32,
    read: impl Fn(V) -> T,
) -> Result<Vec<(Key, T)>, MapError> {
    let mut map: HashMap<_, RawKey, V> = HashMap::try_from(map)?;
    // All keys first: the kernel begins anew after a key that is gone.
    let is_idle = |key: &Result<RawKey, MapError>| {
        key.as_ref().map_or(true, |key| u32::from(key[HALF_AT]) == half)
    };
    let keys = map.keys().filter(is_idle).collect::<Result<Vec<_>, _>>()?;
    keys.into_iter()
        .map(|raw| {
            let value = read(map.get(&raw, 0)?);
            map.remove(&raw)?;
            Ok((key(&raw), value))
        })
        .collect()
}

/// `struct key` of `sockets.bpf.c`.
fn key(raw: &RawKey) -> Key {
    let (netns, rest) = raw.split_first_chunk().expect("28 bytes");
    let (port, rest) = rest.split_first_chunk().expect("24 bytes");
    let (_, address) = raw.split_last_chunk().expect("28 bytes");
    Key {
        netns: u32::from_ne_bytes(*netns),
        port: u16::from_ne_bytes(*port),
        side: if rest[0] == 1 { Side::Server } else { Side::Client },
        address: Key::address(rest[1], *address),
    }
}

/// `struct accepts` of `sockets.bpf.c`.
fn accepts(raw: &[u8; ACCEPTS_BYTES]) -> Accepts {
    let (numbers, buckets) = raw.split_at(32);
    let number =
        |at: usize| u64::from_ne_bytes(numbers[8 * at..][..8].try_into().expect("eight bytes"));
    let bucket =
        |at: usize| u32::from_ne_bytes(buckets[4 * at..][..4].try_into().expect("four bytes"));
    let waits =
        Waits { buckets: std::array::from_fn(bucket), sum_us: number(2), max_us: number(3) };
    Accepts { accepted: number(0), abandoned: number(1), waits }
}

fn attach(
    ebpf: &mut Ebpf,
    function: &str,
    tracepoint: &str,
    btf: &Btf,
) -> Result<(), ProgramError> {
    let program = ebpf.program_mut(function).expect("the object has this program");
    let program: &mut BtfTracePoint = program.try_into()?;
    program.load(tracepoint, btf)?;
    program.attach()?;
    Ok(())
}

const RIGHTS: &str = "that needs root, or CAP_BPF and CAP_PERFMON";
const KERNEL: &str =
    "that needs Linux 5.11 or newer with CONFIG_DEBUG_INFO_BTF, or set `ebpf.enabled = false`";

fn no_btf(error: &BtfError) -> EbpfError {
    EbpfError::new(format!("cannot count what sockets do: {}", in_words(error)), KERNEL)
}

fn not_attached(tracepoint: &str, error: &ProgramError) -> EbpfError {
    let hint = if is_denied(error) { RIGHTS } else { KERNEL };
    let why = match error {
        // The verifier's log is pages long; what it ends with is the reason.
        ProgramError::LoadError { io_error, verifier_log } => {
            let log = verifier_log.to_string();
            // Below the reason are figures of its work.
            let is_reason = |line: &&str| {
                let figures = ["processed ", "verification time", "stack depth"];
                !line.is_empty() && !figures.iter().any(|start| line.starts_with(start))
            };
            let last = log.lines().map(str::trim).rfind(is_reason);
            last.map_or_else(|| io_error.to_string(), |last| format!("{io_error}: {last}"))
        }
        other => in_words(other),
    };
    EbpfError::new(format!("cannot watch the tracepoint `{tracepoint}`: {why}"), hint)
}

fn refused(what: &str, error: &AyaError) -> EbpfError {
    let hint = if is_denied(error) { RIGHTS } else { KERNEL };
    EbpfError::new(format!("cannot {what} what counts sockets: {}", in_words(error)), hint)
}

/// The error and what it comes from, in one line.
fn in_words(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let mut parts: Vec<String> = chain.map(|error| error.to_string().replace('\n', " ")).collect();
    // Some say what their source says.
    parts.dedup_by(|next, before| before.ends_with(next.as_str()));
    parts.join(": ")
}

fn is_denied(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<io::Error>())
        // The verifier's refusals are EACCES.
        .any(|error| error.raw_os_error() == Some(EPERM))
}
