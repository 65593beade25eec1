//! Parses a rule file into a [`Rule`]; every error names the line.
//!
//! The TOML is walked by hand and not through serde, because the error for an unknown key names its
//! line and the nearest known key.

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_tables::parse_whole_seconds;

use crate::mine::{Scale, Side};
use crate::rule::{Chart, Class, Rule, SettingNotes, TIERS, ThresholdSpec};
use crate::suggest::nearest;
use crate::texts::QueryWords;
use crate::{ChosenText, RuleError, SourceFile};

const OPEN: &str = "/*---";
const CLOSE: &str = "---*/";
const MAX_FILE_BYTES: usize = 256 * 1024;
const MAX_SPAN_SECONDS: u64 = 7 * 86_400;

const KEYS: &[&str] = &[
    "id",
    "title",
    "tier",
    "class",
    "for",
    "every",
    "clear",
    "key",
    "subject",
    "summary",
    "why",
    "look_at",
    "silent_when",
    "fix",
    "source",
    "text",
    "explains",
    "equal",
    "explained_by",
    "prefers",
    "needs",
    "when",
    "chart",
    "threshold",
    "setting",
];
const CHART_KEYS: &[&str] = &["title", "sql", "unit"];
const SETTING_KEYS: &[&str] = &["risk", "interaction"];
const THRESHOLD_KEYS: &[&str] = &["value", "unit", "side", "scale", "absent_is_zero", "series"];

/// Reads a whole rule file.
pub(crate) fn parse(file: SourceFile<'_>) -> Result<Rule, RuleError> {
    if file.text.len() > MAX_FILE_BYTES {
        return Err(RuleError::new(file.origin, 1, "the file is larger than 256 KiB"));
    }
    let (head_text, head_line, sql) = split(file)?;
    let head = RuleHead::read(SourceFile { text: head_text, ..file }, head_line)?;
    let rule = head.rule(sql)?;
    check_sql(&rule, file.text)?;
    Ok(rule)
}

/// The head's text, the line that it starts on, and the query.
fn split(file: SourceFile<'_>) -> Result<(&str, usize, &str), RuleError> {
    let SourceFile { origin, text } = file;
    let start = text.find(OPEN).filter(|at| text[..*at].trim().is_empty()).ok_or_else(|| {
        RuleError::new(origin, 1, "the file does not begin with a head")
            .hint("start it with a line `/*---`, the TOML keys, and a line `---*/`")
    })?;
    let body = start + OPEN.len();
    let length = text[body..].find(CLOSE).ok_or_else(|| {
        RuleError::new(origin, line_of(text, start), "the head is not closed")
            .hint("end it with `---*/`")
    })?;
    let sql = text[body + length + CLOSE.len()..].trim().trim_end_matches(';').trim_end();
    Ok((&text[body..body + length], line_of(text, body), sql))
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

fn check_sql(rule: &Rule, text: &str) -> Result<(), RuleError> {
    let line = text.find(CLOSE).map_or(1, |at| line_of(text, at));
    let fail =
        |message: &str, hint: &str| Err(RuleError::new(&rule.origin, line, message).hint(hint));
    if rule.sql.is_empty() {
        return fail("there is no query after the head", "write one SELECT below `---*/`");
    }
    if !rule.sql.contains("$now") {
        return fail(
            "the query does not use `$now`, so it would read every row ever kept",
            "bound it: `where ts > $now - interval '10 seconds' and ts <= $now`",
        );
    }
    Ok(())
}

/// The head, with what is needed to locate errors in it.
struct RuleHead<'a> {
    origin: &'a str,
    text: &'a str,
    first_line: usize,
    table: DeTable<'a>,
}

/// A section of the head, such as `[chart]`.
struct Section<'t, 'a> {
    name: &'static str,
    start: usize,
    table: &'t DeTable<'a>,
}

impl Section<'_, '_> {
    /// The offset of a key's value, or of the section.
    fn place_of(&self, key: &str) -> usize {
        self.table.get(key).map_or(self.start, |value| value.span().start)
    }
}

impl<'a> RuleHead<'a> {
    fn read(file: SourceFile<'a>, first_line: usize) -> Result<Self, RuleError> {
        let SourceFile { origin, text } = file;
        let table = DeTable::parse(text).map_err(|error| {
            let line = first_line + error.span().map_or(0, |span| line_of(text, span.start) - 1);
            RuleError::new(origin, line, error.message().trim().to_owned())
        })?;
        let head = Self { origin, text, first_line, table: table.into_inner() };
        head.refuse_unknown(&head.table, KEYS)?;
        Ok(head)
    }

