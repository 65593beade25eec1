//! A format text made of literals and named values, matched against a line from left to right without backtracking.
//!
//! nginx's `log_format` and Apache's `LogFormat` compile to it. A value ends where the literal behind it begins;
//! what programs write inside values (lists with spaces, escaped quotes) is told to the matcher per value.

use bumpalo::Bump;
use memchr::memmem;

use crate::field::Field;
use crate::record::{Fault, Record};
use crate::text;

/// What a value may contain although the literal behind it begins with the same character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// Nothing: the first place where the literal fits ends the value.
    Nothing,
    /// `, ` and ` : ` of nginx's lists over tries.
    List,
    /// `\"`, as Apache escapes a quote.
    EscapedQuote,
    /// The space before the zone of a time.
    ZoneSpace,
}

/// A part of a format text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Literal(String),
    Value { name: String, field: Field, inside: Inside },
}

/// A value of a compiled format text and the literal behind it.
#[derive(Debug)]
struct Slot {
    name: String,
    field: Field,
    inside: Inside,
    /// `None` when the value goes on to the end of the line.
    end: Option<memmem::Finder<'static>>,
}

/// A compiled format text.
#[derive(Debug)]
pub(crate) struct Template {
    start: String,
    slots: Vec<Slot>,
    is_escaped: bool,
}

impl Template {
    /// Compiles parts; values without a literal between them become one attribute.
    ///
    /// `is_escaped` says whether the program escapes what would end a value (`\x22`).
    pub(crate) fn new(parts: Vec<Part>, is_escaped: bool) -> Self {
        let mut template = Self { start: String::new(), slots: Vec::new(), is_escaped };
        for part in parts {
            template.push(part);
        }
        template
    }

    fn push(&mut self, part: Part) {
        match (part, self.slots.last_mut()) {
            (Part::Literal(text), None) => self.start.push_str(&text),
            (Part::Literal(text), Some(slot)) => {
                let before = slot.end.as_ref().map_or(&b""[..], |end| end.needle());
                let needle = [before, text.as_bytes()].concat();
                slot.end = Some(memmem::Finder::new(&needle).into_owned());
            }
            (Part::Value { name, .. }, Some(slot)) if slot.end.is_none() => {
                slot.field = joined(&slot.name, slot.field, &name);
                slot.name = format!("{}+{name}", slot.name);
            }
            (Part::Value { name, field, inside }, _) => {
                self.slots.push(Slot { name, field, inside, end: None });
            }
        }
    }

    /// The values' names, copied to where the rows of a chunk borrow from.
    pub(crate) fn names<'a>(&self, arena: &'a Bump) -> &'a [&'a str] {
        let names = self.slots.iter().map(|slot| &*arena.alloc_str(&slot.name));
        arena.alloc_slice_fill_iter(names.collect::<Vec<_>>())
    }

    /// Matches a line; `record.names` are those of this template.
    pub(crate) fn parse<'a>(&self, line: &'a str, record: &mut Record<'a>) -> Result<(), Fault> {
        let Some(mut rest) = line.strip_prefix(&*self.start) else {
            return Err(Fault::no_match(format!("the line does not begin with `{}`", self.start)));
        };
        for (index, slot) in self.slots.iter().enumerate() {
            let is_last = index + 1 == self.slots.len();
            let Some((value, behind)) =
                (if is_last { slot.cut_last(rest) } else { slot.cut(rest) })
            else {
                return Err(slot.fault(line.len() - rest.len()));
            };
            let value = if self.is_escaped { text::unescape(value, record.arena) } else { value };
            record.put(record.names[index], value, slot.field);
            rest = behind;
        }
        if rest.is_empty() { Ok(()) } else { Err(Fault::no_match("text behind the format's end")) }
    }
}

/// The meaning of two values written without anything between them.
fn joined(first: &str, field: Field, second: &str) -> Field {
    let is_target = matches!(first, "uri" | "uri+is_args" | "U")
        && matches!(second, "is_args" | "args" | "query_string" | "q");
    if is_target { field } else { Field::Attr }
}

impl Slot {
    /// The last value goes up to the literal at the line's end, whatever it holds.
    fn cut_last<'l>(&self, rest: &'l str) -> Option<(&'l str, &'l str)> {
        match &self.end {
            None => Some((rest, "")),
            Some(end) => {
                let literal = std::str::from_utf8(end.needle()).expect("literals are text");
                Some((rest.strip_suffix(literal)?, ""))
            }
        }
    }

    fn cut<'l>(&self, rest: &'l str) -> Option<(&'l str, &'l str)> {
        let Some(end) = &self.end else { return Some((rest, "")) };
        let mut from = 0;
        loop {
            let at = from + end.find(&rest.as_bytes()[from..])?;
            if !self.is_inside(&rest.as_bytes()[..at], &rest.as_bytes()[at..]) {
                return Some((&rest[..at], &rest[at + end.needle().len()..]));
            }
            from = at + 1;
        }
    }

    /// Whether the place where the literal fits still belongs to the value.
    fn is_inside(&self, before: &[u8], behind: &[u8]) -> bool {
        match self.inside {
            Inside::Nothing => false,
            Inside::List => {
                let is_space = behind.first() == Some(&b' ');
                is_space && (matches!(before, [.., b',' | b':']) || behind.starts_with(b" : "))
            }
            Inside::EscapedQuote => {
                let slash_count = before.iter().rev().take_while(|byte| **byte == b'\\').count();
                behind.first() == Some(&b'"') && slash_count % 2 == 1
            }
            Inside::ZoneSpace => {
                behind.first() == Some(&b' ') && matches!(behind.get(1), Some(b'+' | b'-'))
            }
        }
    }

    fn fault(&self, at: usize) -> Fault {
        let literal =
            self.end.as_ref().map_or("".into(), |end| String::from_utf8_lossy(end.needle()));
        Fault::no_match(format!("no `{literal}` behind `{}`, which begins at byte {at}", self.name))
    }
}
