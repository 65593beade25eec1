//! A network namespace for a test: servers, applications and clients in it are isolated.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::harness::pause;

/// A named namespace with `lo` up; deleted when dropped.
pub(crate) struct Netns {
    /// The namespace's name under /run/netns.
    pub(crate) name: String,
}

impl Netns {
    /// `None` when it cannot be made: not root, or no iproute2.
    pub(crate) fn make(purpose: &str) -> Option<Self> {
        let name = format!("weir-{purpose}-{}", std::process::id());
        if !has_run_ip(&["netns", "add", &name]) {
            return None;
        }
        let netns = Self { name };
        has_run_ip(&["-n", &netns.name, "link", "set", "lo", "up"]).then_some(netns)
    }

    /// Runs `work` on a thread inside the namespace.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let file = File::open(format!("/run/netns/{}", self.name)).expect("it was made");
        std::thread::spawn(move || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root may enter it");
            work()
        })
    }

    /// A pair of interfaces, `veth` on both sides, with addresses of both families: this side's,
    /// then the other's.
    pub(crate) fn join(&self, other: &Self, ours: [&str; 2], theirs: [&str; 2]) {
        let (one, two) = (&self.name, &other.name);
        ip(&["-n", one, "link", "add", "veth", "type", "veth", "peer", "veth", "netns", two]);
        for (name, addresses) in [(one, ours), (two, theirs)] {
            for address in addresses {
                let flag = address.contains(':').then_some("nodad");
                let add = ["-n", name, "address", "add", address, "dev", "veth"];
                ip(&add.into_iter().chain(flag).collect::<Vec<_>>());
            }
            ip(&["-n", name, "link", "set", "veth", "up"]);
        }
    }

    /// A command that runs inside the namespace.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }
}

fn has_run_ip(args: &[&str]) -> bool {
    let status = Command::new("ip").args(args).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn ip(args: &[&str]) {
    let status = Command::new("ip").args(args).status().expect("iproute2 is there");
    assert!(status.success(), "ip {args:?}");
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}

/// nginx in front of an application, in the foreground, with logs and configuration in `dir`.
pub(crate) struct Nginx(Child);

/// Directives of nginx's one server.
#[derive(Clone, Copy)]
pub(crate) struct NginxSite<'a> {
    pub(crate) listen: &'a str,
    pub(crate) locations: &'a str,
}

impl Nginx {
    /// Listens on 8080 and passes everything to 127.0.0.1:9001.
    pub(crate) fn start(netns: &Netns, dir: &Path) -> Self {
        let config = dir.join("nginx.conf");
        let text = format!(
            r#"daemon off;
worker_processes 1;
pid {dir}/nginx.pid;
error_log {dir}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  log_format timed escape=json '{{"@timestamp":"$time_iso8601","remote_addr":"$remote_addr",'
    '"request_method":"$request_method","uri":"$uri","status":"$status","bytes":"$bytes_sent",'
    '"request_time":"$request_time","upstream_addr":"$upstream_addr","upstream_status":"$upstream_status",'
    '"uct":"$upstream_connect_time","uht":"$upstream_header_time","urt":"$upstream_response_time"}}';
  server {{
    listen 8080 sndbuf=16k;
    server_name shop.example;
    access_log {dir}/access.log timed;
    location / {{
      proxy_pass http://127.0.0.1:9001;
      proxy_connect_timeout 2s;
      proxy_read_timeout 5s;
      proxy_buffers 64 16k;
    }}
  }}
}}
"#,
            dir = dir.display()
        );
        std::fs::write(&config, text).expect("it can be written");
        Self::run(netns, dir, &config)
    }

    /// Serves `site` by itself, where `listen` says; its log is `access.log`.
    pub(crate) fn serve(netns: &Netns, dir: &Path, site: NginxSite<'_>) -> Self {
        let config = dir.join("nginx.conf");
        let NginxSite { listen, locations } = site;
        let dir_name = dir.display();
        let text = format!(
            "daemon off; worker_processes 1; pid {dir_name}/nginx.pid; error_log {dir_name}/error.log;
             events {{ worker_connections 1024; }}
             http {{ access_log {dir_name}/access.log; keepalive_requests 1000000;
               client_body_temp_path {dir_name}/body; proxy_temp_path {dir_name}/proxy;
               fastcgi_temp_path {dir_name}/fastcgi; uwsgi_temp_path {dir_name}/uwsgi;
               scgi_temp_path {dir_name}/scgi;
               server {{ {listen} {locations} }} }}"
        );
        std::fs::write(&config, text).expect("it can be written");
        Self::run(netns, dir, &config)
    }

    fn run(netns: &Netns, dir: &Path, config: &Path) -> Self {
        let mut command = netns.command("nginx");
        command.arg("-c").arg(config).arg("-p").arg(dir).stdin(Stdio::null());
        Self(command.spawn().expect("nginx can be started"))
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The master ends its workers at SIGTERM; SIGKILL would leave them.
        let id = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

/// How the application behaves.
#[derive(Clone, Default)]
pub(crate) struct Manner {
    /// No connection is accepted while set.
    pub(crate) is_stalled: Arc<AtomicBool>,
    /// Milliseconds before the first byte of an answer.
    pub(crate) think_millis: Arc<AtomicU64>,
    /// Additional delay of requests below `/search`.
    pub(crate) search_millis: Arc<AtomicU64>,
    /// Bytes of an answer's body.
    pub(crate) body_bytes: Arc<AtomicU64>,
    /// Everything ends.
    pub(crate) is_ended: Arc<AtomicBool>,
}

/// A listening socket with a chosen backlog, which std does not offer.
fn listener(port: u16, backlog: i32) -> TcpListener {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};
    let fd: OwnedFd =
        socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .expect("a socket");
    sockopt::set_socket_reuseaddr(&fd, true).expect("an option");
    bind(&fd, &std::net::SocketAddr::from(([127, 0, 0, 1], port))).expect("the port is free");
    listen(&fd, backlog).expect("it is bound");
    TcpListener::from(fd)
}