    fn refuse_unknown(&self, table: &DeTable<'a>, known: &[&str]) -> Result<(), RuleError> {
        for key in table.keys() {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let error = self.error(key.span().start, format!("unknown key `{name}`"));
            return Err(match nearest(name, known) {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint(format!("known keys: {}", known.join(", "))),
            });
        }
        Ok(())
    }

    fn error(&self, offset: usize, message: String) -> RuleError {
        RuleError::new(self.origin, self.first_line + line_of(self.text, offset) - 1, message)
    }

    fn rule(&self, sql: &str) -> Result<Rule, RuleError> {
        let every_seconds = self.span("every")?.ok_or_else(|| self.missing("every"))?;
        let for_seconds = self.span("for")?.ok_or_else(|| self.missing("for"))?;
        let clear_seconds = self.span("clear")?.unwrap_or(3 * every_seconds);
        let explained_by = self.list("explained_by")?;
        let mining = self.mining()?;
        self.check_threshold(sql, mining.as_ref())?;
        Ok(Rule {
            id: self.id()?,
            title: self.text("title")?,
            tier: self.tier()?,
            class: self.class()?,
            for_seconds,
            every_seconds: every_seconds.max(1),
            clear_seconds,
            key: self.list("key")?.ok_or_else(|| self.missing("key"))?,
            subject: self.text("subject")?,
            summary: self.text("summary")?,
            why: self.text("why")?,
            look_at: self.text("look_at")?,
            silent_when: self.text("silent_when")?,
            fix: self.text("fix")?,
            texts: self.texts(sql)?,
            source: self.text("source")?,
            causes: explained_by.clone().unwrap_or_default(),
            explains: self.list("explains")?,
            equal: self.list("equal")?.unwrap_or_default(),
            explained_by,
            prefers: self.list("prefers")?.unwrap_or_default(),
            needs: self.needs()?,
            when: self.when()?.iter().map(|sql| with_threshold(sql, mining.as_ref())).collect(),
            chart: self.chart()?,
            sql: with_threshold(sql, mining.as_ref()),
            mining,
            setting: self.setting()?,
            origin: self.origin.to_owned(),
        })
    }

    fn missing(&self, key: &str) -> RuleError {
        self.error(0, format!("the head lacks the key `{key}`"))
    }

    fn id(&self) -> Result<String, RuleError> {
        let id = self.text("id")?;
        match id.split_once('.') {
            Some((family, name)) if is_word(family) && is_word(name) => Ok(id),
            _ => Err(self
                .bad("id", format!("`{id}` is no rule id"))
                .hint("write `family.name` in lower case, such as `tcp.listen_overflow`")),
        }
    }

    fn tier(&self) -> Result<String, RuleError> {
        let tier = self.text("tier")?;
        if TIERS.contains(&tier.as_str()) {
            return Ok(tier);
        }
        Err(self
            .bad("tier", format!("unknown tier `{tier}`"))
            .hint(format!("one of {}", TIERS.join(", "))))
    }

    fn class(&self) -> Result<Class, RuleError> {
        let word = self.text("class")?;
        Class::parse(&word).ok_or_else(|| {
            self.bad("class", format!("unknown class `{word}`")).hint("page, mail or note")
        })
    }

    fn needs(&self) -> Result<Vec<String>, RuleError> {
        let needs = self.list("needs")?.unwrap_or_default();
        let known: Vec<&str> = weir_tables::TABLES.iter().map(|spec| spec.name).collect();
        for table in &needs {
            if !known.contains(&table.as_str()) {
                let error = self.bad("needs", format!("there is no table `{table}`"));
                return Err(match nearest(table, &known) {
                    Some(near) => error.hint(format!("did you mean `{near}`?")),
                    None => error.hint("`weir tables` lists them"),
                });
            }
        }
        Ok(needs)
    }

    fn when(&self) -> Result<Vec<String>, RuleError> {
        let queries = match self.table.get("when").map(|value| value.get_ref()) {
            None => Vec::new(),
            Some(DeValue::Array(_)) => self.list("when")?.unwrap_or_default(),
            Some(_) => vec![self.text("when")?],
        };
        if queries.iter().any(|sql| !sql.contains("$now")) {
            return Err(self
                .bad("when", "`when` does not use `$now`".to_owned())
                .hint("bound it like the query, at least as wide"));
        }
        Ok(queries)
    }

