//! Apache httpd: its configuration with includes, its logs and their formats.
//!
//! Source: httpd's manual (configuring, `mod_log_config`, `mpm_common`), Debian's `envvars`.
//! Containers such as `<IfModule>` are treated as if they applied: a directive too many is better
//! than one too few. The surprising thing: on Debian the log directory is a shell variable in a
//! file that httpd itself never reads.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use weir_tables::{LogFormat, LogSource, Program};

use super::process::ServerProcess;
use super::{DiscoveryBuilder, FoundDirective, below};
use crate::glob;

const DEPTH_LIMIT: usize = 16;
const FILE_LIMIT: usize = 2000;
/// Fewest letters in the glob of a log that is written by date, so that it matches no other files.
const MIN_NAME_LETTERS: usize = 3;

/// Paths of distributions: server root, configuration.
const DEFAULT_PATHS: &[(&str, &str)] = &[
    ("/etc/apache2", "/etc/apache2/apache2.conf"),
    ("/etc/httpd", "/etc/httpd/conf/httpd.conf"),
    ("/usr/local/apache2", "/usr/local/apache2/conf/httpd.conf"),
];

/// Directives that become rows, in lower case.
const RECORDED_DIRECTIVES: &str = "\
    listen listenbacklog keepalive keepalivetimeout maxkeepaliverequests maxrequestworkers \
    maxclients serverlimit threadsperchild threadlimit startservers maxconnectionsperchild \
    timeout requestreadtimeout proxypass balancermember proxytimeout servername customlog errorlog \
    logformat transferlog enablesendfile";

const COMMON: &str = "%h %l %u %t \"%r\" %>s %b";

pub(super) fn find(found: &mut DiscoveryBuilder, processes: &[ServerProcess]) {
    let mut seen = HashSet::new();
    for process in
        processes.iter().filter(|process| matches!(process.name.as_str(), "apache2" | "httpd"))
    {
        super::as_owner(found, &process.base, |found| {
            let Some((server_root, configuration)) = configuration_of(process) else { return };
            // Children have the arguments of their parent, and higher ids.
            if seen.insert((process.base.clone(), configuration.clone())) {
                read_all(found, &process.base, &server_root, &configuration, Some(process.id));
            }
        });
    }
    let root = found.root.clone();
    if let Some((server_root, configuration)) = default_paths_at(&root)
        && !seen.contains(&(root.clone(), configuration.clone()))
    {
        read_all(found, &root, &server_root, &configuration, None);
    }
}

fn default_paths_at(base: &Path) -> Option<(PathBuf, PathBuf)> {
    let location = DEFAULT_PATHS.iter().find(|(_, file)| below(base, Path::new(file)).exists())?;
    Some((location.0.into(), location.1.into()))
}

/// Server root and configuration; without a default, paths are below the directory of the option
/// `-f` until the configuration names its `ServerRoot`.
fn configuration_of(process: &ServerProcess) -> Option<(PathBuf, PathBuf)> {
    let location = default_paths_at(&process.base);
    let server_root = process.option('d').map(PathBuf::from);
    let server_root = server_root
        .or_else(|| location.as_ref().map(|location| location.0.clone()))
        .or_else(|| Some(Path::new(process.option('f')?).parent()?.to_owned()))?;
    let configuration = match process.option('f') {
        Some(file) => server_root.join(file),
        None => location?.1,
    };
    Some((server_root, configuration))
}

fn read_all(
    found: &mut DiscoveryBuilder,
    base: &Path,
    server_root: &Path,
    configuration: &Path,
    process_id: Option<i64>,
) {
    let mut reader = ApacheConfigReader {
        variables: shell_variables(&below(base, &server_root.join("envvars"))),
        found,
        base: base.to_owned(),
        server_root: server_root.to_owned(),
        process_id,
        formats: HashMap::from([("common".to_owned(), COMMON.to_owned())]),
        logs: Vec::new(),
        blocks: Vec::new(),
        files: 0,
    };
    reader.file(configuration, 0);
    reader.finish();
}

/// Parses `export NAME=VALUE` lines; an unset variable inside a value is empty.
fn shell_variables(path: &Path) -> HashMap<String, String> {
    let text = weir_access::read(path, super::CONFIG_LIMIT).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut variables = HashMap::new();
    for line in text.lines() {
        let line = line.trim();
        let Some((name, value)) = line.strip_prefix("export ").unwrap_or(line).split_once('=')
        else {
            continue;
        };
        if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            let value = value.trim_matches(['"', '\'']);
            let value = value.split('$').next().unwrap_or("");
            variables.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
    }
    variables
}

