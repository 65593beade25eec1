//! `weir parse --test`: the test files of pipelines, as users write them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_agent_core::parsers::refused;
use weir_parse::{ParserFile, Parsers, Pipeline, PipelineCase};
use weir_process::failure::{Failure, read_failure};
use weir_process::terminal::say;

/// Runs the cases of `path` (a file or a directory), else those of the user's directory and the
/// built-in ones.
pub(super) fn run(
    parsers: &Parsers,
    dir: Option<&Path>,
    path: Option<&str>,
) -> Result<(), Failure> {
    let mut results = Vec::new();
    match path.map(Path::new) {
        Some(path) if path.is_file() => results.push(of_file(parsers, path)?),
        Some(dir) => of_dir(parsers, dir, &mut results)?,
        None => {
            of_built_in(parsers, &mut results)?;
            if let Some(dir) = dir {
                of_dir(parsers, dir, &mut results)?;
            }
        }
    }
    let (mut passed, mut failed) = (0, 0);
    for (origin, cases) in results {
        for case in cases {
            match case.failure {
                None => passed += 1,
                Some(why) => {
                    failed += 1;
                    let why = why.replace('\n', "\n  ");
                    say(&format!("failed {origin}:{} {}\n  {why}", case.line, case.name));
                }
            }
        }
    }
    say(&format!("{passed} passed, {failed} failed"));
    match (passed, failed) {
        (0, 0) => Err(Failure::new("cannot test: no `.test` file is there")
            .hint("a pipeline `shop.toml` has its cases in `shop.test` beside it")),
        (_, 0) => Ok(()),
        _ => Err(Failure::new(format!("{failed} cases of pipelines failed"))),
    }
}

type Results = Vec<(String, Vec<PipelineCase>)>;

fn of_built_in(parsers: &Parsers, results: &mut Results) -> Result<(), Failure> {
    for pipeline in parsers.pipelines() {
        let is_own = Path::new(pipeline.origin()).is_absolute();
        if let Some(text) = Parsers::built_in_test(pipeline.name()).filter(|_| !is_own) {
            let origin = format!("parsers/{}.test", pipeline.name());
            let cases = parsers
                .run_tests(pipeline, ParserFile { origin: &origin, text })
                .map_err(refused)?;
            results.push((origin, cases));
        }
    }
    Ok(())
}

fn of_dir(parsers: &Parsers, dir: &Path, results: &mut Results) -> Result<(), Failure> {
    let entries = std::fs::read_dir(dir).map_err(|error| read_failure(dir, &error))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "test"));
    files.sort();
    for file in files {
        results.push(of_file(parsers, &file)?);
    }
    Ok(())
}

/// The pipeline beside the test file counts, else the known one of its name.
fn of_file(parsers: &Parsers, file: &Path) -> Result<(String, Vec<PipelineCase>), Failure> {
    let read =
        |path: &Path| std::fs::read_to_string(path).map_err(|error| read_failure(path, &error));
    let origin = file.display().to_string();
    let beside = file.with_extension("toml");
    let pipeline: Arc<Pipeline> = if beside.is_file() {
        let text = read(&beside)?;
        parsers
            .pipeline_of(ParserFile { origin: &beside.display().to_string(), text: &text })
            .map_err(refused)?
    } else {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        parsers.get(&name).cloned().ok_or_else(|| {
            Failure::new(format!("cannot test `{origin}`: there is no pipeline of this name"))
                .hint(format!("write it beside: `{}`", beside.display()))
        })?
    };
    let cases = parsers
        .run_tests(&pipeline, ParserFile { origin: &origin, text: &read(file)? })
        .map_err(refused)?;
    Ok((origin, cases))
}
