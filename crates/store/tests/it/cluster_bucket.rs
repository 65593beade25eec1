//! Two hubs over a real bucket that is killed, paused, cut off, delayed and made to answer 503
//! while they ingest rows, flush and merge: each row exists once in the end, and no file is
//! orphaned.
//!
//! `WEIR_ROUNDS` sets the number of faults (6), `WEIR_SEED` reproduces the times of a run.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use weir_store::{BucketOptions, SlowOptions, Store, StoreOptions, inspect_cluster};
use weir_tables::Micros;

use crate::bucket::reached;
use crate::cluster::{Agent, COUNT, DISTINCT, Fleet, SUM, send};
use crate::s3::{Line, Mode, Service};
use crate::tool::{Chance, NOON, number, set};

/// Timeout of a request including its retries.
const TIMEOUT: Duration = Duration::from_secs(3);

async fn pause(chance: &mut Chance, from: u64, end: u64) {
    tokio::time::sleep(Duration::from_millis(from + chance.below(end - from))).await;
}

fn working(fleet: &Fleet, name: &str) -> StoreOptions {
    StoreOptions {
        maintenance_interval: Duration::from_millis(20),
        small_file_count: 3,
        ..fleet.options(name)
    }
}

/// Injects a fault into the bucket for some time.
async fn fault(kind: u64, service: &mut Service, line: &Line, chance: &mut Chance) {
    let modes = [Mode::Cut, Mode::Busy, Mode::Shaky, Mode::Slow];
    match kind {
        0 => {
            service.kill();
            pause(chance, 100, 1500).await;
            service.start_again().await;
        }
        1 => {
            service.stop();
            pause(chance, 100, 3000).await;
            service.go_on();
        }
        kind => {
            line.set(modes[usize::try_from(kind - 2).unwrap()]);
            pause(chance, 100, 2000).await;
            line.set(Mode::Pass);
        }
    }
    // Long enough for some requests to succeed.
    pause(chance, 50, 800).await;
}

/// An agent that writes, sends, and switches hubs now and then.
async fn run_agent(
    stream: u64,
    hubs: Vec<Option<Arc<Store>>>,
    mut chance: Chance,
    is_over: Arc<AtomicBool>,
) -> u64 {
    let mut agent = Agent { hub: usize::from(stream == 1), ..Agent::default() };
    while !is_over.load(Ordering::Relaxed) {
        agent.written += 1 + chance.below(40);
        if chance.below(40) == 0 {
            agent.hub = 1 - agent.hub;
        }
        send(&mut agent, stream, &hubs).await;
        pause(&mut chance, 5, 40).await;
    }
    while !send(&mut agent, stream, &hubs).await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    agent.written
}

/// Flushes continuously and retries what a fault prevented; counts successes and failures.
async fn run_flushes(
    hub: Arc<Store>,
    mut chance: Chance,
    is_over: Arc<AtomicBool>,
    counts: Arc<[AtomicU32; 2]>,
) {
    while !is_over.load(Ordering::Relaxed) {
        let has_failed = hub.flush().await.is_err();
        counts[usize::from(has_failed)].fetch_add(1, Ordering::Relaxed);
        pause(&mut chance, 50, 400).await;
    }
}

