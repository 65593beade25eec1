//! The sampler against the running kernel: full queues, changing namespaces, missing files.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use expect_test::expect_file;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};

use super::*;

const START: Micros = Micros(1_800_000_000_000_000);

fn sampler(root: &Path) -> HostSampler {
    let options = HostOptions {
        root: root.into(),
        host: "web1".into(),
        agent_version: "0".into(),
        role: Some("web".into()),
        ..HostOptions::default()
    };
    HostSampler::new(options)
}

fn at(second: u64) -> Micros {
    START + Duration::from_secs(second)
}

/// A listener that never accepts; its accept queue holds `backlog` + 1 connections.
fn stalled_listener(backlog: i32) -> (OwnedFd, SocketAddr) {
    let flags = SocketFlags::CLOEXEC;
    let fd = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
    bind(&fd, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    listen(&fd, backlog).unwrap();
    let address: SocketAddrV4 = rustix::net::getsockname(&fd).unwrap().try_into().unwrap();
    (fd, address.into())
}

fn number(batch: &Batch, column: &str, row: usize) -> i64 {
    batch.rows.column_by_name(column).unwrap().as_primitive::<Int64Type>().value(row)
}

fn word<'a>(batch: &'a Batch, column: &str, row: usize) -> &'a str {
    batch.rows.column_by_name(column).unwrap().as_string::<i32>().value(row)
}

fn rows<'a>(batches: &'a [Batch], table: &str) -> impl Iterator<Item = (&'a Batch, usize)> {
    let of_table = batches.iter().filter(move |batch| batch.table.name == table);
    of_table.flat_map(|batch| (0..batch.rows.num_rows()).map(move |row| (batch, row)))
}

#[test]
fn full_accept_queue_shows_one_more_than_its_limit_and_overflows_are_counted() {
    let mut sampler = sampler(Path::new("/"));
    let (_listener, address) = stalled_listener(4);
    sampler.sample(at(0));
    let _held: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(address).unwrap()).collect();
    let refused = TcpStream::connect_timeout(&address, Duration::from_millis(50));
    assert!(refused.is_err());
    let batches = sampler.sample(at(1));
    let port = i64::from(address.port());
    let (batch, row) = rows(&batches, "listener")
        .find(|(batch, row)| number(batch, "server_port", *row) == port)
        .expect("the listener is found");
    assert_eq!(number(batch, "accept_queue_length", row), 5);
    assert_eq!(number(batch, "accept_queue_limit", row), 4);
    assert_eq!(word(batch, "netns", row), "host");
    assert_eq!(number(batch, "process_id", row), i64::from(std::process::id()));
    let (batch, row) = rows(&batches, "tcp_stat")
        .find(|(batch, row)| word(batch, "counter", *row) == "ListenOverflows")
        .expect("the counter moved");
    assert!(number(batch, "increase", row) >= 1);
}

