//! Hubs whose files move, and the bucket that those of one move to.

use std::fmt::Write;
use std::net::TcpStream;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{EndedProcess, WEIR, Weir, free_port, quiet, request, wait_for};

/// The login of every hub.
pub(crate) const TOKEN: &str = "a-token-of-the-engines-test";

/// Access key and secret key of the bucket.
pub(crate) const BUCKET_KEYS: (&str, &str) = ("weirweir", "secretsecret");

/// How long what a hub does once a minute may take on a loaded machine.
const UPKEEP: Duration = Duration::from_secs(240);

/// A hub on a port that stays the same over restarts.
pub(crate) struct Hub {
    /// What engines call its catalog.
    pub(crate) name: &'static str,
    dir: PathBuf,
    ports: [u16; 2],
    settings: Vec<(&'static str, String)>,
    weir: Option<Weir>,
}

impl Hub {
    /// One that keeps its files below `dir`, whose name has a blank.
    pub(crate) fn start(name: &'static str, dir: &Path) -> Self {
        let dir = dir.join(format!("{name} hub"));
        std::fs::create_dir_all(&dir).expect("it can be made");
        let token = dir.join("token");
        std::fs::write(&token, TOKEN).expect("it can be written");
        let ports = [free_port(), free_port()];
        let settings = vec![
            ("WEIR_API_TOKEN_FILE", token.display().to_string()),
            ("WEIR_INTAKE_HTTP", format!("127.0.0.1:{}", ports[1])),
        ];
        let mut hub = Self { name, dir, ports, settings, weir: None };
        hub.restart_with(Vec::new());
        hub
    }

