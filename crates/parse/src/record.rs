//! One parsed line: formats put named texts into a [`Record`], which decides the columns.
//!
//! Nothing is lost: a text that does not fit its column (a status that is not a number, a column
//! that is already set) stays an attribute under its own name. All texts live as long as the chunk.

use bumpalo::Bump;
use weir_tables::{Log, Request};
use weir_values::TimeReader;

use crate::field::Field;
use crate::key_budget::KeyBudget;

mod access;
mod attrs;
mod columns;
mod envelope;

pub(crate) use access::{FieldValue, is_column};
pub(crate) use envelope::Envelope;

/// The table of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    Request,
    Log,
}

/// Why a line was rejected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LineFault {
    pub(crate) reason: &'static str,
    pub(crate) detail: String,
}

impl LineFault {
    pub(crate) fn no_match(detail: impl Into<String>) -> Self {
        Self { reason: "no_match", detail: detail.into() }
    }
}

/// Repairs that were needed to read a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineRepair {
    pub(crate) hex_escape: bool,
    pub(crate) invalid_utf8: bool,
    pub(crate) loose_json: bool,
    /// The time in the line is impossible, so `ts` is the time of reading.
    pub(crate) implausible_time: bool,
}

impl LineRepair {
    /// The column `repair`.
    pub(crate) fn as_str(self) -> Option<&'static str> {
        const WORDS: [&str; 16] = [
            "",
            "hex_escape",
            "invalid_utf8",
            "hex_escape,invalid_utf8",
            "loose_json",
            "hex_escape,loose_json",
            "invalid_utf8,loose_json",
            "hex_escape,invalid_utf8,loose_json",
            "implausible_time",
            "hex_escape,implausible_time",
            "invalid_utf8,implausible_time",
            "hex_escape,invalid_utf8,implausible_time",
            "loose_json,implausible_time",
            "hex_escape,loose_json,implausible_time",
            "invalid_utf8,loose_json,implausible_time",
            "hex_escape,invalid_utf8,loose_json,implausible_time",
        ];
        let bits = usize::from(self.hex_escape)
            | usize::from(self.invalid_utf8) << 1
            | usize::from(self.loose_json) << 2
            | usize::from(self.implausible_time) << 3;
        Some(WORDS[bits]).filter(|words| !words.is_empty())
    }
}

/// A text with its name and meaning.
#[derive(Clone, Copy, Debug)]
struct NamedText<'a> {
    key: &'a str,
    value: &'a str,
    field: Field,
}

/// Texts that were taken out of a record.
#[derive(Debug)]
pub(crate) struct TextList<'a> {
    pairs: Vec<NamedText<'a>>,
    seen: u64,
}

impl<'a> TextList<'a> {
    /// Names, texts and meanings.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str, Field)> {
        self.pairs.iter().map(|pair| (pair.key, pair.value, pair.field))
    }
}

/// The texts and columns of one line; reused for the next.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub(crate) times: TimeReader,
    pub(crate) arena: &'a Bump,
    pub(crate) repair: LineRepair,
    /// The detected format of a line of an unknown log.
    pub(crate) taken_for: &'static str,
    /// Whether a line of the stream was UTF-16.
    pub(crate) is_utf16: bool,
    /// The time in the line.
    pub(crate) ts: Option<weir_tables::Micros>,
    pub(crate) request: Request<'a>,
    pub(crate) log: Log<'a>,
    /// Whether the format itself decided on `log.message_template`.
    pub(crate) is_template_known: bool,
    /// Whether the line's own text is empty: a container wrote an empty line.
    pub(crate) is_blank: bool,
    /// Whether no format was found in the line.
    pub(crate) is_plain: bool,
    /// Values of the envelope that holds the line.
    pub(crate) envelope: Envelope<'a>,
    /// Names of the format's values, in order.
    pub(crate) names: &'a [&'a str],
    /// Limit of the stream's attribute names.
    pub(crate) keys: KeyBudget,
    pairs: Vec<NamedText<'a>>,
    attrs: Vec<(&'a str, &'a str)>,
    /// Attributes over a limit.
    more: Vec<(&'a str, &'a str)>,
    seen: u64,
    /// Configured name of the server, used without a requested host.
    server_name: Option<&'a str>,
    server_address: Option<&'a str>,
}

