//! Processes one capture on several threads: the caller reads and decodes; every thread works on
//! shards and runs the sequencer.
//!
//! ```text
//!  caller: fills a block ──► jobs (block, group of shards) ──► any thread, one job per group
//!  any thread: once all jobs of the oldest block are done, sequences its events in packet order
//! ```
//! A caller that would otherwise wait takes a job itself, so two threads share the work evenly. A
//! thread prefers the groups it worked on last: their connections are in its core's cache, and
//! fetching them from another core costs more than the work. The number of blocks in flight is
//! bounded; beyond it the caller waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::SHARDS;
use super::admission::PacketHints;
use super::entry::{PacketEntry, PacketPosition, RareFields};
use super::output::{BlockEnd, ShardOutput, sequence_block};
use super::sequencer::Sequencer;
use super::shard::Shard;
use weir_capture::packet::Packet;

/// Blocks in flight at once.
const FLIGHTS_MAX: usize = 3;
/// More groups than threads, so that a thread that finishes early finds work.
const GROUPS_A_THREAD: usize = 8;
/// Groups a thread takes at once from those it worked on last.
const OWN_AT_ONCE: usize = 4;
const OTHERS_AT_ONCE: usize = 1;
const CALLER: usize = 0;

pub(crate) struct WorkerPool {
    shared: Arc<PoolState>,
    threads: Vec<JoinHandle<()>>,
    batch: PacketBlock,
    groups: usize,
}

struct PoolState {
    queue: Mutex<JobQueue>,
    /// Signalled when jobs arrive or the queue closes.
    has_jobs: Condvar,
    /// Signalled when a job completes and the caller waits.
    has_done: Condvar,
    /// Shard `n` is in group `n % groups.len()`, after the group's lower-numbered shards.
    groups: Vec<Mutex<Vec<Shard>>>,
    sequencer: Mutex<Option<Sequencer>>,
    spare: Mutex<Vec<PacketBlock>>,
}

enum Job {
    /// The packets of some groups in a block; one bit per group.
    Groups(Arc<BlockInFlight>, u32),
    Sequence(Arc<BlockInFlight>),
}

#[derive(Default)]
struct JobQueue {
    /// Blocks with unclaimed groups (one bit each), oldest first.
    jobs: VecDeque<(Arc<BlockInFlight>, u32)>,
    /// Blocks not yet sequenced, oldest first.
    flights: VecDeque<Arc<BlockInFlight>>,
    /// Groups being processed; one bit each.
    busy: u32,
    /// Groups last processed by each thread.
    owned: Vec<u32>,
    /// Whether a thread is sequencing; `last_sequencer` did so last.
    is_sequencing: bool,
    last_sequencer: usize,
    waiting: usize,
    is_caller_waiting: bool,
    is_over: bool,
    /// A thread panicked: waiting for it would never end.
    is_broken: bool,
}

struct BlockInFlight {
    batch: PacketBlock,
    left: AtomicU32,
}

/// A block: its packets by group, in order within each group.
#[derive(Default)]
struct PacketBlock {
    parts: Vec<GroupPackets>,
    /// Per group, the output of each of its shards.
    outputs: Vec<Mutex<Vec<ShardOutput>>>,
    order: Vec<u8>,
    end: BlockEnd,
    first_slice: u32,
}

/// Packets of one group, stored contiguously because another core reads them.
#[derive(Default)]
struct GroupPackets {
    entries: Vec<PacketEntry>,
    rares: Vec<RareFields>,
    /// Reader buffers that hold payloads; `bytes` holds the payloads that had to be copied.
    buffers: Vec<Arc<Vec<u8>>>,
    bytes: Vec<u8>,
    shards: u32,
}

impl PacketBlock {
    fn clear(&mut self) {
        self.order.clear();
        for part in &mut self.parts {
            part.entries.clear();
            part.rares.clear();
            part.bytes.clear();
            part.buffers.clear();
            part.shards = 0;
        }
    }
}

