//! Several hubs over one manifest in PostgreSQL and one place for files: each row appears once,
//! whichever hub stored it, whichever hub answers, despite kills.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use arbtest::arbitrary::{Result, Unstructured};
use async_trait::async_trait;
use weir_store::{
    BucketOptions, ClusterOptions, ErrorKind, ManifestOptions, Peer, PeerAsk, PeerFailure,
    PeerRows, Peers, QueryChannel, SlowBucketOptions, SlowOptions, SlowPlace, Store, StoreError,
    StoreOptions,
};
use weir_tables::{FixedClock, Micros, StreamId};

use crate::postgres::PostgresServer;
use crate::slow::files;
use crate::spread::Pieces;
use crate::tool::{NOON, ask, eventually, number, options, parcel, within};

/// The hubs of this process by name; a missing hub is dead.
#[derive(Default)]
pub(crate) struct Near(pub(crate) Mutex<HashMap<String, Weak<Store>>>, pub(crate) Pieces);

#[async_trait]
impl Peers for Near {
    async fn rows(&self, peer: &Peer, ask: &PeerAsk) -> std::result::Result<PeerRows, PeerFailure> {
        let hub = self.0.lock().unwrap().get(&peer.name).and_then(Weak::upgrade);
        let hub = hub.ok_or_else(|| PeerFailure::Gone("it is not there".into()))?;
        hub.rows_for_peer(ask).await.map_err(|error| match error.kind {
            ErrorKind::Moved => PeerFailure::Stale(error.message),
            _ => PeerFailure::Failed(error.to_string()),
        })
    }

    fn channel(&self, peer: &Peer) -> QueryChannel {
        let hub = self.0.lock().unwrap().get(&peer.name).cloned();
        self.1.channel(&peer.name, hub.unwrap_or_default())
    }
}

/// Hubs over one server and one directory.
pub(crate) struct Fleet {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) server: PostgresServer,
    pub(crate) near: Arc<Near>,
    pub(crate) clock: Arc<FixedClock>,
    /// Separates the clusters of one test.
    pub(crate) schema: String,
    /// Queries that read more are distributed.
    pub(crate) spread_bytes: u64,
    /// Bucket for the files, instead of a directory.
    pub(crate) bucket: Option<BucketOptions>,
}

impl Fleet {
    pub(crate) fn start(test: &str) -> Option<Self> {
        Some(Self::over(PostgresServer::start(test)?))
    }

    fn over(server: PostgresServer) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(FixedClock::new(NOON));
        let (near, schema) = (Arc::default(), "weir".into());
        Self { dir, server, near, clock, schema, spread_bytes: u64::MAX, bucket: None }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(&self.schema).join(name)
    }

    pub(crate) fn manifest(&self) -> ManifestOptions {
        let (url, schema) = (self.server.url(), self.schema.clone());
        ManifestOptions { url, password: None, ca_file: None, schema }
    }

    /// The shared place for files.
    pub(crate) fn place(&self) -> SlowOptions {
        SlowOptions::new(match &self.bucket {
            None => SlowPlace::Directory(self.path("files")),
            Some(bucket) => {
                let (prefix, cache_bytes) = (self.schema.clone(), 1 << 20);
                let all = SlowBucketOptions::new(bucket.clone());
                SlowPlace::Bucket(Box::new(SlowBucketOptions { prefix, cache_bytes, ..all }))
            }
        })
    }

    pub(crate) fn options(&self, name: &str) -> StoreOptions {
        let cluster = ClusterOptions {
            manifest: self.manifest(),
            name: name.into(),
            address: format!("http://{name}"),
            peers: Arc::clone(&self.near) as _,
            spread_bytes: self.spread_bytes,
        };
        StoreOptions {
            clock: Arc::clone(&self.clock) as _,
            slow: Some(self.place()),
            cluster: Some(cluster),
            ..options(&self.path(name))
        }
    }

    pub(crate) async fn open(
        &self,
        options: StoreOptions,
    ) -> std::result::Result<Arc<Store>, StoreError> {
        let name = options.cluster.as_ref().unwrap().name.clone();
        let store = tokio::task::spawn_blocking(move || Store::open(options)).await.unwrap()?;
        self.near.0.lock().unwrap().insert(name, Arc::downgrade(&store));
        Ok(store)
    }

    pub(crate) async fn hub(&self, name: &str) -> Arc<Store> {
        self.open(self.options(name)).await.unwrap()
    }

    /// Waits until every hub sees every other one.
    pub(crate) async fn meet(&self, hubs: &[&Arc<Store>]) {
        for hub in hubs {
            eventually(async || hub.peers().len() == hubs.len() - 1).await;
        }
    }
}

