//! Format texts of literals and named values, matched from left to right.
//!
//! nginx's `log_format` and Apache's `LogFormat` compile to it. A value ends where the next literal
//! starts; [`ValueSyntax`] describes what programs write inside values (lists with spaces, escaped
//! quotes). Only if a column of numbers gets other text, because a visitor's text has the literal,
//! the texts before it are extended to a later one.

use bumpalo::Bump;
use memchr::memmem;
use weir_tables::Micros;
use weir_values::TimeForm;

use crate::field::Field;
use crate::format::Format;
use crate::record::{LineFault, Record, RowKind};
use crate::text;

/// Most ends of a time that are tried.
const MAX_TIME_PARTS: usize = 8;
/// Most ends of texts that are tried for one line.
const MAX_EXTENSIONS: usize = 64;

/// Text inside a value that looks like the literal after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueSyntax {
    /// None: the first match of the literal ends the value.
    Nothing,
    /// `, ` and ` : ` of nginx's lists over tries, `, ` of a header's list.
    List,
    /// `\"`, as Apache escapes a quote.
    EscapedQuote,
    /// A header with a list: `, ` and `\"`.
    QuotedList,
    /// A request line, which may stand without quotes: `\"`, and blanks before the version.
    RequestLine,
    /// A time in the forms of the format text.
    Time,
    /// The space before the zone of a time.
    ZoneSpace,
}

/// A part of a format text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TemplatePart {
    Literal(String),
    Value {
        name: String,
        field: Field,
        inside: ValueSyntax,
    },
    /// A time, in a form of the format text.
    Time {
        form: Option<TimeForm>,
        field: Field,
    },
}

/// A value of a compiled format text and the literal after it.
#[derive(Debug)]
struct TemplateSlot {
    name: String,
    field: Field,
    inside: ValueSyntax,
    form: Option<TimeForm>,
    /// `None` if the value extends to the end of the line.
    end: Option<memmem::Finder<'static>>,
}

/// Requests in a text format.
pub(crate) struct TemplateFormat {
    pub(crate) name: &'static str,
    pub(crate) template: Template,
}

impl Format for TemplateFormat {
    fn name(&self) -> &'static str {
        self.name
    }

    fn parse<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
        self.template.parse(line, record).map(|()| RowKind::Request)
    }

    fn names<'a>(&self, arena: &'a Bump) -> &'a [&'a str] {
        self.template.names(arena)
    }
}

/// A compiled format text.
#[derive(Debug)]
pub(crate) struct Template {
    start: String,
    slots: Vec<TemplateSlot>,
    is_escaped: bool,
}

impl Template {
    /// Compiles parts; values without a literal between them become one attribute.
    ///
    /// `is_escaped`: whether the program escapes characters that would end a value (`\x22`).
    pub(crate) fn new(parts: Vec<TemplatePart>, is_escaped: bool) -> Self {
        let mut template = Self { start: String::new(), slots: Vec::new(), is_escaped };
        for part in parts {
            template.push(part);
        }
        template
    }

    fn push(&mut self, part: TemplatePart) {
        match (part, self.slots.last_mut()) {
            (TemplatePart::Literal(text), None) => self.start.push_str(&text),
            (TemplatePart::Literal(text), Some(slot)) => {
                let before = slot.end.as_ref().map_or(&b""[..], |end| end.needle());
                let needle = [before, text.as_bytes()].concat();
                slot.end = Some(memmem::Finder::new(&needle).into_owned());
            }
            (TemplatePart::Value { name, field, .. }, Some(slot)) if slot.end.is_none() => {
                slot.field = joined((&slot.name, slot.field), (&name, field));
                slot.name = format!("{}+{name}", slot.name);
            }
            (TemplatePart::Value { name, field, inside }, _) => {
                self.slots.push(TemplateSlot { name, field, inside, form: None, end: None });
            }
            (TemplatePart::Time { form, field }, _) => self.slots.push(TemplateSlot {
                name: "time".into(),
                field,
                inside: ValueSyntax::Time,
                form,
                end: None,
            }),
        }
    }

