//! Rows of `slow_query`: the store's reports of ended queries.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use weir_store::{Asker, EndedQuery, Store};
use weir_tables::{Batch, Parcel, Rows, SlowQuery, SlowQueryRows};

/// How often ended queries become rows.
const EVERY: Duration = Duration::from_secs(2);

/// Keeps rows until it is ended.
pub(crate) struct SlowQueryReporter {
    store: Arc<Store>,
    host: String,
    task: JoinHandle<()>,
}

impl SlowQueryReporter {
    pub(crate) fn start(store: &Arc<Store>, host: &str) -> Self {
        let (store, host) = (Arc::clone(store), host.to_owned());
        let task = tokio::spawn(report_always(Arc::clone(&store), host.clone()));
        Self { store, host, task }
    }

    /// Keeps what is left.
    pub(crate) async fn end(self) {
        self.task.abort();
        report(&self.store, &self.host).await;
    }
}

async fn report_always(store: Arc<Store>, host: String) {
    let mut ticks = tokio::time::interval(EVERY);
    loop {
        ticks.tick().await;
        report(&store, &host).await;
    }
}

/// Keeps rows of the queries that ended since the last time.
async fn report(store: &Store, host: &str) {
    let (ended, dropped) = store.take_ended_queries();
    if dropped > 0 {
        tracing::warn!("{dropped} slow queries have no row in `slow_query`: they came too fast");
    }
    if ended.is_empty() {
        return;
    }
    let parcel = Parcel { range: None, batches: vec![rows(&ended, host)] };
    if let Err(error) = store.append(parcel).await {
        tracing::warn!("cannot keep rows of `slow_query`: {}", error.message);
    }
}

fn rows(ended: &[EndedQuery], host: &str) -> Batch {
    let mut rows = SlowQueryRows::default();
    for query in ended {
        rows.push(&SlowQuery {
            ts: query.ts,
            host,
            user_name: &query.user,
            asker: match query.asker {
                Asker::User => "user",
                Asker::Rule => "rule",
            },
            query_text: &query.sql,
            ended_by: query.end.as_str(),
            duration_seconds: query.duration.as_secs_f64(),
            cpu_seconds: query.cpu.as_secs_f64(),
            read_bytes: whole(query.read_bytes),
            reads: whole(query.reads),
            memory_bytes: whole(query.memory_bytes),
            spilled_bytes: whole(query.spilled_bytes),
            rows: whole(query.rows),
            error: query.error.as_deref(),
        });
    }
    Batch { table: SlowQueryRows::SPEC, rows: rows.finish() }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
