//! Names and forms of Rust code: types, neighbouring parameters, named closures.
//!
//! rustfmt has run before, so an item's keyword stands first in its line.

use regex::Regex;

use crate::{no_breach, rust};

/// The share of types whose name is one word.
const ONE_WORD_MAX: f64 = 0.50;

/// The share of types whose name is one participle.
const PARTICIPLE_MAX: f64 = 0.02;

/// The share of functions with two parameters of one primitive type next to each other.
const NEIGHBOURS_MAX: f64 = 0.010;

/// Closures with a name, for each 1,000 lines of code.
const CLOSURES_MAX: f64 = 3.65;

/// Participles that do not end as others do.
const IRREGULAR: &[&str] = &[
    "Told", "Seen", "Kept", "Said", "Held", "Left", "Sent", "Met", "Built", "Shown", "Taken",
    "Given", "Known", "Drawn", "Lost", "Found", "Heard", "Made", "Done", "Gone", "Written",
    "Chosen", "Driven", "Broken", "Frozen", "Torn", "Dealt", "Grown", "Laid", "Paid", "Spent",
    "Stuck", "Thrown", "Begun", "Worn", "Brought", "Caught",
];

/// Nouns that end as participles do.
const NOUNS: &[&str] = &[
    "Need",
    "Seed",
    "Feed",
    "Speed",
    "Thing",
    "String",
    "Ring",
    "Ping",
    "Sibling",
    "Setting",
    "Binding",
    "Mapping",
    "Encoding",
    "Timing",
    "Warning",
    "Listing",
    "Heading",
    "Drawing",
    "Meaning",
    "Rating",
    "Finding",
    "Ceiling",
    "Padding",
    "Routing",
    "Scaling",
    "Tracing",
    "Rounding",
    "Spelling",
    "Hashing",
    "Sampling",
    "Batching",
    "Scheduling",
    "Ranking",
    "Sizing",
    "Pairing",
    "Logging",
];

const PRIMITIVES: &[&str] = &[
    "u8",
    "u16",
    "u32",
    "u64",
    "u128",
    "i8",
    "i16",
    "i32",
    "i64",
    "i128",
    "usize",
    "isize",
    "f32",
    "f64",
    "bool",
    "char",
    "&str",
    "String",
    "&[u8]",
    "Option<u64>",
    "Option<usize>",
    "Option<&str>",
];

/// Name and place of every type that the repository defines.
fn types() -> Vec<(String, String)> {
    let item = r"(?m)^[ \t]*(?:pub(?:\([a-z ]+\))? )?(?:unsafe )?(struct|enum|trait|type|union) ([A-Z]\w*)";
    let item = Regex::new(item).expect("a pattern");
    let mut types = Vec::new();
    for (path, source) in rust::sources() {
        for found in item.captures_iter(&source) {
            let is_associated = &found[1] == "type" && found[0].starts_with(' ');
            if !is_associated {
                let line = source[..found.get(2).map_or(0, |name| name.start())].lines().count();
                types.push((found[2].to_owned(), format!("{path}:{line}: {}", &found[2])));
            }
        }
    }
    types
}

fn is_one_word(name: &str) -> bool {
    let letters: Vec<char> = name.chars().collect();
    let humps = letters.windows(2).filter(|pair| pair[0].is_lowercase() && pair[1].is_uppercase());
    humps.count() == 0
}

fn is_participle(name: &str) -> bool {
    let is_regular = name.len() > 4 && (name.ends_with("ed") || name.ends_with("ing"));
    IRREGULAR.contains(&name) || (is_one_word(name) && is_regular && !NOUNS.contains(&name))
}

#[test]
fn types_say_what_they_are() {
    let types = types();
    let share = |count: usize| count as f64 / types.len() as f64;
    let places = |is_meant: fn(&str) -> bool| -> Vec<String> {
        types.iter().filter(|(name, _)| is_meant(name)).map(|(_, place)| place.clone()).collect()
    };
    let (ones, participles) = (places(is_one_word), places(is_participle));
    println!(
        "types of one word: {} of {}, {:.1} %",
        ones.len(),
        types.len(),
        100.0 * share(ones.len())
    );
    println!("participles: {}, {:.1} %", participles.len(), 100.0 * share(participles.len()));
    if share(participles.len()) > PARTICIPLE_MAX {
        no_breach(&participles);
    }
    if share(ones.len()) > ONE_WORD_MAX {
        no_breach(&ones);
    }
}

