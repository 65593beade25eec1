//! HAProxy: its configuration, and the file in which a syslog daemon stores its log.
//!
//! Source: HAProxy's configuration manual §2 (format), §4 (keywords), Debian's `49-haproxy.conf`.
//! The surprising thing: HAProxy writes no files; a syslog daemon decides where its lines go.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use weir_tables::{LogFormat, LogSource, Program};

use super::process::ServerProcess;
use super::{DiscoveryBuilder, FoundDirective, below, syslog};
use crate::glob;

const CONFIGURATION: &str = "/etc/haproxy/haproxy.cfg";
const LOG: &str = "/var/log/haproxy.log";

const RANGE_LIMIT: usize = 64;

const SECTIONS: &str = "\
    global defaults frontend backend listen peers resolvers userlist mailers cache ring program \
    http-errors log-forward fcgi-app crt-store traces";

const RECORDED_KEYWORDS: &str = "\
    bind maxconn server server-template backlog log log-format mode balance retries nbthread \
    fullconn default_backend use_backend http-reuse default-server maxconnrate maxsslconn \
    ulimit-n tune.bufsize tune.maxaccept";

/// First words of two-word keywords that become rows.
const RECORDED_PAIRS: &[&str] = &["timeout", "option", "stats"];

pub(super) fn find(found: &mut DiscoveryBuilder, processes: &[ServerProcess]) {
    let mut seen = HashSet::new();
    for process in processes.iter().filter(|process| process.name == "haproxy") {
        let files: Vec<PathBuf> =
            process.options('f').map(|file| process.directory.join(file)).collect();
        // A worker has the arguments of its master, and a higher id.
        if !files.is_empty() && seen.insert((process.base.clone(), files.clone())) {
            super::as_owner(found, &process.base, |found| {
                read_all(found, &process.base, &files, Some(process.id));
            });
        }
    }
    let root = found.root.clone();
    let is_read = seen.iter().any(|(base, _)| *base == root);
    if !is_read && below(&root, Path::new(CONFIGURATION)).exists() {
        read_all(found, &root, &[CONFIGURATION.into()], None);
    }
}

fn read_all(found: &mut DiscoveryBuilder, base: &Path, files: &[PathBuf], process_id: Option<i64>) {
    let mut reader = HaproxyConfigReader {
        found,
        process_id,
        section: String::new(),
        logs: LogTargets::default(),
    };
    for file in files {
        for part in parts(base, file) {
            reader.file(base, &part);
        }
    }
    let logs = std::mem::take(&mut reader.logs);
    logs.follow(found, base, files, process_id);
}

/// Where the configuration sends the log, each with its location.
#[derive(Debug, Default)]
struct LogTargets {
    /// The first log to this host's syslog.
    local: Option<String>,
    /// The first log to stdout or stderr, and the number of that file descriptor.
    standard: Option<(String, u8)>,
    is_elsewhere: bool,
    has_stats_socket: bool,
}

impl LogTargets {
    /// Adds the log's file as a source, or a problem that tells which line would make one.
    fn follow(
        self,
        found: &mut DiscoveryBuilder,
        base: &Path,
        files: &[PathBuf],
        process_id: Option<i64>,
    ) {
        let (program, format) = (Program::Haproxy, LogFormat::HaproxyHttp);
        let path = below(base, Path::new(LOG));
        let root = found.root.clone();
        let source = |path, found_in| LogSource { path, program, format, found_in };
        if let Some((found_in, descriptor)) = &self.standard
            && let Some(path) =
                process_id.and_then(|id| standard_file(&root, base, id, *descriptor))
        {
            found.source(source(path, found_in.clone()));
            return;
        }
        match &self.local {
            Some(found_in) if path.is_file() => found.source(source(path, found_in.clone())),
            Some(location) if !syslog::is_present(base) => {
                let message = format!("no log of HAProxy is readable: `{LOG}` does not exist");
                found.problem(
                    location.clone(),
                    self.hint("let a syslog daemon write local0 to it"),
                    message,
                );
            }
            None if self.standard.is_some() && !syslog::is_present(base) => {
                let message =
                    "no log of HAProxy is readable: it goes to its stdout, which is no file";
                let location = self.standard.as_ref().map(|(location, _)| location.clone());
                let hint = self.hint("`weir up --tail FILE` where its output is written to a file");
                found.problem(location.unwrap_or_default(), hint, message.to_owned());
            }
            None if self.standard.is_none() && !self.is_elsewhere => {
                let location = files.first().map(|file| file.display().to_string());
                let message = "HAProxy writes no log: its configuration has no `log` line";
                let hint = self.hint("`log /dev/log local0` in `global`, `log global` and `option httplog` in `defaults`");
                found.problem(location.unwrap_or_default(), hint, message.to_owned());
            }
            _ => {}
        }
    }

