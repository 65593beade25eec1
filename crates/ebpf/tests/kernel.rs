//! Runs the programs in the kernel, with real connections in dedicated network namespaces.
//!
//! Needs root and iproute2. Bounds come from clocks read around each step, so they widen on a slow
//! machine.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, StringArray};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use weir_ebpf::{CounterOptions, SocketCounter};
use weir_tables::{Batch, Micros};

const OPTIONS: CounterOptions =
    CounterOptions { peers: 1024, peer_rows: 100, queued: 4096, times_accepts: true };

/// Network namespace with `lo` up; deleted on drop.
struct TestNetns {
    name: String,
    inode: u64,
}

fn ip(args: &str) -> bool {
    let status = Command::new("ip").args(args.split(' ')).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

impl TestNetns {
    /// Creates it; `None` without root or iproute2, which fails with `WEIR_REQUIRE_ALL=1`.
    #[expect(clippy::print_stdout, reason = "the test output shows skipped tests")]
    fn make(purpose: &str) -> Option<Self> {
        let name = format!("weir-ebpf-{purpose}-{}", std::process::id());
        if !rustix::process::geteuid().is_root() || !ip(&format!("netns add {name}")) {
            let is_required = std::env::var("WEIR_REQUIRE_ALL").is_ok_and(|value| value == "1");
            assert!(!is_required, "this test needs root and iproute2");
            println!("skipped: eBPF needs root and iproute2 (cargo xtask setup)");
            return None;
        }
        assert!(ip(&format!("-n {name} link set lo up")));
        let inode = std::fs::metadata(format!("/run/netns/{name}")).expect("it was made").ino();
        Some(Self { name, inode })
    }

    /// Runs `work` on a thread in the namespace.
    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.name)).expect("it was made");
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("root may enter it");
                work()
            });
            worker.join().expect("it did not panic")
        })
    }

    /// Value of `RetransSegs` in `/proc/net/snmp`.
    fn retransmits(&self) -> i64 {
        let text = self
            .inside(|| std::fs::read_to_string("/proc/thread-self/net/snmp").expect("it is there"));
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let at = names.split(' ').position(|name| name == "RetransSegs").expect("it is counted");
        values.split(' ').nth(at).and_then(|value| value.parse().ok()).expect("a number")
    }
}

impl Drop for TestNetns {
    fn drop(&mut self) {
        ip(&format!("netns delete {}", self.name));
    }
}

type Row = BTreeMap<String, String>;

/// Rows of a table for this namespace.
fn rows(batches: &[Batch], table: &str, netns: &TestNetns) -> Vec<Row> {
    let name = format!("net:[{}]", netns.inode);
    let all = batches.iter().filter(|batch| batch.table.name == table).flat_map(|batch| {
        let schema = batch.rows.schema();
        (0..batch.rows.num_rows()).map(move |row| -> Row {
            let cells = schema.fields().iter().zip(batch.rows.columns());
            cells.map(|(field, column)| (field.name().clone(), text_of(column, row))).collect()
        })
    });
    all.filter(|row| row["netns"] == name).collect()
}

/// Formats a value; NULL is `-`, times are empty.
fn text_of(column: &ArrayRef, row: usize) -> String {
    let any = column.as_any();
    if column.is_null(row) {
        "-".into()
    } else if let Some(numbers) = any.downcast_ref::<Int64Array>() {
        numbers.value(row).to_string()
    } else if let Some(numbers) = any.downcast_ref::<Float64Array>() {
        numbers.value(row).to_string()
    } else if let Some(texts) = any.downcast_ref::<StringArray>() {
        texts.value(row).to_owned()
    } else {
        String::new()
    }
}

fn sum(rows: &[Row], column: &str) -> i64 {
    rows.iter().map(|row| row[column].parse::<i64>().expect("an integer")).sum()
}

/// Sums of `columns` over the rows of one side and port.
fn sums<const N: usize>(rows: &[Row], (side, port): (&str, &str), columns: [&str; N]) -> [i64; N] {
    let rows = rows_where(&rows_where(rows, ("side", side)), ("server_port", port));
    columns.map(|column| sum(&rows, column))
}