    fn chart(&self) -> Result<Option<Chart>, RuleError> {
        let Some(value) = self.table.get("chart") else { return Ok(None) };
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.error(value.span().start, "`chart` is no table".to_owned()));
        };
        self.refuse_unknown(table, CHART_KEYS)?;
        let section = Section { name: "chart", start: value.span().start, table };
        Ok(Some(Chart {
            title: self.text_in(&section, "title")?,
            sql: self.text_in(&section, "sql")?,
            unit: self.text_in(&section, "unit")?,
        }))
    }

    fn setting(&self) -> Result<Option<SettingNotes>, RuleError> {
        let Some(value) = self.table.get("setting") else { return Ok(None) };
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.error(value.span().start, "`setting` is no table".to_owned()));
        };
        self.refuse_unknown(table, SETTING_KEYS)?;
        let section = Section { name: "setting", start: value.span().start, table };
        Ok(Some(SettingNotes {
            risk: self.text_in(&section, "risk")?,
            interaction: self.text_in(&section, "interaction")?,
        }))
    }

    /// The sections `[text.COLUMN]`, in the order of the file.
    fn texts(&self, sql: &str) -> Result<Vec<ChosenText>, RuleError> {
        let Some(value) = self.table.get("text") else { return Ok(Vec::new()) };
        let DeValue::Table(sections) = value.get_ref() else {
            return Err(self.not_a_section(value.span().start));
        };
        let query = QueryWords::new(sql, &self.needs()?);
        let mut sections: Vec<_> = sections.iter().collect();
        sections.sort_by_key(|(column, _)| column.span().start);
        let mut texts = Vec::with_capacity(sections.len());
        for (column, section) in sections {
            let start = column.span().start;
            let DeValue::Table(section) = section.get_ref() else {
                return Err(self.not_a_section(start));
            };
            let by_key = section.iter().map(|(key, value)| {
                let name: &str = key.get_ref();
                let text = value.get_ref().as_str().map(|text| (name.to_owned(), text.to_owned()));
                text.ok_or_else(|| self.error(value.span().start, format!("`{name}` is no text")))
            });
            let name: &str = column.get_ref();
            let chosen =
                ChosenText { column: name.to_owned(), by_key: by_key.collect::<Result<_, _>>()? };
            chosen
                .check(&query)
                .map_err(|fault| self.error(start, fault.message).hint(fault.hint))?;
            texts.push(chosen);
        }
        Ok(texts)
    }

    fn not_a_section(&self, offset: usize) -> RuleError {
        self.error(offset, "`text` has sections only".to_owned())
            .hint("write `[text.COLUMN]`, and below it `key = \"…\"`")
    }

    fn mining(&self) -> Result<Option<ThresholdSpec>, RuleError> {
        let Some(value) = self.table.get("threshold") else { return Ok(None) };
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.error(value.span().start, "`threshold` is no table".to_owned()));
        };
        self.refuse_unknown(table, THRESHOLD_KEYS)?;
        let section = Section { name: "threshold", start: value.span().start, table };
        let number = match table.get("value").map(|value| value.get_ref()) {
            None => None,
            Some(DeValue::Float(number)) => number.as_str().parse().ok(),
            Some(DeValue::Integer(number)) => number.as_str().parse().ok(),
            Some(_) => None,
        }
        .filter(|number: &f64| number.is_finite());
        if table.contains_key("value") && number.is_none() {
            return Err(
                self.error(section.place_of("value"), "`threshold.value` is no number".to_owned())
            );
        }
        let side = match self.text_in(&section, "side")?.as_str() {
            "above" => Side::Above,
            "below" => Side::Below,
            "both" if number.is_none() => Side::Both,
            _ => {
                return Err(self
                    .error(section.place_of("side"), "unknown side of a threshold".to_owned())
                    .hint("above or below; both only without a `value`"));
            }
        };
        let scale = match self.optional_text_in(&section, "scale")?.as_deref() {
            None | Some("auto") => Scale::Auto,
            Some("log") => Scale::Log,
            Some("raw") => Scale::Raw,
            Some(_) => {
                return Err(self
                    .error(section.place_of("scale"), "unknown scale of a threshold".to_owned())
                    .hint("auto, log or raw"));
            }
        };
        let series = self.text_in(&section, "series")?;
        if !(series.contains("$from") && series.contains("$to")) {
            return Err(self
                .error(
                    section.place_of("series"),
                    "`threshold.series` does not use `$from` and `$to`".to_owned(),
                )
                .hint("bound it: `where ts >= $from and ts < $to`"));
        }
        let absent_is_zero =
            table.get("absent_is_zero").and_then(|value| value.get_ref().as_bool());
        let unit = self.optional_text_in(&section, "unit")?.unwrap_or_default();
        let absent_is_zero = absent_is_zero.unwrap_or(false);
        Ok(Some(ThresholdSpec { value: number, unit, side, scale, absent_is_zero, series }))
    }

    /// A required text of a section.
    fn text_in(&self, section: &Section<'_, 'a>, key: &str) -> Result<String, RuleError> {
        let missing = || {
            let message = format!("`{}` lacks the key `{key}`", section.name);
            self.error(section.start, message)
        };
        self.optional_text_in(section, key)?.ok_or_else(missing)
    }

    fn optional_text_in(
        &self,
        section: &Section<'_, 'a>,
        key: &str,
    ) -> Result<Option<String>, RuleError> {
        let value = section.table.get(key);
        value.map(|value| self.text_of(&format!("{}.{key}", section.name), value)).transpose()
    }

    /// The query must contain `$threshold` if and only if there is a value for it.
    fn check_threshold(&self, sql: &str, mining: Option<&ThresholdSpec>) -> Result<(), RuleError> {
        let has_value = mining.is_some_and(|mining| mining.value.is_some());
        match (sql.contains("$threshold"), has_value) {
            (true, false) => Err(self
                .error(0, "the query uses `$threshold`, which has no value".to_owned())
                .hint("add a section `[threshold]` with `value`, `side` and `series`")),
            (false, true) => Err(self
                .bad("threshold", "the query does not use `$threshold`".to_owned())
                .hint("write `$threshold` in place of the number")),
            _ => Ok(()),
        }
    }

    /// An error about the value of an existing key.
    fn bad(&self, key: &str, message: String) -> RuleError {
        self.error(self.table.get(key).map_or(0, |value| value.span().start), message)
    }

    fn text(&self, key: &str) -> Result<String, RuleError> {
        self.text_of(key, self.table.get(key).ok_or_else(|| self.missing(key))?)
    }

    fn text_of(&self, key: &str, value: &Spanned<DeValue<'a>>) -> Result<String, RuleError> {
        match value.get_ref().as_str() {
            Some(text) if !text.trim().is_empty() || key == "chart.unit" => {
                Ok(text.trim().to_owned())
            }
            Some(_) => Err(self.error(value.span().start, format!("`{key}` is empty"))),
            None => Err(self.error(value.span().start, format!("`{key}` is no text"))),
        }
    }

    fn list(&self, key: &str) -> Result<Option<Vec<String>>, RuleError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let array = value.get_ref().as_array().ok_or_else(|| {
            self.bad(key, format!("`{key}` is no list")).hint(format!("write `{key} = [\"…\"]`"))
        })?;
        array.iter().map(|item| self.text_of(key, item)).collect::<Result<_, _>>().map(Some)
    }

    fn span(&self, key: &str) -> Result<Option<u64>, RuleError> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        let text = self.text_of(key, value)?;
        let seconds = parse_whole_seconds(&text)
            .ok()
            .filter(|seconds| *seconds <= MAX_SPAN_SECONDS)
            .ok_or_else(|| {
                self.bad(key, format!("`{key} = \"{text}\"` is no time span"))
                    .hint("whole seconds, at most 7d, such as \"10s\", \"5m\" or \"1h30m\"")
            })?;
        Ok(Some(seconds))
    }
}

