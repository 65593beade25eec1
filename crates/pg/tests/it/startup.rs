//! Startup: encryption requests, options, and limits before the login.

use weir_pg::{Password, Passwords, ServerOptions};

use crate::kit::{
    RawClient, ServerMessage, TestServer, kinds, startup, startup_of_version, untyped,
};

const SSL_REQUEST: i32 = 80_877_103;
const GSS_REQUEST: i32 = 80_877_104;

/// Sends a startup message and returns the only reply before the connection ends.
async fn refused(server: &TestServer, startup: &[u8]) -> ServerMessage {
    let mut client = RawClient::open(server).await;
    client.send(startup).await;
    let mut replies = client.until_end().await;
    assert_eq!(kinds(&replies), "E");
    let error = replies.remove(0);
    assert_eq!(error.field(b'S'), "FATAL");
    error
}

#[tokio::test]
async fn a_startup_message_gets_parameters_a_key_and_ready() {
    let server = TestServer::start_open().await;
    let mut client = RawClient::open(&server).await;
    client.send(&startup(&["user", "ann", "database", "weir"])).await;
    let greeting = client.until_ready().await;
    assert_eq!(greeting[0].body, 0_i32.to_be_bytes(), "AuthenticationOk");
    let parameters: Vec<String> =
        greeting.iter().filter(|reply| reply.kind == 'S').map(ServerMessage::text).collect();
    for expected in ["client_encoding\0UTF8", "TimeZone\0UTC", "session_authorization\0ann"] {
        assert!(parameters.iter().any(|text| text == expected), "{expected}: {parameters:?}");
    }
    let [.., key, ready] = greeting.as_slice() else { panic!("{greeting:?}") };
    assert_eq!((key.kind, key.body.len()), ('K', 8));
    assert_eq!((ready.kind, ready.body.as_slice()), ('Z', &b"I"[..]));
}

#[tokio::test]
async fn an_ssl_request_without_certificate_is_declined_and_plain_text_works() {
    let server = TestServer::start_open().await;
    let mut client = RawClient::open(&server).await;
    client.send(&untyped(SSL_REQUEST, &[])).await;
    assert_eq!(client.byte().await, b'N');
    client.send(&startup(&["user", "weir"])).await;
    assert!(kinds(&client.until_ready().await).ends_with("KZ"));
}

#[tokio::test]
async fn a_gss_request_is_declined_and_an_ssl_request_may_follow() {
    let server = TestServer::start_open().await;
    let mut client = RawClient::open(&server).await;
    for code in [GSS_REQUEST, SSL_REQUEST] {
        client.send(&untyped(code, &[])).await;
        assert_eq!(client.byte().await, b'N');
    }
    client.send(&startup(&["user", "weir"])).await;
    assert!(kinds(&client.until_ready().await).ends_with("KZ"));
}

#[tokio::test]
async fn repeated_encryption_requests_end_the_connection() {
    let server = TestServer::start_open().await;
    let mut client = RawClient::open(&server).await;
    for _ in 0..3 {
        client.send(&untyped(SSL_REQUEST, &[])).await;
        assert_eq!(client.byte().await, b'N');
    }
    assert!(client.next().await.is_none());
}

#[tokio::test]
async fn plain_text_is_refused_where_tls_is_required() {
    let options = ServerOptions { is_tls_needed: true, ..ServerOptions::default() };
    let server = TestServer::start(options).await;
    let error = refused(&server, &startup(&["user", "weir"])).await;
    assert_eq!(error.state(), "28000");
    assert!(error.field(b'H').contains("sslmode=require"), "{error:?}");
}

#[tokio::test]
async fn another_database_is_refused_with_a_hint() {
    let server = TestServer::start_open().await;
    let error = refused(&server, &startup(&["user", "weir", "database", "other"])).await;
    assert_eq!(error.state(), "3D000");
    assert!(error.field(b'H').contains("psql -d weir"), "{error:?}");
    // Without a database, PostgreSQL takes the user's name.
    assert_eq!(refused(&server, &startup(&["user", "ann"])).await.state(), "3D000");
}

#[tokio::test]
async fn a_startup_message_without_a_user_is_refused() {
    let server = TestServer::start_open().await;
    assert_eq!(refused(&server, &startup(&["database", "weir"])).await.state(), "28000");
}

#[tokio::test]
async fn replication_is_refused_and_may_be_off() {
    let server = TestServer::start_open().await;
    let error = refused(&server, &startup(&["user", "weir", "replication", "database"])).await;
    assert_eq!(error.state(), "0A000");
    let mut client = RawClient::open(&server).await;
    client.send(&startup(&["user", "weir", "replication", "false"])).await;
    client.until_ready().await;
}