    /// What to do, which is less urgent where its counters are sampled.
    fn hint(&self, log: &'static str) -> &'static str {
        if self.has_stats_socket {
            return "its `stats socket` is sampled instead; add a log for the times of each request";
        }
        if log.starts_with("`log") {
            "add `stats socket /run/haproxy/admin.sock level operator` to `global` for its counters, \
             and `log /dev/log local0` with `option httplog` for each request"
        } else {
            log
        }
    }
}

/// The regular file that a process' stdout or stderr goes to.
fn standard_file(root: &Path, base: &Path, process_id: i64, descriptor: u8) -> Option<PathBuf> {
    let link = root.join(format!("proc/{process_id}/fd/{descriptor}"));
    let path = link.read_link().ok()?;
    let is_stream = !path.is_absolute() || path.starts_with("/dev");
    let path = if base == root { path } else { below(base, &path) };
    (!is_stream && path.is_file()).then_some(path)
}

/// Files of `-f`: a directory means its `*.cfg`.
fn parts(base: &Path, file: &Path) -> Vec<PathBuf> {
    let outside = below(base, file);
    if !outside.is_dir() {
        return vec![file.to_owned()];
    }
    glob::expand(&outside.join("*.cfg"))
        .into_iter()
        .map(|path| file.join(path.file_name().unwrap_or_default()))
        .collect()
}

struct HaproxyConfigReader<'a> {
    found: &'a mut DiscoveryBuilder,
    process_id: Option<i64>,
    section: String,
    logs: LogTargets,
}

impl HaproxyConfigReader<'_> {
    fn file(&mut self, base: &Path, path: &Path) {
        let Some(text) = self.found.read(&below(base, path), path) else { return };
        self.section.clear();
        for (line, number) in String::from_utf8_lossy(&text).lines().zip(1..) {
            let words = words(line);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if let Some((keyword, _)) = words.split_first() {
                if SECTIONS.split(' ').any(|section| section == *keyword) {
                    self.section = words.join(" ");
                } else {
                    self.directive(path, number, &words);
                }
            }
        }
    }

    fn directive(&mut self, path: &Path, line: i64, words: &[&str]) {
        // In `no option httpclose` and `default option …`, the keyword comes second.
        let start = usize::from(matches!(words[0], "no" | "default") && words.len() > 1);
        let is_pair = RECORDED_PAIRS.contains(&words[start]) && words.len() > start + 1;
        let end = start + if is_pair { 2 } else { 1 };
        if !is_pair && !RECORDED_KEYWORDS.split(' ').any(|keyword| keyword == words[start]) {
            return;
        }
        let (name, arguments) = (words[..end].join(" "), &words[end..]);
        match name.as_str() {
            "log" => self.log(path, line, arguments),
            "log-format" => self.own_format(path, line),
            "stats socket" => self.logs.has_stats_socket = true,
            _ => {}
        }
        let shown = if is_secret(&name) { "[redacted]".to_owned() } else { arguments.join(" ") };
        let sockets = match (name.as_str(), arguments.first()) {
            ("bind", Some(addresses)) => sockets(addresses),
            _ => vec![(None, None)],
        };
        for (server_address, server_port) in sockets {
            self.found.directive(FoundDirective {
                program: Program::Haproxy,
                process_id: self.process_id,
                file: path.to_owned(),
                line,
                context: self.section.clone(),
                directive: name.clone(),
                arguments: shown.clone(),
                server_address,
                server_port,
                server_block: None,
                base: super::directory_of(path),
            });
        }
    }

    fn log(&mut self, path: &Path, line: i64, arguments: &[&str]) {
        let Some(target) = arguments.first().copied() else { return };
        let location = format!("{}:{line}", path.display());
        let is_local = target.starts_with('/')
            || target.starts_with("unix@")
            || ["127.0.0.1", "localhost", "::1"].iter().any(|name| target.starts_with(name));
        let standard = ["stdout", "stderr", "fd@1", "fd@2"].iter().position(|name| target == *name);
        if is_local {
            self.logs.local.get_or_insert(location);
        } else if let Some(place) = standard {
            self.logs.standard.get_or_insert((location, if place % 2 == 0 { 1 } else { 2 }));
        } else if target != "global" {
            self.logs.is_elsewhere = true;
            let message = format!("cannot follow HAProxy's log: it goes to `{target}`");
            self.found.problem(location, "add `log /dev/log local0` beside it", message);
        }
    }

    fn own_format(&mut self, path: &Path, line: i64) {
        let location = format!("{}:{line}", path.display());
        let message = format!(
            "cannot read the times of `log-format` at `{location}`: weir reads `option httplog`"
        );
        self.found.problem(location, "use `option httplog`, which has all timers", message);
    }
}