/// The application on port 9001, a thread a connection.
pub(crate) fn application(netns: &Netns, backlog: i32, manner: &Manner) -> JoinHandle<()> {
    let manner = manner.clone();
    netns.spawn(move || {
        let listener = listener(9001, backlog);
        let tenth = Some(Duration::from_millis(100));
        rustix::net::sockopt::set_socket_timeout(
            &listener,
            rustix::net::sockopt::Timeout::Recv,
            tenth,
        )
        .expect("an option");
        while !manner.is_ended.load(Ordering::Relaxed) {
            if manner.is_stalled.load(Ordering::Relaxed) {
                pause(Duration::from_millis(20));
                continue;
            }
            if let Ok((stream, _)) = listener.accept() {
                let manner = manner.clone();
                std::thread::spawn(move || answer(stream, &manner));
            }
        }
    })
}

fn answer(mut stream: TcpStream, manner: &Manner) {
    let mut request = [0; 4096];
    if !matches!(stream.read(&mut request), Ok(length) if length > 0) {
        return;
    }
    let mut millis = manner.think_millis.load(Ordering::Relaxed);
    if request.starts_with(b"GET /search") {
        millis += manner.search_millis.load(Ordering::Relaxed);
    }
    pause(Duration::from_millis(millis));
    let length = usize::try_from(manner.body_bytes.load(Ordering::Relaxed)).expect("it is small");
    let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&vec![b'z'; length]));
}

/// How clients read responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadingPace {
    /// At once.
    Fast,
    /// 16 KiB every 120 ms through a small window.
    Slow,
}

/// Keeps visitors below a thousand requests a second: the fault is measured, not the machine.
const BETWEEN_VISITS: Duration = Duration::from_millis(50);

/// `count` clients that send requests to nginx repeatedly until the end.
pub(crate) fn visitors(
    netns: &Netns,
    count: usize,
    reading: ReadingPace,
    manner: &Manner,
) -> Vec<JoinHandle<()>> {
    (0..count)
        .map(|visitor| {
            // Each at its own pace: in step they would all connect at once and cause a fault.
            let between = BETWEEN_VISITS + Duration::from_millis(visitor as u64 * 7 % 100);
            let is_ended = Arc::clone(&manner.is_ended);
            netns.spawn(move || {
                while !is_ended.load(Ordering::Relaxed) {
                    let _ = visit(reading);
                    pause(between);
                }
            })
        })
        .collect()
}

/// `count` clients that connect to the application, or try to, and hold what they have until the
/// end.
/// Connections that wait; how many were made so far.
pub(crate) fn knocks(netns: &Netns, count: usize, manner: &Manner) -> Arc<AtomicUsize> {
    let connected = Arc::new(AtomicUsize::new(0));
    for _ in 0..count {
        let is_ended = Arc::clone(&manner.is_ended);
        let connected = Arc::clone(&connected);
        netns.spawn(move || {
            let address = std::net::SocketAddr::from(([127, 0, 0, 1], 9001));
            while !is_ended.load(Ordering::Relaxed) {
                let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5));
                connected.fetch_add(usize::from(stream.is_ok()), Ordering::Relaxed);
                while stream.is_ok() && !is_ended.load(Ordering::Relaxed) {
                    pause(BETWEEN_VISITS);
                }
                pause(BETWEEN_VISITS);
            }
        });
    }
    connected
}

fn visit(reading: ReadingPace) -> std::io::Result<()> {
    let mut stream = connect(reading)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET /page HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n")?;
    let mut part = vec![0; 16 << 10];
    loop {
        if stream.read(&mut part)? == 0 {
            return Ok(());
        }
        if reading == ReadingPace::Slow {
            pause(Duration::from_millis(120));
        }
    }
}

fn connect(reading: ReadingPace) -> std::io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
    let fd: OwnedFd =
        socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if reading == ReadingPace::Slow {
        sockopt::set_socket_recv_buffer_size(&fd, 16 << 10)?;
    }
    connect(&fd, &std::net::SocketAddr::from(([127, 0, 0, 1], 8080)))?;
    Ok(TcpStream::from(fd))
}
