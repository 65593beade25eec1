//! Bad input gives one clear message with a hint, never a panic, and nothing is lost by it.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use super::harness::{WEIR, Weir, can_run, is_root, quiet, request, serve, text, wait_for, weir};

/// Runs a command that must end by itself, with its complaint checked part by part.
fn refused(name: &str, output: &Output, code: i32, parts: &[&str]) {
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{name}: {complaint}");
    for part in parts {
        assert!(complaint.contains(part), "{name}: `{part}` is not in:\n{complaint}");
    }
    assert_eq!(complaint.matches("error: ").count(), 1, "{name}: one message:\n{complaint}");
    assert!(complaint.contains("\nhint: "), "{name}: a hint:\n{complaint}");
    assert!(!complaint.contains("panicked"), "{name}: {complaint}");
}

fn run(mut command: Command) -> Output {
    quiet(&mut command);
    command.stdin(Stdio::null()).output().expect("weir can be started")
}

#[test]
fn bad_configurations_and_flags_are_refused_with_file_line_and_hint() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("weir.toml");
    for (content, parts) in [
        (
            "[api]\nlistne = \"x\"\n",
            ["weir.toml:2: unknown key `api.listne`", "did you mean `api.listen`?"],
        ),
        (
            "[store]\nhot_bytes = \"much\"\n",
            ["weir.toml:2: `store.hot_bytes` must be a whole number (B)", "hint: "],
        ),
        ("[api\n", ["weir.toml:1", "TOML"]),
        ("listen = \"x\"\n", ["`listen` is outside of a section", "[api]"]),
        ("[api]\nlisten = \"nonsense\"\n", ["cannot listen on `nonsense`", "127.0.0.1:4770"]),
        ("[log]\nlevel = \"loud\"\n", ["`loud`", "error, warn, info, debug or trace"]),
    ] {
        std::fs::write(&file, content).expect("it can be written");
        let mut command = Command::new(WEIR);
        command.arg("up").arg("--config").arg(&file).arg("--data").arg(dir.path().join("data"));
        refused(content, &run(command), 78, &parts);
    }
    let mut command = Command::new(WEIR);
    command.arg("up").args(["--config", "/nonexistent/weir.toml"]);
    refused("no such file", &run(command), 78, &["cannot read `/nonexistent/weir.toml`"]);
    let mut command = Command::new(WEIR);
    command.args(["up", "--listen", "0.0.0.0:0"]);
    refused("no TLS", &run(command), 78, &["could be read on the way", "plain_http = true"]);
    for (args, part) in [
        (&["up", "--lisen", "x"][..], "--listen"),
        (&["wat"], "wat"),
        (&["doctor", "--seconds", "0"], "seconds"),
        (&["tables", "reqest"], "request"),
        (&["rules", "show", "tcp.listen_overflw"], "tcp.listen_overflow"),
    ] {
        let output = weir(args);
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{args:?}: {complaint}");
        assert!(complaint.contains(part), "{args:?}: {complaint}");
    }
}

#[test]
fn a_port_in_use_names_the_program_that_has_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let mut command = Command::new(WEIR);
    command.args(["up", "--listen", &address]).arg("--data").arg(dir.path());
    let parts =
        [&*format!("cannot listen on `{address}`"), &*format!("(process {})", std::process::id())];
    refused("port in use", &run(command), 1, &parts);
}

#[test]
fn a_data_directory_in_use_or_of_a_newer_version_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = serve("hub", dir.path());
    quiet(&mut command);
    let first = Weir::start(command);
    let id = first.id().to_string();
    refused("in use", &run(serve("hub", dir.path())), 1, &[&id]);
    assert_eq!(first.terminate(), Some(0));

    let version = dir.path().join("VERSION");
    assert!(version.is_file());
    std::fs::write(&version, "999\n").expect("it can be written");
    let before = listing(dir.path());
    refused("newer", &run(serve("hub", dir.path())), 1, &["999"]);
    assert_eq!(listing(dir.path()), before, "nothing is touched");
}

fn listing(dir: &Path) -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = std::fs::read_dir(dir)
        .expect("it is there")
        .flatten()
        .map(|entry| {
            let size = entry.metadata().map(|data| data.len()).unwrap_or_default();
            (entry.file_name().to_string_lossy().into_owned(), size)
        })
        .collect();
    all.sort();
    all
}

#[test]
fn weir_goes_on_without_a_broken_rule_and_shows_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let rules = dir.path().join("rules");
    std::fs::create_dir(&rules).expect("it can be made");
    std::fs::write(
        rules.join("my.broken.sql"),
        "/*---\nid = \"my.broken\"\nteir = \"app\"\n---*/\nselect 1\n",
    )
    .expect("it can be written");
    let mut command = serve("hub", &dir.path().join("data"));
    command.arg("--rules").arg(&rules);
    quiet(&mut command);
    let weir = Weir::start(command);
    let answer = weir.get("/api/rules");
    let all = answer["rules"].as_array().expect("an array");
    let broken = all
        .iter()
        .find(|rule| rule["origin"].as_str().is_some_and(|o| o.contains("my.broken.sql")));
    let error = broken.expect("it is listed")["error"].as_str().expect("with its error").to_owned();
    assert!(error.contains("teir") && error.contains("tier"), "{error}");
    assert!(all.iter().any(|rule| rule["id"] == "tcp.listen_overflow"), "the others are loaded");
}