/// Drops a hub without a flush, as a kill would.
pub(crate) async fn kill(store: Arc<Store>) {
    tokio::task::spawn_blocking(move || {
        let mut store = store;
        loop {
            match Arc::try_unwrap(store) {
                Ok(last) => return drop(last),
                // The last query may still hold a reference.
                Err(shared) => store = shared,
            }
            std::thread::yield_now();
        }
    })
    .await
    .unwrap();
}

pub(crate) const COUNT: &str = "select count(*) from log";
pub(crate) const SUM: &str = "select sum(source_offset) from log";
pub(crate) const DISTINCT: &str = "select count(distinct source_offset) from log";

#[tokio::test(flavor = "multi_thread")]
async fn each_hub_answers_for_all_rows_in_memory_and_in_files() {
    let test = "each_hub_answers_for_all_rows_in_memory_and_in_files";
    let Some(fleet) = Fleet::start(test) else { return };
    let (one, two) = (fleet.hub("one").await, fleet.hub("two").await);
    fleet.meet(&[&one, &two]).await;
    one.append(parcel(1, 0..100)).await.unwrap();
    two.append(parcel(2, 100..250)).await.unwrap();
    for hub in [&one, &two] {
        assert_eq!(number(hub, COUNT).await, 250);
        assert_eq!(number(hub, SUM).await, (0..250).sum::<i64>());
        let sql = "select count(*) from log where source_offset >= 90 and body like '1%'";
        assert_eq!(number(hub, sql).await, 100);
        let newest = "select source_offset from log order by ts desc limit 3";
        assert_eq!(number(hub, newest).await, 249);
        let groups = "select count(*) from (select body, count(*) from log group by body)";
        assert_eq!(number(hub, groups).await, 250);
        assert_eq!(number(hub, "select source_offset from log limit 1").await / 250, 0);
    }
    one.flush().await.unwrap();
    one.append(parcel(3, 250..260)).await.unwrap();
    for hub in [&one, &two] {
        assert_eq!(number(hub, COUNT).await, 260);
        assert_eq!(number(hub, DISTINCT).await, 160 + 100);
    }
    two.flush().await.unwrap();
    for hub in [&one, &two] {
        assert_eq!(number(hub, SUM).await, (0..260).sum::<i64>());
    }
    assert!(files(&fleet.path("one")).is_empty(), "files of hubs are where all have them");
    assert_eq!(files(&fleet.path("files")).len(), 2);
    // A third hub joins without data.
    let three = fleet.hub("three").await;
    fleet.meet(&[&one, &two, &three]).await;
    assert_eq!(number(&three, COUNT).await, 260);
    assert_eq!([&one, &two, &three].iter().filter(|hub| hub.is_leader()).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_that_moves_on_goes_on_from_files_and_no_row_is_there_twice() {
    let test = "stream_that_moves_on_goes_on_from_files_and_no_row_is_there_twice";
    let Some(fleet) = Fleet::start(test) else { return };
    let (one, two) = (fleet.hub("one").await, fleet.hub("two").await);
    fleet.meet(&[&one, &two]).await;
    one.append(parcel(1, 0..100)).await.unwrap();
    one.flush().await.unwrap();
    one.append(parcel(1, 100..200)).await.unwrap();
    one.append(parcel(7, 1000..1050)).await.unwrap();
    // The agent moves to the other hub, which knows only the flushed rows.
    let stream = StreamId(1);
    two.claim(&[stream]).await.unwrap();
    assert_eq!(two.positions(&[stream]), [(stream, 100)]);
    let behind = two.append(parcel(1, 200..220)).await.unwrap_err();
    assert_eq!(behind.kind, ErrorKind::Behind { expected: 100 });
    two.append(parcel(1, 100..220)).await.unwrap();
    // The first hub learns of it, and keeps only the flushed rows.
    eventually(async || one.positions(&[stream]).is_empty()).await;
    for hub in [&one, &two] {
        eventually(async || number(hub, COUNT).await == 220 + 50).await;
        assert_eq!(number(hub, DISTINCT).await, 270);
    }
    one.flush().await.unwrap();
    two.flush().await.unwrap();
    for hub in [&one, &two] {
        assert_eq!(number(hub, COUNT).await, 270);
    }
    // And back again, from a hub that is dead.
    two.append(parcel(1, 220..240)).await.unwrap();
    kill(two).await;
    one.claim(&[stream]).await.unwrap();
    assert_eq!(one.positions(&[stream]), [(stream, 220)]);
    one.append(parcel(1, 220..230)).await.unwrap();
    let two = fleet.hub("two").await;
    fleet.meet(&[&one, &two]).await;
    for hub in [&one, &two] {
        assert_eq!(number(hub, COUNT).await, 280);
    }
    assert_eq!(two.positions(&[stream]), []);
    assert_eq!(two.positions_of_all(&[stream]).await.unwrap(), [(stream, 220)]);
    one.close().await.unwrap();
    two.close().await.unwrap();
    let one = fleet.hub("one").await;
    assert_eq!((number(&one, COUNT).await, number(&one, DISTINCT).await), (280, 280));
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_go_one_after_the_other_while_nothing_can_be_written_stay_left_out() {
    let test = "streams_that_go_one_after_the_other_while_nothing_can_be_written_stay_left_out";
    let Some(fleet) = Fleet::start(test) else { return };
    let (one, two) = (fleet.hub("one").await, fleet.hub("two").await);
    fleet.meet(&[&one, &two]).await;
    one.append(parcel(1, 0..100)).await.unwrap();
    one.append(parcel(2, 100..200)).await.unwrap();
    eventually(async || fleet.path("files/WEIR").exists()).await;
    std::fs::write(fleet.path("files/data"), "no directory").unwrap();
    assert!(one.flush().await.is_err());
    for (stream, from) in [(1, 0), (2, 100)] {
        two.claim(&[StreamId(stream)]).await.unwrap();
        two.append(parcel(stream, from..from + 100)).await.unwrap();
        eventually(async || one.positions(&[StreamId(stream)]).is_empty()).await;
    }
    std::fs::remove_file(fleet.path("files/data")).unwrap();
    for hub in [&one, &two] {
        within(20, async || hub.flush().await.is_ok()).await;
    }
    for hub in [&one, &two] {
        within(20, async || number(hub, DISTINCT).await == 200).await;
        assert_eq!(number(hub, COUNT).await, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_that_is_all_in_files_can_come_back() {
    let Some(fleet) = Fleet::start("stream_that_is_all_in_files_can_come_back") else { return };
    let (one, two) = (fleet.hub("one").await, fleet.hub("two").await);
    let stream = StreamId(1);
    one.append(parcel(1, 0..10)).await.unwrap();
    one.flush().await.unwrap();
    for (hub, from) in [(&two, 10), (&one, 20), (&two, 30)] {
        // Also a hub that does not know yet that the stream had moved meanwhile.
        eventually(async || hub.claim(&[stream]).await.is_ok()).await;
        assert_eq!(hub.positions(&[stream]), [(stream, from)]);
        hub.append(parcel(1, from..from + 10)).await.unwrap();
        hub.flush().await.unwrap();
    }
    assert_eq!((number(&one, COUNT).await, number(&one, DISTINCT).await), (40, 40));
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_that_never_came_into_files_begins_again_where_it_began() {
    let test = "stream_that_never_came_into_files_begins_again_where_it_began";
    let Some(fleet) = Fleet::start(test) else { return };
    let (one, two) = (fleet.hub("one").await, fleet.hub("two").await);
    one.append(parcel(1, 40..90)).await.unwrap();
    kill(one).await;
    let behind = two.append(parcel(1, 90..95)).await.unwrap_err();
    assert_eq!(behind.kind, ErrorKind::Behind { expected: 40 });
    two.append(parcel(1, 40..95)).await.unwrap();
    let one = fleet.hub("one").await;
    fleet.meet(&[&one, &two]).await;
    assert_eq!(number(&one, COUNT).await, 55);
    assert_eq!(number(&two, COUNT).await, 55);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_hub_merges_and_deletes_for_all() {
    let Some(fleet) = Fleet::start("one_hub_merges_and_deletes_for_all") else { return };
    let one = fleet.open(merging(&fleet, "one", Duration::from_millis(50))).await.unwrap();
    let two = fleet.open(merging(&fleet, "two", Duration::from_millis(50))).await.unwrap();
    fleet.meet(&[&one, &two]).await;
    for round in 0..5 {
        let from = round * 50;
        one.append(parcel(1, from..from + 50)).await.unwrap();
        one.flush().await.unwrap();
        two.append(parcel(2, 1000 + from..1050 + from)).await.unwrap();
        two.flush().await.unwrap();
    }
    let live = "select count(*) from weir.data_file where end_snapshot is null";
    eventually(async || fleet.server.sql(live).is_some_and(|count| count != "10")).await;
    for hub in [&one, &two] {
        assert_eq!(number(hub, COUNT).await, 500);
        let sum = (0..250).sum::<i64>() + (1000..1250).sum::<i64>();
        assert_eq!(number(hub, SUM).await, sum);
    }
    // Merged files stay for queries that still read them, and are deleted later.
    assert!(files(&fleet.path("files")).len() >= 10);
    let mut later = NOON.0;
    eventually(async || {
        // Merges may continue meanwhile, and their inputs get a later grace period.
        later += 61_000_000;
        fleet.clock.set(Micros(later));
        fleet.server.sql(live) == Some(file_count(&fleet))
    })
    .await;
    assert_eq!(number(&two, COUNT).await, 500);
    // The leader stops; another hub takes over.
    let (leader, other) = if one.is_leader() { (one, two) } else { (two, one) };
    leader.close().await.unwrap();
    eventually(async || other.is_leader()).await;
    assert_eq!(number(&other, COUNT).await, 500);
}

pub(crate) fn file_count(fleet: &Fleet) -> String {
    files(&fleet.path("files")).len().to_string()
}

/// Options of a hub that merges early and often.
pub(crate) fn working(fleet: &Fleet, name: &str) -> StoreOptions {
    StoreOptions {
        maintenance_interval: Duration::from_millis(20),
        small_file_count: 3,
        ..fleet.options(name)
    }
}

fn merging(fleet: &Fleet, name: &str, interval: Duration) -> StoreOptions {
    StoreOptions { maintenance_interval: interval, small_file_count: 4, ..fleet.options(name) }
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_that_missed_a_merge_whose_files_are_gone_by_now_has_each_row_once() {
    let test = "hub_that_missed_a_merge_whose_files_are_gone_by_now_has_each_row_once";
    let Some(fleet) = Fleet::start(test) else { return };
    let one = fleet.open(merging(&fleet, "one", Duration::from_millis(10))).await.unwrap();
    let two = fleet.open(merging(&fleet, "two", Duration::from_millis(10))).await.unwrap();
    fleet.meet(&[&one, &two]).await;
    let live = "select count(*) from weir.data_file where end_snapshot is null";
    let mut later = NOON.0;
    for round in 1..=8 {
        for part in 0..4 {
            let from = (round * 4 + part) * 10;
            one.append(parcel(u128::from(from), from..from + 10)).await.unwrap();
            one.flush().await.unwrap();
        }
        // The leader's clock is far ahead: it deletes before the other hub refreshes its view.
        eventually(async || {
            later += 61_000_000;
            fleet.clock.set(Micros(later));
            fleet.server.sql(live) == Some(files(&fleet.path("files")).len().to_string())
        })
        .await;
        // Until it refreshes, the other hub requests deleted files.
        let rows = format!("| {} ", round * 40);
        within(5, async || ask(&two, COUNT).await.contains(&rows)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_manifest_rows_wait_and_come_in_when_it_is_back() {
    let test = "without_the_manifest_rows_wait_and_come_in_when_it_is_back";
    let Some(mut fleet) = Fleet::start(test) else { return };
    let one = fleet.hub("one").await;
    one.append(parcel(1, 0..10)).await.unwrap();
    fleet.server.stop();
    // A stream that this hub owns is admitted; a stream that it must claim first is not.
    one.append(parcel(1, 10..20)).await.unwrap();
    let refused = one.append(parcel(2, 100..110)).await.unwrap_err();
    assert!(refused.message.contains("cannot"), "{refused}");
    assert!(refused.message.contains("PostgreSQL at `127.0.0.1:"), "{refused}");
    assert!(one.flush().await.is_err());
    assert_eq!(number(&one, COUNT).await, 20);
    eventually(async || one.stats().message.is_some_and(|why| why.contains("PostgreSQL"))).await;
    fleet.server.go_on();
    within(30, async || one.flush().await.is_ok()).await;
    one.append(parcel(2, 100..110)).await.unwrap();
    eventually(async || one.stats().message.is_none()).await;
    assert_eq!(number(&one, COUNT).await, 30);
    assert_eq!(fleet.server.sql("select sum(row_count) from weir.data_file").unwrap(), "20");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_be_a_hub_is_told_why() {
    let Some(fleet) = Fleet::start("who_may_not_be_a_hub_is_told_why") else { return };
    let one = fleet.hub("one").await;
    let mut twin = fleet.options("one");
    twin.dir = fleet.path("twin");
    let told = fleet.open(twin.clone()).await.err().unwrap();
    assert_eq!(
        told.to_string(),
        "cannot enter the cluster: another hub is there as `one`\nhint: give each hub a name of its own: `cluster.name`"
    );
    one.close().await.unwrap();
    drop(one);
    let mut other = fleet.options("two");
    other.dir = fleet.path("one");
    let told = fleet.open(other).await.err().unwrap().to_string();
    assert!(told.contains("it is of another hub of the cluster than `two`"), "{told}");
    let mut alone = fleet.options("one");
    alone.cluster = None;
    let told = fleet_open_alone(alone).await.err().unwrap().to_string();
    assert!(told.contains("is of a hub in a cluster"), "{told}");
    let dir = fleet.path("single");
    drop(fleet_open_alone(options(&dir)).await.unwrap());
    let mut single = fleet.options("single");
    single.dir = dir;
    let told = fleet.open(single).await.err().unwrap().to_string();
    assert!(told.contains("it has rows of a hub alone"), "{told}");
    let mut nowhere = fleet.options("nowhere");
    nowhere.slow = None;
    let told = fleet.open(nowhere).await.err().unwrap().to_string();
    assert!(told.contains("`store.slow_path`"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn manifest_is_reached_over_tls_and_its_server_must_be_who_it_says() {
    let test = "manifest_is_reached_over_tls_and_its_server_must_be_who_it_says";
    let Some((server, ca)) = PostgresServer::start_encrypted(test) else { return };
    let fleet = Fleet::over(server);
    let options = |mode: &str, password: &str, ca_file: Option<&PathBuf>| {
        let mut options = fleet.options("one");
        let manifest = &mut options.cluster.as_mut().unwrap().manifest;
        manifest.url = format!("{}?sslmode={mode}", manifest.url);
        manifest.password = Some(password.into());
        manifest.ca_file = ca_file.cloned();
        options
    };
    for (options, words) in [
        (options("disable", "secret", None), "no encryption"),
        (options("require", "secret", None), "UnknownIssuer"),
        (options("require", "wrong", Some(&ca)), "password authentication failed"),
        (options("require", "secret", Some(&fleet.path("none.pem"))), "cannot read"),
    ] {
        let error = fleet.open(options).await.err().unwrap().to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
    let one = fleet.open(options("require", "secret", Some(&ca))).await.unwrap();
    one.append(parcel(1, 0..10)).await.unwrap();
    one.flush().await.unwrap();
    assert_eq!(number(&one, COUNT).await, 10);
    let encrypted = "select count(*) from pg_stat_ssl s join pg_stat_activity a using (pid)
                     where application_name = 'weir' and ssl";
    assert_ne!(fleet.server.sql(encrypted).unwrap(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_cluster_are_looked_at_from_anywhere() {
    let Some(fleet) = Fleet::start("files_of_a_cluster_are_looked_at_from_anywhere") else {
        return;
    };
    let elsewhere = fleet.path("elsewhere");
    let look =
        || weir_store::inspect_cluster(&elsewhere, Some(&fleet.place()), &fleet.manifest(), true);
    let none = tokio::task::block_in_place(look).unwrap_err();
    assert!(none.message.contains("there is no cluster in the schema `weir`"), "{none}");
    let (one, two) = (fleet.hub("one").await, fleet.hub("two").await);
    one.append(parcel(1, 0..100)).await.unwrap();
    two.append(parcel(2, 100..300)).await.unwrap();
    one.flush().await.unwrap();
    two.flush().await.unwrap();
    let found = tokio::task::block_in_place(look).unwrap();
    assert_eq!(found.tables["log"].row_count, 300);
    assert_eq!((found.problems, found.unknown_files), (vec![], vec![]));
    let paths = files(&fleet.path("files"));
    let victim = fleet.path("files").join(&paths[0]);
    let mut bytes = std::fs::read(&victim).unwrap();
    let middle = bytes.len() / 3;
    bytes[middle..middle + 8].fill(0xff);
    std::fs::write(&victim, bytes).unwrap();
    std::fs::copy(&victim, victim.with_file_name("999.parquet")).unwrap();
    let found = tokio::task::block_in_place(look).unwrap();
    assert_eq!(found.problems.len(), 1, "{:?}", found.problems);
    assert!(found.unknown_files[0].ends_with("999.parquet"), "{:?}", found.unknown_files);
}

async fn fleet_open_alone(options: StoreOptions) -> std::result::Result<Arc<Store>, StoreError> {
    tokio::task::spawn_blocking(move || Store::open(options)).await.unwrap()
}

/// An agent: the rows it has written, and where it has to resume.
#[derive(Default)]
pub(crate) struct Agent {
    pub(crate) written: u64,
    pub(crate) hub: usize,
}

/// Sends the rows that the agent's hub lacks; `false` when no hub is alive.
pub(crate) async fn send(agent: &mut Agent, stream: u64, hubs: &[Option<Arc<Store>>]) -> bool {
    let Some(hub) = &hubs[agent.hub] else { return false };
    let id = StreamId(u128::from(stream));
    if hub.claim(&[id]).await.is_err() {
        return false;
    }
    let from = hub.positions(&[id]).first().map_or(0, |(_, position)| *position);
    let base = stream * 1_000_000;
    let mut rows = parcel(u128::from(stream), base + from..base + agent.written);
    let range = rows.range.as_mut().unwrap();
    (range.from, range.to) = (from, agent.written);
    match hub.append(rows).await {
        Ok(_) => true,
        Err(error) if matches!(error.kind, ErrorKind::Behind { .. } | ErrorKind::Moved) => false,
        Err(error) => panic!("{error}"),
    }
}

async fn course(fleet: &Fleet, u: &mut Unstructured<'_>) -> Result<()> {
    let names = ["one", "two", "three"];
    let mut hubs = Vec::new();
    for name in names {
        hubs.push(Some(fleet.open(working(fleet, name)).await.unwrap()));
    }
    let mut agents: Vec<Agent> = (0..3).map(|hub| Agent { hub, ..Agent::default() }).collect();
    for _ in 0..u.int_in_range(5..=40)? {
        let (hub, agent) = (u.int_in_range(0..=2)?, u.int_in_range(0..=2)?);
        match u.int_in_range(0..=9)? {
            0..=3 => {
                agents[agent].written += u.int_in_range(1..=50)?;
                send(&mut agents[agent], agent as u64, &hubs).await;
            }
            4 => agents[agent].hub = hub,
            5 | 6 => {
                if let Some(hub) = &hubs[hub] {
                    hub.flush().await.unwrap();
                }
            }
            7 => {
                if let Some(hub) = hubs[hub].take() {
                    kill(hub).await;
                }
            }
            8 => {
                if hubs[hub].is_none() {
                    hubs[hub] = Some(fleet.open(working(fleet, names[hub])).await.unwrap());
                }
            }
            _ => tokio::time::sleep(Duration::from_millis(u.int_in_range(1..=700)?)).await,
        }
    }
    for (at, hub) in hubs.iter_mut().enumerate() {
        if hub.is_none() {
            *hub = Some(fleet.open(working(fleet, names[at])).await.unwrap());
        }
    }
    for (stream, agent) in agents.iter_mut().enumerate() {
        within(30, async || {
            let all = agent.written;
            send(agent, stream as u64, &hubs).await || all == 0
        })
        .await;
    }
    let expected: u64 = agents.iter().map(|agent| agent.written).sum();
    let expected = i64::try_from(expected).unwrap();
    for hub in hubs.iter().flatten() {
        fleet.meet(&hubs.iter().flatten().collect::<Vec<_>>()).await;
        within(30, async || number(hub, COUNT).await == expected).await;
        assert_eq!(number(hub, DISTINCT).await, expected);
    }
    for hub in hubs.iter().flatten() {
        hub.close().await.unwrap();
    }
    drop(hubs);
    // No uncommitted files are left.
    let mut again = Vec::new();
    for name in names {
        again.push(fleet.open(working(fleet, name)).await.unwrap());
    }
    let one = &again[0];
    assert_eq!((number(one, COUNT).await, number(one, DISTINCT).await), (expected, expected));
    let pending = format!("select count(*) from {}.pending_file", fleet.schema);
    let mut later = NOON.0;
    eventually(async || {
        later += 61_000_000;
        fleet.clock.set(Micros(later));
        fleet.server.sql(&pending).unwrap() == "0"
    })
    .await;
    fleet.clock.set(NOON);
    let known = format!("select count(*) from {}.data_file", fleet.schema);
    eventually(async || fleet.server.sql(&known).unwrap() == file_count(fleet)).await;
    for hub in again {
        hub.close().await.unwrap();
    }
    Ok(())
}

/// Hubs are killed and restarted, agents move between them, files are merged: every row exists
/// once.
#[test]
fn every_row_is_there_once_whoever_is_killed_and_wherever_agents_go() {
    let test = "every_row_is_there_once_whoever_is_killed_and_wherever_agents_go";
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(mut fleet) = runtime.block_on(async { Fleet::start(test) }) else { return };
    let long: Option<u64> = std::env::var("WEIR_CLUSTER_MS").ok().and_then(|ms| ms.parse().ok());
    let mut courses = 0;
    arbtest::arbtest(|u| {
        courses += 1;
        fleet.schema = format!("course{courses}");
        fleet.near = Arc::default();
        fleet.spread_bytes = if courses % 2 == 0 { 0 } else { u64::MAX };
        let done = runtime.block_on(course(&fleet, u));
        drop(std::fs::remove_dir_all(fleet.dir.path().join(&fleet.schema)));
        done
    })
    .budget_ms(long.unwrap_or(20_000))
    .size_min(512)
    .size_max(4096);
    println!("{courses} courses");
}