    /// Names of the values, copied into the arena of a chunk.
    pub(crate) fn names<'a>(&self, arena: &'a Bump) -> &'a [&'a str] {
        let names = self.slots.iter().map(|slot| &*arena.alloc_str(&slot.name));
        arena.alloc_slice_fill_iter(names.collect::<Vec<_>>())
    }

    /// Matches a line; `record.names` holds the names of this template.
    pub(crate) fn parse<'a>(
        &self,
        line: &'a str,
        record: &mut Record<'a>,
    ) -> Result<(), LineFault> {
        let Some(mut rest) = line.strip_prefix(&*self.start) else {
            return Err(LineFault::no_match(format!(
                "the line does not begin with `{}`",
                self.start
            )));
        };
        for (index, slot) in self.slots.iter().enumerate() {
            let is_last = index + 1 == self.slots.len();
            let Some((value, behind)) =
                (if is_last { slot.cut_last(rest) } else { slot.cut(rest, record) })
            else {
                return Err(slot.fault(line.len() - rest.len()));
            };
            if !slot.fits(value)
                && let Some(values) = self.extended(line, record)
            {
                record.clear_texts();
                values.into_iter().enumerate().for_each(|(at, value)| self.put(at, value, record));
                return Ok(());
            }
            self.put(index, value, record);
            rest = behind;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(LineFault::no_match("text behind the format's end"))
        }
    }
}

impl Template {
    fn put<'a>(&self, index: usize, value: &'a str, record: &mut Record<'a>) {
        let slot = &self.slots[index];
        if slot.inside == ValueSyntax::Time
            && let Some(ts) = slot.time(value, record)
        {
            return slot.put_time(ts, record);
        }
        let value = if self.is_escaped { text::unescape(value, record.arena) } else { value };
        record.put([record.names[index], value], slot.field);
    }

    /// The values with which every column of numbers has numbers: the last text before one that has
    /// not is extended to the next match of the literal behind it.
    fn extended<'a>(&self, line: &'a str, record: &mut Record<'_>) -> Option<Vec<&'a str>> {
        let mut cuts: Vec<(usize, usize)> = Vec::with_capacity(self.slots.len());
        for _ in 0..MAX_EXTENSIONS {
            let is_whole = self.cut_fitting(line, record, &mut cuts);
            if is_whole {
                return Some(cuts.iter().map(|(start, end)| &line[*start..*end]).collect());
            }
            loop {
                let (start, end) = cuts.pop()?;
                let slot = &self.slots[cuts.len()];
                let literal = slot.end.as_ref().filter(|_| slot.is_text());
                let next = literal.and_then(|literal| literal.find(&line.as_bytes()[end + 1..]));
                if let Some(length) = next {
                    cuts.push((start, end + 1 + length));
                    break;
                }
            }
        }
        None
    }

    /// Cuts the values behind `cuts` as long as they fit; whether the line ends with the last.
    fn cut_fitting(
        &self,
        line: &str,
        record: &mut Record<'_>,
        cuts: &mut Vec<(usize, usize)>,
    ) -> bool {
        while let Some(slot) = self.slots.get(cuts.len()) {
            let literal_before =
                cuts.len().checked_sub(1).and_then(|at| self.slots[at].end.as_ref());
            let before = literal_before.map_or(0, |literal| literal.needle().len());
            let start = cuts.last().map_or(self.start.len(), |(_, end)| end + before);
            let Some(rest) = line.get(start..) else { return false };
            let is_last = cuts.len() + 1 == self.slots.len();
            let cut = if is_last { slot.cut_last(rest) } else { slot.cut(rest, record) };
            let Some((value, behind)) = cut.filter(|(value, _)| slot.fits(value)) else {
                return false;
            };
            cuts.push((start, start + value.len()));
            if is_last {
                return behind.is_empty();
            }
        }
        false
    }
}

/// Whether a quote is escaped.
fn is_escaped(before: &[u8], behind: &[u8]) -> bool {
    let slash_count = before.iter().rev().take_while(|byte| **byte == b'\\').count();
    behind.first() == Some(&b'"') && slash_count % 2 == 1
}

/// The meaning of two adjacent values.
fn joined((first, field): (&str, Field), (second, behind): (&str, Field)) -> Field {
    let is_query = matches!(second, "is_args" | "args" | "query_string" | "q");
    let is_target = matches!(first, "uri" | "uri+is_args" | "U") && is_query;
    let is_authority = matches!(field, Field::Host | Field::ServerName | Field::ServerPort);
    match field {
        Field::AuthorityTarget if is_query => field,
        _ if is_target => field,
        _ if is_authority && behind == Field::Target => Field::AuthorityTarget,
        _ => Field::Attr,
    }
}

impl TemplateSlot {
    /// Whether a value can be in this column: columns of numbers have numbers, `-`, or a list.
    fn fits(&self, value: &str) -> bool {
        !self.field.is_number() || value.bytes().all(|byte| b"0123456789.,:- ".contains(&byte))
    }