fn with_threshold(sql: &str, mining: Option<&ThresholdSpec>) -> String {
    match mining.and_then(|mining| mining.value) {
        // `{:?}` always writes a decimal point: an integer would cause an integer division.
        Some(value) => sql.replace("$threshold", &format!("{value:?}")),
        None => sql.to_owned(),
    }
}

/// Whether this is a part of a rule id.
fn is_word(part: &str) -> bool {
    !part.is_empty()
        && part
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use crate::{Rule, SourceFile};

    const GOOD: &str = r#"/*---
id = "tcp.demo"
title = "demo"
tier = "kernel"
class = "mail"
for = "2s"
every = "2s"
key = ["netns"]
subject = "{netns}"
summary = "{n} drops"
why = "because"
look_at = "there"
silent_when = "nothing drops"
fix = "mend it"
source = "test"
needs = ["tcp_stat"]
---*/
select host, netns, 1 as n from tcp_stat where ts > $now - interval '10 seconds' and ts <= $now;
"#;

    fn check(text: &str, expected: Expect) {
        let shown = match Rule::parse(SourceFile { origin: "rules/tcp.demo.sql", text }) {
            Ok(rule) => {
                format!("{} for {} clear {}", rule.id, rule.for_seconds, rule.clear_seconds)
            }
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn good_rule_is_read() {
        check(GOOD, expect!["tcp.demo for 2 clear 6"]);
    }

    #[test]
    fn query_ends_without_semicolon_and_now_becomes_a_literal() {
        let rule = Rule::parse(SourceFile { origin: "x", text: GOOD }).unwrap();
        expect![[r#"select host, netns, 1 as n from tcp_stat where ts > arrow_cast('1970-01-01T00:00:00.000000Z', 'Timestamp(Microsecond, Some("+00:00"))') - interval '10 seconds' and ts <= arrow_cast('1970-01-01T00:00:00.000000Z', 'Timestamp(Microsecond, Some("+00:00"))')"#]].assert_eq(&rule.sql_at(weir_tables::Micros(0)));
    }

    #[test]
    fn faults_name_the_line_and_the_way_out() {
        check(
            "select 1",
            expect![[r#"
            cannot use `rules/tcp.demo.sql:1`: the file does not begin with a head
            hint: start it with a line `/*---`, the TOML keys, and a line `---*/`"#]],
        );
        check(
            "/*---\nid = \"a.b\"\n",
            expect![[r#"
            cannot use `rules/tcp.demo.sql:1`: the head is not closed
            hint: end it with `---*/`"#]],
        );
        check(
            &GOOD.replace("summary", "sumary"),
            expect![[r#"
            cannot use `rules/tcp.demo.sql:10`: unknown key `sumary`
            hint: did you mean `summary`?"#]],
        );
        check(
            &GOOD.replace("summary = \"{n} drops\"\n", ""),
            expect!["cannot use `rules/tcp.demo.sql:1`: the head lacks the key `summary`"],
        );
        check(
            &GOOD.replace("\"kernel\"", "\"kernal\""),
            expect![[r#"
            cannot use `rules/tcp.demo.sql:4`: unknown tier `kernal`
            hint: one of client, edge, wire, kernel, proxy, app, db, host, disk, log, weir"#]],
        );
        check(
            &GOOD.replace("\"mail\"", "\"sms\""),
            expect![[r#"
            cannot use `rules/tcp.demo.sql:5`: unknown class `sms`
            hint: page, mail or note"#]],
        );
        check(
            &GOOD.replace("for = \"2s\"", "for = \"2 fortnights\""),
            expect![[r#"
            cannot use `rules/tcp.demo.sql:6`: `for = "2 fortnights"` is no time span
            hint: whole seconds, at most 7d, such as "10s", "5m" or "1h30m""#]],
        );
        check(
            &GOOD.replace("[\"tcp_stat\"]", "[\"tcp_stats\"]"),
            expect![[r#"
            cannot use `rules/tcp.demo.sql:16`: there is no table `tcp_stats`
            hint: did you mean `tcp_stat`?"#]],
        );
        check(
            &GOOD.replace("why = \"because\"", "why = because"),
            expect![[r#"
            cannot use `rules/tcp.demo.sql:11`: string values must be quoted, expected literal string"#]],
        );
        check(
            &GOOD.replace("$now", "now()"),
            expect![[r#"
            cannot use `rules/tcp.demo.sql:17`: the query does not use `$now`, so it would read every row ever kept
            hint: bound it: `where ts > $now - interval '10 seconds' and ts <= $now`"#]],
        );
        let texts = GOOD.replace("1 as n", "'some' as n");
        let texts = texts.replace("---*/", "[text.n]\nsome = \"{netnss}\"\n---*/");
        check(
            &texts,
            expect![[r#"
            cannot use `rules/tcp.demo.sql:17`: the query has no column `netnss` for `{netnss}`
            hint: did you mean `netns`?"#]],
        );
        check(&texts.replace("{netnss}", "{netns}"), expect!["tcp.demo for 2 clear 6"]);
        check(
            &texts.replace("[text.n]\nsome", "[text]\nn"),
            expect![[r#"
            cannot use `rules/tcp.demo.sql:18`: `text` has sections only
            hint: write `[text.COLUMN]`, and below it `key = "…"`"#]],
        );
        check(
            &GOOD.replace("tcp.demo", "Demo"),
            expect![[r#"
            cannot use `rules/tcp.demo.sql:2`: `Demo` is no rule id
            hint: write `family.name` in lower case, such as `tcp.listen_overflow`"#]],
        );
    }

    #[test]
    fn any_text_is_read_or_refused_without_panic() {
        arbtest::arbtest(|u| {
            let cut: usize = u.int_in_range(0..=GOOD.len())?;
            let junk: String = u.arbitrary()?;
            let text = format!("{}{junk}{}", &GOOD[..cut], &GOOD[cut..]);
            let _ = Rule::parse(SourceFile { origin: "x", text: &text });
            let _ = Rule::parse(SourceFile { origin: "x", text: &junk });
            Ok(())
        });
    }
}
