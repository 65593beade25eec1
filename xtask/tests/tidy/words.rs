//! The English of comments, rule texts, pages and docs, as STYLE.md asks for it.
//!
//! No native engineer writes the wordings in this list; each is one alternative of a pattern. Texts are the
//! comments of Rust, SQL and JavaScript, the heads of rules, strings of the page that have three words or more, and
//! Markdown outside of code blocks. Measured pages under `docs/bench/` are records and stay as they were written.

use regex::Regex;

use crate::{files, no_breach};

/// What is allowed for each 10,000 words of text, over the whole repository.
const FOREIGN_MAX: f64 = 8.0;

/// The share of doc comments that may open without a subject.
const ELLIPTIC_MAX: f64 = 0.01;

const TITLE_LETTERS_MAX: usize = 60;
const CLAUSE_LETTERS_MAX: usize = 160;

/// Split where a word would find itself in this list.
const FOREIGN: &[&str] = &[
    concat!("an", "ew"),
    concat!("de", "ar(?:er|est)?"),
    concat!("in va", "in"),
    concat!("so ma", "ny|so much as"),
    concat!("(?:is|are|was|were) (?:sa", "id|told|heard|handed|asked)"),
    concat!("some", "body(?:'s)?|no", "body(?:'s)?|who", "ever"),
    concat!("of (?:its|their|his) o", "wn"),
    concat!("asked f", "or|asked of"),
    concat!("(?:goes|go|went) o", "n"),
    concat!("again and ag", "ain|without e", "nd|hardly a|hardly any"),
    concat!("a moment a", "go"),
    concat!("those th", "at|that whi", "ch"),
    concat!("says? (?:wh", "at|why|when|where|which|how|so|who|it|of)"),
    concat!("stands? (?:i", "n|at|for itself)|as it sta", "nds"),
    concat!("(?:the|its) w", "ay of"),
    concat!("sees t", "o|knows o", "f|be h", "ad"),
    concat!("which is to s", "ay|to the let", "ter"),
    concat!("looked f", "or|(?:is|are|be) look", "ed"),
];

/// How a doc comment opens that leaves its subject to the item above.
const ELLIPTIC: &str = concat!(
    "^(?:The same|Of (?:it|them|these|those|the|a|each|which|what)|So (?:many|much|long|far|often)",
    "|As (?:many|much|long|often|far)|And (?:the|what|how|its|that|of|whether|a|one)|Or|But|Who|Whose",
    "|That which|Those|With (?:it|them)|From it|In it|To it|For it|Its|Their|Not|Nor|Likewise|Also",
    "|The one|The other|Such|What (?:it|they|of|is|was|has|he|one))\\b"
);

/// A text and where it is: path, line, words.
struct Passage {
    path: String,
    line: usize,
    text: String,
}

impl Passage {
    fn breach(&self, what: &str) -> String {
        let start: String = self.text.chars().take(100).collect();
        format!("{}:{}: `{what}` in: {start}", self.path, self.line)
    }
}

/// Every text of the repository that a person reads.
fn passages() -> Vec<Passage> {
    let quoted = Regex::new(r#"'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`([^`]*)`"#);
    let quoted = quoted.expect("the pattern is constant");
    let mut passages = Vec::new();
    for (path, source) in files() {
        let is_record =
            ["docs/bench/", "/vendor/", "/fixtures/"].iter().any(|at| path.contains(at));
        let ending = path.rsplit('.').next().unwrap_or_default().to_owned();
        if is_record {
            continue;
        }
        let mut is_code = false;
        for (index, line) in source.lines().enumerate() {
            let is_fence = ending == "md" && line.starts_with("```");
            is_code ^= is_fence;
            let texts = if is_fence || is_code {
                Vec::new()
            } else {
                TextLine { ending: &ending, line }.texts(&quoted)
            };
            let (path, line) = (&path, index + 1);
            passages.extend(texts.into_iter().map(|text| Passage {
                path: path.clone(),
                line,
                text,
            }));
        }
    }
    passages
}

/// A line of a file whose name ends so.
struct TextLine<'a> {
    ending: &'a str,
    line: &'a str,
}

