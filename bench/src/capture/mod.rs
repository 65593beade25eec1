//! Captures with known true figures: simulated traffic at a tap on an edge host, and a log of
//! events.
//!
//! A chain of client, edge (port 80) and upstream (port 8080) with a simple TCP model: slow start,
//! acknowledgements, SYN retries, retransmits, DSACK, timestamps, incrementing IP identifications.
//! The recipe determines every byte. It does not replace a kernel: tests with real servers cover
//! that.

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

/// Writes a capture, and its true figures as one JSON object per line.
///
/// # Errors
/// When a file cannot be written.
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
