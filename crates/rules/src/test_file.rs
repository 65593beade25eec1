//! Rule tests as text: rows of tables with relative times, and the expected findings. Format:
//! `docs/rules.md`.
//!
//! ```text
//! # fires: what the case shows
//! listener each 1s from -9s to 0s
//! host, netns, server_port, accept_queue_length, accept_queue_limit
//! web1, host, 8080, 129, 128
//!
//! expect
//! tier: app
//! summary: limit of 128
//! ```
//!
//! The rows become real record batches and the query runs unchanged; only `for` and `clear` are
//! ignored, which the engine's own tests cover. The caller passes in a SQL engine ([`TestQuery`]).

mod rows;

use weir_tables::{Batch, Micros};

use crate::engine::Engine;
use crate::suggest::nearest;
use crate::template;
use crate::{OpenFinding, Rule, RuleError, RuleSet, SourceFile};
use rows::{RowBlock, batch_of};

/// `$now` in every test: 2026-11-20T12:00:00Z.
pub const NOW: Micros = Micros(1_795_176_000_000_000);

const MAX_CASES: usize = 1_000;
const EXPECT_KEYS: &[&str] =
    &["tier", "class", "subject", "summary", "why", "fix", "evidence", "host", "count", "keeps"];

/// A SQL engine that runs one query over the rows of a case.
pub trait TestQuery {
    /// The result of `sql` over tables with exactly these rows; `$now` in it is [`NOW`].
    ///
    /// # Errors
    /// The engine's error, as text.
    fn query(&self, tables: Vec<Batch>, sql: &str)
    -> Result<Vec<arrow_array::RecordBatch>, String>;
}

/// A test file.
#[derive(Clone, Debug)]
pub struct TestFile {
    /// The file, or `built in`.
    pub origin: String,
    /// The cases in their order.
    pub cases: Vec<TestCase>,
}

/// One case: rows and an expectation.
#[derive(Clone, Debug)]
pub struct TestCase {
    /// The line of its heading, from 1.
    pub line: usize,
    /// The name.
    pub name: String,
    /// Whether the rule must fire or stay silent.
    pub fires: bool,
    tables: Vec<Batch>,
    expectations: Vec<FindingExpectation>,
}

/// The expected texts of one finding.
#[derive(Clone, Debug, Default)]
struct FindingExpectation {
    line: usize,
    /// Key, whether it is required or forbidden, and the text.
    terms: Vec<(String, bool, String)>,
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseResult {
    /// The line of its heading, from 1.
    pub line: usize,
    /// The name.
    pub name: String,
    /// The failure; `None` if it passed.
    pub failure: Option<String>,
}

impl TestFile {
    /// Reads a test file.
    ///
    /// # Errors
    /// The first invalid line: an unknown table, column or expectation, a value of the wrong type.
    pub fn parse(file: SourceFile<'_>) -> Result<Self, RuleError> {
        let SourceFile { origin, text } = file;
        let mut reader = TestParser { origin, cases: Vec::new(), block: None, is_expecting: false };
        for (index, line) in text.lines().enumerate() {
            reader.line(index + 1, line.trim_end())?;
        }
        reader.end_block()?;
        let cases = reader.cases;
        for case in cases.iter().filter(|case| !case.fires && !case.expectations.is_empty()) {
            let is_keeping = case.expectations.iter().all(|expected| expected.is_keeping());
            if !is_keeping {
                let message = "a silent case has nothing to expect";
                return Err(RuleError::new(origin, case.line, message));
            }
        }
        Ok(Self { origin: origin.to_owned(), cases })
    }

    /// Runs every case of the file with `rule`.
    pub fn run(&self, rule: &Rule, query: &dyn TestQuery) -> Vec<CaseResult> {
        let results = self.cases.iter().map(|case| CaseResult {
            line: case.line,
            name: case.name.clone(),
            failure: case.run(rule, query).err(),
        });
        results.collect()
    }
}

impl TestCase {
    /// The rows of the case.
    pub fn tables(&self) -> Vec<Batch> {
        self.tables.clone()
    }

    /// The rule's result: empty if its `when` has no row, so that a `when` that is too narrow fails
    /// firing cases.
    fn answer(
        &self,
        rule: &Rule,
        query: &dyn TestQuery,
    ) -> Result<Vec<arrow_array::RecordBatch>, String> {
        let mut answer = Vec::new();
        for sql in rule.queries() {
            answer = query
                .query(self.tables.clone(), sql)
                .map_err(|error| format!("the query failed: {error}"))?;
            if answer.iter().all(|batch| batch.num_rows() == 0) {
                break;
            }
        }
        Ok(answer)
    }

