//! `weir parse --suggest`: a pattern for a sample of lines, and a pipeline to start from.

use weir_parse::Parsers;
use weir_process::failure::Failure;
use weir_process::terminal::say;

/// Prints the pattern, how many lines it matches, and a pipeline file.
pub(super) fn run(parsers: &Parsers, lines: &[String]) -> Result<(), Failure> {
    let Some(found) = parsers.suggest(lines) else {
        return Err(Failure::new("cannot suggest a pattern: the sample has no line")
            .hint("weir parse --suggest FILE, with some lines as the program writes them"));
    };
    let about = if found.is_known { "a known pattern" } else { "put together from the lines" };
    let pattern = if found.pattern.contains('\'') {
        toml::Value::from(found.pattern.as_str()).to_string()
    } else {
        format!("'{}'", found.pattern)
    };
    say(&format!(
        "# {about}; matches {} of {} lines\n[match]\npath = [\"/path/of/the/*.log\"]\n\n[parse]\nformat = \"grok\"\npattern = {pattern}",
        found.matched, found.lines
    ));
    Ok(())
}
