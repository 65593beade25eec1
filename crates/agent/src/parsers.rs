//! The parsers that the configuration asks for: built-in pipelines, the user's directory, zone,
//! redaction, budgets.
//!
//! An invalid pipeline ends the start: without it, data that it redacts could leave the host.

use std::path::Path;

use weir_config::Values;
use weir_parse::{ParserProblem, Parsers, Redaction, Zone};
use weir_process::failure::{EXIT_CONFIG, Failure, read_failure};

/// First lines that name values are read up to here.
const MAX_HEADER_BYTES: u64 = 64 << 10;
/// Bytes that show the encoding of a file, and the first lines of its format.
const HEAD_BYTES: u64 = 4 << 10;

/// Everything that `[parsers]` says.
pub fn load(values: &Values) -> Result<Parsers, Failure> {
    let keys = &values.parsers;
    let files = keys.dir.as_deref().map(read_dir).transpose()?.unwrap_or_default();
    let (parsers, problems) = Parsers::with_files(&files);
    if let Some(problem) = problems.into_iter().next() {
        return Err(refused(problem));
    }
    let redaction = Redaction::of_kinds(keys.redact.iter().map(String::as_str))
        .map_err(|problem| of_key("parsers.redact", &problem))?;
    let zone = match keys.time_zone.as_str() {
        "local" => local_zone(&values.collect.root),
        name => {
            Zone::parse(name).map_err(|problem| of_key("parsers.time_zone", &problem.into()))?
        }
    };
    let distinct_keys = usize::try_from(keys.distinct_keys).unwrap_or(usize::MAX);
    Ok(parsers.with_zone(zone).with_redaction(redaction).with_key_budget(distinct_keys))
}

/// The zone of a host's clock, UTC when it has none.
pub fn local_zone(root: &Path) -> Zone {
    let bytes = std::fs::read(root.join("etc/localtime")).unwrap_or_default();
    Zone::of_file(&bytes).unwrap_or_default()
}

/// A problem of a user's file as the command's failure.
pub fn refused(problem: ParserProblem) -> Failure {
    let hint = problem.hint.clone();
    let without_hint = ParserProblem { hint: String::new(), ..problem };
    Failure::new(without_hint.to_string()).hint(hint).code(EXIT_CONFIG)
}

fn of_key(key: &str, problem: &ParserProblem) -> Failure {
    Failure::new(format!("cannot use `{key}`: {}", problem.message))
        .hint(problem.hint.clone())
        .code(EXIT_CONFIG)
}

/// Path and text of every `.toml` and `.grok` file of a directory, by name.
pub fn read_dir(dir: &Path) -> Result<Vec<(String, String)>, Failure> {
    let entries =
        std::fs::read_dir(dir).map_err(|error| read_failure(dir, &error).code(EXIT_CONFIG))?;
    let mut files = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_parser = path.extension().is_some_and(|end| end == "toml" || end == "grok");
        if is_parser {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| read_failure(&path, &error).code(EXIT_CONFIG))?;
            files.push((path.display().to_string(), text));
        }
    }
    files.sort();
    Ok(files)
}

/// The first bytes of a file, which show its encoding.
pub fn head(path: &str) -> Option<Vec<u8>> {
    use std::io::Read;
    let mut head = Vec::new();
    let file = weir_access::open(Path::new(path)).ok()?;
    file.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    Some(head)
}

/// The first line of a file, for formats whose first line names the values.
pub fn first_line(path: &str) -> Option<String> {
    use std::io::{BufRead, BufReader, Read};
    let file = weir_access::open(Path::new(path)).ok()?;
    let mut line = String::new();
    BufReader::new(file.take(MAX_HEADER_BYTES)).read_line(&mut line).ok()?;
    line.ends_with('\n').then_some(line)
}
