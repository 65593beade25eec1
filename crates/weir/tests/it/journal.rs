//! A journal that a real journald writes: found by itself, each entry kept once although weir is
//! killed and the journal rotates.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::harness::{WEIR, Weir, can_run, is_root, wait_for};

const PROGRAM: &str = "/lib/systemd/systemd-journald";
const PATIENCE: Duration = Duration::from_secs(60);

const NUMBERED: &str = "select count(*), count(distinct body) from log \
    where body like 'numbered entry %' and severity = 'warn'";

/// journald with a separate journal: it runs in a mount namespace that hides this host's.
struct Journald(Child);

impl Journald {
    fn start() -> Self {
        let script = format!(
            "for dir in /run/systemd /run/log /var/log/journal; do \
               mkdir -p $dir && mount -t tmpfs weir-test $dir || exit 1; \
             done; mkdir -p /run/systemd/journal /var/log/journal/$(cat /etc/machine-id); exec {PROGRAM}"
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let journald = Self(command.spawn().expect("unshare is a part of util-linux"));
        wait_for("journald's socket", PATIENCE, || journald.socket().ok());
        journald
    }

    /// The socket for native messages, seen from outside of its namespace.
    fn socket(&self) -> std::io::Result<UnixDatagram> {
        let socket = UnixDatagram::unbound()?;
        let root = Path::new("/proc").join(self.0.id().to_string()).join("root");
        socket.connect(root.join("run/systemd/journal/socket"))?;
        Ok(socket)
    }

    fn write(&self, numbers: std::ops::Range<u32>) {
        let socket = self.socket().expect("it listens");
        for number in numbers {
            let entry = format!(
                "MESSAGE=numbered entry {number:06}\nPRIORITY=4\nSYSLOG_IDENTIFIER=weir-test\n"
            );
            socket.send(entry.as_bytes()).expect("journald takes it");
        }
    }

    /// New files for the journal, as when one is full.
    fn rotate(&self) {
        kill_process(Pid::from_child(&self.0), Signal::USR2).expect("it runs");
    }

    /// `weir up` in the same namespace, which finds its logs by itself.
    fn weir(&self, data: &Path) -> Weir {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.0.id().to_string(), "--mount", WEIR, "up", "--data"]);
        command.arg(data).args(["--listen", "127.0.0.1:0"]);
        command.env("WEIR_COLLECT_SAMPLE_HOST", "false").env("WEIR_COLLECT_HOST", "testhost");
        command.env("XDG_CONFIG_HOME", "/nonexistent");
        Weir::start(command)
    }
}

impl Drop for Journald {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn entries_of_a_running_journal_are_kept_once_over_kill_and_rotation() {
    let is_possible = is_root() && Path::new(PROGRAM).exists();
    if !can_run("journal", "root and systemd-journald", is_possible) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let journald = Journald::start();
    journald.write(0..500);
    let first = journald.weir(dir.path());
    wait_for_entries(&first, 500);
    journald.write(500..1000);
    first.kill();
    journald.rotate();
    journald.write(1000..1500);
    let second = journald.weir(dir.path());
    wait_for_entries(&second, 1500);
    journald.rotate();
    journald.write(1500..2000);
    wait_for_entries(&second, 2000);
    assert_eq!(second.terminate(), Some(0));
}

fn wait_for_entries(weir: &Weir, wanted: u32) {
    let both = serde_json::json!([wanted, wanted]);
    wait_for(&format!("{wanted} entries"), PATIENCE, || {
        let rows = weir.rows(NUMBERED);
        (rows[0][0].as_u64()? >= u64::from(wanted))
            .then(|| assert_eq!(rows[0], *both.as_array().expect("two")))
    });
}
