//! Real traffic: a client, a tunnel that can be stopped, nginx, an application, and tcpdump on the
//! edge, each in its own network namespace. The client's records are the truth.
//!
//! ```text
//! client ──tun0── socat ═ UDP over veth ═ socat ──tun0── edge (nginx :80, tcpdump -i any)
//!                  └ SIGSTOP: the network holds packets, before the tap   └─veth── upstream (:8080)
//! ```

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use weir_wire::{Capture, CaptureInput, DelayVerdict, Model, ModelOptions, Report};

/// How long a program may take to start or stop on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);
const EDGE: &str = "198.18.9.1:80";
const UPSTREAM: &str = "198.18.2.2:8080";

#[expect(clippy::disallowed_methods, reason = "paces a loop; nothing is assumed to have happened")]
fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// Polls until there is a result.
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        pause(Duration::from_millis(20));
    }
}

/// A child process, terminated on drop, by SIGTERM so that nginx stops its workers.
struct ChildProgram(Child);

impl ChildProgram {
    fn start(netns: &str, args: &[&str]) -> Self {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", netns]).args(args).stdin(Stdio::null());
        Self(command.stderr(Stdio::null()).spawn().expect("iproute2 is there"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
    }
}

impl Drop for ChildProgram {
    fn drop(&mut self) {
        for signal in [Signal::CONT, Signal::TERM] {
            let _ = kill_process(Pid::from_child(&self.0), signal);
        }
        let _ = self.0.wait();
    }
}

/// Namespaces `client`, `edge` and `upstream` with their programs; removed on drop.
struct Lab {
    dir: tempfile::TempDir,
    prefix: String,
    programs: Vec<ChildProgram>,
    /// The client's end of the tunnel.
    tunnel: usize,
    is_over: Arc<AtomicBool>,
    servers: Vec<JoinHandle<()>>,
}

/// `None` when this machine cannot; with `WEIR_REQUIRE_ALL=1` that fails.
fn lab(name: &str) -> Option<Lab> {
    let is_root = rustix::process::geteuid().is_root();
    let programs = ["ip", "socat", "tcpdump", "nginx"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
    let missing =
        programs.iter().find(|program| !dirs.iter().any(|dir| dir.join(program).is_file()));
    if is_root && missing.is_none() && Path::new("/dev/net/tun").exists() {
        return Some(Lab::new(name));
    }
    let is_required = std::env::var("WEIR_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(!is_required, "the lab needs root, /dev/net/tun and {programs:?}");
    println!("skipped: the lab needs root, /dev/net/tun and {programs:?} (cargo xtask setup)");
    None
}

fn ip(args: &str) {
    let status = Command::new("ip").args(args.split(' ')).status().expect("iproute2 is there");
    assert!(status.success(), "ip {args}");
}

impl Lab {
    fn new(name: &str) -> Self {
        let prefix = format!("wl-{name}-{}-", std::process::id());
        let lab = Self {
            dir: tempfile::tempdir().expect("a directory"),
            prefix,
            programs: Vec::new(),
            tunnel: 0,
            is_over: Arc::default(),
            servers: Vec::new(),
        };
        let [client, edge, upstream] = ["client", "edge", "upstream"].map(|role| lab.netns(role));
        for netns in [&client, &edge, &upstream] {
            ip(&format!("netns add {netns}"));
            ip(&format!("-n {netns} link set lo up"));
        }
        for (left, left_ip, right, right_ip) in [
            (&client, "198.18.1.2/24", &edge, "198.18.1.1/24"),
            (&upstream, "198.18.2.2/24", &edge, "198.18.2.1/24"),
        ] {
            let names = if left == &client { ("out0", "cli0") } else { ("edge0", "app0") };
            ip(&format!(
                "link add {} netns {left} type veth peer name {} netns {right}",
                names.0, names.1
            ));
            for (netns, device, address) in [(left, names.0, left_ip), (right, names.1, right_ip)] {
                ip(&format!("-n {netns} addr add {address} dev {device}"));
                ip(&format!("-n {netns} link set {device} up"));
            }
        }
        lab.with_tunnel([&client, &edge])
    }

    fn with_tunnel(mut self, [client, edge]: [&str; 2]) -> Self {
        // Unconnected sockets: a missing peer is no error.
        let udp = |to: &str, from: &str| format!("UDP4-DATAGRAM:{to}:5000,bind={from}:5000");
        let tun = |own: &str| format!("TUN:{own}/24,tun-name=tun0,iff-no-pi,iff-up");
        let (near, far) = ("198.18.1.2", "198.18.1.1");
        let edges = ["socat", &udp(near, far), &tun("198.18.9.1")];
        self.programs.push(ChildProgram::start(edge, &edges));
        let clients = ["socat", &udp(far, near), &tun("198.18.9.2")];
        self.programs.push(ChildProgram::start(client, &clients));
        self.tunnel = 1;
        self
    }

    fn netns(&self, role: &str) -> String {
        format!("{}{role}", self.prefix)
    }

    /// Runs `work` on a thread in the namespace.
    fn spawn<T: Send + 'static>(
        &self,
        role: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let file = File::open(format!("/run/netns/{}", self.netns(role))).expect("it was made");
        std::thread::spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root may enter it");
            work()
        })
    }

    /// nginx that proxies everything over pooled connections.
    fn nginx(&mut self) {
        let dir = self.dir.path().display().to_string();
        let config = format!(
            "daemon off;\nworker_processes 1;\npid {dir}/pid;\nerror_log {dir}/error.log;\n\
             events {{ worker_connections 1024; }}\n\
             http {{\n  access_log off;\n  client_body_temp_path {dir}/b;\n  proxy_temp_path {dir}/p;\n  \
             fastcgi_temp_path {dir}/f;\n  uwsgi_temp_path {dir}/u;\n  scgi_temp_path {dir}/s;\n  \
             upstream app {{ server {UPSTREAM}; keepalive 64; }}\n  \
             server {{ listen {EDGE}; location / {{ proxy_pass http://app; proxy_http_version 1.1; \
             proxy_set_header Connection \"\"; }} }}\n}}\n"
        );
        let path = format!("{dir}/nginx.conf");
        std::fs::write(&path, config).expect("it can be written");
        let error_log = format!("{dir}/error.log");
        let args = ["nginx", "-c", &path, "-p", &dir, "-e", &error_log];
        self.programs.push(ChildProgram::start(&self.netns("edge"), &args));
    }

    /// An application that answers with 1,000 bytes; accepts nothing while `is_stalled`.
    fn application(
        &mut self,
        role: &str,
        address: SocketAddr,
        backlog: i32,
        behavior: AppBehavior,
    ) -> Arc<AtomicUsize> {
        let served = Arc::new(AtomicUsize::new(0));
        let (is_over, count) = (Arc::clone(&self.is_over), Arc::clone(&served));
        let server = self.spawn(role, move || {
            let listener = wait_for("an address to listen on", || listener(address, backlog));
            while !is_over.load(Ordering::Relaxed) {
                if behavior.is_stalled.load(Ordering::Relaxed) {
                    pause(Duration::from_millis(5));
                } else if let Ok((stream, _)) = listener.accept() {
                    let (behavior, count) = (behavior.clone(), Arc::clone(&count));
                    std::thread::spawn(move || serve(stream, &behavior, &count));
                }
            }
        });
        self.servers.push(server);
        served
    }

    /// tcpdump on every device of the edge, unbuffered.
    fn tap(&mut self) -> PathBuf {
        let file = self.dir.path().join("capture");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.netns("edge"), "tcpdump", "-i", "any", "-s", "200"]);
        command.args(["-U", "--immediate-mode", "-Z", "root", "-w"]).arg(&file).arg("tcp");
        let mut child =
            command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("iproute2 is there");
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut lines = stderr.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("listening on")), "tcpdump did not start");
        // Drain its final messages.
        std::thread::spawn(move || lines.for_each(drop));
        self.programs.push(ChildProgram(child));
        file
    }

    /// weir's report, once the request for `/last` is in the file.
    fn report(&self, file: &Path) -> Report {
        wait_for("the last request", || {
            let bytes = std::fs::read(file).ok()?;
            memchr::memmem::find(&bytes, b"GET /last ").map(drop)
        });
        // Its response passed before the client had it; the kernel writes what it still holds
        // within this time.
        let mut before = 0;
        wait_for("the end of the capture", || {
            let size = std::fs::metadata(file).ok()?.len();
            pause(Duration::from_millis(200));
            let is_same = size == before;
            before = size;
            is_same.then_some(())
        });
        let mut model = Model::new(ModelOptions::default(), None);
        let mut capture =
            Capture::new(CaptureInput::open(file).expect("it is there")).expect("it is a capture");
        while capture.step(&mut |packet| model.packet(packet)).expect("it can be read") {}
        model.report()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.servers.drain(..).for_each(|server| drop(server.join()));
        self.programs.clear();
        for role in ["client", "edge", "upstream"] {
            let _ = Command::new("ip").args(["netns", "delete", &self.netns(role)]).status();
        }
    }
}

