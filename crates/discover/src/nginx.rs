//! nginx: its configuration with includes, its logs and their formats.
//!
//! Source: nginx.org/en/docs, `ngx_http_log_module`, `ngx_http_core_module` (listen). The
//! compiled-in paths are read from the program file, which contains its configure arguments as
//! text. The surprising thing: a server without any `access_log` still writes one, in `combined`.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memchr::memmem;
use weir_tables::{JsonEscape, LogFormat, LogSource, Program};

use super::nginx_tokens::{Token, tokens};
use super::process::ServerProcess;
use super::{DiscoveryBuilder, FoundDirective, below};
use crate::glob;

const DEPTH_LIMIT: usize = 16;

const FILE_LIMIT: usize = 2000;

const PROGRAM_LIMIT: u64 = 64 << 20;

/// Directives that become rows, besides `*_timeout`.
const RECORDED_DIRECTIVES: &str = "\
    listen server_name worker_connections worker_rlimit_nofile worker_processes keepalive \
    keepalive_requests keepalive_time proxy_pass server access_log root error_log log_format \
    proxy_buffering proxy_http_version proxy_next_upstream proxy_next_upstream_tries sendfile \
    multi_accept accept_mutex tcp_nodelay tcp_nopush limit_rate limit_req limit_conn \
    ssl_certificate ssl_protocols ssl_session_cache client_max_body_size zone least_conn ip_hash \
    resolver user auth_basic auth_basic_user_file fastcgi_pass uwsgi_pass grpc_pass scgi_pass";

pub(super) fn find(found: &mut DiscoveryBuilder, processes: &[ServerProcess]) {
    let masters: Vec<&ServerProcess> =
        processes.iter().filter(|process| is_master(process)).collect();
    for master in &masters {
        super::as_owner(found, &master.base, |found| {
            read_configuration(found, NginxPaths::of_master(master), Some(master.id));
        });
    }
    let root = found.root.clone();
    if !masters.iter().any(|master| master.base == root) {
        let setup = NginxPaths::at_rest(&root);
        if below(&root, &setup.configuration).exists() {
            read_configuration(found, setup, None);
        }
    }
}

fn is_master(process: &ServerProcess) -> bool {
    let first = process.arguments.first().map_or("", String::as_str);
    let second = process.arguments.get(1).map_or("", String::as_str);
    process.name == "nginx" && (first != "nginx:" || second == "master")
}

#[derive(Debug)]
struct NginxPaths {
    base: PathBuf,
    prefix: PathBuf,
    configuration: PathBuf,
    access_log: PathBuf,
    error_log: PathBuf,
}

impl NginxPaths {
    fn of_master(master: &ServerProcess) -> Self {
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
        let mut text = Vec::new();
        if let Ok(file) = File::open(program) {
            let _ = file.take(PROGRAM_LIMIT).read_to_end(&mut text);
        }
        let [prefix, configuration, access_log, error_log] = [
            ("--prefix=", "/usr/share/nginx"),
            ("--conf-path=", "/etc/nginx/nginx.conf"),
            ("--http-log-path=", "/var/log/nginx/access.log"),
            ("--error-log-path=", "/var/log/nginx/error.log"),
        ]
        .map(|(name, default)| {
            configure_argument(&text, name).map_or_else(|| default.into(), PathBuf::from)
        });
        Self { base: base.to_owned(), prefix, configuration, access_log, error_log }
    }
}

/// Value of `--NAME=VALUE` in the configure arguments that `nginx -V` prints.
fn configure_argument(program: &[u8], name: &str) -> Option<String> {
    let arguments = memmem::find(program, b"configure arguments:")?;
    let arguments = &program[arguments..(arguments + 8192).min(program.len())];
    let start = memmem::find(arguments, name.as_bytes())? + name.len();
    let rest = &arguments[start..];
    let end = rest.iter().position(|byte| matches!(byte, b' ' | b'\'' | 0 | b'\n'))?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned()).filter(|value| !value.is_empty())
}

