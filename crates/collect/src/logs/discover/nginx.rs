//! nginx: its configuration with includes followed, the logs it writes and how their lines look.
//!
//! Source: nginx.org/en/docs, `ngx_http_log_module`, `ngx_http_core_module` (listen). The paths that were compiled in
//! are read from the program file, which holds its own configure arguments as text. The surprising thing: a server that
//! sets no `access_log` anywhere still writes one, in `combined`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memchr::memmem;
use weir_tables::{JsonEscape, LogFormat, LogSource, Program};

use super::nginx_tokens::{Token, tokens};
use super::process::Process;
use super::{Finder, FoundDirective, below};
use crate::logs::glob;

/// Includes within includes.
const DEPTH_LIMIT: usize = 16;

/// Files that one configuration may include.
const FILE_LIMIT: usize = 2000;

/// Bytes of the program file that are looked through at most.
const PROGRAM_LIMIT: u64 = 64 << 20;

/// Directives that become rows; `proxy_*_timeout` and `*_timeout` besides.
const KEPT: &[&str] = &[
    "listen",
    "server_name",
    "worker_connections",
    "worker_rlimit_nofile",
    "worker_processes",
    "keepalive",
    "keepalive_requests",
    "keepalive_time",
    "proxy_pass",
    "server",
    "access_log",
    "root",
    "error_log",
    "log_format",
    "proxy_buffering",
    "proxy_http_version",
    "proxy_next_upstream",
    "proxy_next_upstream_tries",
    "sendfile",
    "multi_accept",
    "accept_mutex",
    "tcp_nodelay",
    "tcp_nopush",
    "limit_rate",
    "limit_req",
    "limit_conn",
    "ssl_certificate",
    "ssl_protocols",
    "ssl_session_cache",
    "client_max_body_size",
    "zone",
    "least_conn",
    "ip_hash",
    "resolver",
    "user",
    "auth_basic",
    "auth_basic_user_file",
];

pub(super) fn find(found: &mut Finder, processes: &[Process]) {
    let masters: Vec<&Process> = processes.iter().filter(|process| is_master(process)).collect();
    for master in &masters {
        let setup = Setup::of(master);
        read_configuration(found, setup, Some(master.id));
    }
    let root = found.root.clone();
    if !masters.iter().any(|master| master.base == root) {
        let setup = Setup::at_rest(&root);
        if below(&root, &setup.configuration).exists() {
            read_configuration(found, setup, None);
        }
    }
}

fn is_master(process: &Process) -> bool {
    let first = process.arguments.first().map_or("", String::as_str);
    let second = process.arguments.get(1).map_or("", String::as_str);
    process.name == "nginx" && (first != "nginx:" || second == "master")
}

/// Where an nginx looks for its files, as it sees them.
#[derive(Debug)]
struct Setup {
    base: PathBuf,
    prefix: PathBuf,
    configuration: PathBuf,
    access_log: PathBuf,
    error_log: PathBuf,
}

impl Setup {
    fn of(master: &Process) -> Self {
        let mut setup = Self::compiled(&master.base, &master.program);
        if let Some(prefix) = master.option('p') {
            setup.prefix = master.directory.join(prefix);
        }
        if let Some(error_log) = master.option('e') {
            setup.error_log = error_log.into();
        }
        if let Some(configuration) = master.option('c') {
            setup.configuration = configuration.into();
        }
        setup.configuration = setup.prefix.join(&setup.configuration);
        setup
    }

    fn at_rest(root: &Path) -> Self {
        let mut setup = Self::compiled(root, &below(root, Path::new("/usr/sbin/nginx")));
        setup.configuration = setup.prefix.join(&setup.configuration);
        setup
    }

