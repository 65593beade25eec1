//! Queries distributed over all hubs: the same results, also when a hub dies in the middle.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::runtime::Handle;
use weir_store::{
    ErrorKind, Query, QueryChannel, QueryEnd, QueryLimits, QueryWorker, Store, StoreOptions,
    query_channel,
};

use crate::cluster::{Fleet, kill};
use crate::tool::{ask, eventually, number, parcel};

/// Connections for query fragments within this process.
#[derive(Default)]
pub(crate) struct Pieces {
    /// Number of fragments that each hub ran.
    ran: Arc<Mutex<HashMap<String, usize>>>,
    /// Whether hubs break off in the middle of a response.
    breaks: Arc<AtomicBool>,
}

impl Pieces {
    pub(crate) fn channel(&self, name: &str, hub: Weak<Store>) -> QueryChannel {
        let (ran, breaks, name) =
            (Arc::clone(&self.ran), Arc::clone(&self.breaks), name.to_owned());
        query_channel(&Handle::current(), move || {
            let (ran, breaks, name) = (Arc::clone(&ran), Arc::clone(&breaks), name.clone());
            let hub = hub.clone();
            async move {
                let (ours, theirs) = tokio::io::duplex(1 << 16);
                let there = hub.upgrade().ok_or(io::ErrorKind::ConnectionRefused)?;
                let worker = there.query_worker().unwrap().unwrap();
                tokio::spawn(serve(theirs, hub, worker, name, ran, breaks));
                Ok(ours)
            }
        })
    }

    fn ran(&self) -> HashMap<String, usize> {
        std::mem::take(&mut self.ran.lock().unwrap())
    }
}

/// Responds until it breaks off or the hub is gone, so that hubs connected to each other end.
async fn serve(
    stream: tokio::io::DuplexStream,
    hub: Weak<Store>,
    worker: QueryWorker,
    name: String,
    ran: Arc<Mutex<HashMap<String, usize>>>,
    breaks: Arc<AtomicBool>,
) {
    let is_broken = Arc::clone(&breaks);
    let answer = tower::service_fn(move |request: http::Request<_>| {
        let is_piece = request.uri().path().ends_with("/ExecuteTask");
        if is_piece {
            *ran.lock().unwrap().entry(name.clone()).or_default() += 1;
        }
        let (mut worker, breaks) = (worker.clone(), Arc::clone(&breaks));
        async move {
            if is_piece && breaks.load(Ordering::SeqCst) {
                return Err(io::Error::other("the hub is gone"));
            }
            tower::Service::call(&mut worker, request).await.map_err(|never| match never {})
        }
    });
    let builder = auto::Builder::new(TokioExecutor::new()).http2_only();
    let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(answer));
    let broken = async {
        while !is_broken.load(Ordering::SeqCst) && hub.strong_count() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = served => {}
        () = broken => {}
    }
}

/// Queries with every kind of plan.
const QUERIES: &[&str] = &[
    "select count(*), sum(source_offset), min(ts), max(body) from log",
    "select source_offset % 7 as k, count(*), sum(source_offset) from log group by 1 order by 1",
    "select count(distinct body), count(distinct source_offset % 11) from log",
    "select body from log order by source_offset desc limit 7",
    "select body from log where source_offset between 95 and 905 order by ts, body limit 5 offset 3",
    "select count(*) from log where body like '%7%'",
    "select count(*) from log where has_token(body, '17')",
    "select count(*), max(a.body) from log a join log b on a.source_offset = b.source_offset + 100",
    "select count(*) from log where source_offset in (select source_offset * 2 from log)",
    "select body, row_number() over (order by source_offset desc) from log order by source_offset limit 3",
    "select percentile(source_offset, 0.5) from log",
    "select k, n from (select body as k, count(*) as n from log group by body) order by n desc, k limit 4",
    "select sum(length(b)) from (select body as b from log union all select source from log)",
    "with t as (select source_offset as s from log where body <> '5') select sum(s) from t where s < 500",
    "select (select max(source_offset) from log) - min(source_offset) from log",
];

/// Inserts rows into many files, and some in memory on each hub.
async fn fill(hubs: &[&Arc<Store>]) {
    for round in 0..3 {
        for (at, hub) in hubs.iter().enumerate() {
            let number = round * hubs.len() + at;
            let from = number as u64 * 100;
            hub.append(parcel(number as u128 + 1, from..from + 100)).await.unwrap();
            if round < 2 {
                hub.flush().await.unwrap();
            }
        }
    }
}