    /// Restarts with more settings.
    pub(crate) fn restart_with(&mut self, settings: Vec<(&'static str, String)>) {
        if let Some(weir) = self.weir.take() {
            assert_eq!(weir.terminate(), Some(0));
        }
        self.settings.extend(settings);
        let mut command = Command::new(WEIR);
        quiet(&mut command);
        command.args(["hub", "--listen", &format!("127.0.0.1:{}", self.ports[0]), "--data"]);
        command.arg(self.path("data")).env("XDG_CONFIG_HOME", "/nonexistent");
        command.envs(self.settings.iter().map(|(key, value)| (key, value)));
        self.weir = Some(Weir::start(command));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    fn get(&self, path: &str) -> String {
        self.send(path, None)
    }

    fn post_json(&self, path: &str, body: &Value) -> String {
        self.send(path, Some(body))
    }

    fn send(&self, path: &str, body: Option<&Value>) -> String {
        let method = if body.is_some() { "POST" } else { "GET" };
        let body = body.map(ToString::to_string).unwrap_or_default();
        let login = format!("Bearer {TOKEN}");
        let headers = [("content-type", "application/json"), ("authorization", &login)];
        let (status, _, told) = request(&self.url(), method, path, &headers, &body);
        assert_eq!(status, 200, "{path}: {told}");
        told
    }

    /// Lines with these numbers, one a second from 23:00 on, and then everything in files.
    pub(crate) fn post(&self, numbers: Range<u64>) {
        let mut lines = String::new();
        for n in numbers {
            let (second, micros) = (82_800 + n, n % 7 * 1234);
            let (day, hour) = (20 + second / 86_400, second / 3600 % 24);
            let (minute, second) = (second / 60 % 60, second % 60);
            let half = if n % 2 == 0 { "even" } else { "ungerade: ü" };
            let mut line = json!({
                "@timestamp": format!("2026-11-{day}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z"),
                "message": format!("line {n}"), "host": format!("web{}", n % 5), "number": n, "half": half,
            });
            if n % 3 == 0 {
                line["third"] = "yes".into();
            }
            let _infallible = writeln!(lines, "{line}");
        }
        let intake = format!("http://127.0.0.1:{}", self.ports[1]);
        let path = "/intake/jsonl?source=app";
        let (status, _, told) = request(&intake, "POST", path, &[], &lines);
        assert_eq!(status, 200, "{told}");
        self.post_json("/api/store/flush", &json!({}));
    }

    /// What weir's own SQL answers.
    pub(crate) fn rows(&self, sql: &str) -> Value {
        let told = self.post_json("/api/sql", &json!({"sql": sql}));
        let mut told: Value = serde_json::from_str(&told).expect("JSON");
        told["rows"].take()
    }

    /// A figure of the snapshot of `log`.
    fn total(&self, name: &str) -> u64 {
        let told = self.get("/iceberg/v1/namespaces/weir/tables/log");
        let told: Value = serde_json::from_str(&told).expect("JSON");
        let total = told["metadata"]["snapshots"][0]["summary"][name].as_str();
        total.and_then(|total| total.parse().ok()).expect("it has files")
    }

    pub(crate) fn files(&self) -> u64 {
        self.total("total-data-files")
    }

    pub(crate) fn waits_for_fewer_files(&self, files: u64) {
        wait_for("small files are merged", UPKEEP, || (self.files() < files).then_some(()));
    }

    pub(crate) fn waits_for_fewer_rows(&self, rows: u64) {
        wait_for("the oldest rows are deleted", UPKEEP, || {
            (self.total("total-records") < rows).then_some(())
        });
    }

    /// Bytes of all files of all tables, and bytes of moved files.
    pub(crate) fn file_bytes(&self) -> (u64, u64) {
        let told = self.get("/metrics");
        let figure = |name: &str| {
            let line = told.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|figure| figure.trim().parse().ok()).expect("it is there")
        };
        (figure("weir_store_file_bytes "), figure("weir_store_slow_file_bytes "))
    }

    pub(crate) fn waits_until_files_moved(&self) {
        wait_for("files move", UPKEEP, || {
            let (all, moved) = self.file_bytes();
            (all == moved).then_some(())
        });
    }

    /// Everything that lies where engines would write.
    pub(crate) fn iceberg_files(&self) -> Vec<PathBuf> {
        let (mut found, mut open) = (Vec::new(), vec![self.path("data/iceberg")]);
        while let Some(dir) = open.pop() {
            for entry in std::fs::read_dir(dir).expect("it is there").flatten() {
                let path = entry.path();
                if path.is_dir() { open.push(path) } else { found.push(path) }
            }
        }
        found.sort();
        found
    }
}

/// `rows`, of S3Proxy; ended when dropped.
pub(crate) struct Bucket {
    port: u16,
    _service: EndedProcess,
}

impl Bucket {
    pub(crate) fn start(dir: &Path) -> Self {
        let (user, secret) = BUCKET_KEYS;
        let (port, objects) = (free_port(), dir.join("objects"));
        std::fs::create_dir_all(objects.join("rows")).expect("it can be made");
        let settings = format!(
            "s3proxy.endpoint=http://127.0.0.1:{port}\ns3proxy.authorization=aws-v2-or-v4\n\
             s3proxy.identity={user}\ns3proxy.credential={secret}\ns3proxy.ignore-unknown-headers=true\n\
             jclouds.provider=filesystem\n\
             jclouds.identity=x\njclouds.credential=x\njclouds.filesystem.basedir={}\n",
            objects.display()
        );
        let file = dir.join("s3proxy.conf");
        std::fs::write(&file, settings).expect("it can be written");
        let jars = Path::new(env!("CARGO_TARGET_TMPDIR")).join("s3/libs/*");
        let mut command = Command::new("java");
        command.args(["-Xmx256m", "-cp"]).arg(jars).args(["org.gaul.s3proxy.Main", "--properties"]);
        command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let service = EndedProcess(command.spawn().expect("java runs"));
        wait_for("S3Proxy", UPKEEP, || TcpStream::connect(("127.0.0.1", port)).ok());
        Self { port, _service: service }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}