    fn compiled(base: &Path, program: &Path) -> Self {
        let text = super::read_limited(program, PROGRAM_LIMIT).unwrap_or_default();
        let value = |name: &str, default: &str| {
            PathBuf::from(configure_argument(&text, name).unwrap_or_else(|| default.to_owned()))
        };
        Self {
            base: base.to_owned(),
            prefix: value("--prefix=", "/usr/share/nginx"),
            configuration: value("--conf-path=", "/etc/nginx/nginx.conf"),
            access_log: value("--http-log-path=", "/var/log/nginx/access.log"),
            error_log: value("--error-log-path=", "/var/log/nginx/error.log"),
        }
    }
}

/// `--NAME=VALUE` in the configure arguments that `nginx -V` prints.
fn configure_argument(program: &[u8], name: &str) -> Option<String> {
    let arguments = memmem::find(program, b"configure arguments:")?;
    let arguments = &program[arguments..(arguments + 8192).min(program.len())];
    let start = memmem::find(arguments, name.as_bytes())? + name.len();
    let rest = &arguments[start..];
    let end = rest.iter().position(|byte| matches!(byte, b' ' | b'\'' | 0 | b'\n'))?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned()).filter(|value| !value.is_empty())
}

fn read_configuration(found: &mut Finder, setup: Setup, process_id: Option<i64>) {
    let mut reader = Reader {
        found,
        process_id,
        base: super::directory_of(&setup.configuration),
        formats: HashMap::new(),
        access_logs: Vec::new(),
        error_logs: Vec::new(),
        servers_without_log: 0,
        has_http_log: false,
        files: 0,
        blocks: 0,
        setup,
    };
    let configuration = reader.setup.configuration.clone();
    let mut blocks = Vec::new();
    reader.file(&configuration, &mut blocks, 0);
    reader.finish(&configuration);
}

/// A block that is open.
#[derive(Debug)]
struct Block {
    number: u32,
    name: String,
    shown: String,
    sets_access_log: bool,
}

/// A log directive before the formats are known.
#[derive(Debug)]
struct NamedLog {
    path: String,
    format: Option<String>,
    place: String,
}

