//! A hub with a store in memory, agents whose reader goes back when it is told to, and a proxy that cuts.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use weir_link::{
    Append, Appended, Bandwidth, Courier, CourierHandle, CourierOptions, CourierStatus, Hub,
    HubOptions, Identity, Intake, Invitation, JoinToken, LinkError, Outcome, Position, Reason,
    Refusal, Registry, Shipment, Spool,
};
use weir_tables::{
    Batch, Clock, FixedClock, Log, LogRows, Micros, Parcel, Rows, StreamId, StreamRange,
};

pub(crate) const NOW: Micros = Micros(1_795_000_000_000_000);

/// A clock that tests move.
pub(crate) struct Fake(Arc<FixedClock>);

impl Fake {
    pub(crate) fn new(now: Micros) -> Self {
        Self(Arc::new(FixedClock::new(now)))
    }

    pub(crate) fn now(&self) -> Micros {
        self.0.now()
    }

    pub(crate) fn add(&self, span: Duration) {
        self.0.set(self.now() + span);
    }

    fn shared(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.0) as _
    }
}

#[derive(Clone, Default)]
struct Kept {
    positions: HashMap<StreamId, u64>,
    numbers: BTreeMap<u128, Vec<u64>>,
    samples: Vec<u64>,
}

/// What a store promises, in memory: a log that can be lost, and tables that cannot.
pub(crate) struct Store {
    /// In the log, and in tables.
    kept: Mutex<(Kept, Kept)>,
    is_full: AtomicBool,
    commits: watch::Sender<u64>,
}

impl Store {
    fn kept(&self) -> MutexGuard<'_, (Kept, Kept)> {
        self.kept.lock().expect("no panic")
    }

    /// Numbers of a stream, sorted, those that came twice twice.
    pub(crate) fn numbers(&self, stream: u128) -> Vec<u64> {
        let mut numbers = self.kept().0.numbers.get(&stream).cloned().unwrap_or_default();
        numbers.sort_unstable();
        numbers
    }

    pub(crate) fn samples(&self) -> Vec<u64> {
        let mut samples = self.kept().0.samples.clone();
        samples.sort_unstable();
        samples
    }

    pub(crate) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    pub(crate) fn commit(&self) {
        let mut kept = self.kept();
        kept.1 = kept.0.clone();
        drop(kept);
        self.commits.send_modify(|count| *count += 1);
    }

    pub(crate) fn lose_log(&self) {
        let mut kept = self.kept();
        kept.0 = kept.1.clone();
    }

    fn take(&self, parcel: &[u8]) -> Result<Appended, Refusal> {
        let refused = |reason, expected, text: &str| {
            Err(Refusal { reason, expected, text: text.into(), hint: String::new() })
        };
        if self.is_full.load(Ordering::SeqCst) {
            return refused(Reason::Full, 0, "the disk is full");
        }
        let Ok(parcel) = Parcel::decode(parcel) else {
            return refused(Reason::Bad, 0, "no parcel");
        };
        let range = parcel.range.expect("tests send streams only");
        let mut kept = self.kept();
        let kept = &mut kept.0;
        let position = kept.positions.get(&range.stream).copied();
        match position {
            Some(position) if range.to <= position => {
                return Ok(Appended { rows: 0, position: Some(position) });
            }
            Some(position) if range.from > position => {
                return refused(Reason::Behind, position, "behind");
            }
            _ => {}
        }
        let mut rows = 0;
        for batch in &parcel.batches {
            let bodies = batch.rows.column_by_name("body").expect("a column").as_string::<i32>();
            for at in 0..bodies.len() {
                let (kind, number) = bodies.value(at).split_once(' ').expect("two words");
                let number: u64 = number.parse().expect("a number");
                if kind == "sample" {
                    kept.samples.push(number);
                } else if number >= position.unwrap_or_default() {
                    kept.numbers.entry(range.stream.0).or_default().push(number);
                }
                rows += 1;
            }
        }
        kept.positions.insert(range.stream, range.to);
        Ok(Appended { rows, position: Some(range.to) })
    }
}

struct Shared(Arc<Store>);

impl Intake for Shared {
    fn positions(&self, streams: &[StreamId]) -> Vec<Position> {
        let kept = self.0.kept();
        let position = |stream: &StreamId| Position {
            stream: *stream,
            accepted: kept.0.positions.get(stream).copied(),
            committed: kept.1.positions.get(stream).copied(),
        };
        streams.iter().map(position).collect()
    }

