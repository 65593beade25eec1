//! Logs of application servers and proxies that no configuration names to us: the files that their
//! running processes hold open.
//!
//! Source: proc(5), `fd/`. gunicorn, uWSGI, php-fpm, Puma, lighttpd, Varnish and Envoy write where
//! their command line or configuration says, each in its own syntax; the descriptors of the process
//! have the answer without any of them. HAProxy is not among them: what it writes to standard error has no time,
//! so old lines would look new at the first start.

use std::path::{Path, PathBuf};

use weir_tables::{LogFormat, LogSource, Program};

/// Names of application servers whose log files are followed, as `comm` begins.
const SERVERS: &[&str] = &["gunicorn", "uwsgi", "php-fpm", "unicorn", "puma"];

/// Names of proxies, whose access logs are followed as well.
const PROXIES: &[&str] = &[
    "angie",
    "caddy",
    "envoy",
    "h2o",
    "lighttpd",
    "nghttpx",
    "squid",
    "traefik",
    "traffic_server",
    "varnishncsa",
];

/// Interpreters whose first arguments name the server.
const INTERPRETERS: &[&str] = &["python", "ruby", "php"];

/// Descriptors that are read of one process.
const DESCRIPTORS: usize = 256;

/// The files that servers and proxies write as logs, without duplicate paths.
pub(super) fn find(root: &Path) -> Vec<LogSource> {
    let Ok(entries) = root.join("proc").read_dir() else { return Vec::new() };
    let mut processes: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .collect();
    processes.sort();
    let mut found: Vec<LogSource> = Vec::new();
    for (id, directory) in processes {
        let Some(server) = server_name(&directory) else { continue };
        for path in log_files(root, &directory, PROXIES.contains(&server)) {
            let is_known = |known: &LogSource| inner(root, &known.path) == inner(root, &path);
            if !found.iter().any(is_known) {
                found.push(source(path, server, id));
            }
        }
    }
    found
}

fn source(path: PathBuf, server: &str, id: u32) -> LogSource {
    let found_in = format!("open in {server}, process {id}");
    LogSource { path, program: Program::Other, format: LogFormat::Auto, found_in }
}

/// The server that runs in a process.
fn server_name(directory: &Path) -> Option<&'static str> {
    let name = std::fs::read_to_string(directory.join("comm")).ok()?;
    if let Some(server) = named(name.trim_end()) {
        return Some(server);
    }
    if !INTERPRETERS.iter().any(|interpreter| name.starts_with(interpreter)) {
        return None;
    }
    let command = std::fs::read(directory.join("cmdline")).ok()?;
    let mut arguments = command.split(|byte| *byte == 0).take(4).filter_map(|argument| {
        let argument = std::str::from_utf8(argument).ok()?;
        Some(argument.rsplit('/').next().unwrap_or(argument))
    });
    arguments.find_map(named)
}

/// The server whose name this begins with.
fn named(text: &str) -> Option<&'static str> {
    SERVERS.iter().chain(PROXIES).copied().find(|server| text.starts_with(server))
}

/// Standard output and error of a process, and its open files called `….log`, where they are files
/// of the same root directory. Access logs of application servers are left out: the proxy in front
/// has the same requests.
pub(super) fn log_files(root: &Path, directory: &Path, is_proxy: bool) -> Vec<PathBuf> {
    let Ok(descriptors) = directory.join("fd").read_dir() else { return Vec::new() };
    if !has_root_of_host(directory) {
        return Vec::new();
    }
    let mut files: Vec<PathBuf> = descriptors
        .flatten()
        .take(DESCRIPTORS)
        .filter_map(|entry| {
            let is_standard = matches!(entry.file_name().to_str(), Some("1" | "2"));
            let path = entry.path().read_link().ok()?;
            let is_access = !is_proxy && path.to_string_lossy().contains("access");
            let is_log = is_standard || path.extension().is_some_and(|end| end == "log");
            let inner = path.strip_prefix("/").ok()?;
            let path = root.join(inner);
            (is_log && !is_access && !path.starts_with(root.join("dev")) && path.is_file())
                .then(|| readable(path, directory, inner))
        })
        .collect();
    files.sort();
    files.dedup();
    files
}