struct Reader<'a> {
    found: &'a mut Finder,
    setup: Setup,
    process_id: Option<i64>,
    base: Arc<Path>,
    formats: HashMap<String, LogFormat>,
    access_logs: Vec<NamedLog>,
    error_logs: Vec<NamedLog>,
    servers_without_log: usize,
    has_http_log: bool,
    files: usize,
    blocks: u32,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path, blocks: &mut Vec<Block>, depth: usize) {
        self.files += 1;
        if depth > DEPTH_LIMIT || self.files > FILE_LIMIT {
            let message =
                format!("cannot follow `{}`: includes are nested too deep", path.display());
            self.found.problem(
                path.display().to_string(),
                message,
                "look for a file that includes itself",
            );
            return;
        }
        let Some(text) = self.found.read(&below(&self.setup.base, path), path) else { return };
        let list = match tokens(&text) {
            Ok(list) => list,
            Err((line, what)) => {
                let place = format!("{}:{line}", path.display());
                let message = format!("cannot parse `{place}`: {what}");
                return self.found.problem(place, message, "run `nginx -t`");
            }
        };
        let depth_before = blocks.len();
        let mut words: Vec<String> = Vec::new();
        let mut line = 1;
        for (token, at) in list {
            match token {
                Token::Word(word) => {
                    line = if words.is_empty() { at } else { line };
                    words.push(word);
                }
                Token::End => {
                    self.directive(path, line, &std::mem::take(&mut words), blocks, depth)
                }
                Token::Open => {
                    self.blocks += 1;
                    blocks.push(Block::new(self.blocks, &std::mem::take(&mut words)));
                }
                Token::Close if blocks.len() > depth_before => self.close(blocks),
                Token::Close => self.unbalanced(path, at, "there is a `}` too many"),
            }
        }
        if blocks.len() > depth_before || !words.is_empty() {
            self.unbalanced(path, line, "it ends before its last block or directive does");
        }
        while blocks.len() > depth_before {
            self.close(blocks);
        }
    }

    fn unbalanced(&mut self, path: &Path, line: i64, what: &str) {
        let place = format!("{}:{line}", path.display());
        let message = format!("cannot parse `{place}`: {what}");
        self.found.problem(place, message, "run `nginx -t`");
    }

    fn close(&mut self, blocks: &mut Vec<Block>) {
        let Some(block) = blocks.pop() else { return };
        let is_http_server =
            block.name == "server" && blocks.last().is_some_and(|b| b.name == "http");
        self.servers_without_log += usize::from(is_http_server && !block.sets_access_log);
        self.has_http_log |= block.name == "http" && block.sets_access_log;
    }

    fn directive(
        &mut self,
        path: &Path,
        line: i64,
        words: &[String],
        blocks: &mut Vec<Block>,
        depth: usize,
    ) {
        let Some((name, arguments)) = words.split_first() else { return };
        let place = format!("{}:{line}", path.display());
        match (name.as_str(), arguments) {
            ("include", [pattern]) => return self.include(pattern, blocks, depth, &place),
            ("log_format", [format, text @ ..]) => self.format(format, text),
            ("access_log", [target, options @ ..]) => {
                if let Some(block) = blocks.last_mut() {
                    block.sets_access_log = true;
                }
                self.access_log(target, options, place);
            }
            ("error_log", [target, ..]) => {
                self.error_logs.push(NamedLog { path: target.clone(), format: None, place });
            }
            _ => {}
        }
        if is_kept(name) {
            self.keep(path, line, name, arguments, blocks);
        }
    }

    fn include(&mut self, pattern: &str, blocks: &mut Vec<Block>, depth: usize, place: &str) {
        let directory = self.setup.configuration.parent().unwrap_or(Path::new("/")).to_owned();
        let pattern = directory.join(pattern);
        let outside = below(&self.setup.base, &pattern);
        let matched = if self.files > FILE_LIMIT { Vec::new() } else { glob::expand(&outside) };
        if self.files <= FILE_LIMIT && matched.is_empty() && !glob::is_pattern(&pattern) {
            let message = format!("cannot read `{}`: no such file", pattern.display());
            self.found.problem(place.to_owned(), message, "run `nginx -t`");
        }
        for path in matched {
            let inside = path.strip_prefix(&self.setup.base).map(|rest| Path::new("/").join(rest));
            self.file(&inside.unwrap_or(path), blocks, depth + 1);
        }
    }

    fn format(&mut self, name: &str, text: &[String]) {
        let (escape, text) = match text.split_first() {
            Some((first, rest)) if first.starts_with("escape=") => {
                let escape = match first.as_str() {
                    "escape=json" => JsonEscape::Json,
                    "escape=none" => JsonEscape::None,
                    _ => JsonEscape::Default,
                };
                (escape, rest)
            }
            _ => (JsonEscape::Default, text),
        };
        let template = text.concat();
        self.formats.insert(name.to_owned(), LogFormat::NginxTemplate { template, escape });
    }

    fn access_log(&mut self, target: &str, options: &[String], place: String) {
        if options.iter().any(|option| option == "gzip" || option.starts_with("gzip=")) {
            let message = format!("cannot follow `{target}`: it is written compressed");
            return self.found.problem(
                place,
                message,
                "take `gzip` off, or write a second `access_log` beside it",
            );
        }
        let format = options.first().filter(|option| !option.contains('=')).cloned();
        self.access_logs.push(NamedLog { path: target.to_owned(), format, place });
    }

    fn keep(&mut self, path: &Path, line: i64, name: &str, arguments: &[String], blocks: &[Block]) {
        let (server_address, server_port) = match (name, arguments.first()) {
            ("listen", Some(first)) => listen_address(first),
            _ => (None, None),
        };
        let context: Vec<&str> = blocks.iter().map(|block| block.shown.as_str()).collect();
        let arguments =
            if name.starts_with("auth_") { "[redacted]".to_owned() } else { arguments.join(" ") };
        self.found.directive(FoundDirective {
            program: Program::Nginx,
            process_id: self.process_id,
            file: path.to_owned(),
            line,
            context: context.join("/"),
            directive: name.to_owned(),
            arguments: super::redact_url(&arguments),
            server_address,
            server_port,
            server_block: blocks.iter().rev().find(|b| b.name == "server").map(|b| b.number),
            base: Arc::clone(&self.base),
        });
    }

    fn finish(mut self, configuration: &Path) {
        for log in std::mem::take(&mut self.access_logs) {
            let format = self.access_format(&log);
            self.add(&log, format);
        }
        if self.servers_without_log > 0 && !self.has_http_log {
            let path = self.setup.access_log.display().to_string();
            let place = configuration.display().to_string();
            self.add(&NamedLog { path, format: None, place }, LogFormat::Combined);
        }
        if self.error_logs.is_empty() {
            let path = self.setup.error_log.display().to_string();
            let place = configuration.display().to_string();
            self.error_logs.push(NamedLog { path, format: None, place });
        }
        for log in std::mem::take(&mut self.error_logs) {
            self.add(&log, LogFormat::NginxError);
        }
    }

    fn access_format(&mut self, log: &NamedLog) -> LogFormat {
        let name = log.format.as_deref().unwrap_or("combined");
        match self.formats.get(name) {
            Some(format) => format.clone(),
            None if name == "combined" => LogFormat::Combined,
            None => {
                let message = format!("cannot find the `log_format` `{name}` that is named here");
                self.found.problem(log.place.clone(), message, "run `nginx -t`");
                LogFormat::Auto
            }
        }
    }

    fn add(&mut self, log: &NamedLog, format: LogFormat) {
        let target = log.path.as_str();
        if matches!(target, "off" | "/dev/null") || target.starts_with("memory:") {
            return;
        }
        let (what, hint) = if target.contains('$') {
            ("its path holds variables", "name the files with `weir up --tail GLOB`")
        } else if target.starts_with("syslog:") {
            ("it goes to a syslog server", "write a second log to a file, which has offsets")
        } else if matches!(target, "stderr" | "/dev/stderr" | "/dev/stdout") {
            ("it goes to a standard stream", "let nginx write to a file as well")
        } else {
            let path = below(&self.setup.base, &self.setup.prefix.join(target));
            let found_in = log.place.clone();
            return self.found.source(LogSource {
                path,
                program: Program::Nginx,
                format,
                found_in,
            });
        };
        let message = format!("cannot follow `{target}`: {what}");
        self.found.problem(log.place.clone(), message, hint);
    }
}

impl Block {
    fn new(number: u32, words: &[String]) -> Self {
        let name = words.first().cloned().unwrap_or_default();
        let shown = match name.as_str() {
            "location" | "upstream" | "if" => words.join(" "),
            _ => name.clone(),
        };
        Self { number, name, shown, sets_access_log: false }
    }
}

fn is_kept(name: &str) -> bool {
    KEPT.contains(&name) || name.ends_with("_timeout")
}

/// Address and port of nginx's `listen`; the port is 80 when it is not given.
fn listen_address(argument: &str) -> (Option<String>, Option<i64>) {
    if argument.starts_with("unix:") {
        return (None, None);
    }
    if let Ok(port) = argument.parse::<u16>() {
        return (Some("0.0.0.0".into()), Some(port.into()));
    }
    let (address, port) = match argument.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => (address, rest.strip_prefix(':').unwrap_or("80")),
        None => argument.rsplit_once(':').unwrap_or((argument, "80")),
    };
    let address = if address == "*" { "0.0.0.0" } else { address };
    (Some(address.to_owned()), port.parse::<u16>().ok().map(i64::from))
}