    fn append(&self, parcel: Vec<u8>) -> Append {
        let store = Arc::clone(&self.0);
        Box::pin(async move {
            let outcome = store.take(&parcel);
            tokio::task::yield_now().await; // as a store that syncs
            outcome
        })
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.0.commits.subscribe()
    }

    fn trouble(&self) -> Option<String> {
        self.0.is_full.load(Ordering::SeqCst).then(|| "the disk is full".into())
    }
}

/// A hub on a port of its own.
pub(crate) struct Site {
    dir: tempfile::TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) clock: Fake,
    store: Arc<Store>,
    running: Mutex<Option<Running>>,
}

struct Running {
    hub: Arc<Hub>,
    end: watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
}

impl Site {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let store = Store {
            kept: Mutex::default(),
            is_full: AtomicBool::new(false),
            commits: watch::Sender::new(0),
        };
        let site = Self {
            dir: tempfile::tempdir().expect("a directory"),
            address: listener.local_addr().expect("it is bound"),
            clock: Fake::new(NOW),
            store: Arc::new(store),
            running: Mutex::new(None),
        };
        site.serve(listener);
        site
    }

    fn serve(&self, listener: TcpListener) {
        let options =
            HubOptions { heartbeat: Duration::from_secs(1), ..HubOptions::new(self.link_dir()) };
        let intake = Arc::new(Shared(Arc::clone(&self.store)));
        let hub = Hub::new(options, intake, self.clock.shared()).expect("a good directory");
        let (end, ended) = watch::channel(false);
        let serving = tokio::spawn(Arc::clone(&hub).serve(listener, ended));
        *self.running.lock().expect("no panic") = Some(Running { hub, end, serving });
    }

    pub(crate) fn link_dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn store(&self) -> Arc<Store> {
        Arc::clone(&self.store)
    }

    pub(crate) fn hub(&self) -> Arc<Hub> {
        let running = self.running.lock().expect("no panic");
        Arc::clone(&running.as_ref().expect("it runs").hub)
    }

    /// The hub ends; its store stays.
    pub(crate) async fn stop(&self) {
        let running = self.running.lock().expect("no panic").take().expect("it runs");
        let _ = running.end.send(true);
        running.serving.await.expect("no panic");
    }

    pub(crate) async fn start_again(&self) {
        let listener = TcpListener::bind(self.address).await.expect("its own port");
        self.serve(listener);
    }

    pub(crate) fn token(&self, name: &str, span: Duration) -> JoinToken {
        let now = self.clock.now();
        let invitation = Invitation { expires: now + span, name: Some(name.into()) };
        let registry = Registry::new(self.link_dir());
        let (invite, secret) = registry.invite(&invitation, now).expect("there is room");
        let authority = weir_link::Authority::open(self.link_dir(), now).expect("it is there");
        JoinToken {
            expires: invitation.expires,
            invite,
            secret,
            authority: authority.fingerprint(),
            addresses: vec![self.address.to_string()],
        }
    }
}

/// Joins from a directory of its own.
pub(crate) async fn join(
    token: &JoinToken,
    name: &str,
    clock: &Fake,
) -> Result<Identity, LinkError> {
    let dir = tempfile::tempdir().expect("a directory");
    weir_link::join(dir.path(), token, name, &clock.shared()).await
}

/// An agent that has joined and does not run.
pub(crate) struct Agent {
    dir: tempfile::TempDir,
    clock: Arc<dyn Clock>,
    name: String,
    /// What the files of its host hold: how many numbers each stream has.
    files: Arc<Files>,
}

impl Agent {
    pub(crate) async fn join(site: &Site, name: &str) -> Result<Self, LinkError> {
        let dir = tempfile::tempdir().expect("a directory");
        let clock = site.clock.shared();
        weir_link::join(dir.path(), &site.token(name, Duration::from_secs(60)), name, &clock)
            .await?;
        Ok(Self { dir, clock, name: name.into(), files: Arc::default() })
    }

    pub(crate) async fn join_too(self, site: &Site) -> Self {
        let token = site.token(&self.name, Duration::from_secs(60));
        weir_link::join(self.dir.path(), &token, &self.name, &self.clock).await.expect("good");
        self
    }

    pub(crate) fn identity(&self) -> Identity {
        let mut all = Identity::load_all(self.dir.path()).expect("it can be read");
        all.remove(0)
    }

