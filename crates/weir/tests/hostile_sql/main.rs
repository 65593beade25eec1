//! Hostile SQL: each statement is answered or refused, and the process survives.

mod amplification;
mod statements;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_cast::pretty::pretty_format_batches;
use weir_store::{Query, Store};
use weir_tables::{FixedClock, Micros};

fn store() -> Arc<Store> {
    Store::in_memory(Arc::new(FixedClock::new(Micros(1_795_176_000_000_000))))
}

/// The answer as a table, or the error.
async fn ask(store: &Store, sql: &str) -> String {
    match store.query(Query::new(sql)).run().await {
        Ok(answer) => pretty_format_batches(&answer.batches).expect("it is UTF-8").to_string(),
        Err(error) => format!("{:?}: {error}", error.kind),
    }
}

async fn number(store: &Store, sql: &str) -> i64 {
    let answer = store.query(Query::new(sql)).run().await.expect(sql);
    let rows = answer.batches.iter().find(|rows| rows.num_rows() > 0).expect("a row");
    rows.column(0).as_primitive::<Int64Type>().value(0)
}