    /// Whether a visitor can choose the text, and with it the literal.
    fn is_text(&self) -> bool {
        let is_visitors = matches!(
            self.field,
            Field::Target
                | Field::AuthorityTarget
                | Field::Query
                | Field::RequestLine
                | Field::UserAgent
                | Field::Referer
                | Field::Host
                | Field::Attr
        );
        is_visitors && self.inside != ValueSyntax::Time
    }

    /// The last value extends to the literal at the end of the line.
    fn cut_last<'l>(&self, rest: &'l str) -> Option<(&'l str, &'l str)> {
        match &self.end {
            None => Some((rest, "")),
            Some(end) => {
                let literal = std::str::from_utf8(end.needle()).expect("literals are text");
                Some((rest.strip_suffix(literal)?, ""))
            }
        }
    }

    /// The time of a value, by the form of the format text, else by its own.
    fn time(&self, value: &str, record: &mut Record<'_>) -> Option<Micros> {
        let reading = self.form.as_ref().and_then(|form| form.read(value));
        let ts = reading.and_then(|reading| record.times.settle(reading));
        ts.or_else(|| record.times.read(value))
    }

    /// The time of the request's end is used only if its start is not there.
    fn put_time(&self, ts: Micros, record: &mut Record<'_>) {
        if self.field == Field::Time && record.ts.is_none() {
            record.ts = Some(ts);
        } else {
            let text = record.arena.alloc_str(&ts.to_string());
            record.put(["time", text], Field::TimeOtherwise);
        }
    }

    fn cut<'l>(&self, rest: &'l str, record: &mut Record<'_>) -> Option<(&'l str, &'l str)> {
        let Some(end) = &self.end else { return Some((rest, "")) };
        if self.inside == ValueSyntax::Time
            && let Some(at) = self.time_length(end, rest, record)
        {
            return Some((&rest[..at], &rest[at + end.needle().len()..]));
        }
        let mut from = self.version_start(end, rest);
        loop {
            let at = from + end.find(&rest.as_bytes()[from..])?;
            if !self.is_inside(rest.as_bytes().split_at(at)) {
                return Some((&rest[..at], &rest[at + end.needle().len()..]));
            }
            from = at + 1;
        }
    }

    /// Where the version of a request begins that is not in quotes, so its blanks do not end it.
    fn version_start(&self, end: &memmem::Finder<'_>, rest: &str) -> usize {
        let is_bare =
            self.inside == ValueSyntax::RequestLine && end.needle().first() == Some(&b' ');
        let is_request =
            is_bare && rest.bytes().next().is_some_and(|byte| byte.is_ascii_uppercase());
        let version = if is_request { rest.find(" HTTP/") } else { None };
        version.map_or(0, |at| at + " HTTP/".len())
    }

    /// The length of a time, which may contain the literal behind it.
    fn time_length(
        &self,
        end: &memmem::Finder<'_>,
        rest: &str,
        record: &mut Record<'_>,
    ) -> Option<usize> {
        let ends = || end.find_iter(rest.as_bytes()).take(MAX_TIME_PARTS);
        let in_form =
            |at: &usize| self.form.as_ref().is_some_and(|f| f.read(&rest[..*at]).is_some());
        let own_form = || ends().filter(|at| record.times.read(&rest[..*at]).is_some()).last();
        ends().find(in_form).or_else(own_form)
    }

    /// Whether a match of the literal is still inside the value.
    fn is_inside(&self, (before, behind): (&[u8], &[u8])) -> bool {
        match self.inside {
            ValueSyntax::Nothing | ValueSyntax::Time => false,
            ValueSyntax::List => {
                let is_space = behind.first() == Some(&b' ');
                is_space && (matches!(before, [.., b',' | b':']) || behind.starts_with(b" : "))
            }
            ValueSyntax::EscapedQuote | ValueSyntax::RequestLine => is_escaped(before, behind),
            ValueSyntax::QuotedList => {
                is_escaped(before, behind)
                    || behind.first() == Some(&b' ') && before.last() == Some(&b',')
            }
            ValueSyntax::ZoneSpace => {
                behind.first() == Some(&b' ') && matches!(behind.get(1), Some(b'+' | b'-'))
            }
        }
    }

    fn fault(&self, at: usize) -> LineFault {
        let literal =
            self.end.as_ref().map_or("".into(), |end| String::from_utf8_lossy(end.needle()));
        LineFault::no_match(format!(
            "no `{literal}` behind `{}`, which begins at byte {at}",
            self.name
        ))
    }
}
