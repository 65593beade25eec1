//! Grok: named expressions put together to patterns, run with a bounded cost, and explained.

pub(crate) mod engine;
pub(crate) mod expand;
mod explain;
pub(crate) mod library;
mod pattern;
mod reader;

#[cfg(test)]
mod tests;

pub use explain::Progress;
pub(crate) use library::Library;
pub(crate) use pattern::Pattern;
pub(crate) use reader::PatternReader;