    pub(crate) fn run(self, hubs: Vec<String>) -> Runs {
        let spool = Spool::open(&self.dir.path().join("spool"), 4 << 20).expect("a spool");
        let (handle, courier) = Courier::new(CourierOptions {
            dir: self.dir.path().to_owned(),
            hubs,
            program: "weir test".into(),
            bandwidth: Bandwidth::new(0),
            window_bytes: 1 << 20,
            clock: Arc::clone(&self.clock),
            spool,
        });
        let handle = Arc::new(handle);
        let delivering = tokio::spawn(courier.run());
        let reader = {
            let (handle, files) = (Arc::clone(&handle), Arc::clone(&self.files));
            files.state.lock().expect("no panic").is_ended = false;
            std::thread::spawn(move || read_always(&handle, &files))
        };
        Runs { agent: self, handle, delivering, reader: Some(reader) }
    }
}

/// An agent that runs.
pub(crate) struct Runs {
    agent: Agent,
    handle: Arc<CourierHandle>,
    delivering: tokio::task::JoinHandle<()>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Runs {
    /// The stream's file now has numbers up to the end of the range.
    pub(crate) fn write(&self, stream: u128, numbers: std::ops::Range<u64>) {
        let mut state = self.agent.files.state.lock().expect("no panic");
        let end = state.ends.entry(stream).or_default();
        assert_eq!(*end, numbers.start, "files grow");
        *end = numbers.end;
        self.agent.files.changed.notify_all();
    }

    pub(crate) fn sample(&self, number: u64) {
        self.handle.ship_sample(rows("sample", &[number])).expect("there is room");
    }

    pub(crate) fn status(&self) -> CourierStatus {
        self.handle.status()
    }

    pub(crate) fn trouble(&self) -> String {
        self.status().trouble.unwrap_or_default()
    }

    pub(crate) fn identity(&self) -> Identity {
        self.agent.identity()
    }

    /// As at SIGTERM.
    pub(crate) async fn end(mut self) {
        self.handle.close();
        self.delivering.await.expect("no panic");
        self.agent.files.end();
        let reader = self.reader.take().expect("it runs");
        tokio::task::spawn_blocking(move || reader.join().expect("no panic")).await.expect("ends");
    }

    /// As at `kill -9`: only files are left.
    pub(crate) async fn kill(mut self) -> Agent {
        self.delivering.abort();
        let _ = (&mut self.delivering).await;
        self.agent.files.end();
        let reader = self.reader.take().expect("it runs");
        tokio::task::spawn_blocking(move || reader.join().expect("no panic")).await.expect("ends");
        self.agent
    }
}

#[derive(Default)]
struct Files {
    state: Mutex<FileState>,
    changed: Condvar,
}

#[derive(Default)]
struct FileState {
    ends: BTreeMap<u128, u64>,
    is_ended: bool,
}

impl Files {
    fn end(&self) {
        self.state.lock().expect("no panic").is_ended = true;
        self.changed.notify_all();
    }
}

struct Reading {
    position: u64,
    epoch: u64,
}

/// A tailer in small: asks where streams stand, reads on from there, goes back when it is told to.
fn read_always(handle: &CourierHandle, files: &Files) {
    let (reply, replies) = std::sync::mpsc::channel();
    let mut reading: BTreeMap<u128, Reading> = BTreeMap::new();
    loop {
        let (ends, is_ended) = {
            let state = files.state.lock().expect("no panic");
            let look = Duration::from_millis(5);
            let (state, _) = files.changed.wait_timeout(state, look).expect("no panic");
            (state.ends.clone(), state.is_ended)
        };
        if is_ended {
            return;
        }
        while let Ok((stream, epoch, outcome)) = replies.try_recv() {
            let file: &mut Reading = reading.get_mut(&stream).expect("it was read");
            if let Outcome::Again { position, .. } = outcome
                && file.epoch == epoch
            {
                (file.position, file.epoch) = (position, epoch + 1);
            }
        }
        for (stream, end) in ends {
            let file = match reading.entry(stream) {
                Entry::Occupied(file) => file.into_mut(),
                Entry::Vacant(file) => {
                    let Ok(known) = handle.positions(&[StreamId(stream)]) else { continue };
                    let position = known.first().map_or(0, |(_, position)| *position);
                    file.insert(Reading { position, epoch: 0 })
                }
            };
            if file.position >= end {
                continue;
            }
            let (from, to, epoch) = (file.position, end.min(file.position + 37), file.epoch);
            file.position = to;
            let range = StreamRange { stream: StreamId(stream), from, to };
            let batches = rows("line", &(from..to).collect::<Vec<_>>());
            let bytes = Parcel { range: Some(range), batches }.encode(true);
            let reply = reply.clone();
            let report = Box::new(move |outcome| {
                let _ = reply.send((stream, epoch, outcome));
            });
            handle.ship(Shipment { range, epoch, bytes, report });
        }
    }
}

fn rows(kind: &str, numbers: &[u64]) -> Vec<Batch> {
    let mut rows = LogRows::default();
    for number in numbers {
        let body = format!("{kind} {number}");
        let source_offset = i64::try_from(*number).ok();
        rows.push(&Log { ts: NOW, host: "web1", source_offset, body: &body, ..Default::default() });
    }
    vec![Batch { table: LogRows::SPEC, rows: rows.finish() }]
}

/// Looks every 10 ms.
pub(crate) async fn wait_for(what: &str, mut look: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !look() {
        assert!(Instant::now() < end, "{what}: not within a minute");
        pause(Duration::from_millis(10)).await;
    }
}

/// Paces a loop; nothing is assumed to have happened.
pub(crate) async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Nobody listens there; it was free a moment ago.
pub(crate) fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound")
}

