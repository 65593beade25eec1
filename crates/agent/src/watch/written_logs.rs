//! Files into which listening processes write their standard output and error, and the logs that runtimes
//! of applications and some databases hold open: `node server.js > app.log 2>&1`, `pg_ctl -l file`.
//!
//! What an application says there names the service that it cannot reach. Only processes that listen
//! count: standard output of others may be data, such as a dump of a database. Old lines are left out
//! ([`LogSource::leaves_out_old_lines`]).
//!
//! Source: proc(5), `fd/`, `fdinfo/`, `task/*/children`.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use weir_collect::host::ListenerSummary;
use weir_tables::{LogFormat, LogSource, Program};

use super::redis_log;
use super::server_logs::{has_root_of_host, log_files, readable};

/// Servers whose configuration names their logs. HAProxy's standard error repeats its log without times.
const NAMED_ELSEWHERE: &[&str] = &["apache2", "haproxy", "httpd", "nginx", "varnishd"];
/// Programs whose open `….log` files are logs, as `comm` begins; databases keep data in such files.
const RUNTIMES: &[&str] = &["beam.smp", "dotnet", "java", "mongod", "node", "python", "ruby"];
/// Descriptors that are read of one process.
const DESCRIPTORS: usize = 256;
/// Bytes of a file that are checked for text.
const HEAD_BYTES: u64 = 256;
/// Most files.
const FILES_MAX: usize = 200;

/// The files, without duplicate paths.
pub(super) fn find(root: &Path, listeners: &[ListenerSummary]) -> Vec<LogSource> {
    let mut ids: Vec<u32> = listeners.iter().filter_map(|listener| listener.process_id).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut found: Vec<LogSource> = Vec::new();
    for id in ids {
        let directory = root.join(format!("proc/{id}"));
        let Ok(name) = std::fs::read_to_string(directory.join("comm")) else { continue };
        let name = name.trim_end();
        if name.starts_with("weir")
            || NAMED_ELSEWHERE.contains(&name)
            || !has_root_of_host(&directory)
        {
            continue;
        }
        let mut paths = written_files(root, &directory, name);
        if name == "postgres" {
            paths.extend(collected_log(root, id));
        }
        if redis_log::SERVERS.contains(&name) {
            let own = listeners.iter().filter(|listener| listener.process_id == Some(id));
            let ports: Vec<u16> = own.map(|listener| listener.port).collect();
            paths.extend(redis_log::find(root, &directory, &ports));
        }
        for path in paths {
            if found.len() < FILES_MAX && found.iter().all(|known| known.path != path) {
                found.push(source(path, name, id));
            }
        }
    }
    found
}

fn source(path: PathBuf, name: &str, id: u32) -> LogSource {
    let found_in = format!("{}{name}, process {id}", LogSource::WRITTEN_BY);
    LogSource { path, program: Program::Other, format: LogFormat::Auto, found_in }
}

fn written_files(root: &Path, directory: &Path, name: &str) -> Vec<PathBuf> {
    let mut descriptors = vec![(OsString::from("1"), true), (OsString::from("2"), true)];
    // Others may have thousands.
    if RUNTIMES.iter().any(|runtime| name.starts_with(runtime))
        && let Ok(all) = directory.join("fd").read_dir()
    {
        let all = all.flatten().take(DESCRIPTORS).map(|entry| (entry.file_name(), false));
        descriptors.extend(all);
    }
    let files = descriptors.into_iter().filter_map(|(descriptor, is_standard)| {
        let path = directory.join("fd").join(&descriptor).read_link().ok()?;
        let inner = path.strip_prefix("/").ok()?;
        let is_written = is_standard
            || is_log(&path) && is_for_writing(&directory.join("fdinfo").join(&descriptor));
        let is_found_already = path.starts_with("/var/log") && has_end_of_log(&path);
        let path = root.join(inner);
        if !is_written || is_found_already || path.starts_with(root.join("dev")) || !path.is_file()
        {
            return None;
        }
        let path = readable(path, directory, inner);
        is_text(&path).then_some(path)
    });
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    files.dedup();
    files
}

/// The file of PostgreSQL's own log collector, a child that does not listen.
fn collected_log(root: &Path, id: u32) -> Vec<PathBuf> {
    let children = root.join(format!("proc/{id}/task/{id}/children"));
    let children = std::fs::read_to_string(children).unwrap_or_default();
    let mut directories = children.split_whitespace().map(|child| root.join("proc").join(child));
    let collector = directories.find(|directory| {
        let command = std::fs::read(directory.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command);
        command.starts_with("postgres: ") && command.contains("logger")
    });
    collector.map(|directory| log_files(root, &directory, false)).unwrap_or_default()
}