#[derive(Clone, Default)]
struct AppBehavior {
    is_stalled: Arc<AtomicBool>,
    /// `/slow` takes 600 ms instead of 5.
    is_slow: Arc<AtomicBool>,
}

fn listener(address: SocketAddr, backlog: i32) -> Option<TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
    let fd: OwnedFd =
        socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .expect("a socket");
    sockopt::set_socket_reuseaddr(&fd, true).expect("an option");
    bind(&fd, &address).ok()?;
    listen(&fd, backlog).expect("it is bound");
    let tenth = Some(Duration::from_millis(100));
    sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, tenth).expect("an option");
    Some(TcpListener::from(fd))
}

fn serve(mut stream: TcpStream, behavior: &AppBehavior, count: &AtomicUsize) {
    let _ = stream.set_nodelay(true);
    // The listener's timeout is inherited, and would close kept connections after a tenth of a
    // second, perhaps under a request.
    stream.set_read_timeout(None).expect("an option");
    let answer =
        [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".as_slice(), &[b'z'; 1000]].concat();
    let (mut held, mut part) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(end) = memchr::memmem::find(&held, b"\r\n\r\n") {
            let is_slow =
                held.starts_with(b"GET /slow") && behavior.is_slow.load(Ordering::Relaxed);
            pause(Duration::from_millis(if is_slow { 600 } else { 5 }));
            count.fetch_add(1, Ordering::Relaxed);
            if stream.write_all(&answer).is_err() {
                return;
            }
            held.drain(..end + 4);
        }
        match stream.read(&mut part) {
            Ok(length) if length > 0 => held.extend_from_slice(&part[..length]),
            _ => return,
        }
    }
}

