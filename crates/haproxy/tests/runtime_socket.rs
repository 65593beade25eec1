//! Control of a real HAProxy over its runtime socket, with its errors.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weir_haproxy::{Haproxy, HaproxyChange, HaproxyOrder};

/// Longest wait for a program or an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// An address without listener.
fn unused_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound")
}

/// A server that answers each request with these bytes and closes the connection.
fn backend(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let _ = stream.set_read_timeout(Some(PATIENCE));
            let lines = BufReader::new(&stream).lines();
            let _ = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).count();
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

/// Waits until something listens there.
fn wait_for(address: SocketAddr) {
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < end, "HAProxy did not start");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

struct HaproxyProcess {
    child: Child,
    dir: tempfile::TempDir,
    front: SocketAddr,
    remote: SocketAddr,
}

impl HaproxyProcess {
    /// Starts it with two servers in `app`, one in `fixed`, and sockets of both levels.
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (front, remote) = (unused_address(), unused_address());
        let one = backend("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\none");
        let two = backend("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\ntwo");
        let here = dir.path().display();
        let config = format!(
            "global\n  stats socket {here}/admin.sock level admin\n  stats socket {here}/user.sock level user\n  \
             stats socket ipv4@{remote} level admin\n\
             defaults\n  mode http\n  timeout client 5s\n  timeout server 5s\n  timeout connect 5s\n\
             frontend front\n  bind {front}\n  default_backend app\n\
             backend app\n  balance roundrobin\n  server one {one} weight 10\n  server two {two} weight 10\n\
             backend fixed\n  balance source\n  server one {one}\n"
        );
        std::fs::write(dir.path().join("haproxy.cfg"), config).expect("room");
        let child = Command::new("/usr/sbin/haproxy")
            .args(["-db", "-f"])
            .arg(dir.path().join("haproxy.cfg"))
            .stderr(Stdio::null())
            .spawn()
            .expect("haproxy is installed by `cargo xtask test`");
        let process = Self { child, dir, front, remote };
        wait_for(front);
        process
    }

    fn socket(&self, name: &str) -> Haproxy {
        Haproxy::new(&path(self.dir.path(), name))
    }

    fn get(&self) -> String {
        let mut stream = TcpStream::connect(self.front).expect("a listener");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(request).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer.rsplit("\r\n").next().unwrap_or_default().to_owned()
    }

    fn answers(&self) -> Vec<String> {
        let mut all: Vec<String> = (0..8).map(|_| self.get()).collect();
        all.sort();
        all.dedup();
        all
    }
}

impl Drop for HaproxyProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn change_one(haproxy: &Haproxy, order: HaproxyOrder) -> HaproxyChange {
    haproxy.order("app/one", order).expect("HAProxy accepts it")
}

fn error_of(haproxy: &Haproxy, server: &str, order: HaproxyOrder) -> String {
    haproxy.order(server, order).expect_err("an error").to_string()
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

#[test]
fn drain_weight_and_maintenance_change_where_requests_go() {
    let process = HaproxyProcess::start();
    let haproxy = process.socket("admin.sock");
    let servers = haproxy.servers().expect("it answers");
    let names: Vec<_> =
        servers.iter().map(|one| format!("{}/{}", one.backend, one.server)).collect();
    assert_eq!(names, ["app/one", "app/two", "fixed/one"]);
    assert_eq!((servers[0].weight, &*servers[0].state), (10, "no check"));
    assert_eq!(process.answers(), ["one", "two"]);
    let change = change_one(&haproxy, HaproxyOrder::Drain);
    assert_eq!((&*change.before.state, &*change.after.state), ("no check", "DRAIN"));
    assert_eq!(process.answers(), ["two"]);
    assert_eq!(change_one(&haproxy, HaproxyOrder::Ready).after.state, "no check");
    assert_eq!(process.answers(), ["one", "two"]);
    let change = change_one(&haproxy, HaproxyOrder::Weight(3));
    assert_eq!(change.to_string(), "app/one: no check weight 10 -> no check weight 3");
    assert_eq!(
        change_one(&haproxy, HaproxyOrder::Weight(3)).to_string(),
        "app/one: no check weight 3, unchanged"
    );
    assert_eq!(change_one(&haproxy, HaproxyOrder::Maint).after.state, "MAINT");
    assert_eq!(process.answers(), ["two"]);
    // The socket works over TCP too.
    let remote = Haproxy::new(&process.remote.to_string());
    assert_eq!(change_one(&remote, HaproxyOrder::Ready).after.state, "no check");
    let all = haproxy.servers().expect("it answers");
    assert!(all[0].sessions_total > 0 && all[1].sessions_total > all[0].sessions_total);
}

#[test]
fn errors_name_the_cause_and_a_hint() {
    let process = HaproxyProcess::start();
    let (admin, user) = (process.socket("admin.sock"), process.socket("user.sock"));
    assert_eq!(user.servers().expect("it may read").len(), 3);
    let drain = HaproxyOrder::Drain;
    let error = error_of(&user, "app/one", drain);
    assert!(
        error.contains("cannot change `app/one`") && error.contains("level admin` in haproxy.cfg"),
        "{error}"
    );
    let error = error_of(&admin, "app/onne", drain);
    assert!(
        error.contains("cannot find the server `app/onne`")
            && error.contains("did you mean `app/one`?"),
        "{error}"
    );
    let error = error_of(&admin, "app/one; shutdown sessions server app/two", drain);
    assert!(error.contains("cannot find the server"), "{error}");
    let error = error_of(&admin, "app/one", HaproxyOrder::Weight(257));
    assert!(error.contains("HAProxy accepts weights from 0 to 256"), "{error}");
    let error = error_of(&admin, "fixed/one", HaproxyOrder::Weight(7));
    assert!(
        error.contains("HAProxy responds: ") && error.contains("allows no other weight than 0"),
        "{error}"
    );
    let missing = process.socket("none.sock").servers().expect_err("no HAProxy").to_string();
    assert!(missing.contains("No such file") && missing.contains("stats socket"), "{missing}");
    let refused =
        Haproxy::new(&unused_address().to_string()).servers().expect_err("no HAProxy").to_string();
    assert!(refused.contains("nothing listens there"), "{refused}");
    let other = backend("HTTP/1.1 400 Bad Request\r\n\r\n");
    let wrong = Haproxy::new(&other.to_string()).servers().expect_err("no HAProxy").to_string();
    assert!(
        wrong.contains("it is not an HAProxy socket") || wrong.contains("within 5 s"),
        "{wrong}"
    );
}
