//! A connection of PostgreSQL's protocol: whatever a client sends, the server ends it, and serves
//! the next client.

#![no_main]

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use futures::FutureExt;
use futures::future::BoxFuture;
use libfuzzer_sys::fuzz_target;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use weir_pg::{
    Caller, PgError, QueryEngine, QueryResult, ServerOptions, StatementDescription, serve,
};

/// Length, version 3.0, user and database.
const HELLO: &[u8] = b"\0\0\0\x21\0\x03\0\0user\0weir\0database\0weir\0\0";
/// How long a connection may take: the server closes it when the client has nothing more.
const PATIENCE: Duration = Duration::from_secs(20);

/// Answers every statement with its parameters, or with one number.
struct EchoEngine;

fn result_of(columns: Vec<ArrayRef>) -> QueryResult {
    let columns = columns.into_iter().enumerate().map(|(at, column)| (format!("c{at}"), column));
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one row");
    QueryResult { schema: batch.schema(), batches: vec![batch] }
}

fn one() -> Vec<ArrayRef> {
    vec![Arc::new(Int64Array::from(vec![1]))]
}

impl QueryEngine for EchoEngine {
    fn describe(
        &self,
        _: Caller,
        _: Arc<str>,
        known: Vec<Option<arrow_schema::DataType>>,
    ) -> BoxFuture<'static, Result<StatementDescription, PgError>> {
        let parameters: Vec<_> = known.into_iter().flatten().collect();
        let schema = result_of(one()).schema;
        async { Ok(StatementDescription { parameters, oids: Vec::new(), schema }) }.boxed()
    }

    fn run(
        &self,
        _: Caller,
        _: Arc<str>,
        _: Vec<ArrayRef>,
    ) -> BoxFuture<'static, Result<QueryResult, PgError>> {
        async { Ok(result_of(one())) }.boxed()
    }
}

/// A runtime, and the address of a server that runs in it until the process ends.
static SERVER: LazyLock<(Runtime, std::net::SocketAddr)> = LazyLock::new(|| {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime");
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (end, ended) = watch::channel(false);
    runtime.spawn(async move {
        serve(listener, ServerOptions::default(), Arc::new(EchoEngine), ended).await;
        drop(end);
    });
    (runtime, address)
});

/// Sends bytes and reads up to the server's end of the connection.
async fn talk(address: std::net::SocketAddr, bytes: &[u8]) {
    let stream = TcpStream::connect(address).await.expect("the server runs");
    let (mut from, mut to) = stream.into_split();
    let mut reply = Vec::new();
    let write = async {
        // A connection that is closed for a bad message takes no more.
        let _ = to.write_all(bytes).await;
        let _ = to.shutdown().await;
    };
    let _ = tokio::join!(write, from.read_to_end(&mut reply));
}

/// Kinds of the whole messages in a reply.
fn kinds(mut reply: &[u8]) -> String {
    let mut kinds = String::new();
    while let Some((head, rest)) = reply.split_first_chunk::<5>() {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let body = usize::try_from(length).ok().and_then(|length| length.checked_sub(4));
        let Some((_, rest)) = body.and_then(|body| rest.split_at_checked(body)) else { break };
        kinds.push(char::from(head[0]));
        reply = rest;
    }
    kinds
}

/// Whether a client that waits for the answer of its query gets it.
async fn is_served(address: std::net::SocketAddr) -> bool {
    let mut stream = TcpStream::connect(address).await.expect("the server runs");
    let written = stream.write_all(&[HELLO, b"Q\0\0\0\x0dselect 1\0"].concat()).await;
    let mut reply = Vec::new();
    while written.is_ok() && !kinds(&reply).ends_with("TDCZ") {
        if stream.read_buf(&mut reply).await.unwrap_or(0) == 0 {
            return false;
        }
    }
    written.is_ok()
}

fuzz_target!(|bytes: &[u8]| {
    let (runtime, address) = &*SERVER;
    runtime.block_on(async {
        let talks = async {
            talk(*address, bytes).await;
            talk(*address, &[HELLO, bytes].concat()).await;
            is_served(*address).await
        };
        let served = tokio::time::timeout(PATIENCE, talks).await.expect("the server answers");
        assert!(served, "the next client gets no answer");
    });
});