    fn run(&self, rule: &Rule, query: &dyn TestQuery) -> Result<(), String> {
        let answer = self.answer(rule, query)?;
        let mut engine = Engine::new(&RuleSet::default());
        engine.observe(rule, NOW, &answer);
        if let Some(error) = engine.status(&rule.id).error {
            return Err(error);
        }
        let findings: Vec<&OpenFinding> = engine.open().collect();
        match (self.fires, findings.as_slice()) {
            (true, []) => {
                let rows: usize = answer.iter().map(arrow_array::RecordBatch::num_rows).sum();
                return Err(format!(
                    "it should fire and is silent ({rows} rows, none of them opens)"
                ));
            }
            (false, [finding, ..]) => {
                return Err(format!("it should be silent and found: {}", finding.summary()));
            }
            _ => {}
        }
        for finding in &findings {
            complete(finding)?;
        }
        let keeps = answer.iter().map(arrow_array::RecordBatch::num_rows).sum::<usize>() > 0;
        self.expectations.iter().try_for_each(|expected| expected.check(&findings, keeps))
    }
}

/// A template column that the result lacks would be displayed as `{column}`.
fn complete(finding: &OpenFinding) -> Result<(), String> {
    let Some(row) = &finding.details.row else { return Ok(()) };
    for text in [finding.subject(), finding.summary(), finding.why(), finding.fix()] {
        if let Some(missing) =
            template::columns(text).into_iter().find(|name| row.get(name).is_none())
        {
            return Err(format!(
                "the result has no column `{missing}`, which a text of the rule names"
            ));
        }
    }
    Ok(())
}

impl FindingExpectation {
    fn is_keeping(&self) -> bool {
        self.terms.iter().all(|(key, ..)| key == "keeps")
    }

    fn check(&self, findings: &[&OpenFinding], keeps: bool) -> Result<(), String> {
        for (key, _, text) in &self.terms {
            if key == "count" && findings.len().to_string() != *text {
                return Err(format!(
                    "line {}: {} findings instead of {text}",
                    self.line,
                    findings.len()
                ));
            }
            if key == "keeps" && keeps.to_string() != *text {
                return Err(format!("line {}: keeps an open finding: {keeps}", self.line));
            }
        }
        if self.is_keeping() || findings.iter().any(|finding| self.mismatch(finding).is_none()) {
            return Ok(());
        }
        let best = findings.iter().filter_map(|finding| self.mismatch(finding)).next();
        Err(format!("line {}: {}", self.line, best.unwrap_or_else(|| "no finding".to_owned())))
    }

    /// The first expectation that a finding does not meet.
    fn mismatch(&self, finding: &OpenFinding) -> Option<String> {
        self.terms.iter().find_map(|(key, is_wanted, text)| {
            let (actual, is_met) = match key.as_str() {
                "tier" => (finding.tier(), finding.tier() == text),
                "class" => (finding.class.as_str(), finding.class.as_str() == text),
                "host" => (finding.host.as_str(), finding.host == *text),
                "subject" => (finding.subject(), finding.subject().contains(text)),
                "summary" => (finding.summary(), finding.summary().contains(text)),
                "why" => (finding.why(), finding.why().contains(text)),
                "fix" => (finding.fix(), finding.fix().contains(text)),
                "evidence" => (finding.evidence(), finding.evidence().contains(text)),
                _ => ("", true),
            };
            let not = if *is_wanted { "" } else { "not " };
            (is_met != *is_wanted)
                .then(|| format!("{key} should {not}have `{text}` and is `{actual}`"))
        })
    }
}

/// Parses line by line: headings, blocks of rows, expectations.
struct TestParser<'a> {
    origin: &'a str,
    cases: Vec<TestCase>,
    block: Option<RowBlock>,
    is_expecting: bool,
}