fn seconds(row: &Row, column: &str) -> f64 {
    row[column].parse().expect("a number")
}

fn rows_where(rows: &[Row], (column, value): (&str, &str)) -> Vec<Row> {
    rows.iter().filter(|row| row[column] == value).cloned().collect()
}

/// Opens a counter with empty maps.
fn open(options: CounterOptions) -> SocketCounter {
    let mut sockets =
        SocketCounter::open(options, Micros(0)).unwrap_or_else(|error| panic!("{error}"));
    take(&mut sockets, 0);
    sockets
}

fn netns_name(inode: u32) -> Arc<str> {
    format!("net:[{inode}]").into()
}

/// Batches of both halves, as if a second had passed.
fn take(sockets: &mut SocketCounter, at: i64) -> Vec<Batch> {
    let mut batches = Vec::new();
    for second in [at, at + 1] {
        let sample = sockets.sample(Micros(second * 1_000_000), "web1", &mut netns_name);
        let sample = sample.unwrap_or_else(|error| panic!("{error}"));
        assert!(sample.lost.is_none(), "{:?}", sample.lost);
        batches.extend(sample.batches);
    }
    batches
}

#[expect(clippy::disallowed_methods, reason = "the sleep is the wait that the test measures")]
fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// Waits until `condition` holds, at most 10 s.
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(10), "{what}");
        pause(Duration::from_millis(20));
    }
}

fn connect(server: SocketAddr) -> TcpStream {
    TcpStream::connect(server).expect("the server listens")
}

/// Closes the stream with a reset.
fn reset(stream: TcpStream) {
    let linger = Some(Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(&stream, linger).expect("a socket takes it");
}

#[test]
fn wait_for_a_late_accept_is_measured() {
    let Some(netns) = TestNetns::make("late") else { return };
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let mut sockets = open(OPTIONS);
        let (port, least, most) = netns.inside(|| {
            let listener = TcpListener::bind(address).expect("a free port");
            let server = listener.local_addr().expect("it is bound");
            let begun = Instant::now();
            let clients: Vec<TcpStream> = (0..20).map(|_| connect(server)).collect();
            let connected = Instant::now();
            pause(Duration::from_millis(300));
            let least = connected.elapsed();
            for _ in &clients {
                listener.accept().expect("they wait");
            }
            (server.port(), least.as_secs_f64(), begun.elapsed().as_secs_f64())
        });
        let rows = rows(&take(&mut sockets, 1), "tcp_accept", &netns);
        let [row] = rows.as_slice() else { panic!("one listener, not {rows:?}") };
        let host: SocketAddr = address.parse().expect("an address");
        assert_eq!(row["server_address"], host.ip().to_string());
        assert_eq!(row["server_port"], port.to_string());
        assert_eq!(
            [sum(&rows, "accepted"), sum(&rows, "measured"), sum(&rows, "abandoned")],
            [20, 20, 0]
        );
        println!("waits between {least:.4} s and {most:.4} s: {row:?}");
        for column in
            ["wait_p50_seconds", "wait_p90_seconds", "wait_p99_seconds", "wait_max_seconds"]
        {
            let wait = seconds(row, column);
            assert!((least..=most).contains(&wait), "{column} {wait} in {least}..{most}");
        }
        let mean = seconds(row, "wait_sum_seconds") / 20.0;
        assert!((least..=most).contains(&mean), "mean {mean} in {least}..{most}");
    }
}

#[test]
fn connections_closed_in_the_queue_are_abandoned_and_older_ones_are_not_measured() {
    let Some(netns) = TestNetns::make("queue") else { return };
    netns.inside(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let server = listener.local_addr().expect("it is bound");
        let _older = connect(server);
        let mut sockets = open(OPTIONS);
        let (_accepted, closed) = (connect(server), connect(server));
        reset(closed);
        listener.accept().expect("the older connection");
        listener.accept().expect("the open connection");
        let left: Vec<TcpStream> = (0..3).map(|_| connect(server)).collect();
        drop(listener);
        let rows = rows(&take(&mut sockets, 1), "tcp_accept", &netns);
        drop(left);
        let columns = ["accepted", "measured", "abandoned"].map(|column| sum(&rows, column));
        assert_eq!(columns, [2, 1, 4], "{rows:?}");
    });
}

