//! `weir rules replay`: when would a rule have fired, with what evidence, on the rows that a
//! running weir holds.
//!
//! The rule's own queries run with other times for `$now`, and the real engine takes in the
//! answers. Evaluating every moment of a month would take hours, so the condition on single rows
//! (`when`) is queried first, a day at a time. The remaining spans are evaluated at the rule's own
//! interval when they are short, else in wide steps, and only around an answer at the rule's own
//! interval: what is shorter than a step and lies between two evaluations is missed, and the report
//! has the width of the steps.

mod spans;

use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use serde_json::{Value, json};
use weir_process::failure::Failure;
use weir_process::terminal::Paint;
use weir_rules::{Class, Engine, OpenFinding, Rule, RuleSet, State, duration};
use weir_tables::Micros;

/// Looks that the wide steps are made for; each costs some milliseconds at the hub.
const WIDE_LOOKS: u64 = 2_000;
/// Most looks at the rule's own pace.
const CLOSE_LOOKS: u64 = 20_000;

/// What a rule would have done in the span before `now`, as `--format json` prints it.
pub fn replayed(
    rule: &Arc<Rule>,
    now: Micros,
    since: Duration,
    ask: impl FnMut(&str) -> Result<Vec<RecordBatch>, Failure>,
) -> Result<Value, Failure> {
    Ok(ReplayWalk::new(rule, ask).report(now - since, now, None)?.json())
}

/// The narrowest multiple of the rule's own pace that needs no more than [`WIDE_LOOKS`].
fn step_of(every: u64, span: Duration) -> u64 {
    every * span.as_secs().div_ceil(every * WIDE_LOOKS).max(1)
}

/// A walk of a rule through the past.
pub struct ReplayWalk<A> {
    rule: Arc<Rule>,
    engine: Engine,
    ask: A,
    wide_looks: u64,
    close_looks: u64,
    /// Findings that fired, as they were at their end or last.
    fired: Vec<OpenFinding>,
}

impl<A: FnMut(&str) -> Result<Vec<RecordBatch>, Failure>> ReplayWalk<A> {
    /// With what answers its queries.
    pub fn new(rule: &Arc<Rule>, ask: A) -> Self {
        Self {
            rule: Arc::clone(rule),
            engine: Engine::new(&RuleSet::default()),
            ask,
            wide_looks: 0,
            close_looks: 0,
            fired: Vec::new(),
        }
    }

    /// Walks through all spans in which the rule may have something to say.
    ///
    /// # Errors
    /// As the answers have them.
    pub fn report(
        &mut self,
        from: Micros,
        to: Micros,
        step: Option<u64>,
    ) -> Result<ReplayReport<'_, A>, Failure> {
        let spans = spans::find(&self.rule, from, to, &mut self.ask)?;
        let looked = spans::length(&spans);
        let every = self.rule.every_seconds;
        let step = step.unwrap_or_else(|| step_of(every, looked)).max(every);
        let mut whole = true;
        for (begin, end) in spans {
            whole = whole && self.between(begin, end, step)?;
        }
        let open: Vec<OpenFinding> = self.engine.open().cloned().collect();
        self.fired.extend(open.into_iter().filter(|finding| finding.state == State::Firing));
        Ok(ReplayReport { from, to, looked, step, whole, walk: self })
    }

    /// Walks from one moment to another; false when the looks did not suffice for all of it.
    fn between(&mut self, from: Micros, to: Micros, step: u64) -> Result<bool, Failure> {
        let every = self.rule.every_seconds;
        // A short span may be between two wide steps: the first look is where it shows.
        let mut at = if step == every { from } else { (from + spans::BIN).min(to) };
        while at <= to {
            self.wide_looks += 1;
            let answer = self.answer(at)?;
            if step == every {
                self.take(at, &answer);
                at = at + self.pace();
                continue;
            }
            if rows(&answer) > 0 {
                // What begins within the step before is walked through from its begin.
                let begin = at - Duration::from_secs(step - every);
                at = self.closely(if begin > from { begin } else { from }, at, to)?;
                if self.close_looks >= CLOSE_LOOKS {
                    return Ok(false);
                }
            }
            at = at + Duration::from_secs(step);
        }
        Ok(true)
    }

    /// At the rule's own pace until `past` is reached and nothing is open; where that was.
    fn closely(&mut self, from: Micros, past: Micros, to: Micros) -> Result<Micros, Failure> {
        let mut at = from;
        loop {
            self.close_looks += 1;
            let answer = self.answer(at)?;
            self.take(at, &answer);
            let is_over = at >= past && self.engine.open().next().is_none();
            if is_over || at >= to || self.close_looks >= CLOSE_LOOKS {
                return Ok(at);
            }
            at = at + self.pace();
        }
    }

    /// Until the next look: `every`, or less when a pending finding fires before.
    fn pace(&self) -> Duration {
        let (every, most) = (self.rule.every_seconds, self.rule.for_seconds);
        let is_pending = self.engine.open().any(|finding| finding.state == State::Pending);
        Duration::from_secs(if is_pending { every.min(most).max(1) } else { every })
    }

    fn take(&mut self, at: Micros, answer: &[RecordBatch]) {
        for change in self.engine.observe(&self.rule, at, answer) {
            if change.is_state_change() && change.finding.state == State::Resolved {
                self.fired.extend(change.finding.fired_ts.is_some().then_some(change.finding));
            }
        }
    }

    /// The rule's answer: empty as soon as a query of its `when` is.
    fn answer(&mut self, at: Micros) -> Result<Vec<RecordBatch>, Failure> {
        let mut answer = Vec::new();
        for sql in self.rule.queries_at(at) {
            answer = (self.ask)(&sql)?;
            if rows(&answer) == 0 {
                break;
            }
        }
        Ok(answer)
    }
}