#[tokio::test]
async fn version_2_is_refused_and_a_newer_minor_version_is_negotiated() {
    let server = TestServer::start_open().await;
    let error = refused(&server, &startup_of_version(2 << 16, &["user", "weir"])).await;
    assert_eq!(error.state(), "0A000");
    let mut client = RawClient::open(&server).await;
    client.send(&startup_of_version(196_610, &["user", "weir", "_pq_.future", "on"])).await;
    let replies = client.until_ready().await;
    assert_eq!(replies[0].kind, 'v');
    assert_eq!(replies[0].body, [&[0, 0, 0, 0, 0, 0, 0, 1][..], b"_pq_.future\0"].concat());
}

#[tokio::test]
async fn startup_options_become_settings_and_those_without_effect_are_refused() {
    let server = TestServer::start_open().await;
    let mut client = RawClient::open(&server).await;
    let options = ["user", "weir", "application_name", "psql", "client_encoding", "LATIN1"];
    client.send(&startup(&options)).await;
    let greeting = client.until_ready().await;
    let has = |text: &str| greeting.iter().any(|reply| reply.kind == 'S' && reply.text() == text);
    assert!(has("application_name\0psql") && has("client_encoding\0UTF8"), "{greeting:?}");
    for (name, value, state) in [
        ("nothing", "1", "42704"),
        ("search_path", "future, public", "0A000"),
        ("options", "-c TimeZone=Mars/Olympus", "22023"),
        ("options", "-d 5", "0A000"),
    ] {
        let error = refused(&server, &startup(&["user", "weir", name, value])).await;
        assert_eq!(error.state(), state, "{name}");
    }
}

/// ClickHouse/ClickHouse#107485 and seaweedfs/seaweedfs#10099: lengths below 4 became huge.
#[tokio::test]
async fn malformed_startup_messages_end_the_connection_without_a_reply() {
    let server = TestServer::start_open().await;
    let oversized = [&20_000_i32.to_be_bytes()[..], &[0; 16]].concat();
    let of_2_gb = [&i32::MAX.to_be_bytes()[..], &[0; 16]].concat();
    for bytes in [
        oversized,
        of_2_gb,
        i32::MIN.to_be_bytes().to_vec(),
        (-1_i32).to_be_bytes().to_vec(),
        3_i32.to_be_bytes().to_vec(),
        [&5_i32.to_be_bytes()[..], &[1]].concat(),
    ] {
        let mut client = RawClient::open(&server).await;
        client.send(&bytes).await;
        assert!(client.next().await.is_none(), "{bytes:?}");
    }
    RawClient::connect(&server).await;
}

#[tokio::test]
async fn connections_over_the_limit_are_refused_until_one_ends() {
    let server = TestServer::start_open().await;
    let mut open = Vec::new();
    for _ in 0..100 {
        open.push(RawClient::connect(&server).await);
    }
    assert_eq!(refused(&server, &startup(&["user", "weir"])).await.state(), "53300");
    let mut last = open.pop().expect("a hundred");
    last.send(&crate::kit::message(b'X', b"")).await;
    assert!(last.next().await.is_none());
    // The slot is free once the server has dropped the connection.
    for _ in 0..1000 {
        let mut client = RawClient::open(&server).await;
        client.send(&startup(&["user", "weir"])).await;
        if client.next().await.is_some_and(|reply| reply.kind == 'R') {
            return;
        }
    }
    panic!("the slot stays taken");
}

#[tokio::test]
async fn connections_that_say_nothing_keep_nobody_out() {
    let server = TestServer::start_open().await;
    let mut silent = Vec::new();
    for _ in 0..250 {
        silent.push(RawClient::open(&server).await);
    }
    let mut clients = Vec::new();
    for _ in 0..20 {
        clients.push(RawClient::connect(&server).await);
    }
    // The oldest had to make place.
    assert!(silent[0].next().await.is_none());
    // More silent connections do not affect logged-in clients.
    for _ in 0..250 {
        silent.push(RawClient::open(&server).await);
    }
    for client in &mut clients {
        assert_eq!(kinds(&client.query("select 1").await), "TDDDCZ");
    }
}

#[tokio::test]
async fn a_wrong_password_takes_no_place_of_a_client() {
    let password = Password::new("secret").expect("it is ASCII");
    let passwords = Passwords { other: Some(password), ..Passwords::default() };
    let options = ServerOptions { passwords, ..ServerOptions::default() };
    let server = TestServer::start(options).await;
    let mut waiting = Vec::new();
    for _ in 0..150 {
        let mut client = RawClient::open(&server).await;
        client.send(&startup(&["user", "weir"])).await;
        waiting.push(client);
    }
    // The server still offers a login.
    let mut client = RawClient::open(&server).await;
    client.send(&startup(&["user", "weir"])).await;
    assert_eq!(client.next().await.map(|reply| reply.kind), Some('R'));
}

#[tokio::test]
async fn idle_sessions_end_with_an_error() {
    let server = TestServer::start_open().await;
    let mut client = RawClient::connect(&server).await;
    client.query("set idle_session_timeout = '100ms'").await;
    let replies = client.until_end().await;
    assert_eq!(replies.last().map(ServerMessage::state), Some("57P05".into()));
}