#[test]
fn an_unreadable_log_is_named_and_the_others_are_read() {
    let dir = tempfile::tempdir().expect("a directory");
    // A directory with a log's name cannot be read as a file even by root.
    std::fs::create_dir(dir.path().join("bad.log")).expect("it can be made");
    std::fs::write(dir.path().join("good.log"), "one line\n").expect("it can be written");
    let mut command = serve("up", &dir.path().join("data"));
    command
        .arg("--tail")
        .arg(dir.path().join("bad.log"))
        .arg("--tail")
        .arg(dir.path().join("good.log"));
    quiet(&mut command);
    let weir = Weir::start(command);
    let count = "select count(*) from log where source like '%good.log'";
    wait_for("the good log", Duration::from_secs(10), || (weir.number(count) == 1).then_some(()));
    let error = wait_for("the bad log's error", Duration::from_secs(10), || {
        let status = weir.get("/api/status");
        let sources = status["log_sources"].as_array()?.clone();
        let bad = sources
            .into_iter()
            .find(|source| source["path"].as_str().is_some_and(|p| p.ends_with("bad.log")))?;
        bad["error"].as_str().map(str::to_owned)
    });
    assert!(error.contains("cannot read"), "{error}");
}

#[test]
fn a_log_that_may_not_be_read_is_named_with_a_hint_and_read_once_it_may() {
    let is_root = is_root();
    if !can_run("log without permission", "root, to become another user", is_root) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    // The user must reach the program as well, which may lie below a home that is closed.
    let program = dir.path().join("weir");
    std::fs::copy(WEIR, &program).expect("there is room");
    let (log, data) = (dir.path().join("app.log"), dir.path().join("data"));
    std::fs::write(&log, "one line\n").expect("it can be written");
    std::fs::create_dir(&data).expect("it can be made");
    for (path, bits) in [(dir.path(), 0o755), (&program, 0o755), (&log, 0o640), (&data, 0o777)] {
        set_mode(path, bits);
    }
    let mut command = Command::new(&program);
    command.args(["up", "--listen", "127.0.0.1:0", "--data"]).arg(&data).arg("--tail").arg(&log);
    command.env("XDG_CONFIG_HOME", "/nonexistent").env("WEIR_COLLECT_HOST", "testhost");
    quiet(&mut command);
    std::os::unix::process::CommandExt::uid(&mut command, 65534);
    std::os::unix::process::CommandExt::gid(&mut command, 65534);
    let weir = Weir::start(command);
    let error = wait_for("the log's error", Duration::from_secs(20), || {
        weir.get("/api/status")["log_sources"][0]["error"].as_str().map(str::to_owned)
    });
    assert!(
        error.contains("cannot read") && error.to_lowercase().contains("permission denied"),
        "{error}"
    );
    assert!(error.contains("hint: "), "{error}");
    set_mode(&log, 0o644);
    let count = "select count(*) from log where source like '%app.log'";
    wait_for("the line", Duration::from_secs(60), || (weir.number(count) == 1).then_some(()));
}

fn set_mode(path: &Path, mode: u32) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(path, mode).expect("it is ours");
}

/// A file system of a few MiB, unmounted when dropped.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path, mebibytes: u32) -> Option<Self> {
        let size = format!("size={mebibytes}m");
        let status =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "weir-test"]).arg(at).status();
        status.is_ok_and(|status| status.success()).then_some(Self(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_stops_rows_and_room_lets_them_go_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    std::fs::create_dir(&data).expect("it can be made");
    let disk = if is_root() { SmallDisk::mount(&data, 24) } else { None };
    if !can_run("full disk", "root, to mount a small file system", disk.is_some()) {
        return;
    }
    let log = dir.path().join("app.log");
    let line = format!("{}\n", "y".repeat(500));
    std::fs::write(&log, line.repeat(1000)).expect("it can be written");
    let mut command = serve("up", &data);
    command.arg("--tail").arg(&log).env("WEIR_STORE_MIN_FREE_BYTES", "4194304");
    quiet(&mut command);
    let weir = Weir::start(command);
    let count = "select count(*) from log where source like '%app.log'";
    wait_for("the first lines", Duration::from_secs(20), || {
        (weir.number(count) == 1000).then_some(())
    });

    let ballast = data.join("ballast");
    let free = 24_usize << 20;
    let _ = std::fs::write(&ballast, vec![0; free]);
    let mut file = std::fs::OpenOptions::new().append(true).open(&log).expect("it is there");
    std::io::Write::write_all(&mut file, line.repeat(1000).as_bytes()).expect("it can be written");
    let why = wait_for("unhealthy", Duration::from_secs(30), || {
        let (status, _, body) = request(&weir.url, "GET", "/healthz", &[], "");
        (status == 503).then_some(body)
    });
    println!("{why}");
    assert_eq!(weir.get("/api/status")["store"]["is_full"], true);
    assert_eq!(weir.number(count), 1000, "what was kept can be read");

    std::fs::remove_file(&ballast).expect("it is there");
    wait_for("the other lines", Duration::from_secs(30), || {
        (weir.number(count) == 2000).then_some(())
    });
    assert_eq!(request(&weir.url, "GET", "/healthz", &[], "").0, 200);
    assert_eq!(weir.terminate(), Some(0));
    drop(disk);
}