/// Whether a process sees the files of the host under their paths.
pub(super) fn has_root_of_host(directory: &Path) -> bool {
    directory.join("root").read_link().is_ok_and(|link| link == Path::new("/"))
}

/// The path as the processes of this host see it, also of one below the root of a process.
fn inner<'p>(root: &Path, path: &'p Path) -> &'p Path {
    let path = path.strip_prefix(root).unwrap_or(path);
    let mut parts = path.components();
    let is_below = parts.next().is_some_and(|part| part.as_os_str() == "proc")
        && parts.nth(1).is_some_and(|part| part.as_os_str() == "root");
    if is_below { parts.as_path() } else { path }
}

/// `path`, if the owner of the process may read it: a descriptor for writing, or of `O_PATH`, does
/// not show that. Otherwise the path below the root of the process, whose refusal is reported.
pub(super) fn readable(path: PathBuf, directory: &Path, inner: &Path) -> PathBuf {
    let seen = directory.join("root").join(inner);
    let is_readable =
        weir_access::is_trusted_process(directory) || weir_access::open(&seen).is_ok();
    if is_readable { path } else { seen }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn process(root: &Path, id: u32, (comm, command): (&str, &str), descriptors: &[(&str, &str)]) {
        let directory = root.join(format!("proc/{id}"));
        std::fs::create_dir_all(directory.join("fd")).unwrap();
        std::fs::write(directory.join("comm"), format!("{comm}\n")).unwrap();
        std::fs::write(directory.join("cmdline"), command).unwrap();
        symlink("/", directory.join("root")).unwrap();
        for (number, target) in descriptors {
            symlink(target, directory.join("fd").join(number)).unwrap();
        }
    }

    #[test]
    fn files_that_servers_hold_open_are_their_logs() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for name in [
            "var/log/guni.err",
            "var/log/h.out",
            "var/log/fpm.log",
            "srv/data",
            "x.log",
            "var/log/lighttpd/access.log",
        ] {
            std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            std::fs::write(root.join(name), "").unwrap();
        }
        let (guni, haproxy) = ("/var/log/guni.err", "/var/log/h.out");
        process(
            root,
            7,
            ("python3", "python3\0-m\0gunicorn\0"),
            &[("2", guni), ("9", "/srv/data")],
        );
        process(root, 8, ("python3", "python3\0-m\0gunicorn\0"), &[("2", guni)]);
        process(root, 9, ("haproxy", "haproxy\0"), &[("1", haproxy), ("2", "/dev/null")]);
        process(root, 10, ("php-fpm8.2", "php-fpm: master"), &[("4", "/var/log/fpm.log")]);
        process(root, 11, ("python3", "python3\0x.py\0"), &[("2", "/x.log")]);
        let access = "/var/log/lighttpd/access.log";
        process(root, 13, ("lighttpd", "lighttpd\0"), &[("5", access), ("6", "/srv/data")]);
        process(root, 14, ("gunicorn", "gunicorn\0"), &[("5", access)]);
        process(root, 12, ("uwsgi", "uwsgi\0"), &[("2", "pipe:[1]"), ("1", "/gone (deleted)")]);
        let shown: Vec<String> = find(root)
            .iter()
            .map(|log| {
                let path = log.path.strip_prefix(root).unwrap().display();
                format!("{path} {} {} {}", log.program.as_str(), log.format.name(), log.found_in)
            })
            .collect();
        assert_eq!(
            shown,
            [
                "var/log/guni.err other auto open in gunicorn, process 7",
                "var/log/fpm.log other auto open in php-fpm, process 10",
                "var/log/lighttpd/access.log other auto open in lighttpd, process 13",
            ]
        );
    }
}
