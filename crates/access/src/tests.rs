//! Links and processes of strangers, with real accounts and processes. Only root can make both.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use super::*;

const NOBODY: u32 = 65_534;

/// A directory open to all accounts, with a directory of uid 65534 and a private file of root.
struct StrangersBench {
    dir: tempfile::TempDir,
}

impl StrangersBench {
    /// `None` without root's rights.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: accounts need root (run the test as root)");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let bench = Self { dir };
        mode(bench.dir.path(), 0o755);
        fs::create_dir(bench.path("theirs")).unwrap();
        chown(bench.path("theirs"), Some(NOBODY), Some(NOBODY)).unwrap();
        bench.file("secret", 0o600);
        Some(bench)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str, bits: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, "root only\n").unwrap();
        mode(&path, bits);
        path
    }

    fn process(&self, user: u32) -> OwnProcess {
        let mut command = Command::new("sleep");
        command.arg("60").uid(user).gid(user);
        OwnProcess(command.spawn().unwrap())
    }
}

struct OwnProcess(Child);

impl OwnProcess {
    fn sees(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.0.id()));
        root.join(path.strip_prefix("/").unwrap())
    }
}

impl Drop for OwnProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, Permissions::from_mode(bits)).unwrap();
}

#[track_caller]
fn refusal(path: &Path) -> String {
    let error = open(path).expect_err("opened");
    assert!(hint_of(&error).is_some(), "{error} has a hint");
    error.to_string()
}

#[test]
fn link_in_a_strangers_directory_is_followed_with_the_strangers_rights() {
    let Some(bench) = StrangersBench::new() else { return };
    let link = bench.path("theirs/a.log");
    symlink(bench.path("secret"), &link).unwrap();
    let why = refusal(&link);
    assert!(why.starts_with("it is behind a link in a directory of `nobody` (uid 65534)"), "{why}");
    assert!(!is_operators(&link));
    // What the stranger may read is read, also through two links.
    bench.file("public", 0o644);
    symlink(bench.path("public"), bench.path("theirs/b.log")).unwrap();
    assert!(open(&bench.path("theirs/b.log")).is_ok());
    // A link as a directory, and one through a link of root's.
    let home = bench.path("home");
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, Permissions::from_mode(0o700)).unwrap();
    bench.file("home/notes", 0o644);
    symlink(&home, bench.path("theirs/home")).unwrap();
    refusal(&bench.path("theirs/home/notes"));
    symlink(&link, bench.path("outer.log")).unwrap();
    refusal(&bench.path("outer.log"));
}

#[test]
fn link_of_a_stranger_in_a_shared_directory_is_refused() {
    let Some(bench) = StrangersBench::new() else { return };
    let link = bench.path("shared.log");
    symlink(bench.path("secret"), &link).unwrap();
    assert!(open(&link).is_ok(), "root's link in root's directory");
    std::os::unix::fs::lchown(&link, Some(NOBODY), None).unwrap();
    let why = refusal(&link);
    assert!(why.starts_with("it is behind a link of `nobody`"), "{why}");
}

#[test]
fn hard_link_to_a_private_file_is_refused() {
    let Some(bench) = StrangersBench::new() else { return };
    let link = bench.path("theirs/hard.log");
    fs::hard_link(bench.path("secret"), &link).unwrap();
    assert!(refusal(&link).starts_with("it is a hard link"));
    mode(bench.dir.path(), 0o1777);
    fs::hard_link(bench.path("secret"), bench.path("hard.log")).unwrap();
    assert!(refusal(&bench.path("hard.log")).starts_with("it is a hard link"));
}

#[test]
fn usual_logs_stay_readable() {
    let Some(bench) = StrangersBench::new() else { return };
    // nginx's workers own the directory; files are theirs, or root's after `create` of logrotate.
    for (name, owner, bits) in [("a", NOBODY, 0o640), ("b", 0, 0o640), ("c", NOBODY, 0o600)] {
        let path = bench.file(&format!("theirs/{name}.log"), bits);
        chown(&path, Some(owner), Some(4)).unwrap();
        assert!(open(&path).is_ok(), "{name}");
    }
    // A link that logrotate or cronolog made, and a directory that root linked elsewhere.
    symlink("a.log", bench.path("theirs/current")).unwrap();
    symlink(bench.path("theirs"), bench.path("nginx")).unwrap();
    assert!(open(&bench.path("theirs/current")).is_ok());
    assert!(open(&bench.path("nginx/../nginx/a.log")).is_ok());
    assert!(is_operators(&bench.path("nginx/a.log")));
    let missing = open(&bench.path("none")).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
}

#[test]
fn process_of_an_ordinary_user_names_only_what_it_could_read() {
    let Some(bench) = StrangersBench::new() else { return };
    let process = bench.process(NOBODY);
    let why = refusal(&process.sees(&bench.path("secret")));
    assert!(why.contains("runs as `nobody` (uid 65534), who may not read it"), "{why}");
    symlink(bench.path("secret"), bench.path("theirs/link")).unwrap();
    refusal(&process.sees(&bench.path("theirs/link")));
    refusal(&process.sees(Path::new("/proc/self/fd/0")));
    let readable = bench.file("theirs/own.log", 0o600);
    chown(&readable, Some(NOBODY), None).unwrap();
    assert!(open(&process.sees(&readable)).is_ok());
    // A private directory hides readable files too.
    fs::create_dir(bench.path("private")).unwrap();
    mode(&bench.path("private"), 0o700);
    let hidden = bench.file("private/x.log", 0o644);
    refusal(&process.sees(&hidden));
    let listed =
        as_owner_of(&process.sees(Path::new("/")), || bench.path("private").read_dir().is_ok());
    assert!(!listed.unwrap());
    assert!(open(&bench.process(0).sees(&bench.path("secret"))).is_ok());
    // This thread kept its own rights.
    assert!(fs::read(bench.path("secret")).is_ok());
}

#[test]
fn socket_of_root_is_closed_to_the_process_of_another_user() {
    let Some(bench) = StrangersBench::new() else { return };
    let path = bench.path("admin.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    mode(&path, 0o600);
    assert!(connect(&path).is_ok());
    let process = bench.process(NOBODY);
    let refused = connect(&process.sees(&path)).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{refused}");
    mode(&path, 0o666);
    assert!(connect(&process.sees(&path)).is_ok());
}

#[test]
fn pipe_is_refused_without_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_bits_truncate(0o600), 0).unwrap();
    assert_eq!(refusal(&path), "it is not a regular file");
}