#[test]
fn connections_are_counted_by_the_side_that_closed_them() {
    const EACH: i64 = 300;
    let Some(netns) = TestNetns::make("state") else { return };
    let mut sockets = open(CounterOptions { times_accepts: false, ..OPTIONS });
    let (port, closed_port) = netns.inside(|| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let server = listener.local_addr().expect("it is bound");
        for number in 0..3 * EACH {
            let mut client = connect(server);
            let (mut accepted, _) = listener.accept().expect("it connected");
            match number % 3 {
                0 => {
                    drop(client);
                    assert_eq!(accepted.read(&mut [0]).expect("the end"), 0);
                }
                1 => {
                    drop(accepted);
                    assert_eq!(client.read(&mut [0]).expect("the end"), 0);
                }
                _ => {
                    reset(client);
                    accepted.read(&mut [0]).expect_err("it is reset");
                }
            }
        }
        drop(listener);
        let closed = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr();
        let closed = closed.expect("it was bound");
        TcpStream::connect(closed).expect_err("the port is closed");
        (server.port().to_string(), closed.port().to_string())
    });
    let batches = take(&mut sockets, 1);
    assert!(batches.iter().all(|batch| batch.table.name != "tcp_accept"));
    let states = rows(&batches, "tcp_state", &netns);
    let columns = ["opened", "closed_here", "closed_by_peer", "aborted", "connect_failed"];
    let all = [3 * EACH, EACH, EACH, EACH, 0];
    assert_eq!(sums(&states, ("server", &port), columns), all);
    assert_eq!(sums(&states, ("client", &port), columns), all);
    assert_eq!(sums(&states, ("client", &closed_port), columns), [0, 0, 0, 0, 1]);
    let peers = rows(&batches, "tcp_peer", &netns);
    let columns = ["resets_sent", "resets_received"];
    assert_eq!(sums(&peers, ("server", &port), columns), [0, EACH]);
    assert_eq!(sums(&peers, ("client", &port), columns), [EACH, 0]);
    assert_eq!(sums(&peers, ("client", &closed_port), columns), [0, 1]);
}

fn connect_veth(last: u8) -> std::io::Result<TcpStream> {
    let address = SocketAddr::new(IpAddr::from([10, 9, 0, last]), 7000);
    TcpStream::connect_timeout(&address, Duration::from_millis(1500))
}

/// Uses two namespaces: the second listens on `10.9.0.2` and `10.9.0.3`.
#[test]
fn retransmits_are_counted_per_peer_and_equal_retrans_segs() {
    let (Some(here), Some(there)) = (TestNetns::make("here"), TestNetns::make("there")) else {
        return;
    };
    let (one, two) = (&here.name, &there.name);
    assert!(ip(&format!("-n {one} link add veth type veth peer veth netns {two}")));
    for (name, addresses) in [(one, vec!["10.9.0.1"]), (two, vec!["10.9.0.2", "10.9.0.3"])] {
        for address in addresses {
            assert!(ip(&format!("-n {name} address add {address}/24 dev veth")));
        }
        assert!(ip(&format!("-n {name} link set veth up")));
    }
    let server = there.inside(|| TcpListener::bind("0.0.0.0:7000").expect("a free port"));
    let mut sockets = open(OPTIONS);
    here.inside(|| {
        let mut good = connect_veth(2).expect("the server answers");
        let mut lost = connect_veth(3).expect("the server answers");
        let (mut other, _) = server.accept().expect("the good one");
        // Without the address, segments to it are dropped and no ACK comes back.
        assert!(ip(&format!("-n {two} address delete 10.9.0.3/24 dev veth")));
        good.write_all(&[1; 4000]).expect("there is room");
        // One segment: the kernel may retransmit several at once and counts each.
        lost.write_all(&[1; 1000]).expect("there is room");
        other.read_exact(&mut [0; 4000]).expect("it arrives");
        let before = here.retransmits();
        wait_until("three retransmits", || here.retransmits() >= before + 3);
        connect_veth(3).expect_err("the SYN is not answered");
        reset(lost);
    });
    let (batches, counter) = (take(&mut sockets, 1), here.retransmits());
    let peers = rows(&batches, "tcp_peer", &here);
    println!("{counter} retransmits: {peers:?}");
    assert!(rows_where(&peers, ("peer_address", "10.9.0.2")).is_empty());
    let lost = rows_where(&peers, ("peer_address", "10.9.0.3"));
    let lost = rows_where(&lost, ("server_port", "7000"));
    assert_eq!(sum(&lost, "retransmits"), counter);
    assert!(sum(&lost, "syn_retransmits") >= 1 && sum(&lost, "retransmits") >= 4);
    assert!(lost.iter().all(|row| row["side"] == "client"));
}