fn read_configuration(found: &mut DiscoveryBuilder, setup: NginxPaths, process_id: Option<i64>) {
    let mut reader = NginxConfigReader {
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

#[derive(Debug)]
struct OpenBlock {
    number: u32,
    name: String,
    shown: String,
    sets_access_log: bool,
}

/// A log directive whose format is not resolved yet.
#[derive(Debug)]
struct NamedLog {
    path: String,
    format: Option<String>,
    location: String,
}

struct NginxConfigReader<'a> {
    found: &'a mut DiscoveryBuilder,
    setup: NginxPaths,
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

impl NginxConfigReader<'_> {
    fn file(&mut self, path: &Path, blocks: &mut Vec<OpenBlock>, depth: usize) {
        self.files += 1;
        if depth > DEPTH_LIMIT || self.files > FILE_LIMIT {
            return self.found.too_deep(path);
        }
        let Some(text) = self.found.read(&below(&self.setup.base, path), path) else { return };
        let list = match tokens(&text) {
            Ok(list) => list,
            Err((line, what)) => {
                let location = format!("{}:{line}", path.display());
                let message = format!("cannot parse `{location}`: {what}");
                return self.found.problem(location, "run `nginx -t`", message);
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
                    blocks.push(OpenBlock::new(self.blocks, &std::mem::take(&mut words)));
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
        let location = format!("{}:{line}", path.display());
        let message = format!("cannot parse `{location}`: {what}");
        self.found.problem(location, "run `nginx -t`", message);
    }

    fn close(&mut self, blocks: &mut Vec<OpenBlock>) {
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
        blocks: &mut Vec<OpenBlock>,
        depth: usize,
    ) {
        let Some((name, arguments)) = words.split_first() else { return };
        let location = format!("{}:{line}", path.display());
        match (name.as_str(), arguments) {
            ("include", [pattern]) => return self.include(pattern, blocks, depth, &location),
            ("log_format", [format, text @ ..]) => self.format(format, text),
            ("access_log", [target, options @ ..]) => {
                if let Some(block) = blocks.last_mut() {
                    block.sets_access_log = true;
                }
                self.access_log(target, options, location);
            }
            ("error_log", [target, ..]) => {
                self.error_logs.push(NamedLog { path: target.clone(), format: None, location });
            }
            _ => {}
        }
        if is_recorded(name) {
            self.record(path, line, name, arguments, blocks);
        }
    }

    fn include(
        &mut self,
        pattern: &str,
        blocks: &mut Vec<OpenBlock>,
        depth: usize,
        location: &str,
    ) {
        let directory = self.setup.configuration.parent().unwrap_or(Path::new("/")).to_owned();
        let pattern = directory.join(pattern);
        let outside = below(&self.setup.base, &pattern);
        let matched = if self.files > FILE_LIMIT { Vec::new() } else { glob::expand(&outside) };
        if self.files <= FILE_LIMIT && matched.is_empty() && !glob::is_pattern(&pattern) {
            let message = format!("cannot read `{}`: no such file", pattern.display());
            self.found.problem(location.to_owned(), "run `nginx -t`", message);
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

    fn access_log(&mut self, target: &str, options: &[String], location: String) {
        if options.iter().any(|option| option == "gzip" || option.starts_with("gzip=")) {
            let message = format!("cannot follow `{target}`: it is written compressed");
            return self.found.problem(
                location,
                "take `gzip` off, or write a second `access_log` beside it",
                message,
            );
        }
        let format = options.first().filter(|option| !option.contains('=')).cloned();
        self.access_logs.push(NamedLog { path: target.to_owned(), format, location });
    }

    fn record(
        &mut self,
        path: &Path,
        line: i64,
        name: &str,
        arguments: &[String],
        blocks: &[OpenBlock],
    ) {
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
            let location = configuration.display().to_string();
            self.add(&NamedLog { path, format: None, location }, LogFormat::Combined);
        }
        if self.error_logs.is_empty() {
            let path = self.setup.error_log.display().to_string();
            let location = configuration.display().to_string();
            self.error_logs.push(NamedLog { path, format: None, location });
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
                self.found.problem(log.location.clone(), "run `nginx -t`", message);
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
            let found_in = log.location.clone();
            return self.found.source(LogSource {
                path,
                program: Program::Nginx,
                format,
                found_in,
            });
        };
        let message = format!("cannot follow `{target}`: {what}");
        self.found.problem(log.location.clone(), hint, message);
    }
}

impl OpenBlock {
    fn new(number: u32, words: &[String]) -> Self {
        let name = words.first().cloned().unwrap_or_default();
        let shown = match name.as_str() {
            "location" | "upstream" | "if" => words.join(" "),
            _ => name.clone(),
        };
        Self { number, name, shown, sets_access_log: false }
    }
}

fn is_recorded(name: &str) -> bool {
    RECORDED_DIRECTIVES.split(' ').any(|recorded| recorded == name) || name.ends_with("_timeout")
}

/// Address and port of `listen`; the default port is 80.
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
