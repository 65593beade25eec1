//! Any text as a rule file: it is a rule within its limits, or refused with a line of the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::NOW;
use weir_rules::{Rule, SourceFile, TIERS};

fuzz_target!(|text: &str| {
    // A file has the name of its rule.
    let id = text.lines().find_map(|line| line.strip_prefix("id = \"")?.strip_suffix('"'));
    let origin = format!("{}.sql", id.unwrap_or("fuzz.rule"));
    match Rule::parse(SourceFile { origin: &origin, text }) {
        Err(error) => {
            assert!((1..=text.lines().count() + 1).contains(&error.line), "{error}");
            assert!(!error.message.is_empty());
        }
        Ok(rule) => {
            assert!(TIERS.contains(&rule.tier.as_str()), "{}", rule.tier);
            assert!(text.contains(rule.sql.trim()), "the query is not from the file");
            for query in rule.queries_at(NOW) {
                assert!(!query.contains("$now"), "{query}");
            }
        }
    }
});