impl TextLine<'_> {
    /// What a reader reads of it.
    fn texts(&self, quoted: &Regex) -> Vec<String> {
        let Self { ending, line } = *self;
        let trimmed = line.trim();
        let strings = |least_spaces: usize| {
            quoted
                .captures_iter(line)
                .filter_map(|found| found.iter().skip(1).flatten().next())
                .map(|text| text.as_str().to_owned())
                .filter(|text| text.matches(' ').count() >= least_spaces)
                .collect()
        };
        match ending {
            "rs" if trimmed.starts_with("//") => vec![comment(trimmed)],
            "md" => vec![line.to_owned()],
            "sql" if trimmed.starts_with("--") => vec![comment(trimmed)],
            "sql" => strings(1),
            "js" | "html" if trimmed.starts_with(['*', '/']) => vec![comment(trimmed)],
            "js" | "html" => strings(2),
            _ => Vec::new(),
        }
    }
}

fn comment(line: &str) -> String {
    line.trim_start_matches(['/', '!', '*', '-', ' ']).to_owned()
}

#[test]
fn texts_are_in_the_fields_english() {
    let foreign = Regex::new(&format!(r"(?i)\b(?:{})\b", FOREIGN.join("|"))).expect("a pattern");
    let (mut words, mut breaches) = (0, Vec::new());
    for passage in passages() {
        words += passage.text.split_whitespace().count();
        let found = foreign.find_iter(&passage.text);
        breaches.extend(found.map(|found| passage.breach(found.as_str())));
    }
    let rate = breaches.len() as f64 * 10_000.0 / words as f64;
    println!("foreign wordings: {} in {words} words, {rate:.1} per 10,000", breaches.len());
    if rate > FOREIGN_MAX {
        no_breach(&breaches);
    }
}

#[test]
fn doc_comments_have_subjects() {
    let elliptic = Regex::new(ELLIPTIC).expect("a pattern");
    let (mut count, mut breaches) = (0, Vec::new());
    for (path, source) in files().into_iter().filter(|(path, _)| path.ends_with(".rs")) {
        let mut is_inside = false;
        for (index, line) in source.lines().enumerate() {
            let is_doc = ["///", "//!"].iter().any(|mark| line.trim_start().starts_with(mark));
            if is_doc && !is_inside {
                count += 1;
                let opening = comment(line.trim());
                if elliptic.is_match(&opening) {
                    breaches.push(format!("{path}:{}: {opening}", index + 1));
                }
            }
            is_inside = is_doc;
        }
    }
    let share = breaches.len() as f64 / count as f64;
    println!("elliptic doc comments: {} of {count}, {:.1} %", breaches.len(), share * 100.0);
    if share > ELLIPTIC_MAX {
        no_breach(&breaches);
    }
}

#[test]
fn rule_titles_and_summaries_fit_a_phone() {
    let mut breaches = Vec::new();
    let is_rule = |path: &str| path.starts_with("rules/") && path.ends_with(".sql");
    for (path, source) in files().into_iter().filter(|(path, _)| is_rule(path)) {
        // The head's own title; a chart below it has another.
        let value = |key: &str| {
            let start = format!("{key} = \"");
            let line = source.lines().find_map(|line| line.strip_prefix(start.as_str()));
            line.map_or(String::new(), |value| value.trim_end_matches('"').to_owned())
        };
        let title = value("title").chars().count();
        if title > TITLE_LETTERS_MAX {
            breaches.push(format!("{path}: a title of {title} letters, over {TITLE_LETTERS_MAX}"));
        }
        let summary = value("summary");
        let clause = first_clause(&summary).chars().count();
        if clause > CLAUSE_LETTERS_MAX {
            breaches.push(format!(
                "{path}: the summary's first clause has {clause} letters, over {CLAUSE_LETTERS_MAX}"
            ));
        }
    }
    no_breach(&breaches);
}

/// The text up to the first full stop, colon or semicolon that ends a word.
fn first_clause(text: &str) -> &str {
    let ends = text.char_indices().filter(|(_, letter)| ['.', ';', ':'].contains(letter));
    let end = ends.map(|(at, _)| at).find(|at| !text[at + 1..].starts_with(|c: char| c != ' '));
    &text[..end.unwrap_or(text.len())]
}

#[test]
fn a_clause_ends_at_a_mark_that_ends_a_word() {
    assert_eq!(first_clause("sdc is 2.7× slower; more"), "sdc is 2.7× slower");
    assert_eq!(first_clause("one of {a}:{b} fails."), "one of {a}:{b} fails");
    assert_eq!(first_clause("no mark"), "no mark");
}

#[test]
fn foreign_wordings_are_found_whole() {
    let foreign = Regex::new(&format!(r"(?i)\b(?:{})\b", FOREIGN.join("|"))).expect("a pattern");
    assert!(foreign.is_match(concat!("is read an", "ew at each start")));
    assert!(foreign.is_match(concat!("The hub is to", "ld")));
    assert!(!foreign.is_match("a newer one is said".replace("is said", "remains").as_str()));
}
