//! weir-act behind real sockets: as systemd starts it for each connection, and its commands.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use weir_act::{Order, OrderMode};

use crate::kit::{
    GOOD, TestHost, is_root, lines, own_uid, pause, set_mode, wait_until_gone, weir_act,
};

/// The program `systemd-socket-activate`, listening like `weir-act.socket`.
struct Activator {
    child: Child,
    socket: PathBuf,
}

impl Activator {
    /// `None` where it is not installed.
    fn start(host: &TestHost) -> Option<Self> {
        let socket = host.dir().join("act.sock");
        let mut command = Command::new("systemd-socket-activate");
        command.args(["--inetd", "-a", "-l"]).arg(&socket).arg(weir_act());
        command.arg("--root").arg(host.path("")).arg("serve").stderr(Stdio::null());
        let child = command.spawn().ok()?;
        let activator = Self { child, socket };
        // Listening is the only sign that it is ready.
        for _ in 0..10_000 {
            if UnixStream::connect(&activator.socket).is_ok() {
                break;
            }
            pause();
        }
        Some(activator)
    }

    fn send(&self, bytes: &[u8]) -> Vec<Value> {
        let mut stream = UnixStream::connect(&self.socket).expect("it listens");
        stream.write_all(bytes).expect("it reads");
        stream.shutdown(std::net::Shutdown::Write).expect("it is open");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        lines(&answer)
    }
}

impl Drop for Activator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The kernel's clock, which the program uses as well.
fn now_micros() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

/// An order that is valid by the kernel's clock.
pub(crate) fn order_now(host: &TestHost) -> Order {
    Order { not_after_micros: now_micros() + 50_000_000, ..host.order() }
}

#[test]
fn systemd_serves_one_order_per_connection() {
    let host = TestHost::new();
    let Some(activator) = Activator::start(&host) else {
        return println!("skipped: no systemd-socket-activate (apt-get install systemd)");
    };
    let order = order_now(&host);
    let bytes = host.sign(&order);
    let first = activator.send(&bytes);
    assert_eq!(first[0]["code"], "taken", "{first:?}");
    assert_eq!(
        (&first[1]["state"], &first[1]["output_tail"]),
        (&"ended".into(), &"ran good\n".into())
    );
    assert_eq!(activator.send(&bytes)[0]["code"], "seen");
    assert_eq!(activator.send(b"hello")[0]["code"], "refused");
    let dry_run = Order { mode: OrderMode::DryRun, ..order_now(&host) };
    assert_eq!(activator.send(&host.sign(&dry_run))[1]["state"], "planned");
    assert_eq!(host.marks(), ["good"]);
}

/// Processes that a step leaves in another session are ended with the order, though they hold
/// its output (MagnaCapax/PMSS#737: a timeout bounded the waiting, not the daemon).
#[test]
fn nothing_of_a_step_is_left_behind() {
    let host = TestHost::new();
    let Some(activator) = Activator::start(&host) else {
        return println!("skipped: no systemd-socket-activate (apt-get install systemd)");
    };
    host.script(
        "usr/bin/tool",
        "setsid sh -c 'echo $$ >> MARK; exec sleep 1000' & while [ ! -s MARK ]; do :; done",
    );
    let lines = activator.send(&host.sign(&order_now(&host)));
    assert_eq!(lines[1]["state"], "ended", "{lines:?}");
    let marks = host.marks();
    wait_until_gone(&marks[0]);
}

/// A real connection of another account: the kernel says whose it is.
#[test]
fn another_account_is_refused_by_the_kernels_word() {
    let host = TestHost::new();
    if !is_root() {
        return println!("skipped: only root starts processes of other accounts (run as root)");
    }
    let Some(activator) = Activator::start(&host) else {
        return println!("skipped: no systemd-socket-activate (apt-get install systemd)");
    };
    set_mode(host.dir(), 0o755);
    set_mode(&activator.socket, 0o666);
    let bytes = host.sign(&order_now(&host));
    let file = host.dir().join("order");
    std::fs::write(&file, &bytes).expect("it can be written");
    set_mode(&file, 0o644);
    let refused = send_as(65_534, &activator.socket, &file);
    assert_eq!(refused[0]["code"], "refused", "{refused:?}");
    assert!(refused[0]["why"].as_str().is_some_and(|why| why.contains("uid 65534")), "{refused:?}");
    host.pin("web1", Some(65_534));
    assert_eq!(send_as(65_534, &activator.socket, &file)[0]["code"], "taken");
    assert_eq!(host.marks(), ["good"]);
}