/// Buffer index of `bytes`. Never a real buffer's index, since a block has fewer packets.
const COPIED: u16 = u16::MAX;

fn small_offset(at: usize) -> u32 {
    u32::try_from(at).expect("buffers are smaller than 4 GiB")
}

impl GroupPackets {
    /// Returns a payload's buffer index and offset; copies it unless it lies in the reader's
    /// buffer.
    #[inline]
    fn place(&mut self, payload: &[u8], buffer: Option<&Arc<Vec<u8>>>) -> (u16, u32) {
        if let Some(buffer) = buffer {
            let at = (payload.as_ptr() as usize).wrapping_sub(buffer.as_ptr() as usize);
            if at.checked_add(payload.len()).is_some_and(|end| end <= buffer.len()) {
                if self.buffers.last().is_none_or(|last| !Arc::ptr_eq(last, buffer)) {
                    self.buffers.push(Arc::clone(buffer));
                }
                let number = u16::try_from(self.buffers.len() - 1).expect("a block has fewer");
                return (number, small_offset(at));
            }
        }
        let at = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        (COPIED, small_offset(at))
    }

    /// Processes all packets of a group; `step` is the number of groups.
    fn run(
        &self,
        batch: &PacketBlock,
        group: usize,
        shards: &mut [Shard],
        outputs: &mut [ShardOutput],
    ) {
        let step = batch.parts.len();
        for entry in &self.entries {
            let buffer = match self.buffers.get(usize::from(entry.buffer)) {
                Some(buffer) => buffer,
                None => &self.bytes,
            };
            let from = entry.offset as usize;
            let payload = &buffer[from..from + entry.captured()];
            let shard = &mut shards[entry.shard() / step];
            let packet = entry.packet(payload, &self.rares);
            let hints = entry.hints(batch.first_slice, &self.rares);
            shard.packet(entry.at(), &packet, hints, batch.end.start_ns);
        }
        let numbers = (group..).step_by(step);
        for ((number, shard), output) in numbers.zip(shards).zip(outputs) {
            if self.shards >> number & 1 == 1 {
                shard.end_block(batch.end.now);
                std::mem::swap(&mut shard.context.out, &mut output.out);
                output.slices = shard.take_slices(batch.end.slice);
            }
        }
    }
}

impl PoolState {
    fn run<'a>(
        &'a self,
        mut queue: MutexGuard<'a, JobQueue>,
        job: Job,
    ) -> MutexGuard<'a, JobQueue> {
        drop(queue);
        match job {
            Job::Groups(flight, groups) => {
                for group in (0..self.groups.len()).filter(|group| groups >> group & 1 == 1) {
                    let batch = &flight.batch;
                    let mut outputs = batch.outputs[group].lock();
                    let mut shards = self.groups[group].lock();
                    batch.parts[group].run(batch, group, &mut shards, &mut outputs);
                }
                queue = self.queue.lock();
                queue.busy &= !groups;
                // The sequencing thread must hold the only reference to the block.
                flight.left.fetch_sub(groups.count_ones(), Ordering::AcqRel);
                drop(flight);
            }
            Job::Sequence(flight) => {
                if let Some(sequencer) = self.sequencer.lock().as_mut() {
                    flight.sequence(sequencer);
                }
                let batch = Arc::into_inner(flight).map(|flight| flight.batch);
                if let Some(mut batch) = batch {
                    batch.clear();
                    self.spare.lock().push(batch);
                }
                queue = self.queue.lock();
                queue.is_sequencing = false;
            }
        }
        if queue.is_caller_waiting {
            self.has_done.notify_one();
        }
        queue
    }

    /// Loop of the worker thread `me`; returns when the queue closes.
    fn work(&self, me: usize) {
        let _guard = PanicGuard(self);
        let mut queue = self.queue.lock();
        loop {
            match queue.take(me) {
                Some(job) => queue = self.run(queue, job),
                None if queue.is_over => return,
                None => {
                    queue.waiting += 1;
                    self.has_jobs.wait(&mut queue);
                    queue.waiting -= 1;
                }
            }
        }
    }
}

