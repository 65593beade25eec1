//! A recorded session of version 1: the bytes in `session-v1.txt` must be understood for as long as
//! version 1 is spoken.
//!
//! Never regenerate the file. A change that makes these tests fail changes the protocol: put it
//! behind a new version or capability, with a separate recording.

use std::sync::Arc;
use std::time::Duration;

use expect_test::expect;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use weir_tables::{FixedClock, Micros, StreamId};

use crate::authority::CertificateInfo;
use crate::frame::{Decoder, FrameLimits};
use crate::hub::{AppendFuture, AppendResult, Hub, HubOptions, Intake, Refusal};
use crate::message::{Message, RefusalReason, StreamPosition};
use crate::order::{CarriedOrder, OrderAnswer, OrderAnswerCode};
use crate::registry::{Invitation, Registry};
use crate::secret;

const RECORDING: &str = include_str!("session-v1.txt");
const NOW: Micros = Micros(1_795_000_000_000_000);
const LIMITS: FrameLimits = FrameLimits { parcel: 1 << 20, other: 1 << 20 };

/// Bytes of one side, in order.
fn recorded(side: &str) -> Vec<u8> {
    let lines = RECORDING.lines().filter_map(|line| line.strip_prefix(side));
    lines.flat_map(|line| unhex(line.trim())).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal digits"))
        .collect()
}

fn messages(bytes: &[u8]) -> Vec<Message> {
    let mut decoder = Decoder::new(LIMITS);
    decoder.push(bytes);
    let mut out = Vec::new();
    while let Some(frame) = decoder.next_frame().expect("whole frames") {
        out.extend(Message::decode(&frame).expect("known messages"));
    }
    assert_eq!(decoder.waiting(), 0);
    out
}

/// Accepts one stream from 100 on; other parcels name their own refusal.
struct ScriptedIntake(watch::Sender<u64>);

impl Intake for ScriptedIntake {
    fn positions(&self, streams: &[StreamId]) -> Vec<StreamPosition> {
        streams
            .iter()
            .map(|stream| StreamPosition {
                stream: *stream,
                accepted: (stream.0 == 7).then_some(100),
                committed: (stream.0 == 7).then_some(40),
            })
            .collect()
    }

    fn append(&self, _agent: &str, parcel: Vec<u8>) -> AppendFuture {
        let outcome = match parcel.as_slice() {
            b"good" => Ok(AppendResult { rows: 3, position: Some(200) }),
            b"none" => Ok(AppendResult { rows: 1, position: None }),
            b"late" => refuse(RefusalReason::Behind, 100, ["behind", ""]),
            b"full" => refuse(RefusalReason::Full, 0, ["the disk is full", "free some space"]),
            _ => refuse(RefusalReason::Bad, 0, ["no parcel", ""]),
        };
        Box::pin(std::future::ready(outcome))
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }

    fn trouble(&self) -> Option<String> {
        Some("the disk is full".into()) // no Resume, which would come at its own time
    }
}

fn refuse(
    reason: RefusalReason,
    expected: u64,
    [text, hint]: [&str; 2],
) -> Result<AppendResult, Refusal> {
    Err(Refusal { reason, expected, text: text.into(), hint: hint.into() })
}

async fn answers(to: &[u8], is_known: bool) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a directory");
    let registry = Registry::new(dir.path());
    let invitation = Invitation { expires: NOW + Duration::from_secs(60), name: None };
    let (invite, secret) = registry.invite(&invitation, NOW).expect("an invitation");
    let agent = registry.redeem((&invite, &secret), "web1", b"request", NOW).expect("an agent");
    let options = HubOptions { program: "weir golden".into(), ..HubOptions::new(dir.path()) };
    let intake = Arc::new(ScriptedIntake(watch::Sender::new(0)));
    let hub = Hub::new(options, intake, Arc::new(FixedClock::new(NOW))).expect("a hub");
    let certificate = is_known.then(|| CertificateInfo {
        name: "web1".into(),
        agent: Some(agent.id),
        not_before: NOW,
        not_after: NOW,
        issuer: Vec::new(),
    });
    let (mut ours, theirs) = tokio::io::duplex(1 << 20);
    let talking = tokio::spawn(hub.serve_peer(theirs, certificate, "test".into(), ()));
    ours.write_all(to).await.expect("it reads");
    let mut all = Vec::new();
    ours.read_to_end(&mut all).await.expect("it ends");
    talking.await.expect("no panic");
    all
}

