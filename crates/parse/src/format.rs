//! The trait that every log format implements.
//!
//! A new format is one file and one line in `formats.rs`.

use std::fmt;

use bumpalo::Bump;

use crate::grok::Pattern;
use crate::record::{LineFault, Record, RowKind};

/// Reads the lines of one stream, and keeps what it learns about them.
pub(crate) trait Format: Send {
    /// The column `reject.parser`.
    fn name(&self) -> &'static str;

    /// Reads a line into a record.
    fn parse<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault>;

    /// Sees the lines of a chunk, blank ones excluded, before they are parsed one by one.
    fn look_ahead(&mut self, _lines: &[&[u8]]) {}

    /// Whether [`Format::look_ahead`] has a use.
    fn looks_ahead(&self) -> bool {
        false
    }

    /// How lines that belong together are joined.
    fn line_join(&self) -> LineJoin {
        LineJoin::None
    }

    /// Names of the values, copied into the arena of a chunk.
    fn names<'a>(&self, _arena: &'a Bump) -> &'a [&'a str] {
        &[]
    }

    /// How a byte that is not UTF-8 is written.
    fn byte_escape(&self, _line: &[u8]) -> &'static str {
        TEXT_ESCAPE
    }

    /// Whether the first line of the file names the values and was not read yet.
    fn needs_header(&self) -> bool {
        false
    }

    /// Sets the first line of the file, which names the values.
    fn set_header(&mut self, _line: &str) {}

    /// Sets the first lines of a file of which a later part is read; the last may be cut off.
    fn set_head(&mut self, _head: &[u8]) {}

    /// Starts of lines that replace what the head says, anywhere in a file.
    fn later_heads(&self) -> &'static [&'static str] {
        &[]
    }
}

/// Which lines of a format belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineJoin {
    /// Each line is alone.
    None,
    /// Pieces of containers' messages.
    Pieces,
    /// Lines up to the one that ends the record, whose quoted values may have line ends.
    Quotes {
        /// The byte between values.
        delimiter: u8,
    },
}

/// Escape of bytes in text.
pub(crate) const TEXT_ESCAPE: &str = "\\x";
/// Escape of bytes in JSON, whose strings drop one backslash.
pub(crate) const JSON_ESCAPE: &str = "\\\\x";

/// A format that needs no settings.
pub(crate) struct NamedFormat {
    pub(crate) name: &'static str,
    pub(crate) new: fn() -> Box<dyn Format>,
}

/// Reads one line.
pub(crate) type ParseLine = for<'a> fn(&'a str, &mut Record<'a>) -> Result<RowKind, LineFault>;

/// A format that keeps nothing between lines.
pub(crate) struct LineFormat {
    pub(crate) name: &'static str,
    pub(crate) parse: ParseLine,
}

impl Format for LineFormat {
    fn name(&self) -> &'static str {
        self.name
    }

    fn parse<'a>(&mut self, line: &'a str, record: &mut Record<'a>) -> Result<RowKind, LineFault> {
        (self.parse)(line, record)
    }
}

/// A format with its settings, shared by all streams of a pipeline.
pub(crate) trait FormatSpec: fmt::Debug + Send + Sync {
    /// A reader for one stream.
    fn new_format(&self) -> Box<dyn Format>;

    /// The patterns that lines are tried with; empty for formats without patterns.
    fn patterns(&self) -> &[Pattern] {
        &[]
    }
}

impl fmt::Debug for NamedFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl FormatSpec for NamedFormat {
    fn new_format(&self) -> Box<dyn Format> {
        (self.new)()
    }
}