/// Sends bytes that are no TLS; waits until the hub closes, or goes itself when it says nothing.
pub(crate) async fn noise(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(bytes).await.expect("it reads");
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
}

/// Between agent and hub; cuts connections when it is told to.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    cut: watch::Sender<u64>,
    /// Bytes after which every connection is cut once; 0 means none.
    budget: Arc<AtomicU64>,
    cuts: Arc<AtomicU64>,
}

impl Proxy {
    pub(crate) async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (cut, is_cut) = watch::channel(0);
        let (budget, cuts) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (own_budget, own_cuts) = (Arc::clone(&budget), Arc::clone(&cuts));
        tokio::spawn(async move {
            while let Ok((from_agent, _)) = listener.accept().await {
                let mut is_cut = is_cut.clone();
                is_cut.mark_unchanged();
                let (budget, cuts) = (Arc::clone(&own_budget), Arc::clone(&own_cuts));
                tokio::spawn(async move {
                    let Ok(to_hub) = TcpStream::connect(to).await else { return };
                    tokio::select! {
                        () = pass(from_agent, to_hub, &budget) => {}
                        _ = is_cut.changed() => {}
                    }
                    cuts.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, cut, budget, cuts }
    }

    /// Now.
    pub(crate) fn cut(&self) {
        self.cut.send_modify(|count| *count += 1);
    }

    /// When so many bytes more have passed, in the middle of whatever it is.
    pub(crate) fn cut_after(&self, bytes: u64) {
        self.budget.store(bytes + 1, Ordering::SeqCst);
    }

    pub(crate) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::SeqCst)
    }
}

/// Until either side ends, or the budget is used up.
async fn pass(mut agent: TcpStream, mut hub: TcpStream, budget: &AtomicU64) {
    let (mut up, mut down) = ([0; 1500], [0; 1500]);
    loop {
        let (count, is_up) = tokio::select! {
            count = agent.read(&mut up) => (count.unwrap_or_default(), true),
            count = hub.read(&mut down) => (count.unwrap_or_default(), false),
        };
        let left = budget.load(Ordering::SeqCst);
        let allowed =
            if left == 0 { count } else { count.min(usize::try_from(left - 1).unwrap_or(count)) };
        if left > 0 {
            budget.store(left - allowed as u64, Ordering::SeqCst);
        }
        let written = if is_up {
            hub.write_all(&up[..allowed]).await
        } else {
            agent.write_all(&down[..allowed]).await
        };
        if count == 0 || written.is_err() || allowed < count {
            if allowed < count {
                budget.store(0, Ordering::SeqCst);
            }
            return;
        }
    }
}

/// A number sequence from a seed (xorshift64*), so that a failure can be run again.
pub(crate) struct Seeded(u64);

impl Seeded {
    /// From `WEIR_SEED`, else anew; printed.
    pub(crate) fn new() -> Self {
        use std::hash::BuildHasher;
        let given = std::env::var("WEIR_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| std::hash::RandomState::new().hash_one(0)) | 1;
        println!("seed: WEIR_SEED={seed}");
        Self(seed)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % end
    }
}