#[test]
fn neighbouring_parameters_have_types_of_their_meaning() {
    let head = Regex::new(r"\bfn\s+\w+\s*(?:<[^>(]*>)?\(").expect("a pattern");
    let lifetime = Regex::new(r"&'[a-z_]+ ").expect("a pattern");
    let (mut count, mut breaches) = (0, Vec::new());
    for (path, source) in rust::sources() {
        for found in head.find_iter(&source) {
            count += 1;
            let types: Vec<String> = parameters(&source[found.end()..])
                .iter()
                .map(|parameter| parameter.split_once(':').map_or("", |(_, of)| of.trim()))
                .map(|of| lifetime.replace_all(of, "&").into_owned())
                .collect();
            let alike = types
                .windows(2)
                .find(|pair| pair[0] == pair[1] && PRIMITIVES.contains(&pair[0].as_str()));
            if let Some(pair) = alike {
                let line = source[..found.start()].lines().count();
                breaches.push(format!("{path}:{line}: {} two {}", found.as_str(), pair[0]));
            }
        }
    }
    let share = breaches.len() as f64 / f64::from(count);
    println!("same-typed neighbours: {} of {count}, {:.1} %", breaches.len(), 100.0 * share);
    if share > NEIGHBOURS_MAX {
        no_breach(&breaches);
    }
}

/// The parameters up to the parenthesis that closes the list.
fn parameters(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            ')' if depth == 0 => {
                parts.push(&text[start..at]);
                break;
            }
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            '(' | '[' | '<' => depth += 1,
            ')' | ']' => depth -= 1,
            '>' if !text[..at].ends_with('-') => depth -= 1,
            _ => {}
        }
    }
    parts
}

#[test]
fn closures_with_names_are_few() {
    let closure = Regex::new(r"^\s*let (?:mut )?\w+(?:: [^=]+)? =\s*(?:async )?(?:move )?\|");
    let closure = closure.expect("a pattern");
    let (mut lines, mut breaches) = (0, Vec::new());
    for (path, source) in rust::sources() {
        for (index, line) in source.lines().enumerate() {
            let is_code = !line.trim().is_empty() && !line.trim_start().starts_with("//");
            lines += usize::from(is_code);
            if closure.is_match(line) {
                breaches.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    let rate = breaches.len() as f64 * 1_000.0 / lines as f64;
    println!("named closures: {} in {lines} lines, {rate:.1} per 1,000", breaches.len());
    if rate > CLOSURES_MAX {
        no_breach(&breaches);
    }
}

#[test]
fn names_are_split_into_words() {
    assert!(is_one_word("Verdict") && !is_one_word("HealthVerdict"));
    assert!(is_participle("Asked") && is_participle("Told") && !is_participle("Setting"));
    assert_eq!(parameters("a: u64, b: Vec<(u8, u8)>) -> x"), ["a: u64", " b: Vec<(u8, u8)>"]);
}

/// Flags that a text tells people to use, each with the command before it: `weir parse --grok`.
fn named_flags(text: &str) -> Vec<(String, String)> {
    let command = Regex::new(r"`weir ([a-z]+)([^`\n]*)`").expect("a valid expression");
    let flag = Regex::new(r"(?:^|[\s\[])(--[a-z][a-z-]+)").expect("a valid expression");
    let mut found = Vec::new();
    for named in command.captures_iter(text) {
        let flags = flag.captures_iter(&named[2]).map(|flag| flag[1].to_owned());
        found.extend(flags.map(|flag| (named[1].to_owned(), flag)));
    }
    found
}

/// A hint that names a flag is of no use without it. Commands below a command are left out, since
/// docs/cli.md has no list of their flags.
#[test]
fn flags_in_texts_exist() {
    let reference = crate::text("docs/cli.md");
    let sections: Vec<&str> = reference.split("\n## weir ").collect();
    let mut breaches = Vec::new();
    for (path, text) in crate::files() {
        let is_text = [".rs", ".sql", ".toml", ".md"].iter().any(|end| path.ends_with(end));
        if !is_text || path.starts_with("CHANGELOG") || path.starts_with("docs/bench") {
            continue;
        }
        for (command, flag) in named_flags(&text) {
            let section =
                sections.iter().find(|section| section.starts_with(&format!("{command}\n")));
            let is_known = section.is_some_and(|section| {
                let mut words = section.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                section.contains("\nCommands:\n") || words.any(|word| word == flag)
            });
            if !is_known {
                breaches.push(format!("{path}: `weir {command}` has no flag {flag}"));
            }
        }
    }
    no_breach(&breaches);
}

#[test]
fn flags_are_found_behind_their_command() {
    let found = named_flags("hint: `weir parse --list` or `weir up --tail FILE --data`, `weir`");
    let shown: Vec<String> =
        found.iter().map(|(command, flag)| format!("{command} {flag}")).collect();
    assert_eq!(shown, ["parse --list", "up --tail", "up --data"]);
}
