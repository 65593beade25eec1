//! Protocol tests over real sockets with a scripted engine, including messages that no client
//! sends.

mod encryption;
mod extended;
mod kit;
mod login;
mod session;
mod simple;
mod startup;

use std::time::Duration;

use kit::{RawClient, TestServer, kinds, message, query, startup, untyped};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Code of a cancel request.
const CANCEL_REQUEST: i32 = 80_877_102;

/// Sends a cancel request and waits until the server closes its connection.
async fn cancel(server: &TestServer, key: &[u8]) {
    let mut client = RawClient::open(server).await;
    client.send(&untyped(CANCEL_REQUEST, key)).await;
    assert!(client.next().await.is_none(), "a cancel request gets no reply");
}

#[tokio::test]
async fn a_query_is_cancelled_by_its_key_only() {
    let server = TestServer::start_open().await;
    let mut client = RawClient::open(&server).await;
    client.send(&startup(&["user", "weir"])).await;
    let greeting = client.until_ready().await;
    let key = greeting[greeting.len() - 2].body.clone();
    // Without a running query, a cancel request has no effect on the next one.
    cancel(&server, &key).await;
    client.send(&query("for ever")).await;
    cancel(&server, &[0; 8]).await;
    let wait = tokio::time::timeout(Duration::from_millis(200), client.next());
    assert!(wait.await.is_err(), "the query still runs");
    cancel(&server, &key).await;
    let replies = client.until_ready().await;
    assert_eq!((kinds(&replies), replies[0].state()), ("EZ".into(), "57014".into()));
    server.query_is_dropped().await;
    assert_eq!(kinds(&client.query("select 1").await), "TDDDCZ");
}

#[tokio::test]
async fn a_client_that_disconnects_cancels_its_query() {
    let server = TestServer::start_open().await;
    let mut client = RawClient::connect(&server).await;
    client.send(&query("for ever")).await;
    // A client that is gone before its query starts leaves nothing to cancel.
    server.query_is_running().await;
    client.close().await;
    server.query_is_dropped().await;
}

#[tokio::test]
async fn a_shutdown_ends_sessions_with_an_error() {
    let server = TestServer::start_open().await;
    let mut client = RawClient::connect(&server).await;
    server.stop();
    let replies = client.until_end().await;
    assert_eq!((kinds(&replies), replies[0].state()), ("E".into(), "57P01".into()));
    assert_eq!(replies[0].field(b'S'), "FATAL");
}

#[tokio::test]
async fn terminate_ends_the_connection_without_a_reply() {
    let server = TestServer::start_open().await;
    let mut client = RawClient::connect(&server).await;
    client.send(&[message(b'X', b""), query("select 1")].concat()).await;
    assert!(client.next().await.is_none());
}

#[tokio::test]
async fn pipelined_simple_queries_are_answered_in_order() {
    let server = TestServer::start_open().await;
    let mut client = RawClient::connect(&server).await;
    client.send(&["select 1", "fail", "", "caller"].map(query).concat()).await;
    for expected in ["TDDDCZ", "EZ", "IZ", "TDCZ"] {
        assert_eq!(kinds(&client.until_ready().await), expected);
    }
}

#[tokio::test]
async fn an_unknown_message_type_is_fatal() {
    let server = TestServer::start_open().await;
    let mut client = RawClient::connect(&server).await;
    client.send(&message(b'?', b"")).await;
    let replies = client.until_end().await;
    assert_eq!((kinds(&replies), replies[0].state()), ("E".into(), "08P01".into()));
    assert_eq!(replies[0].field(b'S'), "FATAL");
}

#[tokio::test]
async fn a_message_with_an_invalid_or_too_large_length_ends_the_connection() {
    let server = TestServer::start_open().await;
    for length in [0, 3, -1, i32::MIN, i32::MAX, (4 << 20) + 5] {
        let mut client = RawClient::connect(&server).await;
        client.send(&[&b"Q"[..], &length.to_be_bytes()].concat()).await;
        assert!(client.next().await.is_none(), "{length}");
    }
    // The largest message is accepted.
    let mut client = RawClient::connect(&server).await;
    let comment = format!("select 1 -- {}", "x".repeat((4 << 20) - 20));
    assert_eq!(kinds(&client.query(&comment).await), "TDDDCZ");
}

#[tokio::test]
async fn arbitrary_bytes_affect_only_their_connection() {
    const KINDS: &[u8; 15] = b"QPBDECSHXpFdcf?";
    let server = TestServer::start_open().await;
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..200_u64 {
        let mut stream = TcpStream::connect(server.address).await.expect("it listens");
        let mut bytes = if round % 4 == 0 { Vec::new() } else { startup(&["user", "weir"]) };
        for _ in 0..random.u64(..20) {
            let body: Vec<u8> = (0..random.u64(..40)).map(|_| random.u8(..16)).collect();
            let kind = KINDS[random.usize(..KINDS.len())];
            bytes.extend(if round % 3 == 0 { body } else { message(kind, &body) });
        }
        // The server may reset a connection with unread bytes.
        let _ = stream.write_all(&bytes).await;
        let _ = stream.shutdown().await;
        let mut rest = Vec::new();
        let end = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest));
        assert!(end.await.is_ok(), "round {round} hangs");
    }
    RawClient::connect(&server).await;
}
