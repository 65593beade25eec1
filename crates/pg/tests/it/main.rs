//! The room by itself, over real sockets, before an engine that knows one answer: what no client of PostgreSQL would send.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use weir_pg::{Answer, Caller, Described, Engine, Options, Password, Refusal, serve};

/// Answers 1, 2, 3 to everything, the parameter when there is one.
struct Numbers;

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
}

impl Engine for Numbers {
    fn describe(
        &self,
        sql: Arc<str>,
        _: Vec<Option<DataType>>,
    ) -> BoxFuture<'static, Result<Described, Refusal>> {
        let parameters = if sql.contains("$1") { vec![DataType::Int64] } else { Vec::new() };
        async move { Ok(Described { parameters, schema: schema() }) }.boxed()
    }

    fn run(
        &self,
        _: Caller,
        sql: Arc<str>,
        parameters: Vec<ArrayRef>,
    ) -> BoxFuture<'static, Result<Answer, Refusal>> {
        async move {
            if sql.contains("for ever") {
                std::future::pending::<()>().await;
            }
            let column = parameters.into_iter().next();
            let column = column.unwrap_or_else(|| Arc::new(Int64Array::from(vec![1, 2, 3])));
            let batch = RecordBatch::try_new(schema(), vec![column]);
            let batch = batch.map_err(|error| Refusal::new("XX000", error.to_string()))?;
            Ok(Answer { schema: schema(), batches: vec![batch] })
        }
        .boxed()
    }
}

struct Server {
    address: std::net::SocketAddr,
    end: watch::Sender<bool>,
}

async fn start(options: Options) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (end, ended) = watch::channel(false);
    tokio::spawn(serve(listener, options, Arc::new(Numbers), ended));
    Server { address, end }
}

fn startup(names: &[&str]) -> Vec<u8> {
    let mut body = 196_608_i32.to_be_bytes().to_vec();
    for name in names {
        body.extend(name.bytes().chain([0]));
    }
    body.push(0);
    [length(&body), body].concat()
}

fn length(body: &[u8]) -> Vec<u8> {
    i32::try_from(body.len() + 4).expect("it is short").to_be_bytes().to_vec()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [vec![kind], length(body), body.to_vec()].concat()
}

/// Everything up to the end of the connection, or to a pause.
async fn answers(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(Ok(length @ 1..)) =
        tokio::time::timeout(Duration::from_millis(500), stream.read(&mut piece)).await
    {
        all.extend_from_slice(&piece[..length]);
    }
    all
}

/// Kinds of the messages.
fn kinds(mut bytes: &[u8]) -> String {
    let mut kinds = String::new();
    while let [kind, a, b, c, d, ..] = *bytes {
        kinds.push(char::from(kind));
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).expect("it fits");
        bytes = bytes.get(1 + length..).unwrap_or_default();
    }
    kinds
}

async fn connect(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.expect("it listens");
    let hello = startup(&["user", "ann", "database", "weir"]);
    stream.write_all(&hello).await.expect("it reads");
    let greeting = kinds(&answers(&mut stream).await);
    assert!(greeting.starts_with('R') && greeting.ends_with("KZ"), "{greeting}");
    stream
}

#[tokio::test]
async fn a_portal_gives_its_rows_in_parts_and_errors_skip_to_the_next_sync() {
    let server = start(Options::default()).await;
    let mut stream = connect(&server).await;
    let parse = message(b'P', b"s\0select n\0\0\0");
    let bind = message(b'B', b"p\0s\0\0\0\0\0\0\x01\0\x01");
    let execute = message(b'E', b"p\0\0\0\0\x02");
    let sync = message(b'S', b"");
    let whole = [
        parse,
        bind,
        message(b'D', b"Pp\0"),
        execute.clone(),
        execute.clone(),
        execute,
        sync.clone(),
    ];
    stream.write_all(&whole.concat()).await.expect("it reads");
    // Two rows and a pause, one row and the end, nothing more.
    assert_eq!(kinds(&answers(&mut stream).await), "12TDDsDCCZ");
    let wrong = [message(b'B', b"\0nothing\0"), message(b'E', b"\0\0\0\0\0"), sync.clone()];
    stream.write_all(&wrong.concat()).await.expect("it reads");
    assert_eq!(kinds(&answers(&mut stream).await), "EZ");
    let bound = [
        message(b'P', b"\0select $1\0\0\0"),
        message(b'B', b"\0\0\0\0\0\x01\0\0\0\x0241\0\0"),
        message(b'E', b"\0\0\0\0\0"),
        sync,
    ];
    stream.write_all(&bound.concat()).await.expect("it reads");
    let told = answers(&mut stream).await;
    assert_eq!(kinds(&told), "12DCZ");
    assert!(told.windows(2).any(|two| two == b"41"));
}

