//! Logins with SCRAM-SHA-256. Source: RFC 5802, and RFC 7677 for the algorithm.

use std::num::NonZeroU32;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::{digest, hmac, pbkdf2};
use weir_pg::{Password, Passwords, ServerOptions};

use crate::kit::{RawClient, TestServer, kinds, message, query, startup};

async fn server() -> TestServer {
    let password = Password::new("sesame").expect("ASCII");
    let passwords = Passwords { other: Some(password), ..Passwords::default() };
    TestServer::start(ServerOptions { passwords, ..ServerOptions::default() }).await
}

/// Opens a connection and checks that the server offers SCRAM-SHA-256.
async fn open(server: &TestServer) -> RawClient {
    let mut client = RawClient::open(server).await;
    client.send(&startup(&["user", "weir"])).await;
    let request = client.next().await.expect("a request");
    assert_eq!((request.kind, &request.body[..4]), ('R', &10_i32.to_be_bytes()[..]));
    assert_eq!(&request.body[4..], b"SCRAM-SHA-256\0\0");
    client
}

#[derive(Clone, Copy)]
enum SaslMechanism {
    Plain,
    ScramSha256,
}

fn first_message(mechanism: SaslMechanism, text: &str) -> Vec<u8> {
    let mechanism = match mechanism {
        SaslMechanism::Plain => "PLAIN",
        SaslMechanism::ScramSha256 => "SCRAM-SHA-256",
    };
    let length = i32::try_from(text.len()).expect("short").to_be_bytes();
    message(b'p', &[mechanism.as_bytes(), &[0], &length, text.as_bytes()].concat())
}

/// What the server sends after the client's first message.
struct ScramChallenge(String);

impl ScramChallenge {
    /// Answers it; also returns the signature that the server must send.
    fn answer(&self, password: &str) -> (String, String) {
        let challenge = &self.0;
        let mut fields = challenge.split(',').map(|field| &field[2..]);
        let (nonce, salt) = (fields.next().expect("a nonce"), fields.next().expect("a salt"));
        let rounds: NonZeroU32 = fields.next().expect("iterations").parse().expect("a number");
        let salt = BASE64_STANDARD.decode(salt).expect("base64");
        let mut salted = [0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password.as_bytes(), &mut salted);
        let without_proof = format!("c=biws,r={nonce}");
        let transcript = format!("n=,r=abc,{challenge},{without_proof}");
        let client_key = sign(&salted, b"Client Key");
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        let signature = sign(stored_key.as_ref(), transcript.as_bytes());
        let pairs = client_key.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<u8> = pairs.map(|(key, sign)| key ^ sign).collect();
        let server_key = sign(&salted, b"Server Key");
        let expected = sign(server_key.as_ref(), transcript.as_bytes());
        let reply = format!("{without_proof},p={}", BASE64_STANDARD.encode(proof));
        (reply, format!("v={}", BASE64_STANDARD.encode(expected)))
    }
}

fn sign(key: &[u8], text: impl AsRef<[u8]>) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_ref())
}

/// Runs the login up to the proof; returns the client and the expected server signature.
async fn log_in(server: &TestServer, password: &str) -> (RawClient, String) {
    let mut client = open(server).await;
    client.send(&first_message(SaslMechanism::ScramSha256, "n,,n=,r=abc")).await;
    let challenge = client.next().await.expect("a challenge");
    assert_eq!((challenge.kind, &challenge.body[..4]), ('R', &11_i32.to_be_bytes()[..]));
    let challenge = String::from_utf8(challenge.body[4..].to_vec()).expect("text");
    assert!(challenge.starts_with("r=abc"), "{challenge}");
    let (reply, expected) = ScramChallenge(challenge).answer(password);
    client.send(&message(b'p', reply.as_bytes())).await;
    (client, expected)
}

#[tokio::test]
async fn the_right_password_opens_a_session_and_the_server_proves_itself() {
    let server = server().await;
    let (mut client, expected) = log_in(&server, "sesame").await;
    let last = client.next().await.expect("a reply");
    assert_eq!(&last.body[..4], &12_i32.to_be_bytes(), "{last:?}");
    assert_eq!(String::from_utf8_lossy(&last.body[4..]), expected);
    assert!(kinds(&client.until_ready().await).starts_with('R'));
    assert_eq!(kinds(&client.query("select 1").await), "TDDDCZ");
}

#[tokio::test]
async fn a_wrong_password_ends_the_connection() {
    let server = server().await;
    let (mut client, _) = log_in(&server, "open").await;
    let replies = client.until_end().await;
    assert_eq!(kinds(&replies), "E");
    assert_eq!((replies[0].field(b'S'), replies[0].state()), ("FATAL".into(), "28P01".into()));
}

#[tokio::test]
async fn another_mechanism_is_refused() {
    let server = server().await;
    for first in [
        first_message(SaslMechanism::Plain, "x"),
        first_message(SaslMechanism::ScramSha256, "p=tls-unique,,r=x"),
    ] {
        let mut client = open(&server).await;
        client.send(&first).await;
        let replies = client.until_end().await;
        assert_eq!((kinds(&replies), replies[0].state()), ("E".into(), "08P01".into()));
    }
}

#[tokio::test]
async fn no_query_runs_before_the_login() {
    let server = server().await;
    for second in [
        message(b'Q', b"select 1\0"),
        first_message(SaslMechanism::Plain, ""),
        first_message(SaslMechanism::ScramSha256, "n,,n=,r="),
        message(b'p', b"SCRAM-SHA-256\0\xff\xff\xff\xff"),
        message(b'p', b""),
    ] {
        let mut client = open(&server).await;
        client.send(&[second, query("select 1")].concat()).await;
        let replies = kinds(&client.until_end().await);
        assert!(!replies.contains('D') && !replies.contains('Z'), "{replies}");
    }
}
