//! Several threads on one capture: the caller reads, decodes and keeps the ledger, all of them work on shards.
//!
//! ```text
//!  caller: fills a block ──► jobs (block, group of shards) ──► any thread, a group's jobs one after the other
//!  caller: when all jobs of the oldest block are done, its events go to the ledger in the order of packets
//! ```
//! A caller that has nothing to wait for but jobs takes one itself, so two threads share the work evenly whatever it is
//! made of. Blocks in flight are bounded: the caller waits when there are too many.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::vec::IntoIter;

use super::SHARDS;
use super::event::{Ask, Closed, Done, Out, Told};
use super::gate::Pass;
use super::ledger::Ledger;
use super::shard::Shard;
use super::slice::Slice;
use crate::packet::Packet;

/// Blocks that are worked on at once.
const FLIGHTS_MAX: usize = 3;

/// Threads and the blocks they work on.
pub(crate) struct Crew {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The block that is being filled.
    batch: Batch,
    /// Blocks that are worked on, the oldest first.
    flights: VecDeque<Arc<Flight>>,
    /// A block that is done, to be filled again.
    spare: Vec<Batch>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// There are jobs, or there will be no more.
    has_jobs: Condvar,
    /// A job is done.
    has_done: Condvar,
    /// Shard `n` is in group `n % groups.len()`, behind those of smaller numbers.
    groups: Vec<Mutex<Vec<Shard>>>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<(Arc<Flight>, usize)>,
    /// One bit for each group that somebody works on.
    busy: u32,
    is_over: bool,
    /// A thread panicked: nobody may wait for it.
    is_broken: bool,
}

/// A block in work.
struct Flight {
    batch: Batch,
    /// Of each group: of each of its shards, what came of it.
    outputs: Vec<Mutex<Vec<Output>>>,
    left: AtomicUsize,
}

/// A block: its packets by group, each group's in order.
#[derive(Default)]
struct Batch {
    parts: Vec<Part>,
    /// The shard of each packet.
    order: Vec<u8>,
    now: i64,
    slice: u32,
    start_ns: i64,
}

/// Packets of one group with their captured bytes, one behind the other: they are read by another core.
#[derive(Default)]
struct Part {
    entries: Vec<Entry>,
    bytes: Vec<u8>,
    /// One bit for each shard that has a packet in it.
    shards: u32,
}

struct Entry {
    packet: Packet<'static>,
    captured: u32,
    at: u32,
    shard: u8,
    pass: Pass,
}

#[derive(Default)]
struct Output {
    shard: usize,
    out: Out,
    slices: Vec<(u16, u32, Box<Slice>)>,
}

/// A panic of another thread is passed on where the job is missed; a lock alone is always whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Batch {
    fn clear(&mut self) {
        self.order.clear();
        for part in &mut self.parts {
            part.entries.clear();
            part.bytes.clear();
            part.shards = 0;
        }
    }
}

impl Part {
    /// Works on all packets of a group; `step` is how many groups there are.
    fn run(&self, batch: &Batch, group: usize, shards: &mut [Shard]) -> Vec<Output> {
        let step = batch.parts.len();
        let mut rest: &[u8] = &self.bytes;
        for entry in &self.entries {
            let (payload, after) = rest.split_at(entry.captured as usize);
            rest = after;
            let shard = &mut shards[usize::from(entry.shard) / step];
            shard.packet(entry.at, &Packet { payload, ..entry.packet }, entry.pass);
        }
        let used = |(number, _): &(usize, &mut Shard)| self.shards >> number & 1 == 1;
        let numbers = (group..).step_by(step);
        let outputs = numbers.zip(shards).filter(used).map(|(number, shard)| {
            shard.end_block(batch.now);
            let slices = shard.take_slices(batch.slice);
            Output { shard: number, out: shard.world.out.take(), slices }
        });
        outputs.collect()
    }
}

impl Shared {
    /// The oldest job whose group nobody works on.
    fn take(queue: &mut Queue) -> Option<(Arc<Flight>, usize)> {
        let is_free = |(_, group): &(Arc<Flight>, usize)| queue.busy >> group & 1 == 0;
        let at = queue.jobs.iter().position(is_free)?;
        let job = queue.jobs.remove(at)?;
        queue.busy |= 1 << job.1;
        Some(job)
    }