impl<'a> Record<'a> {
    pub(crate) fn new(arena: &'a Bump, times: TimeReader, keys: KeyBudget) -> Self {
        Self {
            times,
            arena,
            keys,
            repair: LineRepair::default(),
            taken_for: "",
            is_utf16: false,
            ts: None,
            request: Request::default(),
            log: Log::default(),
            is_template_known: false,
            is_blank: false,
            is_plain: false,
            envelope: Envelope::default(),
            names: &[],
            pairs: Vec::with_capacity(64),
            attrs: Vec::with_capacity(64),
            more: Vec::new(),
            seen: 0,
            server_name: None,
            server_address: None,
        }
    }

    /// Clears the previous line.
    pub(crate) fn clear(&mut self) {
        self.repair = LineRepair::default();
        self.envelope = Envelope::default();
        self.clear_texts();
    }

    /// Clears the texts of a format that did not match.
    pub(crate) fn clear_texts(&mut self) {
        self.ts = None;
        self.request = Request::default();
        self.log = Log::default();
        self.is_template_known = false;
        (self.is_blank, self.is_plain) = (false, false);
        self.pairs.clear();
        self.attrs.clear();
        self.more.clear();
        self.seen = 0;
        (self.server_name, self.server_address) = (None, None);
    }

    /// Removes and returns the names and texts, for a format that interprets them itself.
    pub(crate) fn take_pairs(&mut self) -> Vec<(&'a str, &'a str)> {
        self.seen = 0;
        self.pairs.drain(..).map(|pair| (pair.key, pair.value)).collect()
    }

    /// Removes and returns the texts, for [`Record::put_back`].
    pub(crate) fn take_texts(&mut self) -> TextList<'a> {
        TextList { pairs: std::mem::take(&mut self.pairs), seen: std::mem::take(&mut self.seen) }
    }

    /// Puts texts back with their meanings.
    pub(crate) fn put_back(&mut self, texts: TextList<'a>) {
        (self.pairs, self.seen) = (texts.pairs, texts.seen);
    }

    /// Adds a text with its name and meaning.
    #[inline]
    pub(crate) fn put(&mut self, [key, value]: [&'a str; 2], field: Field) {
        self.seen |= field.bit();
        self.pairs.push(NamedText { key, value, field });
    }

    /// Adds an attribute; empty texts are dropped.
    pub(crate) fn attr(&mut self, [key, value]: [&'a str; 2]) {
        if !value.is_empty() {
            self.put([key, value], Field::Attr);
        }
    }

    /// The first text with this name.
    pub(crate) fn text(&self, key: &str) -> Option<&'a str> {
        self.pairs.iter().find(|pair| pair.key == key).map(|pair| pair.value)
    }

    /// Whether no text with this meaning was added.
    pub(crate) fn is_free(&self, field: Field) -> bool {
        self.seen & field.bit() == 0
    }

    /// Decides by the meanings of the texts whether the line is a request.
    ///
    /// A line with a message must also have method, target and status to be a request.
    pub(crate) fn guess_kind(&self) -> RowKind {
        let line = Field::RequestLine.bit();
        let groups = [Field::Method.bit() | line, Field::Target.bit() | line, Field::Status.bit()];
        let needed = if self.is_free(Field::Message) { 2 } else { 3 };
        let found = groups.iter().filter(|fields| self.seen & **fields != 0).count();
        if found >= needed { RowKind::Request } else { RowKind::Log }
    }

    /// Keeps an impossible time as an attribute and records the repair.
    pub(crate) fn settle_time(&mut self) {
        if let Some(ts) = self.ts.filter(|ts| !self.times.is_plausible(*ts)) {
            self.ts = None;
            self.repair.implausible_time = true;
            let text = self.arena.alloc_str(&ts.to_string());
            self.keep_attr(["weir.time", text]);
        }
    }

    /// Sets the column `message_template`, unless the format did: where a message of nginx ends,
    /// only its format knows.
    pub(crate) fn settle_template(&mut self, program: Option<&str>) {
        if self.is_template_known {
            return;
        }
        let template = program
            .filter(|program| *program != "nginx")
            .and_then(|program| weir_tables::message_template(program, self.log.body));
        self.log.message_template = template.map(|text| &*self.arena.alloc_str(&text));
    }

    /// The attributes: at most [`attrs::MAX_ATTRS`], and two for attributes over a limit.
    pub(crate) fn attrs(&self) -> &[(&'a str, &'a str)] {
        &self.attrs
    }
}
