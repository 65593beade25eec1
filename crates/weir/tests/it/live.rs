//! The live tap against a real nginx and real clients: nothing twice, nothing missing, and drops
//! are reported.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::faults::ONE_AT_A_TIME;
use super::harness::{WEIR, Weir, can_run, is_root, quiet, serve, text, wait_for};
use super::netns::{Netns, Nginx, NginxSite};

/// For what takes a moment on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
const CONNECTIONS: i64 = 8;

/// A server's namespace with nginx on port 8080, and a visitors' namespace on the other side of a
/// pair of interfaces.
struct LiveScene {
    server: Netns,
    visitors: Netns,
    _nginx: Nginx,
    dir: tempfile::TempDir,
}

impl LiveScene {
    fn set(purpose: &str) -> Option<Self> {
        let has_nginx = Path::new("/usr/sbin/nginx").exists();
        let made = if is_root() && has_nginx {
            Netns::make(purpose).zip(Netns::make(&format!("{purpose}-c")))
        } else {
            None
        };
        if !can_run(purpose, "root, nginx, wrk and iproute2", made.is_some()) {
            return None;
        }
        let (server, visitors) = made?;
        server.join(&visitors, ["10.77.0.1/24", "fd77::1/64"], ["10.77.0.2/24", "fd77::2/64"]);
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).expect("it is ours");
        let site = NginxSite {
            listen: "listen 8080; listen [::]:8080;",
            locations: "location / { return 200 hello; }",
        };
        let nginx = Nginx::serve(&server, dir.path(), site);
        wait_for("nginx listens", PATIENCE, || {
            let found = server.command("ss").args(["-Htln", "sport", "=", ":8080"]).output();
            (!found.expect("iproute2 is there").stdout.is_empty()).then_some(())
        });
        Some(Self { server, visitors, _nginx: nginx, dir })
    }

    /// A weir whose tap is on `interface` of the server's namespace, without limits that a busy
    /// machine would meet.
    fn watch(&self, interface: &str) -> Weir {
        self.watch_with(interface, 64 << 20)
    }

    /// Watches with a ring of this size.
    fn watch_with(&self, interface: &str, ring_bytes: u64) -> Weir {
        let mut command = serve("up", &self.dir.path().join("data"));
        quiet(&mut command);
        command
            .env("WEIR_WIRE_INTERFACES", format!("{}/{interface}", self.server.name))
            .env("WEIR_WIRE_PORTS", "8080")
            .env("WEIR_WIRE_CPU_PERCENT", "400")
            .env("WEIR_WIRE_RING_BYTES", ring_bytes.to_string())
            .env("WEIR_WIRE_REQUESTS_PER_SECOND", "10000000");
        let weir = Weir::start(command);
        let ran = "select count(*) from collector_run where collector = 'wire' and is_success";
        wait_for("the tap is open", PATIENCE, || (weir.number(ran) > 0).then_some(()));
        weir
    }

    /// wrk for two seconds; how many answers it counted.
    fn load(&self, from: &Netns, url: &str) -> i64 {
        let connections = CONNECTIONS.to_string();
        let output = from
            .command("wrk")
            .args(["-t1", "-c", &connections, "-d2s", url])
            .output()
            .expect("wrk can be started");
        let said = text(&output.stdout);
        let count = said.lines().find_map(|line| line.trim().split_once(" requests in"));
        count.and_then(|(count, _)| count.parse().ok()).unwrap_or_else(|| panic!("{said}"))
    }

    /// Lines of nginx's log, once no more are written.
    fn logged(&self) -> i64 {
        let mut before = 0;
        let count = wait_for("the log is quiet", PATIENCE, || {
            let now = lines_of(&self.dir.path().join("access.log"));
            super::harness::pause(Duration::from_millis(300));
            (std::mem::replace(&mut before, now) == now && now > 0).then_some(now)
        });
        i64::try_from(count).expect("few")
    }
}