/// Waits until `state` is `wanted`; reports the last state on a timeout.
async fn soon(what: &str, wanted: &str, mut state: impl AsyncFnMut() -> String) {
    let began = Instant::now();
    loop {
        let now = state().await;
        if now == wanted {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(90), "{what}: {now}, not {wanted}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until all files outside the tables are deleted.
async fn is_clean(fleet: &Fleet, direct: &SlowOptions) {
    let sql =
        "select (select count(*) from weir.pending_file), (select count(*) from weir.gc_queue)";
    let mut later = NOON.0;
    soon("nothing is left over", "0|0", async || {
        later += 61_000_000;
        fleet.clock.set(Micros(later));
        tokio::time::sleep(Duration::from_millis(100)).await;
        fleet.server.sql(sql).unwrap()
    })
    .await;
    let (manifest, dir) = (fleet.manifest(), fleet.path("none"));
    let look = || inspect_cluster(&dir, Some(direct), &manifest, true).unwrap();
    let found = tokio::task::block_in_place(look);
    assert_eq!((found.problems, found.unknown_files), (vec![], vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_is_there_once_whatever_happens_to_the_bucket() {
    let test = "each_row_is_there_once_whatever_happens_to_the_bucket";
    let Some(mut service) = Service::start() else { return };
    let Some(mut fleet) = Fleet::start(test) else { return };
    service.make_bucket("rows").await;
    let seed = set("WEIR_SEED").unwrap_or_else(|| std::hash::RandomState::new().hash_one(0) | 1);
    println!("WEIR_SEED={seed}");
    let mut chance = Chance::new(seed);
    let line = Line::to(service.port);
    fleet.bucket = Some(reached(service.port));
    let direct = fleet.place();
    fleet.bucket = Some(BucketOptions { timeout: TIMEOUT, ..reached(line.port) });
    let one = fleet.open(working(&fleet, "one")).await.unwrap();
    let two = fleet.open(working(&fleet, "two")).await.unwrap();
    fleet.meet(&[&one, &two]).await;

    let is_over = Arc::new(AtomicBool::new(false));
    let mut fork = || Chance::new(chance.below(u64::MAX));
    let agents: Vec<_> = (0..3)
        .map(|stream| {
            let hubs = vec![Some(Arc::clone(&one)), Some(Arc::clone(&two))];
            tokio::spawn(run_agent(stream, hubs, fork(), Arc::clone(&is_over)))
        })
        .collect();
    let counts = Arc::<[AtomicU32; 2]>::default();
    let flushes = [&one, &two].map(|hub| {
        let (is_over, counts) = (Arc::clone(&is_over), Arc::clone(&counts));
        tokio::spawn(run_flushes(Arc::clone(hub), fork(), is_over, counts))
    });
    for _ in 0..set("WEIR_ROUNDS").unwrap_or(6) {
        let (kind, began) = (chance.below(6), Instant::now());
        fault(kind, &mut service, &line, &mut chance).await;
        println!("fault {kind} took {:?}", began.elapsed());
    }
    // At least once, until files cannot be written.
    service.kill();
    let began = Instant::now();
    while counts[1].load(Ordering::Relaxed) == 0 {
        assert!(began.elapsed() < Duration::from_secs(90), "no flush fails without a bucket");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    service.start_again().await;
    pause(&mut chance, 500, 1000).await;
    is_over.store(true, Ordering::Relaxed);
    let (mut rows, mut sum) = (0, 0);
    for (stream, agent) in (0..).zip(agents) {
        let written = tokio::time::timeout(Duration::from_secs(120), agent).await;
        let written = i64::try_from(written.expect("a hub takes it").unwrap()).unwrap();
        rows += written;
        sum += (0..written).map(|at| stream * 1_000_000 + at).sum::<i64>();
    }
    for flushes in flushes {
        flushes.await.unwrap();
    }
    let [written, failed] = [0, 1].map(|at: usize| counts[at].load(Ordering::Relaxed));
    println!("{rows} rows, {written} flushes, and {failed} that failed");
    for hub in [&one, &two] {
        let outcome = async || match hub.flush().await {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        };
        soon("the last flush", "", outcome).await;
    }
    for hub in [&one, &two] {
        let count = async || number(hub, COUNT).await.to_string();
        soon("all rows", &rows.to_string(), count).await;
        assert_eq!(number(hub, DISTINCT).await, rows);
        assert_eq!(number(hub, SUM).await, sum);
    }
    let files = one.stats().file_count;
    assert!(files < u64::from(written), "{files} files of {written} flushes: nothing was merged");
    is_clean(&fleet, &direct).await;
    assert_eq!(number(&two, COUNT).await, rows);
}
