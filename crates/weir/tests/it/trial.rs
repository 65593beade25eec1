//! `weir tune --try`: a setting is kept when it helps, put back when it does not, when it harms,
//! when it is interrupted and when its program was killed. Each in a network namespace, whose
//! settings are its own.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::harness::{WEIR, Weir, can_run, is_root, pause, quiet, serve, text, wait_for};
use super::netns::{Manner, Netns, application, knocks};

const NAME: &str = "net.ipv4.tcp_max_tw_buckets";
const FILE: &str = "/proc/sys/net/ipv4/tcp_max_tw_buckets";
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `work` in a namespace, so that what it starts is in there too.
fn in_netns(purpose: &str, work: impl FnOnce(&Netns, &Path) + Send) {
    let netns = if is_root() { Netns::make(purpose) } else { None };
    if !can_run(purpose, "root and iproute2", netns.is_some()) {
        return;
    }
    let Some(netns) = netns else { return };
    let dir = tempfile::tempdir().expect("a directory");
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            let file =
                std::fs::File::open(format!("/run/netns/{}", netns.name)).expect("it is there");
            let kind = Some(rustix::thread::LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), kind)
                .expect("root may enter it");
            work(&netns, dir.path());
        });
        if let Err(panic) = inside.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// `weir tune --try` with its book in `dir`.