fn lines_of(log: &Path) -> usize {
    let log = std::fs::read_to_string(log);
    log.unwrap_or_default().lines().count()
}

fn requests(weir: &Weir) -> i64 {
    weir.number("select count(*) from request where source like 'live:%' and http_response_status_code = 200")
}

/// All rows of `logged` requests, and none that is not one.
fn agree(weir: &Weir, logged: i64) {
    wait_for("all requests have rows", PATIENCE, || (requests(weir) >= logged).then_some(()));
    wait_for("all slices are finished", PATIENCE, || {
        let arrived = "select coalesce(sum(arrivals), 0) from wire_slice";
        (weir.number(arrived) >= logged).then_some(())
    });
    super::harness::pause(Duration::from_secs(1));
    assert_eq!(requests(weir), logged, "one row a request");
    let slices = weir.rows(
        "select sum(arrivals), sum(completions), sum(tap_drops),
           cast(max(sampled_ratio) as bigint), cast(min(sampled_ratio) as bigint)
         from wire_slice",
    );
    assert_eq!(slices[0], [logged, logged, 0, 1, 1].map(Value::from), "slices count the same");
    let details = weir.number("select count(*) from wire_request where \"end\" = 'ok'");
    assert_eq!(details, logged);
}

#[test]
fn live_requests_are_those_of_the_visitors_and_of_the_log_in_both_families() {
    let _turn = ONE_AT_A_TIME.lock();
    let Some(scene) = LiveScene::set("live") else { return };
    let weir = scene.watch("veth");
    let mut asked = scene.load(&scene.visitors, "http://10.77.0.1:8080/item/7");
    asked += scene.load(&scene.visitors, "http://[fd77::1]:8080/six");
    let logged = scene.logged();
    // wrk leaves in the middle of its last requests.
    assert!((asked..=asked + 2 * CONNECTIONS).contains(&logged), "{asked} asked, {logged} logged");
    agree(&weir, logged);
    let paths = weir.rows(
        "select url_template, count(*) > 0, min(think_seconds) >= 0 from wire_request group by 1 order by 1",
    );
    assert_eq!(paths, vec![expected("/item/{id}"), expected("/six")]);
    let six = "select count(*) from request where client_address = 'fd77::2' and url_path = '/six'";
    assert!(weir.number(six) > 0);
    wait_for("connections that ended have rows", PATIENCE, || {
        (weir.number("select count(*) from tcp_conn where client_syns > 0") >= 2 * CONNECTIONS)
            .then_some(())
    });
    assert_eq!(weir.terminate(), Some(0));
}

fn expected(name: &str) -> Vec<Value> {
    vec![Value::from(name), true.into(), true.into()]
}

#[test]
fn loopback_is_counted_once() {
    let _turn = ONE_AT_A_TIME.lock();
    let Some(scene) = LiveScene::set("live-lo") else { return };
    let weir = scene.watch("lo");
    scene.load(&scene.server, "http://127.0.0.1:8080/");
    agree(&weir, scene.logged());
}