#[tokio::test]
async fn an_agent_of_version_1_gets_the_recorded_replies() {
    let answers = answers(&recorded("agent"), true).await;
    assert_eq!(secret::hex(&answers), secret::hex(&recorded("hub")));
}

#[test]
fn the_recording_decodes_as_before() {
    let text: String =
        messages(&recorded("agent")).iter().map(|message| format!("{message:?}\n")).collect();
    expect![[r#"
        Hello(Hello { versions: (1, 1), capabilities: 7, now_micros: 1795000000000000, program: "weir 0.1.0", host: "" })
        Ask { id: 5, is_watching: true, streams: [StreamId(7), StreamId(9)] }
        Parcel { sequence: 0, bytes: [103, 111, 111, 100] }
        Parcel { sequence: 1, bytes: [110, 111, 110, 101] }
        Parcel { sequence: 2, bytes: [108, 97, 116, 101] }
        Parcel { sequence: 3, bytes: [102, 117, 108, 108] }
        Parcel { sequence: 4, bytes: [119, 104, 97, 116] }
        Ping { nonce: 77 }
        Goodbye { code: Ending, text: "", hint: "" }
    "#]].assert_eq(&text);
    let text: String =
        messages(&recorded("hub")).iter().map(|message| format!("{message:?}\n")).collect();
    expect![[r#"
        Welcome(Welcome { version: 1, capabilities: 7, now_micros: 1795000000000000, credit_bytes: 16777216, parcel_bytes: 67108864, heartbeat_seconds: 5, program: "weir golden" })
        Positions { id: 5, positions: [StreamPosition { stream: StreamId(7), accepted: Some(100), committed: Some(40) }, StreamPosition { stream: StreamId(9), accepted: None, committed: None }] }
        Accepted { sequence: 0, rows: 3, position: Some(200) }
        Accepted { sequence: 1, rows: 1, position: None }
        Refused { sequence: 2, reason: Behind, expected: 100, text: "behind", hint: "" }
        Pause { text: "the disk is full" }
        Refused { sequence: 3, reason: Full, expected: 0, text: "the disk is full", hint: "free some space" }
        Refused { sequence: 4, reason: Bad, expected: 0, text: "no parcel", hint: "" }
        Pong { nonce: 77, now_micros: None }
    "#]].assert_eq(&text);
}

#[test]
fn messages_are_encoded_as_recorded() {
    for side in ["agent", "hub"] {
        let mut bytes = Vec::new();
        let all = messages(&recorded(side));
        // The recorded agent was newer by a field at the end of its hello and a frame that may be
        // skipped.
        let newer = usize::from(side == "agent");
        all[newer..].iter().for_each(|message| message.encode(&mut bytes));
        assert!(recorded(side).ends_with(&bytes), "{side}: {}", secret::hex(&bytes));
    }
}

#[test]
fn frames_of_orders_are_encoded_as_documented() {
    let order = CarriedOrder { id: [0xab; 16], not_after_micros: -2, body: b"body".to_vec() };
    let answer = OrderAnswer { code: OrderAnswerCode::Refused, why: "off".into() };
    let all = [Message::Order(order), Message::Taken { id: [0xcd; 16], answer }];
    let mut bytes = Vec::new();
    all.iter().for_each(|message| message.encode(&mut bytes));
    let order = concat!(
        "2000000012000000abababababababababababababababab",
        "feffffffffffffff04000000626f6479",
    );
    let taken = "1600000013000000cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd0303006f6666";
    assert_eq!(secret::hex(&bytes), [order, taken].concat());
    assert_eq!(messages(&bytes), all);
}

#[tokio::test]
async fn a_peer_without_a_certificate_gets_a_hint_how_to_join() {
    let hello = &recorded("agent");
    let answers = messages(&answers(hello, false).await);
    let [Message::Goodbye { text, hint, .. }] = answers.as_slice() else {
        panic!("{answers:?}");
    };
    assert_eq!(text, "the connection has no agent's certificate");
    assert!(hint.contains("weir hub invite"), "{hint}");
}