    fn run(&self, (flight, group): (Arc<Flight>, usize)) {
        let batch = &flight.batch;
        let outputs = batch.parts[group].run(batch, group, &mut lock(&self.groups[group]));
        *lock(&flight.outputs[group]) = outputs;
        flight.left.fetch_sub(1, Ordering::AcqRel);
        drop(flight);
        let mut queue = lock(&self.queue);
        queue.busy &= !(1 << group);
        drop(queue);
        self.has_done.notify_one();
    }

    /// What a thread does until there is nothing more to do.
    fn work(&self) {
        let _guard = Guard(self);
        let mut queue = lock(&self.queue);
        loop {
            match Self::take(&mut queue) {
                Some(job) => {
                    drop(queue);
                    self.run(job);
                    queue = lock(&self.queue);
                }
                None if queue.is_over => return,
                None => {
                    queue = self.has_jobs.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}

/// Tells the others when a thread panics.
struct Guard<'a>(&'a Shared);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(&self.0.queue).is_broken = true;
            self.0.has_done.notify_one();
        }
    }
}

impl Crew {
    /// A crew of the caller and as many `helpers`.
    pub(crate) fn new(shards: Vec<Shard>, helpers: usize) -> Self {
        let helpers = helpers.min(SHARDS - 1);
        // Two groups a thread: who is done early finds something to do.
        let count = (2 * (helpers + 1)).min(SHARDS);
        let mut groups: Vec<Vec<Shard>> = (0..count).map(|_| Vec::new()).collect();
        for (number, shard) in shards.into_iter().enumerate() {
            groups[number % count].push(shard);
        }
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue::default()),
            has_jobs: Condvar::new(),
            has_done: Condvar::new(),
            groups: groups.into_iter().map(Mutex::new).collect(),
        });
        let thread = |_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.work())
        };
        let threads = (0..helpers).map(thread).collect();
        let batch = Self::batch(count);
        Self { shared, threads, batch, flights: VecDeque::new(), spare: Vec::new() }
    }

    fn batch(groups: usize) -> Batch {
        Batch { parts: (0..groups).map(|_| Part::default()).collect(), ..Batch::default() }
    }

    /// Adds a packet to the block.
    #[inline]
    pub(crate) fn add(&mut self, shard: usize, packet: &Packet<'_>, pass: Pass) {
        let Batch { parts, order, .. } = &mut self.batch;
        let count = parts.len();
        let part = &mut parts[shard % count];
        part.bytes.extend_from_slice(packet.payload);
        part.shards |= 1 << shard;
        let (at, number) = (order.len(), u8::try_from(shard).expect("there are few shards"));
        order.push(number);
        part.entries.push(Entry {
            packet: Packet { payload: &[], ..*packet },
            captured: u32::try_from(packet.payload.len()).expect("records are smaller"),
            at: u32::try_from(at).expect("blocks are smaller"),
            shard: number,
            pass,
        });
    }

    /// The block is full: it is worked on from now on.
    pub(crate) fn end_block(&mut self, now: i64, slice: u32, ledger: &mut Ledger) {
        let count = self.batch.parts.len();
        let next = self.spare.pop().unwrap_or_else(|| Self::batch(count));
        let mut batch = std::mem::replace(&mut self.batch, next);
        (batch.now, batch.slice, batch.start_ns) = (now, slice, ledger.start_ns);
        let jobs: Vec<usize> =
            (0..count).filter(|group| batch.parts[*group].shards != 0).collect();
        let outputs = (0..count).map(|_| Mutex::default()).collect();
        let left = AtomicUsize::new(jobs.len());
        let flight = Arc::new(Flight { batch, outputs, left });
        self.flights.push_back(Arc::clone(&flight));
        let mut queue = lock(&self.shared.queue);
        queue.jobs.extend(jobs.into_iter().map(|group| (Arc::clone(&flight), group)));
        drop(queue);
        self.shared.has_jobs.notify_all();
        self.land(FLIGHTS_MAX, ledger);
    }

    /// Takes in what is done, and works until no more than `limit` blocks are in flight.
    fn land(&mut self, limit: usize, ledger: &mut Ledger) {
        while let Some(first) = self.flights.front() {
            if first.left.load(Ordering::Acquire) == 0 {
                if let Some(flight) = self.flights.pop_front() {
                    self.take_in(flight, ledger);
                }
            } else if self.flights.len() > limit {
                self.help();
            } else {
                return;
            }
        }
    }

    /// Does a job, or waits until one is done.
    fn help(&self) {
        let mut queue = lock(&self.shared.queue);
        assert!(!queue.is_broken, "a thread that worked on the capture panicked");
        if let Some(job) = Shared::take(&mut queue) {
            drop(queue);
            return self.shared.run(job);
        }
        let is_done = self.flights.front().is_none_or(|first| {
            first.left.load(Ordering::Acquire) == 0
        });
        if !is_done {
            drop(self.shared.has_done.wait(queue).unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn take_in(&mut self, flight: Arc<Flight>, ledger: &mut Ledger) {
        let batch = &flight.batch;
        let mut readers: [Reader; SHARDS] = std::array::from_fn(|_| Reader::new(Output::default()));
        for outputs in &flight.outputs {
            for output in lock(outputs).drain(..) {
                let number = output.shard;
                readers[number] = Reader::new(output);
            }
        }
        let after = (ledger.start_ns, ledger.slice);
        ledger.start_ns = batch.start_ns;
        for (at, number) in (0..).zip(&batch.order) {
            let number = usize::from(*number);
            if readers[number].next_at == at {
                readers[number].tell(ledger, number, at);
            }
        }
        for (number, reader) in readers.iter_mut().enumerate() {
            ledger.slice = batch.slice;
            reader.tell(ledger, number, u32::MAX);
            ledger.add_slices(number, std::mem::take(&mut reader.slices));
        }
        ledger.end_block(batch.slice);
        (ledger.start_ns, ledger.slice) = after;
        if let Some(mut flight) = Arc::into_inner(flight) {
            flight.batch.clear();
            self.spare.push(flight.batch);
        }
    }

    /// Waits for all blocks; the shards, in order.
    pub(crate) fn finish(&mut self, ledger: &mut Ledger) -> Vec<Shard> {
        self.land(0, ledger);
        self.stop();
        let groups: Vec<Vec<Shard>> =
            self.shared.groups.iter().map(|group| std::mem::take(&mut *lock(group))).collect();
        let count = groups.len();
        let mut groups: Vec<_> = groups.into_iter().map(Vec::into_iter).collect();
        (0..SHARDS).filter_map(|number| groups[number % count].next()).collect()
    }

    fn stop(&mut self) {
        lock(&self.shared.queue).is_over = true;
        self.shared.has_jobs.notify_all();
        for thread in self.threads.drain(..) {
            let panicked = thread.join().is_err();
            assert!(
                !panicked || std::thread::panicking(),
                "a thread that worked on the capture panicked"
            );
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        lock(&self.shared.queue).jobs.clear();
        self.stop();
    }
}

/// Reads one shard's events of a block, packet by packet.
struct Reader {
    events: Peekable<IntoIter<Told>>,
    asks: IntoIter<Ask>,
    dones: IntoIter<Done>,
    closed: IntoIter<Closed>,
    text: Vec<u8>,
    slices: Vec<(u16, u32, Box<Slice>)>,
    /// The packet that the next event belongs to.
    next_at: u32,
}

impl Reader {
    fn new(Output { out, slices, .. }: Output) -> Self {
        let Out { events, asks, dones, closed, text } = out;
        let mut events = events.into_iter().peekable();
        let next_at = events.peek().map_or(u32::MAX, |told| told.at);
        let (asks, dones, closed) = (asks.into_iter(), dones.into_iter(), closed.into_iter());
        Self { events, asks, dones, closed, text, slices, next_at }
    }

    /// Takes in the events of the packet `at`.
    fn tell(&mut self, ledger: &mut Ledger, shard: usize, at: u32) {
        let Self { events, asks, dones, closed, text, next_at, .. } = self;
        while let Some(told) = events.next_if(|told| told.at == at) {
            if at != u32::MAX {
                ledger.slice = told.slice;
            }
            ledger.event(shard, told.event, asks, dones, closed, text);
        }
        *next_at = events.peek().map_or(u32::MAX, |told| told.at);
    }
}
