//! A server on loopback with a scripted engine, and a client that sends raw protocol messages.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Float32Array, Float64Array, Int16Array,
    Int32Array, Int64Array, IntervalMonthDayNanoArray, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use weir_pg::{
    Caller, PgError, QueryEngine, QueryResult, ServerOptions, StatementDescription, serve,
};

/// OIDs of `pg_type.dat`.
pub(crate) const INT8: u32 = 20;
pub(crate) const INT4: u32 = 23;
pub(crate) const TEXT: u32 = 25;
pub(crate) const FLOAT8: u32 = 701;

/// Format codes.
pub(crate) const BINARY: i16 = 1;

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns 1, 2, 3 for every query, except for the words below.
#[derive(Default)]
pub(crate) struct ScriptedEngine {
    /// Set when a query "for ever" has started.
    is_running: Arc<AtomicBool>,
    /// Set when a query "for ever" is dropped.
    is_dropped: Arc<AtomicBool>,
}

struct DropFlag(Arc<AtomicBool>);

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl QueryEngine for ScriptedEngine {
    fn describe(
        &self,
        _caller: Caller,
        sql: Arc<str>,
        known: Vec<Option<DataType>>,
    ) -> BoxFuture<'static, Result<StatementDescription, PgError>> {
        let parameter = known.into_iter().next().flatten().unwrap_or(DataType::Int64);
        let parameters = if sql.contains("$1") { vec![parameter.clone()] } else { Vec::new() };
        let schema = match &*sql {
            "types" => result_of(typed_columns()).schema,
            _ if sql.contains("null::") => {
                result_of(vec![Arc::new(Int64Array::from(vec![1]))]).schema
            }
            _ => schema_of(&parameter),
        };
        async move { Ok(StatementDescription { parameters, oids: Vec::new(), schema }) }.boxed()
    }

    fn run(
        &self,
        caller: Caller,
        sql: Arc<str>,
        parameters: Vec<ArrayRef>,
    ) -> BoxFuture<'static, Result<QueryResult, PgError>> {
        let is_running = Arc::clone(&self.is_running);
        let is_dropped = Arc::clone(&self.is_dropped);
        async move {
            let numbers = || Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef;
            Ok(match &*sql {
                "for ever" => {
                    let _flag = DropFlag(is_dropped);
                    is_running.store(true, Ordering::SeqCst);
                    std::future::pending().await
                }
                "fail" => {
                    let error = PgError::new("42P01", "there is no table `x`");
                    return Err(error.hint("did you mean `y`?"));
                }
                "many" => result_of(vec![Arc::new((0..50_000).collect::<Int64Array>())]),
                "types" => result_of(typed_columns()),
                "two columns" => result_of(vec![numbers(), numbers()]),
                "settings" => {
                    let wanted = ["TimeZone", "search_path", "statement_timeout"];
                    let all = caller.settings.iter();
                    let values = all.filter(|(name, _)| wanted.contains(&name.as_str()));
                    let values: Vec<&str> = values.map(|(_, value)| value.as_str()).collect();
                    result_of(vec![Arc::new(StringArray::from(vec![values.join(" | ")]))])
                }
                "cells" => result_of(vec![
                    Arc::new(Int64Array::from(vec![Some(1), None])),
                    Arc::new(StringArray::from(vec!["a\tb\\c\nd", "x,\"y\""])),
                ]),
                "caller" => {
                    let text = format!("{} at {}", caller.user, caller.address);
                    result_of(vec![Arc::new(StringArray::from(vec![text]))])
                }
                "select * from (values (41)) v" => {
                    result_of(vec![Arc::new(Int64Array::from(vec![41]))])
                }
                _ => result_of(vec![parameters.into_iter().next().unwrap_or_else(numbers)]),
            })
        }
        .boxed()
    }
}

fn schema_of(data_type: &DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("c0", data_type.clone(), true)]))
}