/// Whether a path is called like a log. A name of digits is a segment of Kafka's data; requests are in the
/// log of the proxy in front.
fn is_log(path: &Path) -> bool {
    let name = path.file_stem().map(|name| name.to_string_lossy()).unwrap_or_default();
    has_end_of_log(path)
        && !name.bytes().all(|byte| byte.is_ascii_digit())
        && !name.contains("access")
}

fn has_end_of_log(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "log")
}

fn is_for_writing(info: &Path) -> bool {
    let info = std::fs::read_to_string(info).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags
        .and_then(|flags| u64::from_str_radix(flags.trim(), 8).ok())
        .is_some_and(|flags| flags & 3 != 0)
}

/// Whether a file begins like text; one that may not be read is reported later.
fn is_text(path: &Path) -> bool {
    let Ok(file) = weir_access::open(path) else { return true };
    let mut head = Vec::new();
    let read = file.take(HEAD_BYTES).read_to_end(&mut head);
    read.is_err() || !head.contains(&0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A descriptor, its file, and whether it is for writing.
    type OpenFile<'a> = (&'a str, &'a str, bool);

    fn process(root: &Path, id: u32, comm: &str, files: &[OpenFile<'_>]) {
        let directory = root.join(format!("proc/{id}"));
        for name in ["fd", "fdinfo", &format!("task/{id}")] {
            std::fs::create_dir_all(directory.join(name)).unwrap();
        }
        std::fs::write(directory.join("comm"), format!("{comm}\n")).unwrap();
        symlink("/", directory.join("root")).unwrap();
        for (descriptor, path, is_written) in files {
            symlink(path, directory.join("fd").join(descriptor)).unwrap();
            let flags = if *is_written { "02102001" } else { "0100000" };
            let info = format!("pos:\t0\nflags:\t{flags}\n");
            std::fs::write(directory.join("fdinfo").join(descriptor), info).unwrap();
        }
    }

    fn listening(ids: &[u32]) -> Vec<ListenerSummary> {
        let listener = |id: &u32| ListenerSummary {
            netns: String::new(),
            address: "0.0.0.0".to_owned(),
            port: 80,
            process_name: None,
            process_id: Some(*id),
        };
        ids.iter().map(listener).collect()
    }

    fn shown(root: &Path, ids: &[u32]) -> Vec<String> {
        let found = find(root, &listening(ids));
        assert!(found.iter().all(LogSource::leaves_out_old_lines));
        let shown = found.iter().map(|log| {
            let path = log.path.strip_prefix(root).unwrap().display();
            format!("{path} {}", log.found_in)
        });
        shown.collect()
    }

    #[test]
    fn outputs_of_listening_processes_are_followed() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        std::fs::create_dir_all(root.join("srv/log")).unwrap();
        std::fs::create_dir_all(root.join("var/log")).unwrap();
        for name in
            ["node", "java", "access.log", "app.log", "00000000000000000000.log", "read.log"]
        {
            std::fs::write(root.join("srv").join(name), "started\n").unwrap();
        }
        std::fs::write(root.join("srv/binary"), b"PG\0\x01").unwrap();
        std::fs::write(root.join("var/log/x.log"), "").unwrap();
        std::fs::write(root.join("srv/log/postgresql.log"), "").unwrap();
        process(root, 7, "node", &[("1", "/srv/node", true), ("2", "/srv/node", true)]);
        let java = [
            ("2", "/srv/java", true),
            ("5", "/srv/access.log", true),
            ("6", "/srv/app.log", true),
            ("7", "/srv/00000000000000000000.log", true),
            ("8", "/srv/read.log", false),
            ("9", "/srv/node", true),
        ];
        process(root, 8, "java", &java);
        process(root, 9, "nginx", &[("2", "/srv/node", true)]);
        process(root, 10, "pg_dump", &[("1", "/srv/app.log", true)]);
        process(root, 11, "server", &[("1", "/srv/binary", true), ("2", "/var/log/x.log", true)]);
        process(root, 12, "postgres", &[("1", "/dev/null", true)]);
        process(root, 13, "postgres", &[("4", "/srv/log/postgresql.log", true)]);
        std::fs::write(root.join("proc/12/task/12/children"), "13 ").unwrap();
        std::fs::write(root.join("proc/13/cmdline"), "postgres: 15/main: logger \0").unwrap();
        process(root, 14, "weir", &[("2", "/srv/node", true)]);
        assert_eq!(
            shown(root, &[7, 8, 8, 9, 11, 12, 14]),
            [
                "srv/node written by node, process 7",
                "srv/app.log written by java, process 8",
                "srv/java written by java, process 8",
                "srv/log/postgresql.log written by postgres, process 12",
            ]
        );
    }
}