/// Reports a panic to the other threads.
struct PanicGuard<'a>(&'a PoolState);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.queue.lock().is_broken = true;
            self.0.has_done.notify_one();
        }
    }
}

impl JobQueue {
    /// Picks the next job of thread `me`: the groups it did last (in its cache), then sequencing
    /// (which frees a block), else the oldest unclaimed group.
    fn take(&mut self, me: usize) -> Option<Job> {
        let is_done =
            self.flights.front().is_some_and(|first| first.left.load(Ordering::Acquire) == 0);
        let has_events = !self.is_sequencing && is_done;
        if has_events && self.last_sequencer == me {
            return self.take_sequencing(me);
        }
        let own = self.owned[me];
        if let Some(job) = self.take_groups(me, own, OWN_AT_ONCE) {
            return Some(job);
        }
        if has_events {
            return self.take_sequencing(me);
        }
        self.take_groups(me, u32::MAX, OTHERS_AT_ONCE)
    }

    /// Claims some of the `wanted` groups of the oldest block that has any unclaimed.
    fn take_groups(&mut self, me: usize, wanted: u32, at_most: usize) -> Option<Job> {
        let free = wanted & !self.busy;
        let at = self.jobs.iter().position(|(_, left)| left & free != 0)?;
        let (flight, left) = &mut self.jobs[at];
        let mut rest = *left & free;
        for _ in 0..at_most {
            rest &= rest.wrapping_sub(1);
        }
        let taken = (*left & free) & !rest;
        *left &= !taken;
        let flight = Arc::clone(flight);
        if *left == 0 {
            self.jobs.remove(at);
        }
        self.busy |= taken;
        self.owned.iter_mut().for_each(|owned| *owned &= !taken);
        self.owned[me] |= taken;
        Some(Job::Groups(flight, taken))
    }

    fn take_sequencing(&mut self, me: usize) -> Option<Job> {
        (self.is_sequencing, self.last_sequencer) = (true, me);
        self.flights.pop_front().map(Job::Sequence)
    }

    fn in_flight(&self) -> usize {
        self.flights.len() + usize::from(self.is_sequencing)
    }
}

impl BlockInFlight {
    /// Sequences the block's events in packet order; all groups must be done.
    fn sequence(&self, sequencer: &mut Sequencer) {
        let batch = &self.batch;
        let mut outputs: [ShardOutput; SHARDS] = std::array::from_fn(|_| ShardOutput::default());
        let step = batch.outputs.len();
        for (number, output) in outputs.iter_mut().enumerate() {
            *output = std::mem::take(&mut batch.outputs[number % step].lock()[number / step]);
        }
        sequence_block(sequencer, &batch.order, &mut outputs, batch.end);
        for (number, output) in outputs.into_iter().enumerate() {
            batch.outputs[number % step].lock()[number / step] = output;
        }
    }
}

