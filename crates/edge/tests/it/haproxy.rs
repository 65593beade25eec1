//! A real HAProxy driven over its runtime socket, and what it says when it will not be.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use weir_edge::{Haproxy, HaproxyOrder};

use crate::lab::{backend, connect, nobody, read_all, wait_until};

struct HaproxyProcess {
    child: Child,
    dir: tempfile::TempDir,
    front: std::net::SocketAddr,
    remote: std::net::SocketAddr,
}

impl HaproxyProcess {
    /// With two servers in `app`, one in `fixed`, and sockets of both levels.
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (front, remote) = (nobody(), nobody());
        let (one, two) = (backend(|asked| asked.ok("one")), backend(|asked| asked.ok("two")));
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
        let running = Self { child, dir, front, remote };
        wait_until("haproxy", || std::net::TcpStream::connect(front).is_ok());
        running
    }

    fn socket(&self, name: &str) -> Haproxy {
        Haproxy::new(&path(self.dir.path(), name))
    }

    fn get(&self) -> String {
        use std::io::Write;
        let mut stream = connect(self.front);
        let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(request).expect("it reads");
        let answer = read_all(&mut stream);
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

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

#[test]
fn servers_are_drained_weighed_taken_out_and_back_and_requests_follow() {
    let running = HaproxyProcess::start();
    let haproxy = running.socket("admin.sock");
    let servers = haproxy.servers().expect("it answers");
    let names: Vec<_> =
        servers.iter().map(|one| format!("{}/{}", one.backend, one.server)).collect();
    assert_eq!(names, ["app/one", "app/two", "fixed/one"]);
    assert_eq!((servers[0].weight, &*servers[0].state), (10, "no check"));
    assert_eq!(running.answers(), ["one", "two"]);
    let order = |order| haproxy.order("app/one", order).expect("it obeys");
    let change = order(HaproxyOrder::Drain);
    assert_eq!((&*change.before.state, &*change.after.state), ("no check", "DRAIN"));
    assert_eq!(running.answers(), ["two"]);
    assert_eq!(order(HaproxyOrder::Ready).after.state, "no check");
    assert_eq!(running.answers(), ["one", "two"]);
    let change = order(HaproxyOrder::Weight(3));
    assert_eq!(change.to_string(), "app/one: no check weight 10 -> no check weight 3");
    assert_eq!(order(HaproxyOrder::Weight(3)).to_string(), "app/one: no check weight 3, as it was");
    assert_eq!(order(HaproxyOrder::Maint).after.state, "MAINT");
    assert_eq!(running.answers(), ["two"]);
    // The same over TCP.
    let remote = Haproxy::new(&running.remote.to_string());
    assert_eq!(
        remote.order("app/one", HaproxyOrder::Ready).expect("it obeys").after.state,
        "no check"
    );
    let all = haproxy.servers().expect("it answers");
    assert!(all[0].sessions_total > 0 && all[1].sessions_total > all[0].sessions_total);
}

#[test]
fn what_cannot_be_done_says_why_and_what_to_do() {
    let running = HaproxyProcess::start();
    let (admin, user) = (running.socket("admin.sock"), running.socket("user.sock"));
    assert_eq!(user.servers().expect("it may look").len(), 3);
    let say = |result: Result<weir_edge::HaproxyChange, weir_edge::EdgeError>| {
        result.expect_err("it cannot").to_string()
    };
    let told = say(user.order("app/one", HaproxyOrder::Drain));
    assert!(
        told.contains("cannot change `app/one`") && told.contains("level admin` in haproxy.cfg"),
        "{told}"
    );
    let told = say(admin.order("app/onne", HaproxyOrder::Drain));
    assert!(
        told.contains("cannot find the server `app/onne`")
            && told.contains("did you mean `app/one`?"),
        "{told}"
    );
    let told = say(admin.order("app/one; shutdown sessions server app/two", HaproxyOrder::Drain));
    assert!(told.contains("cannot find the server"), "{told}");
    let told = say(admin.order("app/one", HaproxyOrder::Weight(257)));
    assert!(told.contains("HAProxy's weights go from 0 to 256"), "{told}");
    let told = say(admin.order("fixed/one", HaproxyOrder::Weight(7)));
    assert!(
        told.contains("HAProxy says: ") && told.contains("takes weights only at the start"),
        "{told}"
    );
    let missing = running.socket("none.sock").servers().expect_err("nobody").to_string();
    assert!(missing.contains("No such file") && missing.contains("stats socket"), "{missing}");
    let refused = Haproxy::new(&nobody().to_string()).servers().expect_err("nobody").to_string();
    assert!(refused.contains("nothing listens there"), "{refused}");
    let other = backend(|asked| {
        asked.answer("HTTP/1.1 400 Bad Request\r\n\r\n");
        false
    });
    let wrong = Haproxy::new(&other.to_string()).servers().expect_err("no HAProxy").to_string();
    assert!(wrong.contains("it is no HAProxy") || wrong.contains("within 5 s"), "{wrong}");
}
