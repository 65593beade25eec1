//! One line in pieces: formats put named texts into a [`Record`], and it alone decides which columns they become.
//!
//! Nothing is lost on the way: a text that does not fit its column (a status that is no number, a column already
//! taken by another text) stays an attribute under its own name. All texts live as long as the chunk of lines.

use bumpalo::Bump;
use weir_tables::{Log, Request};

use crate::field::Field;
use crate::key_budget::KeyBudget;
use crate::time::TimeReader;

mod access;
mod attrs;
mod columns;

pub(crate) use access::{Value, is_column};

/// The table that a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Log,
}

/// Why a line was not understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) reason: &'static str,
    pub(crate) detail: String,
}

impl Fault {
    pub(crate) fn no_match(detail: impl Into<String>) -> Self {
        Self { reason: "no_match", detail: detail.into() }
    }
}

/// What was mended to read a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repair {
    pub(crate) hex_escape: bool,
    pub(crate) invalid_utf8: bool,
    pub(crate) loose_json: bool,
    /// Not mended but replaced: the time in the line cannot be, so that of reading stands in `ts`.
    pub(crate) implausible_time: bool,
}

impl Repair {
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
struct Pair<'a> {
    key: &'a str,
    value: &'a str,
    field: Field,
}

/// The pieces of one line; used again for the next.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub(crate) times: TimeReader,
    pub(crate) arena: &'a Bump,
    pub(crate) repair: Repair,
    /// The format that a line of an unknown log was taken for.
    pub(crate) taken_for: &'static str,
    /// When the line says it happened.
    pub(crate) ts: Option<weir_tables::Micros>,
    pub(crate) request: Request<'a>,
    pub(crate) log: Log<'a>,
    /// Names of the template's values, in their order.
    pub(crate) names: &'a [&'a str],
    /// Which names of attributes the stream may still bring.
    pub(crate) keys: KeyBudget,
    pairs: Vec<Pair<'a>>,
    attrs: Vec<(&'a str, &'a str)>,
    /// Attributes over a budget.
    more: Vec<(&'a str, &'a str)>,
    seen: u64,
    /// Address and configured name of the server, for when no host was asked for.
    server_name: Option<&'a str>,
    server_address: Option<&'a str>,
}

impl<'a> Record<'a> {
    pub(crate) fn new(arena: &'a Bump, times: TimeReader, keys: KeyBudget) -> Self {
        Self {
            times,
            arena,
            keys,
            repair: Repair::default(),
            taken_for: "",
            ts: None,
            request: Request::default(),
            log: Log::default(),
            names: &[],
            pairs: Vec::with_capacity(64),
            attrs: Vec::with_capacity(64),
            more: Vec::new(),
            seen: 0,
            server_name: None,
            server_address: None,
        }
    }

    /// Forgets the line before.
    pub(crate) fn clear(&mut self) {
        self.repair = Repair::default();
        self.clear_texts();
    }

    /// Forgets what a format put in that turned out to be the wrong one.
    pub(crate) fn clear_texts(&mut self) {
        self.ts = None;
        self.request = Request::default();
        self.log = Log::default();
        self.pairs.clear();
        self.attrs.clear();
        self.more.clear();
        self.seen = 0;
        (self.server_name, self.server_address) = (None, None);
    }

    /// Takes the names and texts out again, for a format that gives them a meaning of its own.
    pub(crate) fn take_pairs(&mut self) -> Vec<(&'a str, &'a str)> {
        self.seen = 0;
        self.pairs.drain(..).map(|pair| (pair.key, pair.value)).collect()
    }

    /// Puts in a text with its name and meaning.
    #[inline]
    pub(crate) fn put(&mut self, key: &'a str, value: &'a str, field: Field) {
        self.seen |= field.bit();
        self.pairs.push(Pair { key, value, field });
    }

    /// Puts in an attribute; empty texts are left out.
    pub(crate) fn attr(&mut self, key: &'a str, value: &'a str) {
        if !value.is_empty() {
            self.put(key, value, Field::Attr);
        }
    }

    /// Whether no text of this meaning was put in.
    pub(crate) fn is_free(&self, field: Field) -> bool {
        self.seen & field.bit() == 0
    }

    /// Whether the line is a request, told by the meanings of its texts alone.
    ///
    /// A line with a message is a program's own account and needs method, target and status to count as one.
    pub(crate) fn guess_kind(&self) -> Kind {
        let has = |fields: &[Field]| fields.iter().any(|field| self.seen & field.bit() != 0);
        let groups = [
            has(&[Field::Method, Field::RequestLine]),
            has(&[Field::Target, Field::RequestLine]),
            has(&[Field::Status]),
        ];
        let needed = if has(&[Field::Message]) { 3 } else { 2 };
        let found = groups.iter().filter(|group| **group).count();
        if found >= needed { Kind::Request } else { Kind::Log }
    }

    /// A time that cannot be is kept as an attribute, and the row says so.
    pub(crate) fn settle_time(&mut self) {
        if let Some(ts) = self.ts.filter(|ts| !self.times.is_plausible(*ts)) {
            self.ts = None;
            self.repair.implausible_time = true;
            let text = self.arena.alloc_str(&ts.to_string());
            self.keep_attr("weir.time", text);
        }
    }

    /// The attributes, at most [`attrs::MAX_ATTRS`] and two that tell of those over a budget.
    pub(crate) fn attrs(&self) -> &[(&'a str, &'a str)] {
        &self.attrs
    }
}
