//! A real S3 service, and a proxy to it that can cut, delay and answer 503.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::tool::within;

/// A Java virtual machine starts slowly beside running compilers.
pub(crate) const START_SECONDS: u64 = 120;

/// A service for one test; stopped on drop.
pub(crate) struct Service {
    child: Child,
    pub(crate) port: u16,
    dir: tempfile::TempDir,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns a free port below the ephemeral range, which no outgoing connection can take meanwhile.
pub(crate) fn free_port() -> u16 {
    const PORTS: std::ops::Range<u16> = 16_000..20_000;
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let start = u64::from(std::process::id()) * 61;
    loop {
        let offset = (start + NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS.len() as u64;
        let port = PORTS.start + u16::try_from(offset).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Access key and secret key of the service.
pub(crate) fn keys() -> (String, String) {
    ("weirweir".into(), "secretsecret".into())
}

impl Service {
    /// Starts MinIO if `WEIR_MINIO` names its program, else S3Proxy. `None`, with a loud message,
    /// without either.
    pub(crate) fn start() -> Option<Self> {
        let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
        let child = command(dir.path(), port)?.spawn().unwrap();
        Some(Self { child, port, dir })
    }

    pub(crate) fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Restarts the service with its data; returns when it accepts connections.
    pub(crate) async fn start_again(&mut self) {
        self.child = command(self.dir.path(), self.port).expect("it was there").spawn().unwrap();
        within(START_SECONDS, async || TcpStream::connect(("127.0.0.1", self.port)).is_ok()).await;
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Waits until the service responds, and creates a bucket.
    pub(crate) async fn make_bucket(&self, name: &str) {
        let made = || {
            let mut line = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
            line.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
            line.write_all(put_bucket(name, self.port).as_bytes()).ok()?;
            let mut answer = [0; 12];
            line.read_exact(&mut answer).ok()?;
            (&answer[9..] == b"200").then_some(())
        };
        within(START_SECONDS, async || made().is_some()).await;
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test has to be seen")]
fn command(dir: &Path, port: u16) -> Option<Command> {
    let (user, secret) = keys();
    let address = format!("127.0.0.1:{port}");
    let libs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("s3/libs");
    let mut command = match std::env::var_os("WEIR_MINIO") {
        Some(minio) => {
            let mut command = Command::new(minio);
            command.args(["server", "--quiet", "--address", &address]).arg(dir.join("objects"));
            command.env("MINIO_ROOT_USER", user).env("MINIO_ROOT_PASSWORD", secret);
            command
        }
        None if libs.is_dir() => {
            let objects = dir.join("objects");
            std::fs::create_dir_all(&objects).unwrap();
            let settings = dir.join("s3proxy.conf");
            // It does not support the checksums of a delete request.
            let text = format!(
                "s3proxy.endpoint=http://{address}\ns3proxy.authorization=aws-v2-or-v4\n\
                 s3proxy.ignore-unknown-headers=true\n\
                 s3proxy.identity={user}\ns3proxy.credential={secret}\n\
                 jclouds.provider=filesystem\njclouds.identity=x\njclouds.credential=x\n\
                 jclouds.filesystem.basedir={}\n",
                objects.display()
            );
            std::fs::write(&settings, text).unwrap();
            let mut command = Command::new("java");
            command.args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp"]);
            command.arg(format!("{}/*", libs.display()));
            command.args(["org.gaul.s3proxy.Main", "--properties"]).arg(settings);
            command
        }
        None => {
            let is_required = std::env::var("WEIR_REQUIRE_ALL").is_ok_and(|value| value == "1");
            assert!(!is_required, "buckets need S3Proxy");
            eprintln!("skipped: buckets need S3Proxy (cargo xtask setup)");
            return None;
        }
    };
    command.env("TMPDIR", dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Some(command)
}

/// A signed request that creates a bucket (AWS Signature Version 4).
fn put_bucket(name: &str, port: u16) -> String {
    use ring::digest;
    let empty = hex(digest::digest(&digest::SHA256, b"").as_ref());
    let now = String::from_utf8(
        Command::new("date").args(["-u", "+%Y%m%dT%H%M%SZ"]).output().unwrap().stdout,
    );
    let now = now.unwrap().trim().to_owned();
    let (day, host) = (&now[..8], format!("127.0.0.1:{port}"));
    let headers = "host;x-amz-content-sha256;x-amz-date";
    let request = format!(
        "PUT\n/{name}\n\nhost:{host}\nx-amz-content-sha256:{empty}\nx-amz-date:{now}\n\n{headers}\n{empty}"
    );
    let scope = format!("{day}/us-east-1/s3/aws4_request");
    let digest = hex(digest::digest(&digest::SHA256, request.as_bytes()).as_ref());
    let text = format!("AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}");
    let (user, password) = keys();
    let first = sign(format!("AWS4{password}").as_bytes(), day);
    let key = ["us-east-1", "s3", "aws4_request"].iter().fold(first, |key, part| sign(&key, part));
    let signature = hex(&sign(&key, &text));
    format!(
        "PUT /{name} HTTP/1.1\r\nHost: {host}\r\nx-amz-date: {now}\r\nx-amz-content-sha256: {empty}\r\n\
         Authorization: AWS4-HMAC-SHA256 Credential={user}/{scope}, SignedHeaders={headers}, Signature={signature}\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n"
    )
}

fn sign(key: &[u8], text: &str) -> Vec<u8> {
    ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key), text.as_bytes())
        .as_ref()
        .to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
}

/// Behaviour of the proxy on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Pass,
    /// Resets connections, as when the service is killed.
    Cut,
    /// Answers every request with 503.
    Busy,
    /// Answers every third request with 503, and delays every response.
    Shaky,
    /// Delays every response by 120 ms, as from far away.
    Slow,
}

/// A proxy to the service, with one request per connection.
pub(crate) struct Line {
    pub(crate) port: u16,
    shared: Arc<LineState>,
}

struct LineState {
    service: u16,
    mode: Mutex<Mode>,
    open: Mutex<Vec<TcpStream>>,
    requests: AtomicU64,
    gets: AtomicU64,
}

impl Line {
    pub(crate) fn to(service: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::new(LineState {
            service,
            mode: Mutex::new(Mode::Pass),
            open: Mutex::default(),
            requests: AtomicU64::new(0),
            gets: AtomicU64::new(0),
        });
        let (port, line) = (listener.local_addr().unwrap().port(), Arc::clone(&shared));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                line.open.lock().unwrap().push(client.try_clone().unwrap());
                let line = Arc::clone(&line);
                std::thread::spawn(move || drop(line.carry(client)));
            }
        });
        Self { port, shared }
    }

    /// Sets the behaviour from now on; open connections break.
    pub(crate) fn set(&self, mode: Mode) {
        *self.shared.mode.lock().unwrap() = mode;
        for line in self.shared.open.lock().unwrap().drain(..) {
            drop(line.shutdown(Shutdown::Both));
        }
    }

    /// Number of requests.
    pub(crate) fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// Number of requests that read data files.
    pub(crate) fn gets(&self) -> u64 {
        self.shared.gets.load(Ordering::SeqCst)
    }
}

impl LineState {
    fn carry(&self, mut client: TcpStream) -> std::io::Result<()> {
        let head = head(&mut client)?;
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        if head.starts_with(b"GET") && names_data(&head) {
            self.gets.fetch_add(1, Ordering::SeqCst);
        }
        let mode = *self.mode.lock().unwrap();
        match mode {
            Mode::Cut => return client.shutdown(Shutdown::Both),
            Mode::Busy => return refuse(client),
            Mode::Shaky if number.is_multiple_of(3) => return refuse(client),
            Mode::Shaky => std::thread::park_timeout(Duration::from_millis(60)),
            Mode::Slow => std::thread::park_timeout(Duration::from_millis(120)),
            Mode::Pass => {}
        }
        let mut server = TcpStream::connect(("127.0.0.1", self.service))?;
        let end = head.len() - 2;
        server.write_all(&head[..end])?;
        server.write_all(b"Connection: close\r\n\r\n")?;
        let (mut there, mut back) = (client.try_clone()?, server.try_clone()?);
        let answers = std::thread::spawn(move || {
            drop(std::io::copy(&mut back, &mut client));
            client.shutdown(Shutdown::Both)
        });
        drop(std::io::copy(&mut there, &mut server));
        server.shutdown(Shutdown::Both)?;
        drop(answers.join());
        Ok(())
    }
}

/// Whether the request line names a data file and not the tier's marker, which is polled.
fn names_data(head: &[u8]) -> bool {
    let end = head.iter().position(|byte| *byte == b'\r').unwrap_or(head.len());
    String::from_utf8_lossy(&head[..end]).contains(".parquet")
}

/// Reads the head of a request.
fn head(client: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(head)
}

fn refuse(mut client: TcpStream) -> std::io::Result<()> {
    let body =
        "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
    write!(
        client,
        "HTTP/1.1 503 Slow Down\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    client.shutdown(Shutdown::Write)?;
    // Drain the request: unread bytes would reset the response.
    std::io::copy(&mut client, &mut std::io::sink()).map(drop)
}
