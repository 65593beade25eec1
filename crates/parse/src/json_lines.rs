//! One JSON object a line to named texts; objects inside become dotted keys (`http.status`).
//!
//! A program writes its keys in one order, so each key is first compared with the one that followed last time:
//! fifteen comparisons of known bytes instead of fifteen look-ups.

use std::fmt::Write as _;

use crate::field::{self, Field};
use crate::json::{MAX_DEPTH, Scanner, Value};
use crate::record::{Fault, Kind, Record};

/// Keys that are kept for comparison.
const MAX_STEPS: usize = 128;

/// Reads JSON lines of one program.
pub(crate) struct JsonLines {
    classify: Box<dyn Fn(&str) -> Field + Send>,
    steps: Vec<Step>,
}

/// A key in the form that it has in the line (`"key":`), and what it means.
struct Step {
    quoted: Box<[u8]>,
    field: Field,
}

impl JsonLines {
    /// Keys mean what `classify` says.
    pub(crate) fn new(classify: impl Fn(&str) -> Field + Send + 'static) -> Self {
        Self { classify: Box::new(classify), steps: Vec::new() }
    }

    /// Keys mean what they mean to most programs.
    pub(crate) fn free() -> Self {
        Self::new(field::of_key)
    }

    /// Reads a line and tells by its keys whether it is a request.
    pub(crate) fn parse<'a>(
        &mut self,
        line: &'a str,
        record: &mut Record<'a>,
    ) -> Result<Kind, Fault> {
        self.read(line, record)?;
        Ok(record.guess_kind())
    }

    /// Reads a line.
    pub(crate) fn read<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> Result<(), Fault> {
        let mut scanner = Scanner::new(line, record.arena);
        scanner.open()?;
        let mut next_step = 0;
        let mut is_first = true;
        while let Some((key, field)) = self.next_key(&mut scanner, &mut next_step, is_first)? {
            is_first = false;
            match scanner.value()? {
                Value::Object => self.nested(&mut scanner, key, 1, record)?,
                value => put(record, key, value, field),
            }
        }
        scanner.close()?;
        let repair = &mut record.repair;
        repair.hex_escape |= scanner.repair.hex_escape;
        repair.invalid_utf8 |= scanner.repair.invalid_utf8;
        repair.loose_json |= scanner.repair.loose_json;
        Ok(())
    }

    #[inline]
    fn next_key<'a>(
        &mut self,
        scanner: &mut Scanner<'a>,
        next_step: &mut usize,
        is_first: bool,
    ) -> Result<Option<(&'a str, Field)>, Fault> {
        if let Some(step) = self.steps.get(*next_step)
            && let Some(key) = scanner.take_key(&step.quoted, is_first)
        {
            *next_step += 1;
            return Ok(Some((key, step.field)));
        }
        let Some(key) = scanner.key(is_first)? else { return Ok(None) };
        let at = self.step_of(key);
        let field = at.map_or_else(|| (self.classify)(key), |at| self.steps[at].field);
        *next_step = at.map_or(MAX_STEPS, |at| at + 1);
        Ok(Some((key, field)))
    }

    /// The place of a key among the known ones; a new one is learnt while there is room.
    fn step_of(&mut self, key: &str) -> Option<usize> {
        let is_key = |step: &Step| step.quoted[1..step.quoted.len() - 2] == *key.as_bytes();
        if let Some(at) = self.steps.iter().position(is_key) {
            return Some(at);
        }
        if self.steps.len() == MAX_STEPS || key.contains(['"', '\\']) {
            return None;
        }
        let quoted = format!("\"{key}\":").into_bytes().into_boxed_slice();
        self.steps.push(Step { quoted, field: (self.classify)(key) });
        Some(self.steps.len() - 1)
    }

    fn nested<'a>(
        &self,
        scanner: &mut Scanner<'a>,
        prefix: &'a str,
        depth: usize,
        record: &mut Record<'a>,
    ) -> Result<(), Fault> {
        if depth >= MAX_DEPTH {
            return Err(scanner.too_deep());
        }
        let mut is_first = true;
        let mut path = String::new();
        while let Some(key) = scanner.key(is_first)? {
            is_first = false;
            path.clear();
            write!(path, "{prefix}.{key}").expect("writing to a String does not fail");
            let path: &'a str = record.arena.alloc_str(&path);
            match scanner.value()? {
                Value::Object => self.nested(scanner, path, depth + 1, record)?,
                value => put(record, path, value, (self.classify)(path)),
            }
        }
        if is_first {
            record.put(prefix, "{}", Field::Attr);
        }
        Ok(())
    }
}

#[inline]
fn put<'a>(record: &mut Record<'a>, key: &'a str, value: Value<'a>, field: Field) {
    match value {
        Value::Text(text) | Value::Bare(text) => record.put(key, text, field),
        Value::Array(text) => record.put(key, text, Field::Attr),
        Value::Null | Value::Object => {}
    }
}
