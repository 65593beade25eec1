//! Finds the logs of a host, and the lines of configuration that say how they look, by reading what is there.
//!
//! Running servers come first (their command lines say which configuration counts), then the places where
//! distributions put one. Nothing is executed. Files of servers in other mount namespaces (containers) are read through
//! `/proc/PID/root`, so their paths hold as long as the process lives.

mod apache;
mod haproxy;
mod nginx;
mod nginx_tokens;
mod process;
mod syslog;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_tables::{ConfigDirective, LogSource, Micros, Program};

/// Bytes of one configuration file that are read at most.
const CONFIG_LIMIT: u64 = 8 << 20;

/// Directives that one discovery keeps at most.
const DIRECTIVE_LIMIT: usize = 100_000;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// Logs, each path once.
    pub sources: Vec<LogSource>,
    /// Lines of configuration for the table `config_directive`.
    pub directives: Vec<FoundDirective>,
    /// What could not be read or understood.
    pub problems: Vec<Problem>,
}

/// A directive of a server's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDirective {
    /// Whose configuration.
    pub program: Program,
    /// The master process that runs with it.
    pub process_id: Option<i64>,
    /// The file, as the server itself names it.
    pub file: PathBuf,
    /// From 1.
    pub line: i64,
    /// The blocks around it, outermost first: `http/server`.
    pub context: String,
    /// Its name.
    pub directive: String,
    /// Its arguments, one space between them.
    pub arguments: String,
    /// For `listen` and `bind`: the address, `0.0.0.0` or `::` for any; `None` for unix sockets.
    pub server_address: Option<String>,
    /// For `listen` and `bind`: the port.
    pub server_port: Option<i64>,
    /// Number of nginx' `server { … }` that it stands in: lines of one number belong together. `None` outside of one.
    pub server_block: Option<u32>,
    /// Where relative paths begin: for nginx the directory of its main file, also in files that it includes; for
    /// others that of `file`.
    pub base: Arc<Path>,
}

impl FoundDirective {
    /// The row for it; `file` is [`FoundDirective::file`] as text.
    pub fn row<'a>(&'a self, ts: Micros, host: &'a str, file: &'a str) -> ConfigDirective<'a> {
        ConfigDirective {
            ts,
            host,
            program: self.program.as_str(),
            process_id: self.process_id,
            file,
            line: self.line,
            context: &self.context,
            directive: &self.directive,
            arguments: &self.arguments,
            server_address: self.server_address.as_deref(),
            server_port: self.server_port,
        }
    }
}

/// The directory of a file; `/` for a name without one.
fn directory_of(file: &Path) -> Arc<Path> {
    file.parent().unwrap_or(Path::new("/")).into()
}

/// Something that could not be read or understood; the rest went on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, with `:LINE` where there is one.
    pub path: String,
    /// What is wrong, whole: "cannot read `…`: permission denied".
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Looks for logs and configurations below `root` (`/`, or a recorded host).
pub fn discover(root: &Path) -> Discovery {
    let mut found = Finder::new(root);
    let processes = process::running(root);
    nginx::find(&mut found, &processes);
    haproxy::find(&mut found, &processes);
    apache::find(&mut found, &processes);
    syslog::find(&mut found);
    found.finish()
}

/// Collects what the finders of the programs give.
#[derive(Debug)]
struct Finder {
    root: PathBuf,
    found: Discovery,
    /// Which source a path has, so that a log named twice is read once.
    by_path: HashMap<PathBuf, usize>,
}

impl Finder {
    fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), found: Discovery::default(), by_path: HashMap::new() }
    }

    /// Adds a source unless its path has one already.
    fn source(&mut self, source: LogSource) {
        if let Some(at) = self.by_path.get(&source.path) {
            let first = &self.found.sources[*at];
            if first.format != source.format && first.program == source.program {
                let path = source.found_in.clone();
                let message = format!(
                    "`{}` is written in two formats, one of them set in {}",
                    source.path.display(),
                    first.found_in
                );
                self.problem(
                    path,
                    message,
                    "give each format its own file; weir reads the first one",
                );
            }
            return;
        }
        self.by_path.insert(source.path.clone(), self.found.sources.len());
        self.found.sources.push(source);
    }

    fn problem(&mut self, path: String, message: String, hint: &str) {
        if self.found.problems.len() < 1000 {
            self.found.problems.push(Problem { path, message, hint: hint.to_owned() });
        }
    }

    fn directive(&mut self, directive: FoundDirective) {
        if self.found.directives.len() < DIRECTIVE_LIMIT {
            self.found.directives.push(directive);
        }
    }

    /// Reads a configuration file; a problem when that fails. `shown` is the path as the server names it.
    fn read(&mut self, path: &Path, shown: &Path) -> Option<Vec<u8>> {
        match read_limited(path, CONFIG_LIMIT) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                let hint = match error.kind() {
                    std::io::ErrorKind::PermissionDenied => "run weir as root, or make it readable",
                    _ => "check the path",
                };
                let error = error.to_string().to_lowercase();
                let message = format!("cannot read `{}`: {error}", shown.display());
                self.problem(shown.display().to_string(), message, hint);
                None
            }
        }
    }

    fn finish(self) -> Discovery {
        self.found
    }
}

fn read_limited(path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let file = std::fs::File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(std::io::Error::other(format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// `path` of a server, below the place where that server's files are seen from here.
fn below(base: &Path, path: &Path) -> PathBuf {
    base.join(path.strip_prefix("/").unwrap_or(path))
}

/// `http://user:password@host` loses its password.
fn redact_url(text: &str) -> String {
    let Some(start) = text.find("://").map(|at| at + 3) else { return text.to_owned() };
    let authority = text[start..].split(['/', ' ', '?']).next().unwrap_or("");
    match authority.rfind('@') {
        Some(at) => format!("{}[redacted]{}", &text[..start], &text[start + at..]),
        None => text.to_owned(),
    }
}