struct NamedLog {
    target: String,
    format: Option<String>,
    is_error: bool,
    location: String,
}

struct ApacheConfigReader<'a> {
    found: &'a mut DiscoveryBuilder,
    base: PathBuf,
    server_root: PathBuf,
    process_id: Option<i64>,
    variables: HashMap<String, String>,
    formats: HashMap<String, String>,
    logs: Vec<NamedLog>,
    blocks: Vec<String>,
    files: usize,
}

impl ApacheConfigReader<'_> {
    fn file(&mut self, path: &Path, depth: usize) {
        self.files += 1;
        if depth > DEPTH_LIMIT || self.files > FILE_LIMIT {
            return self.found.too_deep(path);
        }
        let Some(text) = self.found.read(&below(&self.base, path), path) else { return };
        let open_before = self.blocks.len();
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut whole = String::new();
        let mut start = 1;
        for (line, number) in text.lines().zip(1..) {
            if whole.is_empty() {
                start = number;
            }
            if let Some(part) = line.strip_suffix('\\') {
                whole.push_str(part);
                continue;
            }
            whole.push_str(line);
            self.line(path, start, whole.trim(), depth);
            whole.clear();
        }
        if self.blocks.len() != open_before {
            let location = path.display().to_string();
            let message = format!(
                "cannot parse `{location}`: a `<{}>` is never closed",
                self.blocks.last().map_or("", String::as_str)
            );
            self.found.problem(location, "run `apachectl configtest`", message);
            self.blocks.truncate(open_before);
        }
    }

    fn line(&mut self, path: &Path, line: i64, text: &str, depth: usize) {
        if text.is_empty() || text.starts_with('#') {
        } else if text.starts_with("</") {
            self.blocks.pop();
        } else if let Some(section) = text.strip_prefix('<') {
            self.blocks.push(section.trim_end_matches('>').trim().to_owned());
        } else {
            let words: Vec<String> = words(text).iter().map(|word| self.expand(word)).collect();
            self.directive(path, line, &words, depth);
        }
    }

    /// Expands variables; unknown ones are kept.
    fn expand(&self, word: &str) -> String {
        let mut expanded = String::new();
        let mut rest = word;
        while let Some((before, after)) = rest.split_once("${") {
            expanded.push_str(before);
            match after.split_once('}').map(|(name, tail)| (self.variables.get(name), tail)) {
                Some((Some(value), tail)) => {
                    expanded.push_str(value);
                    rest = tail;
                }
                _ => {
                    expanded.push_str("${");
                    rest = after;
                }
            }
        }
        expanded + rest
    }

    fn directive(&mut self, path: &Path, line: i64, words: &[String], depth: usize) {
        let Some((name, arguments)) = words.split_first() else { return };
        let lower = name.to_ascii_lowercase();
        let location = format!("{}:{line}", path.display());
        match (lower.as_str(), arguments) {
            ("include" | "includeoptional", [pattern, ..]) => {
                return self.include(pattern, lower == "include", depth, &location);
            }
            ("define", [variable, value]) => {
                self.variables.insert(variable.clone(), value.clone());
            }
            ("serverroot", [directory]) => self.server_root = directory.into(),
            ("logformat", [format]) => {
                self.formats.insert(String::new(), format.clone());
            }
            ("logformat", [format, nickname]) => {
                self.formats.insert(nickname.clone(), format.clone());
            }
            ("customlog" | "globallog", [target, format, ..]) => {
                self.log(target, Some(format), &location);
            }
            ("transferlog", [target]) => self.log(target, None, &location),
            ("errorlog", [target, ..]) => self.logs.push(NamedLog {
                target: target.clone(),
                format: None,
                is_error: true,
                location: location.clone(),
            }),
            _ => {}
        }
        if RECORDED_DIRECTIVES.split(' ').any(|recorded| recorded == lower) {
            self.record(path, line, name, arguments);
        }
    }

    fn log(&mut self, target: &str, format: Option<&String>, location: &str) {
        self.logs.push(NamedLog {
            target: target.to_owned(),
            format: format.cloned(),
            is_error: false,
            location: location.to_owned(),
        });
    }

    fn include(&mut self, pattern: &str, is_required: bool, depth: usize, location: &str) {
        let pattern = self.server_root.join(pattern);
        let mut outside = below(&self.base, &pattern);
        if outside.is_dir() {
            outside.push("*");
        }
        let matched = if self.files > FILE_LIMIT { Vec::new() } else { glob::expand(&outside) };
        if self.files <= FILE_LIMIT && matched.is_empty() && is_required {
            let message = format!("cannot read `{}`: no such file", pattern.display());
            self.found.problem(location.to_owned(), "run `apachectl configtest`", message);
        }
        for path in matched.into_iter().filter(|path| path.is_file()) {
            let inside = path.strip_prefix(&self.base).map(|rest| Path::new("/").join(rest));
            self.file(&inside.unwrap_or(path), depth + 1);
        }
    }

    fn record(&mut self, path: &Path, line: i64, name: &str, arguments: &[String]) {
        let (server_address, server_port) = match arguments.first() {
            Some(first) if name.eq_ignore_ascii_case("listen") => listen_address(first),
            _ => (None, None),
        };
        self.found.directive(FoundDirective {
            program: Program::Apache,
            process_id: self.process_id,
            file: path.to_owned(),
            line,
            context: self.blocks.join("/"),
            directive: name.to_owned(),
            arguments: super::redact_url(&arguments.join(" ")),
            server_address,
            server_port,
            server_block: None,
            base: super::directory_of(path),
        });
    }

    fn finish(mut self) {
        for log in std::mem::take(&mut self.logs) {
            let format = if log.is_error { LogFormat::ApacheError } else { self.format(&log) };
            let rotated = rotated_files(&log.target);
            let target = rotated.as_deref().unwrap_or(&log.target);
            if target == "/dev/null" {
                continue;
            }
            let (what, hint) = if target.starts_with('|') {
                ("it goes to another program", "name the files with `weir up --tail GLOB`")
            } else if target.starts_with("syslog") {
                ("it goes to syslog", "write a second log to a file, which has offsets")
            } else if target.contains("${") || target.contains('%') {
                ("its path holds variables", "name the files with `weir up --tail GLOB`")
            } else if matches!(
                target,
                "/dev/stdout" | "/dev/stderr" | "/proc/self/fd/1" | "/proc/self/fd/2"
            ) {
                ("it goes to a standard stream", "let httpd write to a file as well")
            } else {
                let path = below(&self.base, &self.server_root.join(target));
                let found_in = log.location;
                self.found.source(LogSource { path, program: Program::Apache, format, found_in });
                continue;
            };
            let message = format!("cannot follow `{target}`: {what}");
            self.found.problem(log.location, hint, message);
        }
    }

    fn format(&self, log: &NamedLog) -> LogFormat {
        let name = log.format.as_deref().unwrap_or("");
        let template = match self.formats.get(name) {
            Some(template) => template.as_str(),
            None if name.contains('%') => name,
            None => COMMON,
        };
        // Debian's format counts bytes with headers (`%O`); the field positions are the same.
        let plain = template.replace("%O", "%b").replace("%{User-agent}i", "%{User-Agent}i");
        let combined = format!("{COMMON} \"%{{Referer}}i\" \"%{{User-Agent}}i\"");
        if plain == COMMON || plain == combined {
            LogFormat::Combined
        } else {
            LogFormat::ApacheTemplate { template: template.to_owned() }
        }
    }
}