#[derive(Clone, Copy)]
struct ClientLoad {
    /// Milliseconds after the start at which request `n` is due.
    due: fn(u64) -> u64,
    count: u64,
    /// Whether each request opens a connection.
    is_once: bool,
}

/// Sends requests without waiting for responses; returns how long each took, sorted.
fn ask(lab: &Lab, load: ClientLoad) -> Vec<Duration> {
    let (next, took) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let begin = Instant::now();
    let workers: Vec<JoinHandle<()>> = (0..64)
        .map(|_| {
            let (next, took) = (Arc::clone(&next), Arc::clone(&took));
            lab.spawn("client", move || {
                let mut stream = None;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed) as u64;
                    if number >= load.count {
                        return;
                    }
                    let due = begin + Duration::from_millis((load.due)(number));
                    pause(due.saturating_duration_since(Instant::now()));
                    let path = if number.is_multiple_of(3) { "/slow" } else { "/quick" };
                    let span = get(&mut stream, path, load.is_once);
                    took.lock().expect("no panic").push(span);
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().expect("every request is answered"));
    let mut took = took.lock().expect("no panic").clone();
    took.sort_unstable();
    took
}

/// Sends one request over the kept connection, or over a new one; returns how long it took without
/// connecting.
fn get(kept: &mut Option<TcpStream>, path: &str, is_once: bool) -> Duration {
    let mut stream = kept.take().unwrap_or_else(|| {
        let stream = TcpStream::connect(EDGE).expect("it listens");
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(PATIENCE)).expect("an option");
        stream
    });
    let begin = Instant::now();
    let request = format!("GET {path} HTTP/1.1\r\nHost: shop.example\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is open");
    let (mut answer, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let head = memchr::memmem::find(&answer, b"\r\n\r\n");
        if head.is_some_and(|head| answer.len() >= head + 4 + 1000) {
            break;
        }
        let length = stream.read(&mut part).expect("it is answered");
        assert!(length > 0, "closed before the answer: {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&part[..length]);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    let span = begin.elapsed();
    *kept = Some(stream).filter(|_| !is_once);
    span
}

fn warm(lab: &Lab) {
    let ready = lab.spawn("client", || {
        wait_for("the edge", || {
            let address = EDGE.parse().expect("an address");
            TcpStream::connect_timeout(&address, Duration::from_millis(500)).ok().map(drop)
        });
    });
    ready.join().expect("the edge answers");
}

fn last(lab: &Lab) {
    lab.spawn("client", || get(&mut None, "/last", true)).join().expect("it is answered");
}

fn tier(report: &Report, port: u16) -> &weir_wire::TierReport {
    report.tiers.iter().find(|tier| tier.port == port).expect("it is asked")
}

/// nginx, the application behind it, and the tap.
fn chain(lab: &mut Lab, behavior: &AppBehavior) -> (PathBuf, Arc<AtomicUsize>) {
    let served =
        lab.application("upstream", UPSTREAM.parse().expect("an address"), 511, behavior.clone());
    for role in ["edge", "client"] {
        let netns = lab.netns(role);
        wait_for("the tunnel", || {
            let shown = Command::new("ip").args(["-n", &netns, "addr", "show", "tun0"]).output();
            String::from_utf8_lossy(&shown.ok()?.stdout).contains("198.18.9.").then_some(())
        });
    }
    lab.nginx();
    warm(lab);
    (lab.tap(), served)
}

fn steady(number: u64) -> u64 {
    number * 10
}

#[test]
fn every_real_request_is_counted_at_both_tiers_and_timed() {
    let Some(mut lab) = lab("steady") else { return };
    let (file, served) = chain(&mut lab, &AppBehavior::default());
    let took = ask(&lab, ClientLoad { due: steady, count: 300, is_once: false });
    last(&lab);
    let report = lab.report(&file);
    for port in [80, 8080] {
        let tier = tier(&report, port);
        assert_eq!((tier.requests, tier.responses), (301, 301), "port {port}: {}", tier.why);
    }
    assert_eq!(served.load(Ordering::Relaxed), 301);
    let client = u64::try_from(took[took.len() / 2].as_micros()).expect("it is short");
    let tier = tier(&report, 80);
    let wire = tier.total.expect("they were answered").p50;
    let round_trip = tier.rtt.expect("there were round trips").p50;
    assert!(wire <= client + client / 50 && client <= wire + round_trip + 2000, "{wire} {client}");
}

#[test]
fn a_network_that_holds_packets_is_blamed() {
    let Some(mut lab) = lab("hold") else { return };
    let (file, _) = chain(&mut lab, &AppBehavior::default());
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                pause(Duration::from_millis(500));
                lab.programs[lab.tunnel].signal(Signal::STOP);
                pause(Duration::from_millis(700));
                lab.programs[lab.tunnel].signal(Signal::CONT);
            }
        });
        ask(&lab, ClientLoad { due: steady, count: 450, is_once: false });
        is_done.store(true, Ordering::Relaxed);
    });
    last(&lab);
    let report = lab.report(&file);
    assert_eq!(tier(&report, 80).requests, 451);
    assert_eq!(report.verdict, DelayVerdict::UpstreamNetworkJitter, "{}", report.why);
}

