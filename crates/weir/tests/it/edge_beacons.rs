//! Beacons on their way from an edge to a back end of the user's own.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::edge::{address_of, edge};
use crate::harness::{Weir, request, wait_for};
use crate::outputs::{ARRIVAL, ReceivedRow, copied, receiver};

/// Beacons in one request, and requests in one life of the edge.
const LINES: usize = 64;
const REQUESTS: usize = 10;

fn send(weir: &Weir, first: usize) {
    let url = format!("http://{}", address_of(weir));
    for from in (first..first + LINES * REQUESTS).step_by(LINES) {
        let body: String =
            (from..from + LINES).map(|n| format!("h=shop.example&v=v1&k=ping&n={n}\n")).collect();
        let agent = [("user-agent", "Mozilla/5.0")];
        let (status, _, answer) = request(&url, "POST", "/ping", &agent, &body);
        assert_eq!(status, 204, "{answer}");
    }
}

#[test]
fn beacons_reach_a_back_end_that_is_busy_over_kills_of_the_edge() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, config, token) =
        (dir.path().join("data"), dir.path().join("weir.toml"), dir.path().join("token"));
    std::fs::write(&token, "a-token-of-the-receiver\n").expect("it can be written");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let target = listener.local_addr().expect("it is bound");
    let outputs = format!(
        "[[outputs]]\nname = \"realtime\"\nto = \"http\"\nurl = \"http://{target}/rows?x=1\"\ntable = \"beacon\"\n\
         where = \"not is_bot\"\ncolumns = [\"site\", \"visit\", \"sequence\"]\nbatch_rows = 100\ntoken_file = \"{}\"\n",
        token.display()
    );
    std::fs::write(&config, outputs).expect("it can be written");
    // It refuses at first, and breaks off after it has taken a batch now and then.
    let got = Arc::new(Mutex::new(ReceivedRow::default()));
    receiver(listener, Arc::clone(&got));
    let config = config.to_str().expect("a path of a test is text");
    for life in 1..=2 {
        let weir = start_edge(&data, config);
        let first = (life - 1) * LINES * REQUESTS;
        send(&weir, first);
        wait_for("the rows", ARRIVAL, || {
            let rows = weir.number("select count(*) from beacon");
            (usize::try_from(rows) == Ok(life * LINES * REQUESTS)).then_some(())
        });
        wait_for("some of them", ARRIVAL, || (copied(&weir, "realtime") >= 200).then_some(()));
        weir.kill();
    }
    let weir = start_edge(&data, config);
    let lines = || got.lock().expect("no panic").lines();
    let all = 2 * LINES * REQUESTS;
    wait_for("all of them", ARRIVAL, || (lines().len() >= all).then_some(()));
    let lines = lines();
    let numbers: BTreeSet<u64> =
        lines.iter().filter_map(|line| line["sequence"].as_u64()).collect();
    assert_eq!((lines.len(), numbers.len()), (all, all), "each once");
    assert_eq!(weir.terminate(), Some(0));
}

fn start_edge(data: &Path, config: &str) -> Weir {
    let args = ["--config", config, "--listen", "127.0.0.1:0", "--beacon", "/ping"];
    Weir::start(edge(data, &args))
}