/// Splits a line into words; a backslash inside quotes escapes the quote and itself.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let mut word = String::new();
        if matches!(first, '"' | '\'') {
            let mut characters = rest[1..].char_indices().peekable();
            let mut end = rest.len();
            while let Some((at, character)) = characters.next() {
                match character {
                    '\\' if characters
                        .peek()
                        .is_some_and(|(_, next)| *next == first || *next == '\\') =>
                    {
                        word.extend(characters.next().map(|(_, next)| next));
                    }
                    close if close == first => {
                        end = at + 2;
                        break;
                    }
                    other => word.push(other),
                }
            }
            rest = &rest[end.min(rest.len())..];
        } else {
            let end = rest.find([' ', '\t']).unwrap_or(rest.len());
            word.push_str(&rest[..end]);
            rest = &rest[end..];
        }
        words.push(word);
        rest = rest.trim_start();
    }
    words
}

/// The files that `rotatelogs` or `cronolog` writes for a piped log, as a path or a glob; `None` for
/// another program, and where directories have dates.
///
/// Sources: rotatelogs(8), cronolog(1). A path without a date gets the second at which it begins.
fn rotated_files(target: &str) -> Option<String> {
    let command = words(target.strip_prefix('|')?.trim_start_matches(['|', '$']));
    let (program, arguments) = command.split_first()?;
    let is_rotatelogs = match program.rsplit('/').next()? {
        "rotatelogs" | "rotatelogs2" => true,
        "cronolog" => false,
        _ => return None,
    };
    let with_value = if is_rotatelogs { "Lp" } else { "HSPlxpdz" };
    let (mut arguments, mut is_kept) = (arguments.iter(), false);
    let path = loop {
        let word = arguments.next()?;
        let Some(flag) = word.strip_prefix('-') else { break word };
        match flag {
            // A list of files that is written in turn.
            "n" => return None,
            "t" => is_kept = true,
            _ if flag.len() == 1 && with_value.contains(flag) => {
                arguments.next();
            }
            _ => {}
        }
    };
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let mut parts = name.split('%');
    let mut glob = parts.next()?.to_owned();
    for part in parts {
        if !glob.ends_with('*') {
            glob.push('*');
        }
        glob.push_str(part.get(1..)?);
    }
    if glob == name && is_rotatelogs && !is_kept {
        glob.push_str(".*");
    }
    let literal = glob.bytes().filter(|byte| byte.is_ascii_alphanumeric()).count();
    let slash = if directory.is_empty() && !path.starts_with('/') { "" } else { "/" };
    (!directory.contains('%') && literal >= MIN_NAME_LETTERS)
        .then(|| format!("{directory}{slash}{glob}"))
}

