//! The serving process is killed at random moments: no order runs twice, and each is accounted for.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::Value;
use weir_act::Order;

use crate::kit::{GOOD, TestHost, lines, params, weir_act};
use crate::sockets::order_now;

const KILLS: u32 = 100;

/// Starts the program on one end of a pair of sockets, as systemd does, and sends an order.
fn serve(host: &TestHost, bytes: &[u8]) -> (Child, UnixStream) {
    let (mut ours, theirs) = UnixStream::pair().expect("two sockets");
    let mut command = Command::new(weir_act());
    command.arg("--root").arg(host.path("")).arg("serve");
    let command = command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("it starts");
    ours.write_all(bytes).expect("it is open");
    ours.shutdown(std::net::Shutdown::Write).expect("it is open");
    (child, ours)
}

fn answer(mut stream: UnixStream) -> Vec<Value> {
    let mut bytes = Vec::new();
    // A killed process resets the connection when it had not read all.
    let _ = stream.read_to_end(&mut bytes);
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    lines(&bytes[..whole])
}

/// A step that ran when the engine died ran again at its restart in hatchet-dev/hatchet#552; a ledger
/// in memory forgot it in kdlbs/kandev#3447.
#[test]
fn no_order_runs_twice_however_often_the_program_is_killed() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let host = TestHost::new();
    let rule = "type = \"integer\"\nmin = 0\nmax = 1000000";
    let list = GOOD.replace("any_of = [\"good\", \"fine\"]", rule);
    host.list("tool", &list);
    let journal = host.path("var/lib/weir-act/journal");
    let mut outcomes: BTreeMap<String, u32> = BTreeMap::new();
    for number in 0..KILLS {
        if number % 50 == 49 {
            // Runs of an hour are limited: let the next orders begin with an empty journal.
            std::fs::remove_file(&journal).expect("it is there");
        }
        let value = number.to_string();
        let order = Order { params: params(&[("value", &value)]), ..order_now(&host) };
        let bytes = host.sign(&order);
        let (mut child, stream) = serve(&host, &bytes);
        let (_never, wait) = channel::<()>();
        let _ = wait.recv_timeout(Duration::from_micros(random.u64(..12_000)));
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        let first = answer(stream);
        // The same order twice again: to learn its outcome, or to run it for the first time.
        let mut last = Vec::new();
        for attempt in 0..100 {
            let (mut child, stream) = serve(&host, &bytes);
            last = answer(stream);
            child.wait().expect("it is ours");
            if attempt > 0 && last.len() == 2 {
                break;
            }
        }
        assert_eq!(last[0]["code"], "seen", "{number}: {first:?}, {last:?}");
        let state = last[1]["state"].as_str().expect("a state").to_owned();
        let runs = host.marks().iter().filter(|mark| **mark == value).count();
        match state.as_str() {
            "ended" => assert_eq!(runs, 1, "{number}: {first:?}, {last:?}"),
            "failed" | "unknown" => assert!(runs <= 1, "{number}: {first:?}, {last:?}"),
            other => panic!("{number}: {other}"),
        }
        *outcomes.entry(state).or_default() += 1;
    }
    println!("{outcomes:?}");
    assert!(outcomes.get("ended").is_some_and(|count| *count > 0), "{outcomes:?}");
}
