//! A process of an ordinary account that calls itself nginx, with a configuration of its own.

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use weir_tables::{LogSource, Micros};

use super::{Problem, TailOptions, Tailer, discover};

const NOBODY: u32 = 65_534;

fn file(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// A process that ends with its test.
struct Stranger(Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a shell under the name `nginx` as `nobody`.
fn stranger(dir: &Path) -> Stranger {
    let program = dir.join("nginx");
    std::fs::copy("/bin/sh", &program).unwrap();
    file(&dir.join("wait"), "read line\n", 0o644);
    let mut command = Command::new(&program);
    command.arg(dir.join("wait")).arg("-c").arg(dir.join("nginx.conf")).uid(NOBODY).gid(NOBODY);
    Stranger(command.stdin(Stdio::piped()).spawn().unwrap())
}

/// What is found below the root of a process.
fn found_below(process: &Stranger) -> (Vec<LogSource>, Vec<Problem>) {
    let base = PathBuf::from(format!("/proc/{}/root", process.0.id()));
    let found = discover(Path::new("/"));
    let sources: Vec<LogSource> =
        found.sources.into_iter().filter(|source| source.path.starts_with(&base)).collect();
    let mut tailer = Tailer::new(TailOptions::default());
    tailer.set_sources(sources.clone());
    for second in 1..6 {
        let new = tailer.scan(Micros(second * 1_000_000));
        let paths: Vec<&str> = new.iter().map(|stream| &*stream.path).collect();
        assert!(paths.iter().all(|path| path.ends_with("own.log")), "{paths:?}");
    }
    (sources, found.problems)
}

#[test]
fn stranger_called_nginx_names_only_files_that_it_could_read() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: another account needs root (run the test as root)");
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path();
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    let private = dir.join("private");
    std::fs::create_dir(&private).unwrap();
    file(&private.join("db-password.conf"), "listen 1;\n", 0o600);
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o700)).unwrap();
    file(&dir.join("secret.log"), "root only\n", 0o600);
    file(&dir.join("own.log"), "own\n", 0o600);
    chown(dir.join("own.log"), Some(NOBODY), None).unwrap();
    symlink("secret.log", dir.join("link.log")).unwrap();
    let shown = dir.display();
    let text = format!(
        "include {shown}/private/*;\ninclude {shown}/secret.log;\nhttp {{\n\
         access_log {shown}/secret.log;\naccess_log {shown}/link.log;\n\
         access_log {shown}/own.log;\n}}\n"
    );
    file(&dir.join("nginx.conf"), &text, 0o644);
    let process = stranger(dir);
    let (sources, problems) = found_below(&process);
    let named = |name: &str| sources.iter().find(|source| source.path.ends_with(name)).unwrap();
    for name in ["secret.log", "link.log"] {
        let error = weir_access::open(&named(name).path).unwrap_err().to_string();
        assert!(error.contains("runs as `nobody` (uid 65534)"), "{error}");
    }
    assert!(weir_access::open(&named("own.log").path).is_ok());
    assert!(problems.iter().all(|problem| !problem.message.contains("db-password")));
    let secret = problems.iter().find(|problem| problem.path.ends_with("/secret.log")).unwrap();
    assert!(secret.message.contains("who may not read it"), "{secret:?}");
}
