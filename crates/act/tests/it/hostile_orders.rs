//! Orders that must not run on a host with a good list.

use std::sync::atomic::Ordering;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::Ed25519KeyPair;
use weir_act::{ORDER_SPAN_MICROS, Order, OrderMode, OrderSigner, SIGNED_BYTES_MAX};

use crate::kit::{GOOD, NOW, SECOND, TestHost, own_uid, params};

/// Changes of a good order, signed by the right hub.
type OrderChange = (&'static str, fn(&mut Order));

const CHANGES: &[OrderChange] = &[
    ("another agent", |order| order.agent = "web2".into()),
    ("no agent", |order| order.agent = String::new()),
    ("an agent's name and more", |order| order.agent = "web1\0".into()),
    ("over for a microsecond", |order| order.not_after_micros = NOW - 1),
    ("over for years", |order| order.not_after_micros = 0),
    ("over for ever", |order| order.not_after_micros = i64::MIN),
    ("valid for two minutes", |order| order.not_after_micros = NOW + 2 * ORDER_SPAN_MICROS),
    ("valid for ever", |order| order.not_after_micros = i64::MAX),
    ("no action", |order| order.action = String::new()),
    ("an unknown action", |order| order.action = "other".into()),
    ("an action by path", |order| order.action = "/usr/bin/tool".into()),
    ("an action that leads elsewhere", |order| order.action = "../actions.d/tool".into()),
    ("an action with its ending", |order| order.action = "tool.toml".into()),
    ("an action in capitals", |order| order.action = "TOOL".into()),
    ("an action with NUL", |order| order.action = "tool\0".into()),
    ("an action with a newline", |order| order.action = "tool\n".into()),
    ("an action that is an option", |order| order.action = "-tool".into()),
    ("an undo where there is none", |order| order.mode = OrderMode::Undo),
    ("no parameter", |order| order.params.clear()),
    ("another parameter", |order| order.params = params(&[("other", "good")])),
    ("one parameter more", |order| _ = order.params.insert("other".into(), "good".into())),
    ("a parameter in capitals", |order| order.params = params(&[("VALUE", "good")])),
    ("a value off the list", |order| order.params = params(&[("value", "bad")])),
    ("an empty value", |order| order.params = params(&[("value", "")])),
    ("a value and a space", |order| order.params = params(&[("value", "good ")])),
    ("a value and a newline", |order| order.params = params(&[("value", "good\n")])),
    ("a value and NUL", |order| order.params = params(&[("value", "good\0")])),
    ("a value in capitals", |order| order.params = params(&[("value", "GOOD")])),
    ("an option", |order| order.params = params(&[("value", "-good")])),
    ("an option's end", |order| order.params = params(&[("value", "--")])),
    ("two values", |order| order.params = params(&[("value", "good fine")])),
    ("a placeholder", |order| order.params = params(&[("value", "{value}")])),
    ("a long value", |order| order.params = params(&[("value", &"g".repeat(1024))])),
];

#[test]
fn no_order_with_one_fault_runs() {
    let host = TestHost::new();
    assert_eq!(host.send(&host.order())[0]["code"], "taken");
    assert_eq!(host.marks(), ["good"], "the order without a fault runs");
    for (name, change) in CHANGES {
        let mut order = host.order();
        change(&mut order);
        let bytes = host.sign(&order);
        let why = host.refused(&bytes, own_uid(), name);
        assert!(!why.is_empty() && !why.contains('\n'), "{name}: {why}");
        // What was refused does not run later either, whatever the host has become.
        let again = host.send_bytes(&bytes, own_uid());
        assert_ne!(again[0]["code"], "taken", "{name}");
    }
    assert_eq!(host.marks(), ["good"]);
}

/// A redelivery, also long after (apache/dolphinscheduler#8291, kestra-io/kestra#8334).
#[test]
fn an_order_runs_once_however_often_it_arrives() {
    let host = TestHost::new();
    let order = host.order();
    let bytes = host.sign(&order);
    assert_eq!(host.send_bytes(&bytes, own_uid())[0]["code"], "taken");
    for _ in 0..3 {
        let again = host.send_bytes(&bytes, own_uid());
        assert_eq!((&again[0]["code"], &again[0]["why"]), (&"seen".into(), &"it ran".into()));
        assert_eq!((&again[1]["state"], &again[1]["exit"]), (&"ended".into(), &0.into()));
    }
    // Another order under the same id, and the same one after its time.
    let other = Order { params: params(&[("value", "fine")]), ..order };
    assert_eq!(host.send(&other)[0]["code"], "seen");
    host.clock.0.fetch_add(3600 * SECOND, Ordering::SeqCst);
    assert_eq!(host.send_bytes(&bytes, own_uid())[0]["code"], "seen");
    assert_eq!(host.marks(), ["good"]);
}

/// An order that was refused is recorded: it is valid for a minute, and the reason may go away.
#[test]
fn a_refused_order_does_not_run_once_the_reason_is_gone() {
    let host = TestHost::new();
    host.write("etc/weir/actions.off", "", 0o644);
    let bytes = host.sign(&host.order());
    host.refused(&bytes, own_uid(), "off");
    std::fs::remove_file(host.path("etc/weir/actions.off")).expect("it is there");
    let again = host.send_bytes(&bytes, own_uid());
    assert_eq!(again.len(), 1);
    assert_eq!(again[0]["code"], "seen");
    assert!(again[0]["why"].as_str().is_some_and(|why| why.contains("actions.off")), "{again:?}");
    assert!(host.marks().is_empty());
}

#[test]
fn bytes_that_the_hub_did_not_sign_do_nothing() {
    let host = TestHost::new();
    let good = host.sign(&host.order());
    let other = tempfile::tempdir().expect("a directory");
    let stranger = OrderSigner::open(other.path()).expect("a key");
    let unsigned = host.order().encode().expect("it is small");
    let mut zeroed = unsigned.clone();
    zeroed.extend_from_slice(&[0; 64]);
    let mut flipped = good.clone();
    flipped[40] ^= 1;
    let cases: [(&str, Vec<u8>); 10] = [
        ("nothing", Vec::new()),
        ("a line", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ("no signature", unsigned),
        ("a signature of zeros", zeroed),
        (
            "a stranger's signature",
            stranger.sign(&host.order()).expect("small").as_bytes().to_vec(),
        ),
        ("half an order", good[..good.len() / 2].to_vec()),
        ("an order without its last byte", good[..good.len() - 1].to_vec()),
        ("an order and a byte", [good.as_slice(), b"\n"].concat()),
        ("an order and its signature twice", [good.as_slice(), &good[good.len() - 64..]].concat()),
        ("an order and 1 MiB", [good.as_slice(), &vec![0; 1 << 20]].concat()),
    ];
    for (name, bytes) in &cases {
        host.refused(bytes, own_uid(), name);
    }
    host.refused(&flipped, own_uid(), "a changed bit");
    host.refused(&vec![7; SIGNED_BYTES_MAX + 1], own_uid(), "too long");
    assert_eq!(host.send_bytes(&good, own_uid())[0]["code"], "taken");
}

/// Encodings that no signer of ours makes, signed with the right key.
#[test]
fn orders_of_another_encoding_do_nothing_though_the_hub_signed_them() {
    let host = TestHost::new();
    let order = Order { params: params(&[("aa", "x"), ("bb", "y")]), ..host.order() };
    let bytes = order.encode().expect("it is small");
    let at = bytes.windows(2).position(|pair| pair == b"bb").expect("a name");
    let mut doubled = bytes.clone();
    doubled[at..at + 2].copy_from_slice(b"aa");
    let mut unsorted = bytes.clone();
    unsorted[at..at + 2].copy_from_slice(b"a0");
    let mut other_version = bytes.clone();
    other_version[4] = 2;
    let mut other_mode = bytes.clone();
    other_mode[5] = 9;
    let mut no_text = bytes.clone();
    no_text[at] = 0xff;
    let longer = [bytes.as_slice(), b"x"].concat();
    let good = host.order().encode().expect("it is small");
    for (name, bytes) in [
        ("a doubled parameter", &doubled),
        ("parameters out of order", &unsorted),
        ("another version", &other_version),
        ("another mode", &other_mode),
        ("bytes that are no text", &no_text),
        ("bytes after the end", &longer),
    ] {
        host.refused(&signed_by_hand(&host, b"weir order, version 1\n", bytes), own_uid(), name);
    }
    host.refused(&signed_by_hand(&host, b"", &good), own_uid(), "a signature of something else");
    let right = signed_by_hand(&host, b"weir order, version 1\n", &good);
    assert_eq!(host.send_bytes(&right, own_uid())[0]["code"], "taken", "the hand signs well");
}

fn signed_by_hand(host: &TestHost, prefix: &[u8], order: &[u8]) -> Vec<u8> {
    let pem = std::fs::read_to_string(OrderSigner::path(host.dir())).expect("a key");
    let body: String = pem.lines().filter(|line| !line.starts_with("---")).collect();
    let key = Ed25519KeyPair::from_pkcs8(&STANDARD.decode(body).expect("base64")).expect("a key");
    let signature = key.sign(&[prefix, order].concat());
    [order, signature.as_ref()].concat()
}

#[test]
fn only_root_and_the_agent_may_send_orders() {
    let host = TestHost::new();
    let agent_uid = own_uid() + 100;
    let bytes = host.sign(&host.order());
    for uid in [own_uid() + 1, agent_uid, 65_534, u32::MAX] {
        let why = host.refused(&bytes, uid, "another account");
        assert!(why.contains(&uid.to_string()), "{why}");
    }
    host.pin("web1", Some(agent_uid));
    host.refused(&bytes, own_uid() + 1, "another account than the agent's");
    assert_eq!(host.send_bytes(&bytes, agent_uid)[0]["code"], "taken");
    assert_eq!(host.send_bytes(&host.sign(&host.order()), 0)[0]["code"], "taken");
}

#[test]
fn the_host_has_the_last_word_on_approval() {
    let host = TestHost::new();
    for (ceiling, unapproved, approved, dry) in [
        ("observe", "refused", "refused", "taken"),
        ("suggest", "refused", "refused", "taken"),
        ("ask", "refused", "taken", "taken"),
        ("auto", "taken", "taken", "taken"),
    ] {
        host.list("tool", &GOOD.replace("\"auto\"", &format!("\"{ceiling}\"")));
        let by_ada = Order { approved_by: Some("ada".to_owned()), ..host.order() };
        let dry_run = Order { mode: OrderMode::DryRun, ..host.order() };
        for (order, code) in [(host.order(), unapproved), (by_ada, approved), (dry_run, dry)] {
            assert_eq!(host.send(&order)[0]["code"], code, "{ceiling}: {order}");
        }
    }
}