#[test]
fn unix_listener_has_a_row_while_connections_wait_and_else_once_a_minute() {
    let mut sampler = sampler(Path::new("/"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let path_text = path.to_string_lossy();
    let queue = |batches: &[Batch]| -> Vec<i64> {
        let its = rows(batches, "unix_listener")
            .filter(|(batch, row)| word(batch, "socket_path", *row) == path_text);
        its.map(|(batch, row)| number(batch, "accept_queue_length", row)).collect()
    };
    assert_eq!(queue(&sampler.sample(at(0))), [0]);
    assert_eq!(queue(&sampler.sample(at(1))), Vec::<i64>::new());
    let _client = std::os::unix::net::UnixStream::connect(&path).unwrap();
    assert_eq!(queue(&sampler.sample(at(2))), [1]);
    // The search for owners pauses for at most 300 s.
    assert_eq!(queue(&sampler.sample(at(400))), [1]);
    let batches = sampler.sample(at(401));
    let (batch, row) = rows(&batches, "unix_listener")
        .find(|(batch, row)| word(batch, "socket_path", *row) == path_text)
        .unwrap();
    let own = i64::from(std::process::id());
    assert_eq!(number(batch, "process_id", row), own);
    assert_eq!(number(batch, "accepting_process_id", row), own);
}

#[test]
fn packets_that_a_firewall_rule_drops_are_counted() {
    let Some(mut child) = namespace() else { return };
    let entrance = format!("/proc/{}/ns/net", child.id());
    let listener = netns::inside(Path::new(&entrance), || {
        let rules = "add table inet t; \
            add chain inet t out { type filter hook output priority 0; }; \
            add rule inet t out tcp dport 5432 counter drop";
        let is_ready = run("ip", &["link", "set", "lo", "up"]) && run("nft", &[rules]);
        is_ready.then(|| TcpListener::bind("127.0.0.1:0").unwrap())
    })
    .unwrap();
    let Some(_listener) = listener else {
        eprintln!("skipped: no nftables here (apt install nftables, run as root)");
        child.kill().unwrap();
        child.wait().unwrap();
        return;
    };
    let mut sampler = sampler(Path::new("/"));
    sampler.sample(at(0));
    netns::inside(Path::new(&entrance), || {
        let upstream = SocketAddr::from((Ipv4Addr::LOCALHOST, 5432));
        assert!(TcpStream::connect_timeout(&upstream, Duration::from_millis(50)).is_err());
    })
    .unwrap();
    // Sampling pauses for at most 600 s.
    let batches = sampler.sample(at(700));
    child.kill().unwrap();
    child.wait().unwrap();
    let (batch, row) = rows(&batches, "firewall_rule")
        .find(|(batch, row)| {
            word(batch, "chain", *row) == "out" && number(batch, "destination_port", *row) == 5432
        })
        .expect("the counter moved");
    assert!(number(batch, "packets_increase", row) >= 1);
    assert_eq!(word(batch, "hook", row), "output");
}

#[test]
fn idle_connections_closed_by_the_application_are_distinguished_from_those_closed_by_clients() {
    let mut sampler = sampler(Path::new("/"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let [closed_by_server, closed_by_client, open] = [(); 3].map(|()| {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    });
    let port = i64::from(listener.local_addr().unwrap().port());
    let closings = |batches: &[Batch]| -> Vec<(String, f64)> {
        let its = rows(batches, "idle_close")
            .filter(|(batch, row)| number(batch, "server_port", *row) == port);
        let closing = |(batch, row): (&Batch, usize)| {
            let idle = batch.rows.column_by_name("idle_seconds").unwrap();
            (
                word(batch, "client_address", row).to_owned(),
                idle.as_primitive::<Float64Type>().value(row),
            )
        };
        its.map(closing).collect()
    };
    wait(Duration::from_millis(1100));
    assert_eq!(closings(&sampler.sample(at(0))), []);
    for (first, second) in [(closed_by_server.1, closed_by_server.0), closed_by_client] {
        drop(first);
        // The other side closes once it has read the end.
        (&second).read_to_end(&mut Vec::new()).unwrap();
    }
    // Sampling pauses for at most 600 s.
    let found = closings(&sampler.sample(at(700)));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "127.0.0.1");
    // By the sampler's clock, plus the time before its first sample, which a loaded machine lengthens.
    assert!((701.0..730.0).contains(&found[0].1), "{found:?}");
    assert_eq!(closings(&sampler.sample(at(1400))), []);
    drop(open);
}

/// Waits real time, for what the kernel itself measures.
#[expect(clippy::disallowed_methods, reason = "a connection has to be idle for a while")]
fn wait(span: Duration) {
    std::thread::sleep(span);
}

#[test]
fn namespace_with_a_listener_is_found_sampled_and_dropped_when_it_vanishes() {
    let Some(mut child) = namespace() else { return };
    let entrance = format!("/proc/{}/ns/net", child.id());
    let inode = process::namespace_inode(&std::fs::read_link(&entrance).unwrap()).unwrap();
    let name = format!("net:[{inode}]");
    let listener =
        netns::inside(Path::new(&entrance), || TcpListener::bind("0.0.0.0:8080").unwrap()).unwrap();

    let mut sampler = sampler(Path::new("/"));
    let batches = sampler.sample(at(0));
    for table in ["listener", "tcp_stat", "sock_stat", "net_dev"] {
        assert!(sampler_tables(&batches, table, &name), "{table} has no rows of {name}");
    }
    let found = sampler.listeners();
    let found = found.iter().find(|listener| listener.netns == name && listener.port == 8080);
    assert_eq!(found.unwrap().process_id, Some(std::process::id()));

    drop(listener);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut later = Vec::new();
    for second in 2..6 {
        later = sampler.sample(at(second));
        for (batch, row) in rows(&later, "collector_run") {
            assert!(succeeded(batch, row), "{}", word(batch, "error", row));
        }
    }
    assert!(!sampler_tables(&later, "sock_stat", &name));
    assert!(sampler.view.netns.namespaces.iter().all(|netns| *netns.name != *name));
}

fn run(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).status().is_ok_and(|status| status.success())
}

fn sampler_tables(batches: &[Batch], table: &str, netns: &str) -> bool {
    rows(batches, table).any(|(batch, row)| word(batch, "netns", row) == netns)
}

/// Starts a process in a new network namespace; `None`, with a message, without the privilege.
fn namespace() -> Option<Child> {
    let mut child = Command::new("unshare")
        .args(["--net", "sh", "-c", "echo ready; exec sleep 60"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line.trim() == "ready" {
        return Some(child);
    }
    child.wait().unwrap();
    assert!(std::env::var_os("CI").is_none(), "CI must be able to make network namespaces");
    eprintln!("SKIPPED: making a network namespace needs root");
    None
}

#[test]
fn every_table_of_a_live_host_has_rows_and_a_second_sample_has_far_fewer() {
    let mut sampler = sampler(Path::new("/"));
    let (_listener, _) = stalled_listener(1);
    let first = sampler.sample(at(0));
    let tables: std::collections::BTreeSet<&str> =
        first.iter().map(|batch| batch.table.name).collect();
    let expected = "listener tcp_stat sock_stat net_dev softnet_stat cpu_stat mem_stat disk_stat filesystem \
        sysctl host_info collector_run";
    let (info, row) = rows(&first, "host_info").next().unwrap();
    assert_eq!(word(info, "role", row), "web");
    for table in expected.split(' ') {
        assert!(tables.contains(table), "no rows of {table} in {tables:?}");
    }
    let count =
        |batches: &[Batch]| batches.iter().map(|batch| batch.rows.num_rows()).sum::<usize>();
    let second = sampler.sample(at(1));
    assert!(count(&second) * 2 < count(&first), "{} of {}", count(&second), count(&first));
}

#[test]
fn host_without_any_file_gives_errors_in_rows_and_no_panic() {
    let root = tempfile::tempdir().unwrap();
    let mut sampler = sampler(root.path());
    let batches = sampler.sample(at(0));
    let failed: Vec<&str> = rows(&batches, "collector_run")
        .filter(|(batch, row)| {
            !batch.rows.column_by_name("is_success").unwrap().as_boolean().value(*row)
        })
        .map(|(batch, row)| word(batch, "collector", row))
        .collect();
    assert!(failed.contains(&"cpu_stat") && failed.contains(&"listener"), "{failed:?}");
    let (batch, row) = rows(&batches, "collector_run")
        .find(|(batch, row)| word(batch, "collector", *row) == "cpu_stat")
        .unwrap();
    assert!(word(batch, "error", row).starts_with("cannot read `"));
    // The failure is reported once, then every ten seconds.
    assert_eq!(sampler.sample(at(1)).len(), 0);
}

/// Rows of a recorded host, without what a fixture cannot have: sockets, file systems, durations.
#[test]
fn recorded_hosts_give_the_rows_they_gave_before() {
    for fixture in ["debian12-hybrid-cgroup", "steal-md-cgroup2"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(fixture);
        let batches = sampler(&root).sample(START);
        expect_file![root.join("expected.txt")].assert_eq(&shown(&batches));
    }
}

/// What a real kernel shows of its arrays, recorded in a virtual machine (`ORIGIN.md` beside it).
#[test]
fn arrays_of_a_real_kernel_are_rows() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/md-vm");
    let recorded = std::fs::read_to_string(fixture.join("files.txt")).unwrap();
    let root = tempfile::tempdir().unwrap();
    for section in recorded.split("== ").skip(1) {
        let (path, content) = section.split_once('\n').unwrap();
        let path = root.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let batches = sampler(root.path()).sample(START);
    let shown = shown(&batches);
    for (table, key, expected) in [
        ("raid\n", "array=\"md0\"", "slots=\"U_UU\" failures_left=0"),
        ("raid\n", "array=\"md0\"", "failed_members=\"nvme2n1\" metadata=\"1.2\""),
        ("raid\n", "array=\"md1\"", "array_state=\"clean\" slots=\"UU\" failures_left=1"),
        ("raid\n", "array=\"md9\"", "failures_left=3"),
        ("raid\n", "array=\"md127\"", "is_active=false"),
        ("raid\n", "array=\"md127\"", "metadata=\"external:imsm\""),
        ("raid_member\n", "device=\"nvme2n1\"", "state=\"faulty\""),
        ("raid_member\n", "device=\"nvme4n1\"", "slot=3 state=\"in_sync\" mirror_set=1"),
        (
            "raid_member\n",
            "device=\"nvme5n1\"",
            "state=\"in_sync,write_error,want_replacement\" mirror_set=0 errors_total=0 bad_sectors=8",
        ),
        ("raid_member\n", "device=\"nvme5n1\"", "bad_sector_first=40960"),
        ("block_device\n", "device=\"nvme1n1\"", "arrays=\"md0\" mount_points=\"/srv\""),
        ("block_device\n", "device=\"nvme1n1\"", "serial=\"disk1\""),
        ("block_device\n", "device=\"md0\"", "disks=\"nvme1n1 nvme2n1 nvme3n1 nvme4n1\""),
    ] {
        let line = shown_line(&shown, table, key);
        assert!(line.contains(expected), "{expected} is not in {line}");
    }
}

fn shown_line<'a>(shown: &'a str, table: &str, key: &str) -> &'a str {
    let mut sections = shown.split("== ");
    let section = sections.find(|section| section.starts_with(table)).unwrap();
    section.lines().find(|line| line.contains(key)).unwrap()
}

fn shown(batches: &[Batch]) -> String {
    let mut by_table: BTreeMap<&str, String> = BTreeMap::new();
    for (batch, row) in
        batches.iter().flat_map(|batch| (0..batch.rows.num_rows()).map(move |row| (batch, row)))
    {
        let table = batch.table.name;
        if table == "collector_run" && succeeded(batch, row) {
            continue;
        }
        let text = by_table.entry(table).or_insert_with(|| format!("== {table}\n"));
        let row = batch.rows.slice(row, 1);
        let schema = row.schema();
        let cells = schema.fields().iter().zip(row.columns()).filter_map(|(field, cell)| {
            let is_left_out =
                ["host", "duration_seconds", "cpu_seconds"].contains(&&**field.name());
            (!is_left_out && cell.is_valid(0))
                .then(|| format!("{}={}", field.name(), cell_text(cell)))
        });
        let line = cells.collect::<Vec<_>>().join(" ");
        let root = env!("CARGO_MANIFEST_DIR");
        *text += &format!("{}\n", line.replace(root, "").replace("ts=1800000000000000 ", ""));
    }
    by_table.into_values().collect::<Vec<_>>().join("\n")
}

fn succeeded(batch: &Batch, row: usize) -> bool {
    batch.rows.column_by_name("is_success").unwrap().as_boolean().value(row)
}

fn cell_text(cell: &arrow_array::ArrayRef) -> String {
    use arrow_array::types::{Float64Type, TimestampMicrosecondType};
    if let Some(texts) = cell.as_string_opt::<i32>() {
        return format!("{:?}", texts.value(0));
    }
    if let Some(numbers) = cell.as_primitive_opt::<Int64Type>() {
        return numbers.value(0).to_string();
    }
    if let Some(numbers) = cell.as_primitive_opt::<Float64Type>() {
        return format!("{:.4}", numbers.value(0));
    }
    if let Some(times) = cell.as_primitive_opt::<TimestampMicrosecondType>() {
        return times.value(0).to_string();
    }
    cell.as_boolean().value(0).to_string()
}

#[test]
fn any_content_of_any_file_does_not_panic() {
    let files = "proc/net/netstat proc/net/snmp proc/net/sockstat proc/net/sockstat6 proc/net/dev \
        proc/net/softnet_stat proc/stat proc/meminfo proc/vmstat proc/diskstats \
        proc/pressure/cpu proc/uptime proc/mounts proc/sys/net/core/somaxconn \
        proc/sys/kernel/osrelease etc/sysctl.conf etc/os-release dev/kmsg";
    let files: Vec<&str> = files.split(' ').collect();
    let words: [&[u8]; 12] = [
        b"Tcp: ",
        b"cpu ",
        b"cpu0 ",
        b"\n",
        b" ",
        b":",
        b"-1 ",
        b"99999999999999999999 ",
        b"=",
        b";",
        b"6,1,1e99,-;",
        b"some avg10=",
    ];
    let root = tempfile::tempdir().unwrap();
    for file in &files {
        std::fs::create_dir_all(root.path().join(file).parent().unwrap()).unwrap();
    }
    arbtest::arbtest(|u| {
        let mut sampler = sampler(root.path());
        for second in 0..2 {
            for file in &files {
                let mut content = Vec::new();
                for _ in 0..u.int_in_range(0..=20)? {
                    match u.arbitrary()? {
                        true => content.extend_from_slice(u.choose(&words)?),
                        false => content.push(u.arbitrary()?),
                    }
                }
                std::fs::write(root.path().join(file), content).unwrap();
            }
            sampler.sample(at(second));
        }
        Ok(())
    })
    .budget_ms(500);
}