impl WorkerPool {
    /// Creates a pool of the caller and `helpers` threads.
    pub(crate) fn new(shards: Vec<Shard>, sequencer: Sequencer, helpers: usize) -> Self {
        let helpers = helpers.min(SHARDS - 1);
        let count = (GROUPS_A_THREAD * (helpers + 1)).min(SHARDS);
        let mut groups: Vec<Vec<Shard>> = (0..count).map(|_| Vec::new()).collect();
        for (number, shard) in shards.into_iter().enumerate() {
            groups[number % count].push(shard);
        }
        let shared = Arc::new(PoolState {
            queue: Mutex::new(JobQueue { owned: vec![0; helpers + 1], ..JobQueue::default() }),
            has_jobs: Condvar::new(),
            has_done: Condvar::new(),
            groups: groups.into_iter().map(Mutex::new).collect(),
            spare: Mutex::default(),
            sequencer: Mutex::new(Some(sequencer)),
        });
        let threads = (CALLER + 1..=helpers)
            .map(|number| {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.work(number))
            })
            .collect();
        let batch = Self::batch(count);
        Self { shared, threads, batch, groups: count }
    }

    fn batch(groups: usize) -> PacketBlock {
        let outputs = (0..groups).map(|group| {
            let shards = (group..SHARDS).step_by(groups);
            Mutex::new(shards.map(|_| ShardOutput::default()).collect())
        });
        PacketBlock {
            parts: (0..groups).map(|_| GroupPackets::default()).collect(),
            outputs: outputs.collect(),
            ..PacketBlock::default()
        }
    }

    #[inline]
    pub(crate) fn add(
        &mut self,
        shard: usize,
        packet: &Packet<'_>,
        hints: PacketHints,
        buffer: Option<&Arc<Vec<u8>>>,
    ) {
        let PacketBlock { parts, order, first_slice, .. } = &mut self.batch;
        if order.is_empty() {
            *first_slice = hints.slice;
        }
        let count = parts.len();
        let part = &mut parts[shard % count];
        part.shards |= 1 << shard;
        let (buffer, offset) = part.place(packet.payload, buffer);
        let at = u32::try_from(order.len()).expect("blocks are smaller");
        let number = u8::try_from(shard).expect("there are few shards");
        order.push(number);
        let spot = PacketPosition { at, shard: number, slice: *first_slice };
        let mut entry = PacketEntry::new(packet, hints, spot, &mut part.rares);
        (entry.buffer, entry.offset) = (buffer, offset);
        part.entries.push(entry);
    }

    /// Closes the current block and queues it.
    pub(crate) fn end_block(&mut self, end: BlockEnd) {
        let count = self.groups;
        let next = self.shared.spare.lock().pop().unwrap_or_else(|| Self::batch(count));
        let mut batch = std::mem::replace(&mut self.batch, next);
        batch.end = end;
        let used = (0..count).filter(|group| batch.parts[*group].shards != 0);
        let groups = used.fold(0_u32, |groups, group| groups | 1 << group);
        let left = AtomicU32::new(groups.count_ones());
        let flight = Arc::new(BlockInFlight { batch, left });
        let mut queue = self.shared.queue.lock();
        if groups != 0 {
            queue.jobs.push_back((Arc::clone(&flight), groups));
        }
        queue.flights.push_back(flight);
        let is_awaited = queue.waiting > 0;
        drop(queue);
        if is_awaited {
            self.shared.has_jobs.notify_all();
        }
        self.wait_for_blocks(FLIGHTS_MAX);
    }

    /// Works, or waits, until at most `limit` blocks are in flight.
    fn wait_for_blocks(&self, limit: usize) {
        let mut queue = self.shared.queue.lock();
        while queue.in_flight() > limit {
            assert!(!queue.is_broken, "a capture thread panicked");
            match queue.take(CALLER) {
                Some(job) => queue = self.shared.run(queue, job),
                None => {
                    queue.is_caller_waiting = true;
                    self.shared.has_done.wait(&mut queue);
                    queue.is_caller_waiting = false;
                }
            }
        }
    }

    /// Waits for all blocks and returns the shards, in order, and the sequencer. The pool is empty
    /// afterwards.
    pub(crate) fn finish(&mut self) -> (Vec<Shard>, Option<Sequencer>) {
        self.wait_for_blocks(0);
        self.stop();
        let groups: Vec<Vec<Shard>> =
            self.shared.groups.iter().map(|group| std::mem::take(&mut *group.lock())).collect();
        let count = groups.len();
        let mut groups: Vec<_> = groups.into_iter().map(Vec::into_iter).collect();
        let shards = (0..SHARDS).filter_map(|number| groups[number % count].next()).collect();
        (shards, self.shared.sequencer.lock().take())
    }

    fn stop(&mut self) {
        self.shared.queue.lock().is_over = true;
        self.shared.has_jobs.notify_all();
        for thread in self.threads.drain(..) {
            let panicked = thread.join().is_err();
            assert!(!panicked || std::thread::panicking(), "a capture thread panicked");
        }
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock();
        queue.jobs.clear();
        queue.flights.clear();
        drop(queue);
        self.stop();
    }
}
