//! The log of Redis and Valkey, which no descriptor shows: they open it for each line.
//!
//! A server overwrites its command line (`redis-server 127.0.0.1:6379`), so its configuration is the file in
//! one of the usual places that has its port and its working directory. Source: `redis.conf` (`logfile`, `dir`,
//! `port`, `include`), Redis `server.c` (`serverLogRaw`, `redisSetProcTitle`).

use std::path::{Path, PathBuf};

use super::server_logs::readable;

/// Names of the servers, as `comm` has them.
pub(super) const SERVERS: &[&str] = &["redis-server", "valkey-server"];
/// Directories whose `….conf` are configurations.
const DIRECTORIES: &[&str] =
    &["etc/redis", "etc/valkey", "usr/local/etc/redis", "usr/local/etc/valkey"];
/// Configurations elsewhere.
const FILES: &[&str] = &["etc/redis.conf", "etc/valkey.conf", "usr/local/etc/redis.conf"];
/// Configurations in the working directory.
const NAMES: &[&str] = &["redis.conf", "valkey.conf"];
const DEFAULT_PORT: u16 = 6379;
/// Bytes of a configuration that are read; the one that is shipped has 110 KiB.
const FILE_BYTES: u64 = 1 << 20;
/// Files that one configuration may include, and files of one directory.
const FILES_MAX: usize = 64;

/// A server whose configuration is sought.
struct RedisProcess<'a> {
    root: &'a Path,
    /// Its `/proc/PID`.
    directory: &'a Path,
    working: PathBuf,
}

/// What a configuration says; the last line of a kind counts.
#[derive(Default)]
struct RedisConfig {
    port: Option<u16>,
    tls_port: Option<u16>,
    directory: Option<PathBuf>,
    log_file: Option<PathBuf>,
    files_read: usize,
}

/// The log that the configuration of a server names; `directory` is its `/proc/PID`.
pub(super) fn find(root: &Path, directory: &Path, ports: &[u16]) -> Option<PathBuf> {
    let working = directory.join("cwd").read_link().ok()?;
    let process = RedisProcess { root, directory, working };
    let config = process.candidates().into_iter().find_map(|path| {
        let mut config = RedisConfig::default();
        process.read(&path, &mut config);
        let has_port = [config.port.or(Some(DEFAULT_PORT)), config.tls_port]
            .iter()
            .flatten()
            .any(|port| ports.contains(port));
        let is_there = config.directory.as_ref().is_none_or(|there| *there == process.working);
        (config.files_read > 0 && has_port && is_there).then_some(config)
    })?;
    let path = process.readable(&process.working.join(config.log_file?))?;
    (path.is_file() && !path.starts_with(root.join("dev"))).then_some(path)
}

impl RedisProcess<'_> {
    /// Where a path of the host is opened, with the rights of the process.
    fn readable(&self, path: &Path) -> Option<PathBuf> {
        let inner = path.strip_prefix("/").ok()?;
        Some(readable(self.root.join(inner), self.directory, inner))
    }

    /// Paths of configurations, the one of an unchanged command line first.
    fn candidates(&self) -> Vec<PathBuf> {
        let command = std::fs::read(self.directory.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command);
        let named = command.split('\0').nth(1).filter(|argument| argument.ends_with(".conf"));
        let mut paths: Vec<PathBuf> =
            named.iter().map(|argument| self.working.join(argument)).collect();
        for place in DIRECTORIES {
            let entries = self.root.join(place).read_dir().into_iter().flatten().flatten();
            let mut names: Vec<PathBuf> = entries
                .take(FILES_MAX)
                .map(|entry| Path::new("/").join(place).join(entry.file_name()))
                .filter(|path| path.extension().is_some_and(|end| end == "conf"))
                .collect();
            names.sort();
            paths.extend(names);
        }
        paths.extend(FILES.iter().map(|file| Path::new("/").join(file)));
        paths.extend(NAMES.iter().map(|name| self.working.join(name)));
        paths
    }

    /// Reads a configuration file and its includes.
    fn read(&self, path: &Path, config: &mut RedisConfig) {
        let Some(path) = self.readable(path).filter(|_| config.files_read < FILES_MAX) else {
            return;
        };
        let Ok(text) = weir_access::read(&path, FILE_BYTES) else { return };
        config.files_read += 1;
        for line in String::from_utf8_lossy(&text).lines() {
            let line = line.trim();
            let Some((name, value)) = line.split_once(char::is_whitespace) else { continue };
            let value = value.trim().trim_matches(['"', '\'']);
            match name.to_ascii_lowercase().as_str() {
                "port" => config.port = value.parse().ok(),
                "tls-port" => config.tls_port = value.parse().ok(),
                "dir" => config.directory = Path::new(value).is_absolute().then(|| value.into()),
                "logfile" => config.log_file = (!value.is_empty()).then(|| value.into()),
                "include" => self.read(&self.working.join(value), config),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The log of a process in `/data/two` that listens on `port`.
    fn found(root: &Path, port: u16, command: &str) -> Option<String> {
        let directory = root.join("proc/7");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("cmdline"), command).unwrap();
        for (name, target) in [("cwd", "/data/two"), ("root", "/")] {
            let _ = std::fs::remove_file(directory.join(name));
            symlink(target, directory.join(name)).unwrap();
        }
        let path = find(root, &directory, &[port])?;
        Some(path.strip_prefix(root).unwrap().display().to_string())
    }

    #[test]
    fn log_of_redis_is_named_by_the_configuration_with_its_port_and_directory() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let files = [
            ("etc/redis/one.conf", "dir /data/one\nlogfile /data/one.log\n"),
            ("etc/redis/two.conf", "include /etc/redis/common\nport 6380\nlogfile \"two.log\"\n"),
            ("etc/redis/common", "# logfile /data/no.log\ndir /data/two\nlogfile /data/no.log\n"),
            ("data/own.conf", "LogFile /data/own.log\nport 6381\n"),
            ("data/two/redis.conf", "port 0\ntls-port 6382\nlogfile ''\n"),
            ("data/one.log", ""),
            ("data/two/two.log", ""),
            ("data/no.log", ""),
            ("data/own.log", ""),
        ];
        for (path, text) in files {
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), text).unwrap();
        }
        let title = "redis-server 127.0.0.1:6380\0\0";
        assert_eq!(found(root, 6380, title).as_deref(), Some("data/two/two.log"));
        // Another directory than the process has; its output is a descriptor; no configuration.
        assert_eq!(found(root, 6379, title), None);
        assert_eq!(found(root, 6382, title), None);
        assert_eq!(found(root, 6383, title), None);
        let plain = "redis-server\0/data/own.conf\0";
        assert_eq!(found(root, 6381, plain).as_deref(), Some("data/own.log"));
    }
}