/// Address and port of `Listen [ADDRESS:]PORT`.
fn listen_address(argument: &str) -> (Option<String>, Option<i64>) {
    let (address, port) = argument.rsplit_once(':').unwrap_or(("0.0.0.0", argument));
    let address = match address.trim_matches(['[', ']']) {
        "*" => "0.0.0.0",
        other => other,
    };
    (Some(address.to_owned()), port.parse::<u16>().ok().map(i64::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_httpd_splits_them() {
        assert_eq!(
            words(r#"LogFormat "%h \"%r\" \x" name"#),
            ["LogFormat", r#"%h "%r" \x"#, "name"]
        );
        assert_eq!(words("a 'b c'  d"), ["a", "b c", "d"]);
        assert_eq!(words("a \"never closed"), ["a", "never closed"]);
        assert_eq!(words("a \"é"), ["a", "é"]);
    }

    #[test]
    fn piped_logs_are_files_by_date() {
        for (target, files) in [
            ("|/usr/bin/rotatelogs /var/log/a_log 86400", Some("/var/log/a_log.*")),
            ("||bin/rotatelogs -l logs/access.%Y%m%d 86400 60", Some("logs/access.*")),
            ("|$/usr/sbin/rotatelogs -L link -f '/l g/a-%Y.log' 5M", Some("/l g/a-*.log")),
            ("|/usr/sbin/rotatelogs -t /var/log/a_log 86400", Some("/var/log/a_log")),
            ("|/usr/sbin/rotatelogs -n 5 /var/log/a_log 1M", None),
            ("|/usr/sbin/cronolog -l /l/a /l/access-%Y.%m.%d.log", Some("/l/access-*.*.*.log")),
            ("|/usr/sbin/cronolog /l/%Y/%m/access.log", None),
            ("|/usr/bin/rotatelogs /l/%Y%m%d 86400", None),
            ("|/usr/bin/logger -t apache", None),
            ("/var/log/access_log", None),
        ] {
            assert_eq!(rotated_files(target).as_deref(), files, "{target}");
        }
    }

    #[test]
    fn listen_has_address_and_port() {
        assert_eq!(listen_address("80"), (Some("0.0.0.0".into()), Some(80)));
        assert_eq!(listen_address("[::1]:8080"), (Some("::1".into()), Some(8080)));
        assert_eq!(listen_address("10.0.0.1:443"), (Some("10.0.0.1".into()), Some(443)));
        assert_eq!(listen_address("x"), (Some("0.0.0.0".into()), None));
    }
}