impl TestParser<'_> {
    fn line(&mut self, number: usize, line: &str) -> Result<(), RuleError> {
        if let Some(heading) = line.strip_prefix('#') {
            return self.heading(number, heading.trim());
        }
        if line.trim().is_empty() {
            self.is_expecting = false;
            return self.end_block();
        }
        if self.cases.is_empty() {
            return Err(RuleError::new(self.origin, number, "there is no case yet")
                .hint("start one with `# fires: …` or `# silent: …`"));
        }
        if self.is_expecting && line.trim() != "expect" {
            return self.expectation(number, line);
        }
        if let Some(block) = &mut self.block {
            return block.line(self.origin, number, line);
        }
        if line.trim() == "expect" {
            self.is_expecting = true;
            if let Some(case) = self.cases.last_mut() {
                case.expectations.push(FindingExpectation { line: number, terms: Vec::new() });
            }
            return Ok(());
        }
        self.block = Some(RowBlock::begin(self.origin, number, line)?);
        Ok(())
    }

    /// `# fires: …` and `# silent: …` start a case; any other line with `#` is a comment.
    fn heading(&mut self, number: usize, text: &str) -> Result<(), RuleError> {
        let (name, fires) = match (text.strip_prefix("fires:"), text.strip_prefix("silent:")) {
            (Some(name), _) => (name, true),
            (_, Some(name)) => (name, false),
            _ => return Ok(()),
        };
        self.end_block()?;
        self.is_expecting = false;
        if self.cases.len() >= MAX_CASES {
            return Err(RuleError::new(self.origin, number, "more than 1,000 cases in one file"));
        }
        let name = name.trim().to_owned();
        self.cases.push(TestCase {
            line: number,
            name,
            fires,
            tables: Vec::new(),
            expectations: Vec::new(),
        });
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), RuleError> {
        if let (Some(block), Some(case)) = (self.block.take(), self.cases.last_mut()) {
            case.tables.push(batch_of(self.origin, block)?);
        }
        Ok(())
    }

    fn expectation(&mut self, number: usize, line: &str) -> Result<(), RuleError> {
        let (key, text) = line.split_once(':').ok_or_else(|| {
            RuleError::new(self.origin, number, "an expectation is `key: text`").hint(format!(
                "keys: {}; `no fix: text` for what must not be there",
                EXPECT_KEYS.join(", ")
            ))
        })?;
        let (key, is_wanted) = match key.trim().strip_prefix("no ") {
            Some(key) => (key.trim(), false),
            None => (key.trim(), true),
        };
        if !EXPECT_KEYS.contains(&key) {
            let error = RuleError::new(self.origin, number, format!("unknown expectation `{key}`"));
            return Err(match nearest(key, EXPECT_KEYS) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint(format!("one of {}", EXPECT_KEYS.join(", "))),
            });
        }
        if let Some(expected) = self.cases.last_mut().and_then(|case| case.expectations.last_mut())
        {
            expected.terms.push((key.to_owned(), is_wanted, text.trim().to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        let shown = match TestFile::parse(SourceFile { origin: "x.test", text }) {
            Ok(file) => file
                .cases
                .iter()
                .map(|case| {
                    let rows: Vec<String> = case
                        .tables
                        .iter()
                        .map(|batch| format!("{}x{}", batch.table.name, batch.rows.num_rows()))
                        .collect();
                    format!(
                        "{} {}: {}",
                        if case.fires { "fires" } else { "silent" },
                        case.name,
                        rows.join(" ")
                    )
                })
                .collect::<Vec<_>>()
                .join("\n"),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn cases_blocks_and_expectations_are_read() {
        check(
            "# a comment\n# fires: full\nlistener each 1s from -9s to 0s\nhost, server_port, process_name\n\
             web1, 80, \"a, \"\"b\"\"\"\n\nsysctl at -1h\nhost, name\nweb1, x\n\nexpect\ntier: app\nno fix: rm\n\n\
             # silent: empty\n",
            expect![[r#"
                fires full: listenerx10 sysctlx1
                silent empty: "#]],
        );
    }

    #[test]
    fn faults_name_the_line_and_the_way_out() {
        check(
            "listener at 0s\n",
            expect![[r#"
            cannot use `x.test:1`: there is no case yet
            hint: start one with `# fires: …` or `# silent: …`"#]],
        );
        check(
            "# fires: a\nlistner at 0s\nhost\nweb1\n",
            expect![[r#"
            cannot use `x.test:2`: there is no table `listner`
            hint: did you mean `listener`?"#]],
        );
        check(
            "# fires: a\nlistener at 0s\nhost, server_prt\nweb1, 1\n",
            expect![[r#"
            cannot use `x.test:3`: table `listener` has no column `server_prt`
            hint: did you mean `server_port`?"#]],
        );
        check(
            "# fires: a\nlistener at 0s\nhost, server_port\nweb1, many\n",
            expect!["cannot use `x.test:4`: column `server_port` cannot hold `many`"],
        );
        check(
            "# fires: a\nlistener at 0s\nhost, server_port\nweb1\n",
            expect!["cannot use `x.test:4`: 1 values for 2 columns"],
        );
        check(
            "# fires: a\nlistener each 0s from -9s to 0s\nhost\nweb1\n",
            expect![[r#"
            cannot use `x.test:2`: the times of the block are invalid
            hint: `TABLE at -5s`, `TABLE each 1s from -9s to 0s`, or `TABLE` and a column `ts`"#]],
        );
        check(
            "# fires: a\n\nexpect\ncolour: red\n",
            expect![[r#"
            cannot use `x.test:4`: unknown expectation `colour`
            hint: one of tier, class, subject, summary, why, fix, evidence, host, count, keeps"#]],
        );
        check(
            "# silent: a\n\nexpect\ntier: app\n",
            expect!["cannot use `x.test:1`: a silent case has nothing to expect"],
        );
    }

    #[test]
    fn any_text_is_read_or_refused_without_panic() {
        arbtest::arbtest(|u| {
            let junk: String = u.arbitrary()?;
            let number: i32 = u.arbitrary()?;
            let _ = TestFile::parse(SourceFile { origin: "x", text: &junk });
            let text = format!(
                "# fires: a\nlistener each {number}s from -{number}s to 0s\nhost, server_port\n{junk}, {number} +{number}/s\n"
            );
            let _ = TestFile::parse(SourceFile { origin: "x", text: &text });
            Ok(())
        });
    }
}