fn tune(dir: &Path, wish: &str, more: &[&str]) -> Command {
    let mut command = Command::new(WEIR);
    command.args(["tune", "--format", "json", "--try", wish]).args(more);
    command.env("XDG_CONFIG_HOME", "/nonexistent").env("WEIR_TUNE_DIR", dir.join("tune"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(dir: &Path, wish: &str, more: &[&str]) -> Output {
    tune(dir, wish, more).output().expect("weir can be started")
}

/// The final report; the setting was kept exactly when the exit code is 0.
fn trial(output: &Output) -> Value {
    let trial: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    let code = i32::from(trial["state"] != "kept");
    assert_eq!(output.status.code(), Some(code), "{trial}");
    trial
}

fn now() -> String {
    std::fs::read_to_string(FILE).expect("the kernel has it").trim().to_owned()
}

/// Connections that are opened and closed until the end, some hundred a second.
fn traffic(netns: &Netns, manner: &Manner) {
    application(netns, 8, manner);
    for _ in 0..4 {
        let is_ended = std::sync::Arc::clone(&manner.is_ended);
        netns.spawn(move || {
            let address = std::net::SocketAddr::from(([127, 0, 0, 1], 9001));
            while !is_ended.load(Ordering::Relaxed) {
                let _gone = ask(&address);
                pause(Duration::from_millis(10));
            }
        });
    }
}

fn ask(address: &std::net::SocketAddr) -> std::io::Result<usize> {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect_timeout(address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    stream.read_to_end(&mut Vec::new())
}

/// Starts a long trial and waits until the value is set.
fn begin(dir: &Path, value: &str) -> Child {
    let child = tune(dir, &format!("{NAME}={value}"), &["--for", "5m", "--before", "5s"])
        .spawn()
        .expect("weir can be started");
    wait_for("the value is set", PATIENCE, || (now() == value).then_some(()));
    child
}

#[test]
fn what_helps_is_kept_and_what_shows_nothing_is_put_back() {
    in_netns("trykeep", |netns, dir| {
        let manner = Manner::default();
        std::fs::write(FILE, "8").expect("root may");
        let short = ["--for", "8s", "--before", "8s"];
        let idle = trial(&run(dir, &format!("{NAME}=4096"), &short));
        assert_eq!((&idle["state"], now().as_str()), (&"reverted".into(), "8"), "{idle}");
        let reason = idle["reason"].as_str().expect("a reason");
        assert!(reason.contains("nothing shows that it helps: no connections"), "{reason}");

        traffic(netns, &manner);
        let busy = trial(&run(dir, &format!("{NAME}=4096"), &short));
        manner.is_ended.store(true, Ordering::Relaxed);
        assert_eq!((&busy["state"], now().as_str()), (&"kept".into(), "4096"), "{busy}");
        assert!(events_in(&busy, "before") > 10.0 * events_in(&busy, "with").max(1.0), "{busy}");
        let book = std::fs::read_to_string(dir.join("tune/trials.jsonl")).expect("it is there");
        assert_eq!(book.lines().count(), 2, "{book}");
        assert!(!dir.join("tune/running.json").exists());
    });
}

fn events_in(busy: &Value, span: &str) -> f64 {
    busy["measures"][0][span]["events"].as_f64().expect("a number")
}

#[test]
fn what_harms_is_put_back_long_before_its_time() {
    in_netns("tryharm", |netns, dir| {
        let manner = Manner::default();
        traffic(netns, &manner);
        std::fs::write(FILE, "4096").expect("root may");
        let began = Instant::now();
        let child = begin(dir, "8192");
        manner.is_stalled.store(true, Ordering::Relaxed);
        knocks(netns, 60, &manner);
        let output = child.wait_with_output().expect("it ends");
        manner.is_ended.store(true, Ordering::Relaxed);
        assert!(began.elapsed() < Duration::from_secs(120), "{:?}", began.elapsed());
        let trial = trial(&output);
        assert_eq!(now(), "4096");
        let reason = trial["reason"].as_str().expect("a reason");
        // A SYN that finds the queue full is sent again: whichever is counted first.
        let is_named = ["dropped at a full accept queue", "segments retransmitted"];
        assert!(is_named.iter().any(|what| reason.contains(what)), "{reason}");
    });
}

#[test]
fn a_trial_that_is_interrupted_or_killed_is_put_back() {
    in_netns("trykill", |_, dir| {
        std::fs::write(FILE, "4096").expect("root may");
        let child = begin(dir, "8192");
        kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
        let interrupted = trial(&child.wait_with_output().expect("it ends"));
        assert_eq!(
            (interrupted["reason"].as_str(), now().as_str()),
            (Some("it was ended by a signal"), "4096")
        );

        // Killed: the next trial puts it back, though it is refused itself.
        let mut child = begin(dir, "8192");
        child.kill().and_then(|()| child.wait()).expect("it ran");
        assert_eq!(now(), "8192");
        let next = run(dir, &format!("{NAME}=4096"), &[]);
        let said = text(&next.stderr);
        assert!(said.contains("put back to 4096") && said.contains("has that value"), "{said}");
        assert_eq!(now(), "4096");

        // Killed again: the weir that watches puts it back, and has all three in its table.
        let mut child = begin(dir, "16384");
        child.kill().and_then(|()| child.wait()).expect("it ran");
        let mut command = serve("up", &dir.join("data"));
        quiet(&mut command);
        command.env("WEIR_COLLECT_SAMPLE_HOST", "true").env("WEIR_TUNE_DIR", dir.join("tune"));
        let weir = Weir::start(command);
        wait_for("it is put back", PATIENCE, || (now() == "4096").then_some(()));
        let sql = format!(
            "select value, state, reason from setting_trial where name = '{NAME}' order by began_ts"
        );
        let rows = wait_for("three rows", PATIENCE, || {
            Some(weir.rows(&sql)).filter(|rows| rows.len() == 3)
        });
        assert!(rows.iter().all(|row| row[1] == "reverted"), "{rows:?}");
        assert_eq!(rows[2][0], "16384");
        assert!(rows[2][2].as_str().is_some_and(|reason| reason.contains("died")), "{rows:?}");

        // A value that was set by another program meanwhile is left alone.
        let mut child = begin(dir, "32768");
        child.kill().and_then(|()| child.wait()).expect("it ran");
        std::fs::write(FILE, "5000").expect("root may");
        wait_for("it is seen", PATIENCE, || {
            (!dir.join("tune/running.json").exists()).then_some(())
        });
        assert_eq!(now(), "5000");
    });
}

#[test]
fn what_must_not_be_tried_is_refused_with_the_reason() {
    in_netns("tryrefuse", |_, dir| {
        let refused = |wish: &str, why: &str| {
            let output = run(dir, wish, &[]);
            let said = text(&output.stderr);
            assert!(output.status.code().is_some_and(|code| code != 0), "{wish}");
            assert!(said.contains(why), "{wish}: {said}");
        };
        refused(
            "net.ipv4.tcp_syncookies=0",
            "never set: legitimate clients cannot connect during a flood",
        );
        refused("net.ipv4.tcp_tw_recycle=1", "removed in Linux 4.12");
        refused("net.core.somaxconn=7", "a whole number from 128 to 65535");
        refused("net.core.somaxconn", "it is not KEY=VALUE");
        refused("kernel.panic=1", "no counter of this host shows whether it helps");
        refused("net.core.netdev_budget=600", "no such setting in this network namespace");
        std::fs::write(FILE, "65536").expect("root may");
        refused(&format!("{NAME}=5000"), "removes the protection");
        refused(&format!("{NAME}=65536"), "it has that value");
        let mut child = begin(dir, "131072");
        refused("net.core.somaxconn=8192", "`net.ipv4.tcp_max_tw_buckets` is being tried since");
        kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
        child.wait().expect("it ends");
        assert_eq!(now(), "65536");
        let mut other = Command::new("unshare");
        other.args(["--user", WEIR, "tune", "--try", "net.core.somaxconn=8192"]);
        let output =
            other.env("WEIR_TUNE_DIR", dir.join("tune")).output().expect("util-linux is there");
        assert!(text(&output.stderr).contains("only root may"), "{}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(77));
    });
}