#[test]
fn senders_that_pause_are_blamed() {
    let Some(mut lab) = lab("bursts") else { return };
    let (file, _) = chain(&mut lab, &AppBehavior::default());
    // A second of silence, then 120 requests within 60 ms.
    let due = |number: u64| (number / 120 + 1) * 1000 + number % 120 / 2;
    ask(&lab, ClientLoad { due, count: 480, is_once: false });
    last(&lab);
    let report = lab.report(&file);
    assert_eq!(tier(&report, 80).requests, 481);
    assert_eq!(report.verdict, DelayVerdict::SenderBursts, "{}", report.why);
}

#[test]
fn an_application_that_becomes_slow_is_blamed() {
    let Some(mut lab) = lab("slow") else { return };
    let behavior = AppBehavior::default();
    let (file, _) = chain(&mut lab, &behavior);
    let is_slow = Arc::clone(&behavior.is_slow);
    let later = std::thread::spawn(move || {
        pause(Duration::from_millis(2500));
        is_slow.store(true, Ordering::Relaxed);
    });
    ask(&lab, ClientLoad { due: |number| number * 20, count: 250, is_once: false });
    later.join().expect("no panic");
    last(&lab);
    let report = lab.report(&file);
    assert_eq!(tier(&report, 80).requests, 251);
    assert_eq!(report.verdict, DelayVerdict::SlowApp, "{}", report.why);
}

#[test]
fn a_full_accept_queue_is_blamed() {
    let Some(mut lab) = lab("queue") else { return };
    let behavior = AppBehavior::default();
    lab.application("edge", EDGE.parse().expect("an address"), 4, behavior.clone());
    warm(&lab);
    let file = lab.tap();
    let stalled = Arc::clone(&behavior.is_stalled);
    let stall = std::thread::spawn(move || {
        pause(Duration::from_millis(1000));
        stalled.store(true, Ordering::Relaxed);
        pause(Duration::from_millis(1500));
        stalled.store(false, Ordering::Relaxed);
    });
    ask(&lab, ClientLoad { due: |number| number * 25, count: 160, is_once: true });
    stall.join().expect("no panic");
    last(&lab);
    let report = lab.report(&file);
    assert_eq!(tier(&report, 80).requests, 161);
    assert_eq!(report.verdict, DelayVerdict::AcceptQueue, "{}", report.why);
}
