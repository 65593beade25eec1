//! Grok: patterns of named expressions, matched with bounded cost, and explained.

pub(crate) mod engine;
pub(crate) mod expand;
mod explain;
pub(crate) mod library;
mod pattern;
mod reader;

#[cfg(test)]
mod tests;

pub use explain::Progress;
pub(crate) use library::PatternLibrary;
pub(crate) use pattern::Pattern;
pub(crate) use reader::{KEYS, read_grok, read_regex};
