//! A hub with an in-memory store, agents whose reader rewinds on request, and a proxy that cuts
//! connections.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use weir_link::{
    AppendFuture, AppendResult, Bandwidth, DeliveryOutcome, Hub, HubOptions, Identity, Intake,
    Invitation, JoinToken, LinkError, OrderCarrier, Refusal, RefusalReason, Registry, Shipment,
    Spool, StreamPosition, Uplink, UplinkHandle, UplinkOptions, UplinkStatus,
};
use weir_tables::{
    Batch, Clock, FixedClock, Log, LogRows, Micros, Parcel, Rows, StreamId, StreamRange,
};

pub(crate) const NOW: Micros = Micros(1_795_000_000_000_000);

/// A clock that tests control.
pub(crate) struct TestClock(Arc<FixedClock>);

impl TestClock {
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
struct StoreState {
    positions: HashMap<StreamId, u64>,
    numbers: BTreeMap<u128, Vec<u64>>,
    samples: Vec<u64>,
}

/// A store in memory, with a log that can be lost and tables that cannot.
pub(crate) struct MemoryStore {
    /// State including the log, and state of tables only.
    kept: Mutex<(StoreState, StoreState)>,
    is_full: AtomicBool,
    commits: watch::Sender<u64>,
}

impl MemoryStore {
    fn kept(&self) -> MutexGuard<'_, (StoreState, StoreState)> {
        self.kept.lock().expect("no panic")
    }

    /// Sorted numbers of a stream, with duplicates.
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