fn result_of(columns: Vec<ArrayRef>) -> QueryResult {
    let fields = columns
        .iter()
        .enumerate()
        .map(|(at, column)| Field::new(format!("c{at}"), column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("columns match");
    QueryResult { schema, batches: vec![batch] }
}

/// One row with a column of each type, and a NULL at the end.
fn typed_columns() -> Vec<ArrayRef> {
    let mut list = ListBuilder::new(Int64Builder::new());
    list.values().append_value(7);
    list.values().append_null();
    list.append(true);
    let noon = TimestampMicrosecondArray::from(vec![946_728_000_500_000]).with_timezone("+00:00");
    let interval = arrow_array::types::IntervalMonthDayNano::new(14, 3, 4_000_000_000);
    vec![
        Arc::new(BooleanArray::from(vec![true])),
        Arc::new(BinaryArray::from(vec![&[0xde, 0xad][..]])),
        Arc::new(Int16Array::from(vec![-2])),
        Arc::new(Int32Array::from(vec![40_000])),
        Arc::new(Int64Array::from(vec![5_000_000_000])),
        Arc::new(Float32Array::from(vec![0.5])),
        Arc::new(Float64Array::from(vec![1e300])),
        Arc::new(StringArray::from(vec!["it's"])),
        Arc::new(Date32Array::from(vec![10_958])),
        Arc::new(noon),
        Arc::new(UInt64Array::from(vec![u64::MAX])),
        Arc::new(IntervalMonthDayNanoArray::from(vec![interval])),
        Arc::new(list.finish()),
        Arc::new(StringArray::from(vec![None::<&str>])),
    ]
}

/// A server that runs until its test ends.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    end: watch::Sender<bool>,
    is_running: Arc<AtomicBool>,
    is_dropped: Arc<AtomicBool>,
}

impl TestServer {
    pub(crate) async fn start(options: ServerOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (end, ended) = watch::channel(false);
        let engine = ScriptedEngine::default();
        let is_running = Arc::clone(&engine.is_running);
        let is_dropped = Arc::clone(&engine.is_dropped);
        tokio::spawn(serve(listener, options, Arc::new(engine), ended));
        Self { address, end, is_running, is_dropped }
    }

    pub(crate) async fn start_open() -> Self {
        Self::start(ServerOptions::default()).await
    }

    pub(crate) fn stop(&self) {
        self.end.send(true).expect("it runs");
    }

    /// Waits until the engine runs the query "for ever".
    pub(crate) async fn query_is_running(&self) {
        becomes_true(&self.is_running, "the query runs").await;
    }

    /// Waits until the engine's query "for ever" is dropped.
    pub(crate) async fn query_is_dropped(&self) {
        becomes_true(&self.is_dropped, "the query is dropped").await;
    }
}

async fn becomes_true(flag: &AtomicBool, what: &str) {
    let poll = async {
        while !flag.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, poll).await.expect(what);
}

/// A message of the server.
#[derive(Debug)]
pub(crate) struct ServerMessage {
    pub(crate) kind: char,
    pub(crate) body: Vec<u8>,
}

impl ServerMessage {
    /// A field of an error: `C` for SQLSTATE, `M` for the message, `H` for the hint, `S` for the
    /// severity. Empty if there is none.
    pub(crate) fn field(&self, name: u8) -> String {
        assert_eq!(self.kind, 'E', "{self:?}");
        let mut fields = self.body.split(|byte| *byte == 0);
        let field = fields.find(|field| field.first() == Some(&name)).unwrap_or_default();
        String::from_utf8_lossy(field.get(1..).unwrap_or_default()).into_owned()
    }

    pub(crate) fn state(&self) -> String {
        self.field(b'C')
    }

    /// Zero-terminated text, such as the tag of a completion.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim_end_matches('\0').to_owned()
    }

    /// Values of a row; `None` for NULL.
    pub(crate) fn values(&self) -> Vec<Option<Vec<u8>>> {
        assert_eq!(self.kind, 'D', "{self:?}");
        let mut rest = &self.body[2..];
        let mut values = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let length = usize::try_from(i32::from_be_bytes(*length)).ok();
            values.push(length.map(|length| after[..length].to_vec()));
            rest = &after[length.unwrap_or(0)..];
        }
        values
    }

    /// Values of a row as text, with `NULL`.
    pub(crate) fn texts(&self) -> Vec<String> {
        let text = |value: Option<Vec<u8>>| {
            value.map_or("NULL".to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        self.values().into_iter().map(text).collect()
    }

    /// Name, OID and format code of each column of a row description.
    pub(crate) fn columns(&self) -> Vec<(String, u32, i16)> {
        assert_eq!(self.kind, 'T', "{self:?}");
        let mut rest = &self.body[2..];
        let mut columns = Vec::new();
        while let Some(end) = rest.iter().position(|byte| *byte == 0) {
            let name = String::from_utf8_lossy(&rest[..end]).into_owned();
            let fields = &rest[end + 1..];
            let oid = u32::from_be_bytes(fields[6..10].try_into().expect("4 bytes"));
            let format = i16::from_be_bytes(fields[16..18].try_into().expect("2 bytes"));
            columns.push((name, oid, format));
            rest = &fields[18..];
        }
        columns
    }
}

/// The message types, in order.
pub(crate) fn kinds(messages: &[ServerMessage]) -> String {
    messages.iter().map(|message| message.kind).collect()
}

/// A client without a driver.
pub(crate) struct RawClient {
    stream: TcpStream,
}

impl RawClient {
    /// Opens a connection and sends nothing.
    pub(crate) async fn open(server: &TestServer) -> Self {
        Self { stream: TcpStream::connect(server.address).await.expect("it listens") }
    }

    /// Opens a session.
    pub(crate) async fn connect(server: &TestServer) -> Self {
        let mut client = Self::open(server).await;
        client.send(&startup(&["user", "ann", "database", "weir"])).await;
        let greeting = client.until_ready().await;
        assert!(kinds(&greeting).starts_with('R') && kinds(&greeting).ends_with("KZ"));
        client
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("it reads");
    }

    /// Reads bytes that are not a message, such as the reply to an SSL request.
    pub(crate) async fn byte(&mut self) -> u8 {
        let byte = tokio::time::timeout(PATIENCE, self.stream.read_u8()).await;
        byte.expect("a reply in time").expect("a reply")
    }

    /// The next message; `None` at the end of the connection.
    pub(crate) async fn next(&mut self) -> Option<ServerMessage> {
        tokio::time::timeout(PATIENCE, self.read()).await.expect("a reply in time")
    }

    async fn read(&mut self) -> Option<ServerMessage> {
        let kind = self.stream.read_u8().await.ok()?;
        let length = usize::try_from(self.stream.read_i32().await.ok()?).expect("a length");
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).await.ok()?;
        Some(ServerMessage { kind: char::from(kind), body })
    }

    /// Messages up to and including `ReadyForQuery`.
    pub(crate) async fn until_ready(&mut self) -> Vec<ServerMessage> {
        let mut all = Vec::new();
        while let Some(message) = self.next().await {
            let is_ready = message.kind == 'Z';
            all.push(message);
            if is_ready {
                return all;
            }
        }
        panic!("the connection ended after {all:?}");
    }

    /// Messages up to the end of the connection.
    pub(crate) async fn until_end(&mut self) -> Vec<ServerMessage> {
        let mut all = Vec::new();
        while let Some(message) = self.next().await {
            all.push(message);
        }
        all
    }

    /// Sends messages and returns the replies up to `ReadyForQuery`.
    pub(crate) async fn ask(&mut self, messages: &[Vec<u8>]) -> Vec<ServerMessage> {
        self.send(&messages.concat()).await;
        self.until_ready().await
    }

    /// Runs a simple query.
    pub(crate) async fn query(&mut self, sql: &str) -> Vec<ServerMessage> {
        self.ask(&[query(sql)]).await
    }

    pub(crate) async fn close(mut self) {
        self.stream.shutdown().await.expect("it is open");
    }
}