/// Sends a file as another account, by perl, which every Debian has.
fn send_as(uid: u32, socket: &std::path::Path, file: &std::path::Path) -> Vec<Value> {
    use std::os::unix::process::CommandExt;
    let program = "use IO::Socket::UNIX; local $/; open(F, '<', $ARGV[1]) or die; \
        my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die; print $s <F>; $s->flush; \
        $s->shutdown(1); print <$s>;";
    let mut command = Command::new("perl");
    let output = command.arg("-e").arg(program).arg(socket).arg(file).uid(uid).gid(uid).output();
    lines(&output.expect("perl is there").stdout)
}

fn command(host: &TestHost, arguments: &[&str]) -> Output {
    let mut command = Command::new(weir_act());
    command.arg("--root").arg(host.path("")).args(arguments);
    command.stdin(Stdio::null()).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("a text")
}

#[test]
fn check_lists_what_each_action_allows_and_what_is_wrong() {
    let host = TestHost::new();
    let output = command(&host, &["check"]);
    let shown = text(&output.stdout).replace(&host.signer.public_line(), "KEY");
    expect_test::expect![[r#"
        hub      KEY
        agent    web1

        tool: auto
          step     /usr/bin/tool {value}
          undo     none: nothing to undo
          {value}  fine|good
          limits   user me, 60 s, 256 MiB, 64 tasks, 60 runs an hour, 0 s apart
          heals    app.down
    "#]]
    .assert_eq(&shown);
    assert!(output.status.success());
    host.list("bad", &GOOD.replace("\"tool\"", "\"bad\"").replace("/usr/bin/tool", "tool"));
    host.list("worse", "id = 7");
    let output = command(&host, &["check"]);
    let shown = text(&output.stdout);
    assert!(
        shown.contains("bad: refused\n") && shown.contains("line 2: the program `tool`"),
        "{shown}"
    );
    assert!(shown.contains("worse: refused\n"), "{shown}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn dry_run_prints_the_arguments_or_why_not() {
    let host = TestHost::new();
    let output = command(&host, &["dry-run", "tool", "value=good"]);
    assert_eq!(text(&output.stdout), "/usr/bin/tool good\n");
    for arguments in [
        &["dry-run", "tool"][..],
        &["dry-run", "tool", "value=bad"],
        &["dry-run", "tool", "value"],
        &["dry-run", "tool", "value=good", "value=good"],
        &["dry-run", "tool", "value=good", "other=x"],
        &["dry-run", "../tool", "value=good"],
        &["dry-run"],
        &["serve"],
        &["serve", "now"],
        &[],
    ] {
        let output = command(&host, arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text(&output.stderr).starts_with("error: "), "{arguments:?}");
    }
    assert!(host.marks().is_empty());
}

#[test]
fn trust_pins_a_hub_and_its_file_is_used() {
    let host = TestHost::new();
    std::fs::remove_file(host.path("etc/weir/orders.toml")).expect("it is there");
    let file = host.dir().join("orders.pub");
    std::fs::write(&file, host.signer.public_line()).expect("it can be written");
    let file = file.to_str().expect("a text");
    for arguments in [
        &["trust", "/nonexistent"][..],
        &["trust", file, "--agent", ""],
        &["trust", file, "--user", "no-such-account"],
        &["trust", file, "--other", "x"],
        &["trust", file, "--agent"],
    ] {
        assert_eq!(command(&host, arguments).status.code(), Some(1), "{arguments:?}");
    }
    assert!(host.act_host().pin().is_err());
    let output = command(&host, &["trust", file, "--agent", "web9", "--user", "nobody"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let pin = host.act_host().pin().expect("it is pinned");
    assert_eq!((pin.agent.as_str(), pin.agent_uid), ("web9", Some(65_534)));
    assert_eq!(host.send_bytes(&host.sign(&host.order()), own_uid())[0]["code"], "refused");
    let order = Order { agent: "web9".into(), ..host.order() };
    assert_eq!(host.send(&order)[0]["code"], "taken");
}