fn rows(answer: &[RecordBatch]) -> usize {
    answer.iter().map(RecordBatch::num_rows).sum()
}

/// The rows of `/api/sql` as a batch; times are texts. None without a row.
pub fn batch(answer: &Value) -> Result<Option<RecordBatch>, arrow_schema::ArrowError> {
    let columns = answer["columns"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows = answer["rows"].as_array().map(Vec::as_slice).unwrap_or_default();
    if rows.is_empty() {
        return Ok(None);
    }
    let column = |(at, column): (usize, &Value)| {
        let cells = rows.iter().map(|row| &row[at]);
        let array: ArrayRef = match column["kind"].as_str() {
            Some("integer") => Arc::new(Int64Array::from_iter(cells.map(Value::as_i64))),
            Some("float") => Arc::new(Float64Array::from_iter(cells.map(Value::as_f64))),
            Some("boolean") => Arc::new(BooleanArray::from_iter(cells.map(Value::as_bool))),
            _ => Arc::new(StringArray::from_iter(cells.map(text))),
        };
        (column["name"].as_str().unwrap_or_default().to_owned(), array, true)
    };
    RecordBatch::try_from_iter_with_nullable(columns.iter().enumerate().map(column)).map(Some)
}

fn text(cell: &Value) -> Option<String> {
    match cell {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// The report of a replay.
pub struct ReplayReport<'a, A> {
    from: Micros,
    to: Micros,
    /// Of all this time, that in which the rule could have something to say.
    looked: Duration,
    step: u64,
    whole: bool,
    walk: &'a ReplayWalk<A>,
}

impl<A> ReplayReport<'_, A> {
    fn count(&self, class: Class) -> usize {
        self.walk.fired.iter().filter(|finding| finding.highest_class() == class).count()
    }

    /// For a person.
    pub fn text(&self, paint: Paint) -> String {
        let mut out = String::new();
        for finding in &self.walk.fired {
            let from = finding.fired_ts.unwrap_or(finding.started_ts);
            let span = match finding.resolved_ts {
                Some(end) => format!("for {:.0} s", end.seconds_since(from)),
                None => "until the end".to_owned(),
            };
            let class = finding.highest_class().as_str();
            let class = paint.of_class(class).paint(&format!("{class:<4}"));
            out += &format!("{from}  {class}  {span}  {}\n", finding.summary());
        }
        let counts = [Class::Page, Class::Mail, Class::Note]
            .map(|class| format!("{} as {}", self.count(class), class.as_str()));
        let rule = &self.walk.rule;
        out += &format!(
            "{} would have fired {} times from {} to {}: {}\n",
            rule.id,
            self.walk.fired.len(),
            self.from,
            self.to,
            counts.join(", ")
        );
        if self.looked.is_zero() {
            out += "in all of this time there was nothing at which it could fire";
            return out;
        }
        let all = self.to.seconds_since(self.from);
        let looked = self.looked.as_secs_f64();
        if looked + 1.0 < all {
            out += &format!("it could fire in {} of this time; there it ", duration(looked));
        }
        out += &format!("looked every {} s ({} times)", self.step, self.walk.wide_looks);
        if self.step > rule.every_seconds {
            out += &format!(
                ", and every {} s where there was something ({} times); what came and went between two looks is not in it (--step looks closer)",
                rule.every_seconds, self.walk.close_looks
            );
        }
        if !self.whole {
            out += &format!(
                "\nstopped after {CLOSE_LOOKS} close looks: a shorter --since goes all the way"
            );
        }
        out
    }

    /// For a program.
    pub fn json(&self) -> Value {
        json!({
            "rule": self.walk.rule.id,
            "from_ts": self.from.to_string(),
            "to_ts": self.to.to_string(),
            "looked_seconds": self.looked.as_secs(),
            "step_seconds": self.step,
            "is_whole": self.whole,
            "findings": self.walk.fired.iter().map(finding_object).collect::<Vec<_>>(),
        })
    }
}

fn finding_object(finding: &OpenFinding) -> Value {
    let evidence = serde_json::from_str(finding.evidence()).unwrap_or(Value::Null);
    json!({
        "host": finding.host,
        "key": finding.key,
        "class": finding.highest_class().as_str(),
        "fired_ts": finding.fired_ts.map(|at| at.to_string()),
        "resolved_ts": finding.resolved_ts.map(|at| at.to_string()),
        "summary": finding.summary(),
        "evidence": evidence,
    })
}

#[cfg(test)]
mod tests {
    use weir_rules::SourceFile;

    use super::*;

    const RULE: &str = "/*---\nid = \"test.replay\"\ntitle = \"t\"\ntier = \"kernel\"\nclass = \"mail\"\nfor = \"4s\"\n\
        every = \"2s\"\nclear = \"4s\"\nkey = [\"what\"]\nsubject = \"{what}\"\nsummary = \"{n} of {what}\"\nwhy = \"w\"\n\
        look_at = \"l\"\nsilent_when = \"s\"\nfix = \"f\"\nsource = \"x\"\n---*/\nselect $now";

    /// Walks an hour in which the condition holds within these seconds.
    fn walk(held: &'static [std::ops::Range<i64>], step: u64) -> Vec<(i64, i64)> {
        let rule = Rule::parse(SourceFile { origin: "test", text: RULE }).unwrap();
        let begin = Micros(1_795_176_000_000_000);
        let answer = move |sql: &str| {
            let text = sql.split('\'').nth(1).unwrap();
            let minute: i64 = text[14..16].parse().unwrap();
            let second: i64 = text[17..19].parse().unwrap();
            let at = minute * 60 + second;
            let rows = match held.iter().any(|span| span.contains(&at)) {
                true => json!([["web1", "x", 3]]),
                false => json!([]),
            };
            let columns = json!([{"name": "host", "kind": "text"}, {"name": "what", "kind": "text"},
                {"name": "n", "kind": "integer"}]);
            Ok(batch(&json!({"columns": columns, "rows": rows})).unwrap().into_iter().collect())
        };
        let mut walk = ReplayWalk::new(&Arc::new(rule), answer);
        let end = begin + Duration::from_secs(3598);
        assert!(walk.report(begin, end, Some(step)).unwrap().whole);
        let times = walk.fired.iter().map(|finding| {
            assert_eq!(finding.summary(), "3 of x");
            let since = |at: Option<Micros>| at.map_or(-1, |at| (at.0 - begin.0) / 1_000_000);
            (since(finding.fired_ts), since(finding.resolved_ts))
        });
        times.collect()
    }

    #[test]
    fn wide_steps_find_the_same_moments_as_every_look() {
        let held = &[100..200, 1000..1002, 2000..2600];
        let every = walk(held, 2);
        assert_eq!(every, [(104, 204), (2004, 2604)]);
        assert_eq!(walk(held, 60), every);
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "one span of time is meant")]
    fn what_lasts_shorter_than_a_step_may_be_missed_and_what_goes_on_has_no_end() {
        assert_eq!(walk(&[75..95], 60), []);
        assert_eq!(walk(&[3500..4000], 60), [(3504, -1)]);
    }

    #[test]
    fn steps_suffice_for_a_month() {
        assert_eq!(step_of(2, Duration::from_secs(3600)), 2);
        assert_eq!(step_of(2, Duration::from_secs(30 * 86_400)), 1296);
        assert_eq!(step_of(60, Duration::from_secs(86_400)), 60);
    }
}