/// Connects to port 9, which is closed, of 127.0.0.`last` for each `last`.
fn connect_refused(netns: &TestNetns, last: Range<u8>) {
    netns.inside(|| {
        for last in last {
            let address = SocketAddr::new(IpAddr::from([127, 0, 0, last]), 9);
            TcpStream::connect(address).expect_err("the port is closed");
        }
    });
}

#[test]
fn full_map_reports_dropped_events_and_remaining_peers_are_summed() {
    let Some(netns) = TestNetns::make("full") else { return };
    let mut sockets = open(CounterOptions { peer_rows: 3, ..OPTIONS });
    connect_refused(&netns, 1..51);
    let peers = rows(&take(&mut sockets, 1), "tcp_peer", &netns);
    let rest = rows_where(&peers, ("peer_address", "-"));
    // Peers in other namespaces of this host may be among the three.
    let named = i64::try_from(peers.len() - rest.len()).expect("a few");
    assert!(named <= 3 && rest.len() == 1, "{peers:?}");
    assert_eq!((sum(&rest, "peers") + named, sum(&peers, "resets_received")), (50, 50));
    drop(sockets);

    let mut sockets = open(CounterOptions { peers: 8, ..OPTIONS });
    connect_refused(&netns, 1..51);
    let mut lost = None;
    for second in [1, 2] {
        let sample = sockets.sample(Micros(second * 1_000_000), "web1", &mut netns_name);
        lost = lost.or(sample.expect("the maps are readable").lost);
    }
    let lost = lost.expect("the map holds eight peers").to_string();
    assert!(lost.contains("more than 8 peers") && lost.contains("raise `ebpf.peers`"), "{lost}");
    // Reading empties the half, so new peers fit.
    connect_refused(&netns, 1..3);
    assert_eq!(rows(&take(&mut sockets, 3), "tcp_peer", &netns).len(), 2);
}

/// Ids of the loaded programs `on_receive_reset`; the kernel keeps 15 characters of a name.
fn loaded_program_ids() -> Vec<u32> {
    aya::programs::loaded_programs()
        .filter_map(Result::ok)
        .filter(|program| program.name_as_str() == Some("on_receive_rese"))
        .map(|program| program.id())
        .collect()
}

#[test]
fn programs_are_unloaded_on_drop() {
    if TestNetns::make("gone").is_none() {
        return;
    }
    let before = loaded_program_ids();
    let sockets = open(OPTIONS);
    let new: Vec<u32> =
        loaded_program_ids().into_iter().filter(|id| !before.contains(id)).collect();
    assert!(!new.is_empty());
    drop(sockets);
    // Concurrent tests load programs too, but the kernel does not reuse an id this soon.
    wait_until("programs are gone", || !loaded_program_ids().iter().any(|id| new.contains(id)));
}

#[test]
fn error_without_capabilities_names_them() {
    let Some(_) = TestNetns::make("rights") else { return };
    // Capabilities are per thread.
    let worker = std::thread::spawn(|| {
        let none = rustix::thread::CapabilitySet::empty();
        let sets =
            rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
        rustix::thread::set_capabilities(None, sets)
            .expect("dropping capabilities is always allowed");
        SocketCounter::open(OPTIONS, Micros(0)).err().map(|error| error.to_string())
    });
    let error = worker.join().expect("it did not panic").expect("opening fails");
    assert!(
        error.contains("operation not permitted") || error.contains("Operation not permitted"),
        "{error}"
    );
    assert!(error.ends_with("hint: run weir as root or with CAP_BPF and CAP_PERFMON"), "{error}");
}
