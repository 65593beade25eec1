//! Starts weir on a free port with its own data directory, queries it, waits for results, and ends
//! it.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The program under test.
pub(crate) const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// How long a start may take on a loaded machine.
const START: Duration = Duration::from_secs(30);

/// A running weir; killed when dropped.
pub(crate) struct Weir {
    child: Child,
    /// The address of the page.
    pub(crate) url: String,
    /// The banner that it printed at start.
    pub(crate) greeting: String,
}

/// Arguments of `weir up` that watch nothing but what is named.
pub(crate) fn quiet(command: &mut Command) {
    command.env("WEIR_COLLECT_SAMPLE_HOST", "false").env("WEIR_COLLECT_FIND_LOGS", "false");
}

/// `weir ROLE --data DIR --listen 127.0.0.1:0`, with the environment of tests.
pub(crate) fn serve(role: &str, data: &Path) -> Command {
    let mut command = Command::new(WEIR);
    command.arg(role).arg("--data").arg(data).args(["--listen", "127.0.0.1:0"]);
    command.env("XDG_CONFIG_HOME", "/nonexistent").env("WEIR_COLLECT_HOST", "testhost");
    command
}

impl Weir {
    /// Starts the command and waits until it reports that it is up.
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("weir can be started");
        let stdout = child.stdout.take().expect("it is piped");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut greeting = String::new();
        let Ok(first) = lines.recv_timeout(START) else {
            let _ = child.kill();
            panic!("weir did not say that it is up");
        };
        let url = first
            .split_once("http://")
            .map(|(_, rest)| format!("http://{}", rest.trim_end_matches('/')))
            .unwrap_or_default();
        greeting += &first;
        while let Ok(line) = lines.recv_timeout(Duration::from_millis(50)) {
            greeting += &format!("\n{line}");
        }
        Self { child, url, greeting }
    }

    /// `kill -9`, and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was killed");
    }

    /// SIGTERM; the exit code.
    pub(crate) fn terminate(self) -> Option<i32> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it runs");
        self.wait()
    }

    /// Waits until it ends; the exit code.
    pub(crate) fn wait(mut self) -> Option<i32> {
        let end = Instant::now() + START;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                return status.code();
            }
            pause(Duration::from_millis(20));
        }
        panic!("weir did not end within {START:?}");
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The rows of a query.
    pub(crate) fn rows(&self, sql: &str) -> Vec<Vec<Value>> {
        try_rows(&self.url, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The first cell of the first row as a number.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        let rows = self.rows(sql);
        rows[0][0].as_i64().unwrap_or_else(|| panic!("{sql}: {:?} is no number", rows[0][0]))
    }

    /// `GET path` as JSON.
    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, _, body) = request(&self.url, "GET", path, &[], "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).expect("JSON")
    }

    /// Open findings of a rule.
    pub(crate) fn findings(&self, rule: &str) -> Vec<Value> {
        let all = self.get("/api/findings");
        let open = all["findings"].as_array().cloned().unwrap_or_default();
        open.into_iter().filter(|finding| finding["rule"] == rule).collect()
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A loopback address on which no process listens.
pub(crate) fn free_address() -> SocketAddr {
    weir_drill::free_address().expect("a free port")
}

/// The port of a free address.
pub(crate) fn free_port() -> u16 {
    free_address().port()
}

/// Another program; killed when dropped.
pub(crate) struct EndedProcess(pub(crate) Child);

impl Drop for EndedProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The rows of a query, or what went wrong.
pub(crate) fn try_rows(url: &str, sql: &str) -> Result<Vec<Vec<Value>>, String> {
    let body = serde_json::json!({"sql": sql, "limit": 100_000}).to_string();
    let headers = [("content-type", "application/json")];
    let (status, _, body) = request(url, "POST", "/api/sql", &headers, &body);
    if status != 200 {
        return Err(body);
    }
    let answer: Value = serde_json::from_str(&body).map_err(|error| error.to_string())?;
    let rows = answer["rows"].as_array().cloned().unwrap_or_default();
    Ok(rows.into_iter().map(|row| row.as_array().cloned().unwrap_or_default()).collect())
}

/// One HTTP request over its own connection: status, head, body. Status 0 when there was no answer.
pub(crate) fn request(
    url: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String, String) {
    let address = url.trim_start_matches("http://");
    let send = || -> std::io::Result<String> {
        use std::io::Write;
        let mut stream = std::net::TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head += &format!("host: {address}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("content-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(head.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let Ok(answer) = send() else { return (0, String::new(), String::new()) };
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    assert!(!is_chunked, "answers have a length");
    (status, head.to_owned(), body.to_owned())
}

/// Looks every 50 ms until there is an answer.
pub(crate) fn wait_for<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + within;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what}: not within {within:?}");
        pause(Duration::from_millis(50));
    }
}

/// A pause between two looks, or between two acts of a generator.
#[expect(clippy::disallowed_methods, reason = "paces a loop; nothing is assumed to have happened")]
pub(crate) fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// Runs weir to its end.
pub(crate) fn weir(args: &[&str]) -> Output {
    let mut command = Command::new(WEIR);
    command.args(args).env("XDG_CONFIG_HOME", "/nonexistent").stdin(Stdio::null());
    command.output().expect("weir can be started")
}

/// Text of a stream.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The sources of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it is there")
}

/// A number sequence from a seed, for tests whose course must replay.
pub(crate) struct SeededRandom(fastrand::Rng);

impl SeededRandom {
    /// From `WEIR_SEED`, else random; printed, so that a failure can be reproduced.
    pub(crate) fn new() -> Self {
        use std::hash::BuildHasher;
        let given = std::env::var("WEIR_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| std::hash::RandomState::new().hash_one(0));
        println!("seed: WEIR_SEED={seed}");
        Self::new_from(seed)
    }

    /// From another sequence.
    pub(crate) fn new_from(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A position or length below `end`.
    pub(crate) fn index(&mut self, end: usize) -> usize {
        self.0.usize(..end)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end)
    }
}

/// Whether a test that needs `what` may run; fails instead of skipping when `WEIR_REQUIRE_ALL=1`.
pub(crate) fn can_run(test: &str, what: &str, is_there: bool) -> bool {
    if is_there {
        return true;
    }
    let is_required = std::env::var("WEIR_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(!is_required, "{test} needs {what}");
    println!("skipped: {test} needs {what}");
    false
}

/// Whether tests run as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