    fn take(&self, parcel: &[u8]) -> Result<AppendResult, Refusal> {
        if self.is_full.load(Ordering::SeqCst) {
            return refuse(RefusalReason::Full, 0, "the disk is full");
        }
        let Ok(parcel) = Parcel::decode(parcel) else {
            return refuse(RefusalReason::Bad, 0, "no parcel");
        };
        let range = parcel.range.expect("tests send streams only");
        let mut kept = self.kept();
        let kept = &mut kept.0;
        let position = kept.positions.get(&range.stream).copied();
        match position {
            Some(position) if range.to <= position => {
                return Ok(AppendResult { rows: 0, position: Some(position) });
            }
            Some(position) if range.from > position => {
                return refuse(RefusalReason::Behind, position, "behind");
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
        Ok(AppendResult { rows, position: Some(range.to) })
    }
}

fn refuse(reason: RefusalReason, expected: u64, text: &str) -> Result<AppendResult, Refusal> {
    Err(Refusal { reason, expected, text: text.into(), hint: String::new() })
}

struct SharedStore(Arc<MemoryStore>);

impl Intake for SharedStore {
    fn positions(&self, streams: &[StreamId]) -> Vec<StreamPosition> {
        let kept = self.0.kept();
        streams
            .iter()
            .map(|stream| StreamPosition {
                stream: *stream,
                accepted: kept.0.positions.get(stream).copied(),
                committed: kept.1.positions.get(stream).copied(),
            })
            .collect()
    }

    fn append(&self, _agent: &str, parcel: Vec<u8>) -> AppendFuture {
        let store = Arc::clone(&self.0);
        Box::pin(async move {
            let outcome = store.take(&parcel);
            tokio::task::yield_now().await; // like a store that syncs
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

/// A hub that can be stopped and started again at its address.
pub(crate) struct TestHub {
    dir: tempfile::TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) clock: TestClock,
    store: Arc<MemoryStore>,
    running: Mutex<Option<RunningHub>>,
}

struct RunningHub {
    hub: Arc<Hub>,
    end: watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
}

impl TestHub {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(unused_address()).await.expect("an unused address");
        let store = MemoryStore {
            kept: Mutex::default(),
            is_full: AtomicBool::new(false),
            commits: watch::Sender::new(0),
        };
        let site = Self {
            dir: tempfile::tempdir().expect("a directory"),
            address: listener.local_addr().expect("it is bound"),
            clock: TestClock::new(NOW),
            store: Arc::new(store),
            running: Mutex::new(None),
        };
        site.serve(listener);
        site
    }

    fn serve(&self, listener: TcpListener) {
        let options =
            HubOptions { heartbeat: Duration::from_secs(1), ..HubOptions::new(self.link_dir()) };
        let intake = Arc::new(SharedStore(Arc::clone(&self.store)));
        let hub = Hub::new(options, intake, self.clock.shared()).expect("a good directory");
        let (end, ended) = watch::channel(false);
        let serving = tokio::spawn(Arc::clone(&hub).serve(listener, ended));
        *self.running.lock().expect("no panic") = Some(RunningHub { hub, end, serving });
    }

    pub(crate) fn link_dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn store(&self) -> Arc<MemoryStore> {
        Arc::clone(&self.store)
    }

    pub(crate) fn hub(&self) -> Arc<Hub> {
        let running = self.running.lock().expect("no panic");
        Arc::clone(&running.as_ref().expect("it runs").hub)
    }

    /// Stops the hub but keeps its store.
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

/// Joins from a new directory.
pub(crate) async fn join(
    token: &JoinToken,
    name: &str,
    clock: &TestClock,
) -> Result<Identity, LinkError> {
    let dir = tempfile::tempdir().expect("a directory");
    weir_link::join(dir.path(), token, name, &clock.shared()).await
}

/// An agent that has joined and is not running.
pub(crate) struct TestAgent {
    dir: tempfile::TempDir,
    clock: Arc<dyn Clock>,
    name: String,
    /// Host of its rows.
    pub(crate) host: String,
    /// Length of each stream's file.
    files: Arc<HostFiles>,
    /// Carries orders of the hub.
    pub(crate) orders: Option<Arc<dyn OrderCarrier>>,
}

impl TestAgent {
    pub(crate) async fn join(site: &TestHub, name: &str) -> Result<Self, LinkError> {
        let dir = tempfile::tempdir().expect("a directory");
        let clock = site.clock.shared();
        weir_link::join(dir.path(), &site.token(name, Duration::from_secs(60)), name, &clock)
            .await?;
        let files = Arc::default();
        Ok(Self { dir, clock, name: name.into(), host: name.into(), files, orders: None })
    }

    pub(crate) async fn join_too(self, site: &TestHub) -> Self {
        let token = site.token(&self.name, Duration::from_secs(60));
        weir_link::join(self.dir.path(), &token, &self.name, &self.clock).await.expect("good");
        self
    }

    pub(crate) fn identity(&self) -> Identity {
        let mut all = Identity::load_all(self.dir.path()).expect("it can be read");
        all.remove(0)
    }

    pub(crate) fn run(self, hubs: Vec<String>) -> RunningAgent {
        let spool = Spool::open(&self.dir.path().join("spool"), 4 << 20).expect("a spool");
        let (handle, uplink) = Uplink::new(UplinkOptions {
            dir: self.dir.path().to_owned(),
            hubs,
            program: "weir test".into(),
            host: self.host.clone(),
            bandwidth: Bandwidth::new(0),
            window_bytes: 1 << 20,
            clock: Arc::clone(&self.clock),
            spool,
            orders: self.orders.clone(),
        });
        let handle = Arc::new(handle);
        let delivering = tokio::spawn(uplink.run());
        let reader = {
            let (handle, files) = (Arc::clone(&handle), Arc::clone(&self.files));
            files.state.lock().expect("no panic").is_ended = false;
            std::thread::spawn(move || read_always(&handle, &files))
        };
        RunningAgent { agent: self, handle, delivering, reader: Some(reader) }
    }
}

/// A running agent.
pub(crate) struct RunningAgent {
    agent: TestAgent,
    handle: Arc<UplinkHandle>,
    delivering: tokio::task::JoinHandle<()>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl RunningAgent {
    /// Appends numbers to the stream's file.
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

    pub(crate) fn status(&self) -> UplinkStatus {
        self.handle.status()
    }

    /// Whether the hub has paused ingest because its disk is full.
    pub(crate) fn is_refused(&self) -> bool {
        self.trouble().contains("the disk is full")
    }

    pub(crate) fn trouble(&self) -> String {
        self.status().trouble.unwrap_or_default()
    }

    pub(crate) fn identity(&self) -> Identity {
        self.agent.identity()
    }

    /// Ends the agent as SIGTERM does.
    pub(crate) async fn end(mut self) {
        self.handle.close();
        self.delivering.await.expect("no panic");
        self.agent.files.end();
        let reader = self.reader.take().expect("it runs");
        tokio::task::spawn_blocking(move || reader.join().expect("no panic")).await.expect("ends");
    }

    /// Ends the agent as `kill -9` does: only its files remain.
    pub(crate) async fn kill(mut self) -> TestAgent {
        self.delivering.abort();
        let _ = (&mut self.delivering).await;
        self.agent.files.end();
        let reader = self.reader.take().expect("it runs");
        tokio::task::spawn_blocking(move || reader.join().expect("no panic")).await.expect("ends");
        self.agent
    }
}

#[derive(Default)]
struct HostFiles {
    state: Mutex<FileState>,
    changed: Condvar,
}

#[derive(Default)]
struct FileState {
    ends: BTreeMap<u128, u64>,
    is_ended: bool,
}

impl HostFiles {
    fn end(&self) {
        self.state.lock().expect("no panic").is_ended = true;
        self.changed.notify_all();
    }
}

struct FileReader {
    position: u64,
    epoch: u64,
}

/// A minimal tailer: queries positions, reads on from there, and rewinds on request.
fn read_always(handle: &UplinkHandle, files: &HostFiles) {
    let (reply, replies) = std::sync::mpsc::channel();
    let mut reading: BTreeMap<u128, FileReader> = BTreeMap::new();
    loop {
        let (ends, is_ended) = {
            let state = files.state.lock().expect("no panic");
            let poll = Duration::from_millis(5);
            let (state, _) = files.changed.wait_timeout(state, poll).expect("no panic");
            (state.ends.clone(), state.is_ended)
        };
        if is_ended {
            return;
        }
        while let Ok((stream, epoch, outcome)) = replies.try_recv() {
            let file: &mut FileReader = reading.get_mut(&stream).expect("it was read");
            if let DeliveryOutcome::Resend { position, .. } = outcome
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
                    file.insert(FileReader { position, epoch: 0 })
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

/// Polls every 10 ms.
pub(crate) async fn wait_for(what: &str, mut is_done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_done() {
        assert!(Instant::now() < end, "{what}: not within a minute");
        pause(Duration::from_millis(10)).await;
    }
}

/// Paces a loop, without assuming that anything has happened.
pub(crate) async fn pause(span: Duration) {
    tokio::time::sleep(span).await;
}

/// Returns a loopback address without a listener, which no other test or process uses.
///
/// The host part comes from the process id and a counter. The port is below the ephemeral range, so
/// the kernel does not give it to a connection before its first use or while its hub is stopped.
pub(crate) fn unused_address() -> SocketAddr {
    /// Below the ephemeral range, above well-known services.
    const PORT: u16 = 10_771;
    static COUNT: AtomicU8 = AtomicU8::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed) % 128;
    let [.., high, low] = std::process::id().to_be_bytes();
    SocketAddr::from(([127, 128 + number, high, low.clamp(1, 254)], PORT))
}

/// Sends bytes that are not TLS, and waits until the hub closes the connection.
pub(crate) async fn noise(address: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(bytes).await.expect("it reads");
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
}

/// A proxy between agent and hub that cuts connections on request.
pub(crate) struct CuttingProxy {
    pub(crate) address: SocketAddr,
    cut: watch::Sender<u64>,
    /// Remaining bytes until the connection is cut, plus 1; 0 means no limit.
    budget: Arc<AtomicU64>,
    cuts: Arc<AtomicU64>,
}

impl CuttingProxy {
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

    /// Cuts all connections.
    pub(crate) fn cut(&self) {
        self.cut.send_modify(|count| *count += 1);
    }

    /// Cuts a connection after that many more bytes, even within a frame.
    pub(crate) fn cut_after(&self, bytes: u64) {
        self.budget.store(bytes + 1, Ordering::SeqCst);
    }

    pub(crate) fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::SeqCst)
    }
}

/// Relays until either side ends, or the budget is used up.
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

/// Random numbers from a seed, so that a failure can be reproduced.
pub(crate) struct SeededRandom(fastrand::Rng);

impl SeededRandom {
    /// Uses `WEIR_SEED` or a random seed, and prints it.
    pub(crate) fn new() -> Self {
        use std::hash::BuildHasher;
        let given = std::env::var("WEIR_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| std::hash::RandomState::new().hash_one(0));
        println!("seed: WEIR_SEED={seed}");
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end)
    }
}
