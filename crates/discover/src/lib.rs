//! Finds the logs of a host and the configuration of their formats by reading files.
//!
//! Running servers come first (their command lines show which configuration applies), then the
//! default paths of distributions. Nothing is executed. Files in other mount namespaces
//! (containers) are read through `/proc/PID/root`. What containers write to their standard output
//! is in files of their runtime, which are named by globs.

mod apache;
mod container;
mod container_bundle;
#[cfg(test)]
mod container_bundle_tests;
mod container_names;
mod container_output;
#[cfg(test)]
mod container_tests;
mod docker;
pub mod glob;
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

pub use container_names::container_attributes;
use weir_tables::{ConfigDirective, LogSource, Micros, Program};

const CONFIG_LIMIT: u64 = 8 << 20;

const DIRECTIVE_LIMIT: usize = 100_000;

/// Result of a discovery.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// Logs without duplicate paths.
    pub sources: Vec<LogSource>,
    /// Configuration lines for the table `config_directive`.
    pub directives: Vec<FoundDirective>,
    /// Files that could not be read or understood.
    pub problems: Vec<Problem>,
}

/// A directive of a server's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDirective {
    /// Program that the configuration belongs to.
    pub program: Program,
    /// Master process that runs with it.
    pub process_id: Option<i64>,
    /// Path of the file, as the server sees it.
    pub file: PathBuf,
    /// Line number, from 1.
    pub line: i64,
    /// Enclosing blocks, outermost first: `http/server`.
    pub context: String,
    /// Name of the directive.
    pub directive: String,
    /// Arguments, joined by single spaces.
    pub arguments: String,
    /// For `listen` and `bind`: the address, `0.0.0.0` or `::` for any; `None` for unix sockets.
    pub server_address: Option<String>,
    /// For `listen` and `bind`: the port.
    pub server_port: Option<i64>,
    /// Number of the enclosing `server { … }` of nginx; `None` outside of one.
    pub server_block: Option<u32>,
    /// Base of relative paths: the directory of nginx's main file; for others, that of `file`.
    pub base: Arc<Path>,
}

impl FoundDirective {
    /// Row for the directive; `file` is [`FoundDirective::file`] as text.
    pub fn row<'a>(&'a self, host: &'a str, ts: Micros, file: &'a str) -> ConfigDirective<'a> {
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

/// Directory of a file; `/` for a name without one.
fn directory_of(file: &Path) -> Arc<Path> {
    file.parent().unwrap_or(Path::new("/")).into()
}

/// A file or line that could not be read or understood; discovery continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the file, with `:LINE` where there is one.
    pub path: String,
    /// Complete error message: "cannot read `…`: permission denied".
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Finds logs and configurations below `root` (`/`, or a recorded host).
pub fn discover(root: &Path) -> Discovery {
    let mut found = DiscoveryBuilder::new(root);
    let processes = process::running(root);
    nginx::find(&mut found, &processes);
    haproxy::find(&mut found, &processes);
    apache::find(&mut found, &processes);
    syslog::find(&mut found);
    container::find(&mut found);
    found.finish()
}

/// Collects the results of the programs' finders.
#[derive(Debug)]
struct DiscoveryBuilder {
    root: PathBuf,
    found: Discovery,
    /// Source index by path, so that a log named twice is read once.
    by_path: HashMap<PathBuf, usize>,
}

impl DiscoveryBuilder {
    fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), found: Discovery::default(), by_path: HashMap::new() }
    }

    /// Adds a source unless its path already has one, or is a link to a standard output, which the
    /// runtime of the container has.
    fn source(&mut self, source: LogSource) {
        if source.path.read_link().is_ok_and(|target| is_standard_output(&target)) {
            return;
        }
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
                    "write each format to its own file; weir reads the first one",
                    message,
                );
            }
            return;
        }
        self.by_path.insert(source.path.clone(), self.found.sources.len());
        self.found.sources.push(source);
    }

    /// Records a file whose includes are nested too deep.
    fn too_deep(&mut self, path: &Path) {
        let location = path.display().to_string();
        let message = format!("cannot follow `{location}`: includes are nested too deep");
        self.problem(location, "look for a file that includes itself", message);
    }

    fn problem(&mut self, path: String, hint: &str, message: String) {
        if self.found.problems.len() < 1000 {
            self.found.problems.push(Problem { path, message, hint: hint.to_owned() });
        }
    }

    fn directive(&mut self, directive: FoundDirective) {
        if self.found.directives.len() < DIRECTIVE_LIMIT {
            self.found.directives.push(directive);
        }
    }

    /// Reads a configuration file; a failure is a problem. `shown` is the server's path of it.
    fn read(&mut self, path: &Path, shown: &Path) -> Option<Vec<u8>> {
        match weir_access::read(path, CONFIG_LIMIT) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                let hint = match (weir_access::hint_of(&error), error.kind()) {
                    (Some(hint), _) => hint,
                    (_, std::io::ErrorKind::PermissionDenied) => {
                        "run weir as root, or make it readable"
                    }
                    _ => "check the path",
                };
                let error = error.to_string().to_lowercase();
                let message = format!("cannot read `{}`: {error}", shown.display());
                self.problem(shown.display().to_string(), hint, message);
                None
            }
        }
    }

    fn finish(self) -> Discovery {
        self.found
    }
}

/// Runs `read` with the rights of whoever owns the process whose root is `base`.
fn as_owner(
    found: &mut DiscoveryBuilder,
    base: &Path,
    read: impl FnOnce(&mut DiscoveryBuilder) + Send,
) {
    if let Err(error) = weir_access::as_owner_of(base, || read(found)) {
        let hint = weir_access::hint_of(&error).unwrap_or("check whether the process still runs");
        let message = format!("cannot read the configuration below `{}`: {error}", base.display());
        found.problem(base.display().to_string(), hint, message);
    }
}

/// Whether a path is the standard output or error of the process that opens it.
fn is_standard_output(path: &Path) -> bool {
    const NAMES: [&str; 8] = [
        "/dev/stdout",
        "/dev/stderr",
        "/dev/fd/1",
        "/dev/fd/2",
        "/proc/self/fd/1",
        "/proc/self/fd/2",
        "/proc/1/fd/1",
        "/proc/1/fd/2",
    ];
    NAMES.iter().any(|name| path == Path::new(name))
}

/// Path of a server's file as seen from here.
fn below(base: &Path, path: &Path) -> PathBuf {
    base.join(path.strip_prefix("/").unwrap_or(path))
}

/// `http://user:password@host` without the credentials.
fn redact_url(text: &str) -> String {
    let Some(start) = text.find("://").map(|at| at + 3) else { return text.to_owned() };
    let authority = text[start..].split(['/', ' ', '?']).next().unwrap_or("");
    match authority.rfind('@') {
        Some(at) => format!("{}[redacted]{}", &text[..start], &text[start + at..]),
        None => text.to_owned(),
    }
}