pub(crate) fn length(body: &[u8]) -> Vec<u8> {
    i32::try_from(body.len() + 4).expect("it is short").to_be_bytes().to_vec()
}

/// A message without a type byte, which begins with a code.
pub(crate) fn untyped(code: i32, rest: &[u8]) -> Vec<u8> {
    let body = [&code.to_be_bytes(), rest].concat();
    [length(&body), body].concat()
}

pub(crate) fn startup(options: &[&str]) -> Vec<u8> {
    startup_of_version(196_608, options)
}

pub(crate) fn startup_of_version(version: i32, options: &[&str]) -> Vec<u8> {
    let mut rest = Vec::new();
    options.iter().for_each(|option| rest.extend(zero_terminated(option)));
    rest.push(0);
    untyped(version, &rest)
}

fn zero_terminated(text: &str) -> Vec<u8> {
    text.bytes().chain([0]).collect()
}

pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [vec![kind], length(body), body.to_vec()].concat()
}

pub(crate) fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &zero_terminated(sql))
}

/// `[statement, sql]`, and the OIDs of parameters.
pub(crate) fn parse([statement, sql]: [&str; 2], types: &[u32]) -> Vec<u8> {
    let count = u16::try_from(types.len()).expect("a few").to_be_bytes();
    let oids: Vec<u8> = types.iter().flat_map(|oid| oid.to_be_bytes()).collect();
    message(b'P', &[&zero_terminated(statement)[..], &zero_terminated(sql), &count, &oids].concat())
}