fn is_secret(name: &str) -> bool {
    matches!(name, "stats auth" | "stats admin" | "stats scope")
}

/// Splits a line into words: quotes, backslash escapes, comments from `#` on.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None, '#') => break,
            (None, ' ' | '\t' | '\r') => words.extend(word.take()),
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (Some(open), close) if open == close => quote = None,
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// Address and port of every socket of `bind ADDRESS:PORT[-PORT],…`.
fn sockets(addresses: &str) -> Vec<(Option<String>, Option<i64>)> {
    let mut all = Vec::new();
    for address in addresses.split(',') {
        let family = address.split_once('@');
        let (family, rest) = family.map_or(("", address), |(family, rest)| (family, rest));
        if rest.starts_with('/') || matches!(family, "unix" | "abns" | "fd" | "sockpair") {
            all.push((None, None));
            continue;
        }
        let (host, ports) = rest.rsplit_once(':').unwrap_or((rest, ""));
        let host = host.trim_matches(['[', ']']);
        let host = match host {
            "" | "*" if family.ends_with('6') => "::",
            "" | "*" => "0.0.0.0",
            "::" | ":" => "::",
            other => other,
        };
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        match (first.parse::<u16>(), last.parse::<u16>()) {
            (Ok(first), Ok(last)) => {
                all.extend(
                    (first..=last).map(|port| (Some(host.to_owned()), Some(i64::from(port)))),
                );
            }
            _ => all.push((Some(host.to_owned()), None)),
        }
        all.truncate(RANGE_LIMIT);
    }
    all
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(addresses: &str, expected: Expect) {
        let shown: Vec<String> = sockets(addresses)
            .into_iter()
            .map(|(address, port)| match (address, port) {
                (Some(address), Some(port)) => format!("{address} {port}"),
                (address, port) => format!("{address:?} {port:?}"),
            })
            .collect();
        expected.assert_eq(&shown.join(", "));
    }

    #[test]
    fn every_socket_of_a_bind_is_named() {
        check("*:80", expect!["0.0.0.0 80"]);
        check(":80,10.0.0.1:443", expect!["0.0.0.0 80, 10.0.0.1 443"]);
        check("[::]:80", expect![":: 80"]);
        check(":::80", expect![":: 80"]);
        check("ipv6@:80", expect![":: 80"]);
        check("127.0.0.1:8000-8002", expect!["127.0.0.1 8000, 127.0.0.1 8001, 127.0.0.1 8002"]);
        check("/run/haproxy.sock", expect!["None None"]);
        check("*:$PORT", expect![[r#"Some("0.0.0.0") None"#]]);
        assert_eq!(sockets("*:1-65535").len(), RANGE_LIMIT);
    }

    #[test]
    fn words_keep_quoted_spaces_and_lose_comments() {
        assert_eq!(words("  a 'b c' \"d # \\\" e\" f\\ g # h"), ["a", "b c", "d # \" e", "f g"]);
        assert!(words("# only").is_empty());
        assert_eq!(words("x ''"), ["x", ""]);
    }
}