/// The tap stalls under load until its ring is full: the affected slices report it, and have no
/// verdict.
#[test]
fn slices_with_losses_say_so_and_give_no_verdict() {
    let _turn = ONE_AT_A_TIME.lock();
    let Some(scene) = LiveScene::set("live-lost") else { return };
    let weir = scene.watch_with("lo", 2 << 20);
    let id = i32::try_from(weir.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(id, Signal::STOP).expect("it runs");
    scene.load(&scene.server, "http://127.0.0.1:8080/");
    kill_process(id, Signal::CONT).expect("it runs");
    let lost = "select count(*) from wire_slice where tap_drops > 0";
    wait_for("the loss is in a slice", PATIENCE, || (weir.number(lost) > 0).then_some(()));
    // A slice in which no request ended has no verdict at all.
    let unsure = format!("{lost} and is_lossy and coalesce(verdict, 'unknown') = 'unknown'");
    assert_eq!(weir.number(&unsure), weir.number(lost));
    let judged = "select count(*) from wire_slice where is_lossy and verdict <> 'unknown'";
    assert_eq!(weir.number(judged), 0);
}

#[test]
fn a_person_sees_what_passes_now() {
    let _turn = ONE_AT_A_TIME.lock();
    let Some(scene) = LiveScene::set("live-once") else { return };
    let place = format!("{}/lo", scene.server.name);
    let watching = Command::new(WEIR)
        .args(["wire", "-i", &place, "--for", "6s", "--port", "8080", "--format", "json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("weir can be started");
    wait_for("the tap is open", PATIENCE, || {
        let open =
            scene.server.command("ss").args(["-H", "-0"]).output().expect("iproute2 is there");
        text(&open.stdout).contains(":lo").then_some(())
    });
    scene.load(&scene.server, "http://127.0.0.1:8080/now");
    let logged = scene.logged();
    let output = watching.wait_with_output().expect("it was started");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(answer["tiers"][0]["requests"], logged, "{answer}");
    assert_eq!(answer["tap_drops"], 0);
}

#[test]
fn a_burst_is_a_file_that_others_read_and_holds_no_payload_unless_asked() {
    let _turn = ONE_AT_A_TIME.lock();
    let Some(scene) = LiveScene::set("burst") else { return };
    let place = format!("{}/lo", scene.server.name);
    for is_payload in [false, true] {
        let file = scene.dir.path().join(format!("{is_payload}.pcapng"));
        let mut command = Command::new(WEIR);
        command.args(["capture", "4s", "-i", &place, "--port", "8080", "--out"]).arg(&file);
        command.args(is_payload.then_some("--payload")).stdout(Stdio::piped());
        let capturing = command.spawn().expect("weir can be started");
        wait_for("the tap is open", PATIENCE, || {
            let open = scene.server.command("ss").args(["-H", "-0"]).output().expect("iproute2");
            text(&open.stdout).contains(":lo").then_some(())
        });
        let curl = ["-s", "-H", "Cookie: secret", "http://127.0.0.1:8080/private"];
        scene.server.command("curl").args(curl).output().expect("curl can be started");
        let said = text(&capturing.wait_with_output().expect("it was started").stdout);
        let packets: usize = said.split(' ').next().and_then(|n| n.parse().ok()).expect("a count");
        assert!(packets >= 8, "{said}");
        let bytes = std::fs::read(&file).expect("it was written");
        let holds = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
        assert_eq!(holds(b"secret"), is_payload);
        let mode = std::fs::metadata(&file).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "nobody else reads it");
        let path = file.to_str().expect("text");
        let dump = Command::new("tcpdump").args(["-nn", "-r", path]).output().expect("tcpdump");
        assert_eq!(text(&dump.stdout).lines().count(), packets, "{}", text(&dump.stderr));
        let fields = ["-n", "-r", path, "-T", "fields", "-e", "frame.interface_name"];
        let shark = Command::new("tshark").args(fields).output().expect("tshark");
        let names = text(&shark.stdout);
        assert!(names.lines().count() == packets && names.lines().all(|name| name == "lo"));
        let wire = super::harness::weir(&["wire", path, "--format", "json"]);
        let answer: Value = serde_json::from_slice(&wire.stdout).expect("an object");
        assert_eq!((&answer["tiers"][0]["requests"], &answer["tap_drops"]), (&1.into(), &0.into()));
        let again = super::harness::weir(&["capture", "1s", "-i", "lo", "--out", path]);
        assert!(text(&again.stderr).contains("--out"), "what exists is not written over");
    }
}

/// Forty clients that all send at once, then pause, repeatedly until the end; their connections
/// stay.
fn bursts(netns: &Netns, is_ended: &Arc<AtomicBool>) -> JoinHandle<()> {
    let is_ended = Arc::clone(is_ended);
    netns.spawn(move || {
        let mut visitors: Vec<TcpStream> =
            (0..40).map(|_| TcpStream::connect("127.0.0.1:8080").expect("nginx listens")).collect();
        let mut answer = [0; 4096];
        while !is_ended.load(Ordering::Relaxed) {
            for visitor in &mut visitors {
                visitor.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is open");
            }
            for visitor in &mut visitors {
                // The answer is one segment.
                assert!(visitor.read(&mut answer).expect("nginx answers") > 0);
            }
            super::harness::pause(Duration::from_secs(1));
        }
    })
}

/// The command that a finding names makes a file that shows the same, although its connections are
/// older than the file and it holds headers only.
#[test]
fn a_finding_names_the_command_whose_file_proves_it() {
    let _turn = ONE_AT_A_TIME.lock();
    let Some(scene) = LiveScene::set("live-jag") else { return };
    let weir = scene.watch("lo");
    let is_ended = Arc::new(AtomicBool::new(false));
    let visitors = bursts(&scene.server, &is_ended);
    let finding = wait_for("wire.jagged_arrivals", PATIENCE, || {
        let open = weir.findings("wire.jagged_arrivals").into_iter();
        open.into_iter().find(|finding| finding["state"] == "firing")
    });
    assert_eq!(finding["subject"], "the senders before port 8080 of testhost");
    let id = finding["finding_id"].as_str().expect("it has one");
    let whole = weir.get(&format!("/api/findings/{id}"));
    let look_at = whole["look_at"].as_str().expect("text");
    let command = look_at.split('`').find(|part| part.starts_with("weir capture"));
    assert_eq!(command, Some("weir capture 10s --port 8080"), "{look_at}");
    let file = scene.dir.path().join("proof.pcapng");
    let path = file.to_str().expect("text");
    let place = format!("{}/lo", scene.server.name);
    let args = ["capture", "10s", "--port", "8080", "-i", &place, "--out", path];
    let output = super::harness::weir(&args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    is_ended.store(true, Ordering::Relaxed);
    visitors.join().expect("no visitor failed");
    let wire = super::harness::weir(&["wire", path, "--slice", "100ms", "--format", "json"]);
    let answer: Value = serde_json::from_slice(&wire.stdout).expect("an object");
    assert_eq!(answer["verdict"], "sender_bursts", "{}", answer["why"]);
}

#[test]
fn a_capability_is_enough_and_its_lack_is_named() {
    let _turn = ONE_AT_A_TIME.lock();
    let Some(scene) = LiveScene::set("live-cap") else { return };
    // The build directory is not readable for other users.
    let program = scene.dir.path().join("weir");
    std::fs::copy(WEIR, &program).expect("there is room");
    let run = |capability: &str, out: &str| {
        let mut command = scene.server.command("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        command.args(["--inh-caps", capability, "--ambient-caps", capability]).arg(&program);
        command.args(["capture", "200ms", "-i", "lo", "--out"]).arg(scene.dir.path().join(out));
        command.output().expect("setpriv can be started")
    };
    let refused = run("-all", "no.pcapng");
    let said = text(&refused.stderr);
    assert!(!refused.status.success());
    assert!(said.contains("cannot capture on `lo`"), "{said}");
    assert!(
        said.contains("setcap cap_net_raw+ep") && said.contains("AmbientCapabilities"),
        "{said}"
    );
    let allowed = run("-all,+net_raw", "yes.pcapng");
    assert!(allowed.status.success(), "{}", text(&allowed.stderr));
    assert!(scene.dir.path().join("yes.pcapng").exists());
}

#[test]
fn an_interface_that_is_not_there_is_named_with_those_that_are() {
    let _turn = ONE_AT_A_TIME.lock();
    if !can_run("live-none", "root", is_root()) {
        return;
    }
    let output = super::harness::weir(&["wire", "-i", "nosuch0", "--for", "1s"]);
    let said = text(&output.stderr);
    assert!(
        said.contains("`nosuch0`: there is no such interface") && said.contains("lo"),
        "{said}"
    );
}
