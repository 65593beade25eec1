//! A host below a directory: its list, a program that leaves a mark, a pinned hub, and a clock.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::Value;
use weir_act::{
    ActHost, HubPin, Order, OrderMode, OrderServer, OrderSigner, StepRunner, WallClock,
    random_order_id,
};

pub(crate) const NOW: i64 = 1_795_000_000_000_000;
pub(crate) const SECOND: i64 = 1_000_000;
/// A list that runs; `USER` is replaced.
pub(crate) const GOOD: &str = r#"id = "tool"
steps = [["/usr/bin/tool", "{value}"]]
undo_none = "nothing to undo"
user = "USER"
timeout_seconds = 60
ceiling = "auto"
runs_per_hour = 60
cooldown_seconds = 0
heals = ["app.down"]
[params.value]
any_of = ["good", "fine"]
"#;

/// A clock that tests set.
pub(crate) struct TestClock(pub(crate) AtomicI64);

impl WallClock for TestClock {
    fn now_micros(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

pub(crate) struct TestHost {
    dir: tempfile::TempDir,
    pub(crate) signer: OrderSigner,
    pub(crate) clock: TestClock,
}

pub(crate) fn weir_act() -> PathBuf {
    env!("CARGO_BIN_EXE_weir-act").into()
}

pub(crate) fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

pub(crate) fn is_root() -> bool {
    own_uid() == 0
}

impl TestHost {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let signer = OrderSigner::open(dir.path()).expect("a key");
        let host = Self { dir, signer, clock: TestClock(AtomicI64::new(NOW)) };
        for part in ["", "etc", "etc/weir", "etc/weir/actions.d", "usr", "usr/bin", "var", "srv"] {
            let path = host.path(part);
            fs::create_dir_all(&path).expect("a directory");
            set_mode(&path, 0o755);
        }
        let gid = rustix::process::getegid().as_raw();
        let passwd = format!(
            "root:x:0:0::/:/bin/sh\nme:x:{}:{gid}::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
            own_uid()
        );
        host.write("etc/passwd", &passwd, 0o644);
        host.script("usr/bin/tool", "echo \"$1\" >> MARK; echo ran \"$@\"");
        host.list("tool", GOOD);
        host.pin("web1", None);
        host
    }

    pub(crate) fn pin(&self, agent: &str, agent_uid: Option<u32>) {
        let pin = HubPin { key: self.signer.public_line(), agent: agent.into(), agent_uid };
        self.act_host().set_pin(&pin).expect("it can be pinned");
    }

    pub(crate) fn act_host(&self) -> ActHost {
        ActHost::new(&self.path(""), own_uid())
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A path below the host's root.
    pub(crate) fn path(&self, part: &str) -> PathBuf {
        self.dir.path().join("root").join(part)
    }

    pub(crate) fn write(&self, part: &str, text: &str, mode: u32) {
        let path = self.path(part);
        let _ = fs::remove_file(&path);
        fs::write(&path, text).expect("it can be written");
        set_mode(&path, mode);
    }

    /// A shell script; `MARK` in it is a file outside of the root.
    pub(crate) fn script(&self, part: &str, body: &str) {
        let mark = self.mark_path().display().to_string();
        self.write(part, &format!("#!/bin/sh\n{}\n", body.replace("MARK", &mark)), 0o755);
    }

    pub(crate) fn list(&self, id: &str, text: &str) {
        let text = text.replace("USER", "me");
        self.write(&format!("etc/weir/actions.d/{id}.toml"), &text, 0o644);
    }

    pub(crate) fn mark_path(&self) -> PathBuf {
        self.dir.path().join("mark")
    }

    /// Lines that steps have left.
    pub(crate) fn marks(&self) -> Vec<String> {
        let text = fs::read_to_string(self.mark_path()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub(crate) fn order(&self) -> Order {
        Order {
            id: random_order_id(),
            action: "tool".into(),
            params: params(&[("value", "good")]),
            agent: "web1".into(),
            finding_id: "f1".into(),
            not_after_micros: self.clock.now_micros() + 30 * SECOND,
            mode: OrderMode::Run,
            approved_by: None,
        }
    }

    pub(crate) fn sign(&self, order: &Order) -> Vec<u8> {
        self.signer.sign(order).expect("it is small").as_bytes().to_vec()
    }

    /// Lines of the answer to an order of root.
    pub(crate) fn send(&self, order: &Order) -> Vec<Value> {
        self.send_bytes(&self.sign(order), own_uid())
    }

    pub(crate) fn send_bytes(&self, bytes: &[u8], peer_uid: u32) -> Vec<Value> {
        let (host, mut output) = (self.act_host(), Vec::new());
        let runner = StepRunner { launcher: weir_act(), is_reaping: false };
        let server = OrderServer { host: &host, runner: &runner, clock: &self.clock };
        server.serve(bytes, &mut output, peer_uid);
        lines(&output)
    }

    /// Sends an order that must be refused without a trace, and returns why.
    pub(crate) fn refused(&self, bytes: &[u8], peer_uid: u32, name: &str) -> String {
        let before = self.marks();
        let lines = self.send_bytes(bytes, peer_uid);
        assert_eq!(lines.len(), 1, "{name}: {lines:?}");
        assert_eq!(lines[0]["code"], "refused", "{name}: {lines:?}");
        assert_eq!(self.marks(), before, "{name}");
        lines[0]["why"].as_str().expect("a reason").to_owned()
    }
}

pub(crate) fn params(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn lines(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).expect("answers are UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("lines are JSON")).collect()
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// A short pause of a loop that waits for another process.
pub(crate) fn pause() {
    let (_sender, receiver) = std::sync::mpsc::channel::<()>();
    let _ = receiver.recv_timeout(std::time::Duration::from_millis(2));
}

/// Waits for the end of a process that was killed; a zombie has ended.
pub(crate) fn wait_until_gone(pid: &str) {
    for _ in 0..5_000 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            return;
        }
        pause();
    }
    panic!("the process {pid} is still there");
}