/// A bind message.
#[derive(Default)]
pub(crate) struct BindMessage<'a> {
    pub(crate) portal: &'a str,
    pub(crate) statement: &'a str,
    pub(crate) formats: &'a [i16],
    pub(crate) values: &'a [Option<&'a [u8]>],
    pub(crate) result_formats: &'a [i16],
}

impl BindMessage<'_> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = [zero_terminated(self.portal), zero_terminated(self.statement)].concat();
        body.extend(codes(self.formats));
        body.extend(u16::try_from(self.values.len()).expect("a few").to_be_bytes());
        for value in self.values {
            let length = value.map_or(-1, |value| i32::try_from(value.len()).expect("short"));
            body.extend(length.to_be_bytes());
            body.extend(value.unwrap_or_default());
        }
        body.extend(codes(self.result_formats));
        message(b'B', &body)
    }
}

fn codes(formats: &[i16]) -> Vec<u8> {
    let count = u16::try_from(formats.len()).expect("a few").to_be_bytes();
    count.into_iter().chain(formats.iter().flat_map(|code| code.to_be_bytes())).collect()
}

/// Binds the unnamed statement to the unnamed portal, without parameters.
pub(crate) fn bind() -> Vec<u8> {
    BindMessage::default().encode()
}

/// `kind` is `S` for a statement, `P` for a portal.
pub(crate) fn describe(kind: u8, name: &str) -> Vec<u8> {
    message(b'D', &[vec![kind], zero_terminated(name)].concat())
}

/// `kind` is `S` for a statement, `P` for a portal.
pub(crate) fn close(kind: u8, name: &str) -> Vec<u8> {
    message(b'C', &[vec![kind], zero_terminated(name)].concat())
}

/// Executes a portal up to `limit` rows; 0 means all.
pub(crate) fn execute(portal: &str, limit: i32) -> Vec<u8> {
    message(b'E', &[&zero_terminated(portal)[..], &limit.to_be_bytes()].concat())
}

pub(crate) fn sync() -> Vec<u8> {
    message(b'S', b"")
}