#[tokio::test]
async fn a_query_without_end_is_given_up_by_its_key_only() {
    let server = start(Options::default()).await;
    let mut stream = TcpStream::connect(server.address).await.expect("it listens");
    stream.write_all(&startup(&["user", "weir"])).await.expect("it reads");
    let greeting = answers(&mut stream).await;
    let at = greeting.windows(5).position(|five| five == b"K\0\0\0\x0c").expect("a key");
    let key = &greeting[at + 5..at + 13];
    stream.write_all(&message(b'Q', b"select for ever\0")).await.expect("it reads");
    let cancel = async |key: &[u8]| {
        let body = [80_877_102_i32.to_be_bytes().to_vec(), key.to_vec()].concat();
        let mut other = TcpStream::connect(server.address).await.expect("it listens");
        other.write_all(&[length(&body), body].concat()).await.expect("it reads");
        answers(&mut other).await
    };
    assert_eq!(cancel(&[0; 8]).await, b"");
    assert_eq!(kinds(&answers(&mut stream).await), "", "it still runs");
    cancel(key).await;
    let told = answers(&mut stream).await;
    assert_eq!(kinds(&told), "EZ");
    assert!(told.windows(5).any(|state| state == b"57014"));
    server.end.send(true).expect("it runs");
    let told = answers(&mut stream).await;
    assert!(told.windows(5).any(|state| state == b"57P01"), "the end is told");
}

#[tokio::test]
async fn nobody_gets_in_without_the_password() {
    let password = Password::new("sesame").expect("ASCII");
    let server = start(Options { password: Some(password), ..Options::default() }).await;
    for second in [
        message(b'Q', b"select 1\0"),
        message(b'p', b"PLAIN\0\0\0\0\0"),
        message(b'p', b"SCRAM-SHA-256\0\0\0\0\x08n,,n=,r="),
        message(b'p', b"SCRAM-SHA-256\0\xff\xff\xff\xff"),
        message(b'p', b""),
    ] {
        let mut stream = TcpStream::connect(server.address).await.expect("it listens");
        stream.write_all(&startup(&["user", "weir"])).await.expect("it reads");
        assert_eq!(kinds(&answers(&mut stream).await), "R");
        stream.write_all(&second).await.expect("it reads");
        stream.write_all(&message(b'Q', b"select 1\0")).await.expect("it reads");
        let told = kinds(&answers(&mut stream).await);
        assert!(!told.contains('D') && !told.contains('Z'), "{told}");
    }
}

#[tokio::test]
async fn bytes_that_are_no_protocol_harm_only_their_connection() {
    let server = start(Options::default()).await;
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let kinds_known = b"QPBDECSHXpFdcf?";
    for round in 0..200_u64 {
        let mut stream = TcpStream::connect(server.address).await.expect("it listens");
        let mut bytes = if round % 4 == 0 { Vec::new() } else { startup(&["user", "weir"]) };
        for _ in 0..next() % 20 {
            let body: Vec<u8> =
                (0..next() % 40).map(|_| u8::try_from(next() >> 60).expect("four bits")).collect();
            let kind = kinds_known[usize::try_from(next() % 15).expect("small")];
            bytes.extend(if round % 3 == 0 { body } else { message(kind, &body) });
        }
        // What the server refuses to read on may come back as a reset.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
        let mut rest = Vec::new();
        let end = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest));
        assert!(end.await.is_ok(), "round {round} hangs");
    }
    connect(&server).await;
}