/// Answer in which these hubs take part; on a busy machine, one that responds late is skipped first.
async fn ask_with(fleet: &Fleet, hub: &Store, sql: &str, names: &[&str]) -> String {
    let mut answer = String::new();
    eventually(async || {
        answer = ask(hub, sql).await;
        let ran = fleet.near.1.ran();
        names.iter().all(|name| ran.contains_key(*name))
    })
    .await;
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn two_and_four_hubs_answer_together_as_one_alone() {
    let Some(mut fleet) = Fleet::start("two_and_four_hubs_answer_together_as_one_alone") else {
        return;
    };
    let alone = fleet.hub("alone").await;
    fleet.spread_bytes = 0;
    let first = fleet.hub("first").await;
    fleet.meet(&[&alone, &first]).await;
    fill(&[&alone, &first]).await;
    let compare = async |names: &[&str]| {
        for sql in QUERIES {
            assert_eq!(ask_with(&fleet, &first, sql, names).await, ask(&alone, sql).await, "{sql}");
        }
    };
    compare(&["alone"]).await;
    let (third, fourth) = (fleet.hub("third").await, fleet.hub("fourth").await);
    fleet.meet(&[&alone, &first, &third, &fourth]).await;
    compare(&["alone", "third", "fourth"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn query_goes_on_without_a_hub_that_goes() {
    let Some(mut fleet) = Fleet::start("query_goes_on_without_a_hub_that_goes") else { return };
    fleet.spread_bytes = 0;
    let (one, two) = (fleet.hub("one").await, fleet.hub("two").await);
    fleet.meet(&[&one, &two]).await;
    fill(&[&one, &two]).await;
    two.flush().await.unwrap();
    let sum = "select sum(source_offset) from log";
    assert!(ask_with(&fleet, &one, sum, &["two"]).await.contains("179700"));
    fleet.near.1.breaks.store(true, Ordering::SeqCst);
    assert_eq!(number(&one, sum).await, (0..600).sum::<i64>());
    fleet.near.1.breaks.store(false, Ordering::SeqCst);
    kill(two).await;
    // Its last flush becomes visible within half a second.
    eventually(async || number(&one, sum).await == (0..600).sum::<i64>()).await;
    // Fragments run for the other hub keep no connection.
    kill(one).await;
    let left = "select count(*) from pg_stat_activity where application_name = 'weir'";
    eventually(async || fleet.server.sql(left).unwrap() == "0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_that_hubs_have_no_memory_for_go_on_on_disk() {
    let Some(mut fleet) = Fleet::start("joins_that_hubs_have_no_memory_for_go_on_on_disk") else {
        return;
    };
    let alone = fleet.hub("alone").await;
    fleet.spread_bytes = 0;
    let small = StoreOptions {
        query_memory_bytes: 8 << 20,
        slow_query: Duration::ZERO,
        ..fleet.options("small")
    };
    let small = fleet.open(small).await.unwrap();
    fleet.meet(&[&alone, &small]).await;
    fill(&[&alone, &small]).await;
    let many =
        "(select source_offset * 1000 + value as k from log cross join generate_series(1, 500))";
    let by = |condition: &str| {
        format!("select count(*), sum(a.k), sum(b.k) from {many} a join {many} b on {condition}")
    };
    let equal = by("a.k = b.k + 7");
    assert_eq!(ask_with(&fleet, &small, &equal, &["alone"]).await, ask(&alone, &equal).await);
    let ended = small.take_ended_queries().0;
    assert_eq!(ended[0].end, QueryEnd::Answered);
    assert!(ended[0].memory_bytes > 4 << 20, "{ended:?}");
    // A query that scans one side repeatedly runs on one hub.
    let other =
        "select count(*), max(a.body) from log a join log b on a.source_offset < b.source_offset";
    assert_eq!(ask(&small, other).await, ask(&alone, other).await);
    assert!(fleet.near.1.ran().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_other_hubs_read_counts_for_who_asks() {
    let Some(mut fleet) = Fleet::start("what_other_hubs_read_counts_for_who_asks") else { return };
    let alone = fleet.open(telling(fleet.options("alone"))).await.unwrap();
    fleet.spread_bytes = 0;
    let one = fleet.open(telling(fleet.options("one"))).await.unwrap();
    fleet.meet(&[&alone, &one]).await;
    fill(&[&alone, &one]).await;
    one.flush().await.unwrap();
    alone.flush().await.unwrap();
    let sql = "select sum(source_offset), count(distinct body) from log";
    let ask = async |hub: &Arc<Store>, limits: QueryLimits| {
        fleet.near.1.ran();
        hub.take_ended_queries();
        let outcome = hub.query(Query::new(sql).limits(limits)).run().await.map(drop);
        let ended = hub.take_ended_queries().0.remove(0);
        (outcome, ended, fleet.near.1.ran().contains_key("alone"))
    };
    // From here on footers are cached, and the last files are known.
    for hub in [&alone, &one] {
        eventually(async || number(hub, "select sum(source_offset) from log").await == 179_700)
            .await;
        ask(hub, QueryLimits::default()).await.0.unwrap();
    }
    let by_itself = ask(&alone, QueryLimits::default()).await;
    let bytes = by_itself.1.read_bytes;
    assert!(!by_itself.2 && bytes > 1000, "{:?}", by_itself.1);
    eventually(async || {
        let (outcome, together, has_helped) = ask(&one, QueryLimits::default()).await;
        outcome.unwrap();
        has_helped && (together.read_bytes, together.reads) == (bytes, by_itself.1.reads)
    })
    .await;
    // Both hubs' parts together exceed the limit, then each alone.
    eventually(async || {
        let (outcome, ended, has_helped) = ask(&one, reading(bytes * 7 / 8)).await;
        let error = outcome.unwrap_err();
        assert_eq!((error.kind, ended.end), (ErrorKind::QueryLimit, QueryEnd::Read), "{error}");
        assert!(error.message.starts_with("the query was stopped at "), "{error}");
        has_helped
    })
    .await;
    let (outcome, ended, _) = ask(&one, reading(bytes / 8)).await;
    assert_eq!((outcome.unwrap_err().kind, ended.end), (ErrorKind::QueryLimit, QueryEnd::Read));
}

fn reading(read_bytes: u64) -> QueryLimits {
    QueryLimits { read_bytes, ..QueryLimits::default() }
}

fn telling(options: StoreOptions) -> StoreOptions {
    StoreOptions { slow_query: Duration::ZERO, ..options }
}
