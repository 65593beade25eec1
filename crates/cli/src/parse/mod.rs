//! `weir parse`: what lines become, how far patterns fit, which pattern would, and what a pipeline
//! would change.

pub(crate) mod args;
mod replay;
mod show;
mod suggest;
mod tests;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use weir_agent_core::parsers;
use weir_config::Config;
use weir_hub::explain::LineReader;
use weir_parse::{ParserFile, Parsers, Pipeline, StreamName};
use weir_process::clock::SystemClock;
use weir_process::failure::{EXIT_USAGE, Failure, read_failure};
use weir_process::terminal::{Paint, say};
use weir_tables::Clock;
use weir_tables::nearest;

use crate::parse::args::ParseArgs;

/// Longer lines are cut before parsing: a parser rejects them anyway.
const MAX_LINE_BYTES: u64 = (1 << 20) + 1;

/// Runs the command.
pub(crate) fn run(args: &ParseArgs, config: &Config) -> Result<(), Failure> {
    let mut values = config.values.clone();
    if args.parsers.is_some() {
        values.parsers.dir.clone_from(&args.parsers);
    }
    let parsers = parsers::load(&values)?;
    if args.list {
        show::list(&parsers);
        return Ok(());
    }
    if args.test {
        return tests::run(&parsers, values.parsers.dir.as_deref(), args.input.as_deref());
    }
    let pipeline = chosen(args, &parsers)?;
    if args.replay {
        return replay::run(args, &parsers, pipeline);
    }
    let Some(input) = &args.input else {
        return Err(Failure::new("cannot parse: no line, file or `-` is given")
            .hint("weir parse 'LINE', weir parse FILE, or … | weir parse -")
            .code(EXIT_USAGE));
    };
    let (lines, path) = lines(input, args.lines)?;
    if args.suggest {
        return suggest::run(&parsers, &lines);
    }
    let path = args.path.clone().unwrap_or(path);
    let stream = StreamName { path: &path, host: &values.collect.host };
    let reading = LineReader::new(parsers, pipeline, stream);
    explain(args, &reading, &lines);
    Ok(())
}

fn explain(args: &ParseArgs, reading: &LineReader, lines: &[String]) {
    let mut parser = reading.parser();
    let paint = Paint::for_stdout();
    let mut counts = show::LineCounts::default();
    for line in lines {
        let Some(explained) = reading.explain(&mut parser, line, SystemClock.now()) else {
            continue;
        };
        counts.add(&explained);
        if args.json {
            say(&explained.json(line, reading.pipeline.as_deref()).to_string());
        } else {
            say(&show::line(counts.lines, line, &explained, reading.pipeline.as_deref(), paint));
        }
    }
    if !args.json && counts.lines > 1 {
        say(&counts.text());
    }
}

/// The pipeline that the flags ask for.
fn chosen(args: &ParseArgs, parsers: &Parsers) -> Result<Option<Arc<Pipeline>>, Failure> {
    let of_text = |origin: &str, text: &str| {
        parsers.pipeline_of(ParserFile { origin, text }).map(Some).map_err(parsers::refused)
    };
    if let Some(pattern) = &args.grok {
        let pattern = toml::Value::String(pattern.clone());
        return of_text("--grok", &format!("[parse]\nformat = \"grok\"\npattern = {pattern}\n"));
    }
    if let Some(format) = &args.format {
        let format = toml::Value::String(format.clone());
        return of_text("--format", &format!("[parse]\nformat = {format}\n"));
    }
    let Some(name) = &args.pipeline else { return Ok(None) };
    if let Some(pipeline) = parsers.get(name) {
        return Ok(Some(Arc::clone(pipeline)));
    }
    let path = Path::new(name);
    if path.is_file() || name.contains('/') {
        let text = std::fs::read_to_string(path).map_err(|error| read_failure(path, &error))?;
        return of_text(name, &text);
    }
    let names = parsers.pipelines().map(|pipeline| pipeline.name());
    let hint = nearest(name, names).map_or_else(
        || "`weir parse --list` lists them; a file is named with its path".to_owned(),
        |near| format!("did you mean `{near}`?"),
    );
    let failure = Failure::new(format!("cannot use `{name}`: there is no such pipeline"));
    Err(failure.hint(hint).code(EXIT_USAGE))
}

/// Lines of a file, of stdin, or the line itself; and the path that selects a pipeline.
fn lines(input: &str, at_most: usize) -> Result<(Vec<String>, String), Failure> {
    let path = Path::new(input);
    if input == "-" {
        let lines = read_lines(std::io::stdin().lock(), at_most);
        return lines
            .map(|lines| (lines, "stdin".to_owned()))
            .map_err(|error| Failure::new(format!("cannot read lines from stdin: {error}")));
    }
    if !input.contains('\n') && path.is_file() {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let file = std::fs::File::open(path).map_err(|error| read_failure(path, &error))?;
        let lines = read_lines(BufReader::new(file), at_most);
        let lines = lines.map_err(|error| read_failure(path, &error))?;
        return Ok((lines, absolute.display().to_string()));
    }
    Ok((input.lines().take(at_most).map(str::to_owned).collect(), "argument".to_owned()))
}

/// Bytes that are no UTF-8 are shown as they are kept: replaced by nothing that the line had.
fn read_lines(mut reader: impl BufRead, at_most: usize) -> std::io::Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut line = Vec::new();
    while lines.len() < at_most {
        line.clear();
        if reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        lines.push(text.trim_end_matches(['\n', '\r']).to_owned());
    }
    Ok(lines)
}
