//! Captures whose truth is known: simulated traffic, seen by a tap on an edge host, and a log of what happened.
//!
//! A client – edge (port 80) – upstream (port 8080) chain, TCP by a simple model: slow start, acknowledgements, SYN
//! retries, retransmits, DSACK, timestamps, IP identifications that count by 1. The same recipe gives the same bytes. It is no
//! kernel: what a real one does, the tests with real servers show.

mod connection;
mod file;
mod recipe;
mod segment;
mod story;
mod truth;
mod wire;

use std::io::{self, Write};

pub use file::{Format, Link};
pub use recipe::{Recipe, Story};
pub use wire::Summary;

/// Writes a capture and, one JSON object a line, its truth.
///
/// # Errors
/// When one of them cannot be written.
pub fn write(
    recipe: Recipe,
    format: Format,
    capture: impl Write,
    truth: impl Write,
) -> io::Result<Summary> {
    story::play(recipe, format, capture, truth)
}

#[cfg(test)]
mod tests;
