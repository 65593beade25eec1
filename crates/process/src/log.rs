//! What weir says about itself: one line an event on stderr.
//!
//! Names of files, hosts and agents in an event come from others. A line end in them must not begin
//! another line, which would look like an event of weir's own.

use std::io::{self, Write};
use std::str::FromStr;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::failure::{EXIT_CONFIG, Failure};

/// Starts to write events of `level` and above.
///
/// # Errors
/// When there is no such level.
pub fn start(level: &str) -> Result<(), Failure> {
    let level = LevelFilter::from_str(level).map_err(|_| {
        Failure::new(format!("cannot log at level `{level}`: it is not a level"))
            .hint("error, warn, info, debug or trace")
            .code(EXIT_CONFIG)
    })?;
    let is_colourful = io::IsTerminal::is_terminal(&io::stderr())
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // The output reports its own failures; Kafka's client repeats each of them, which helps only
    // when debugging.
    let kafka = if level >= LevelFilter::DEBUG { level } else { level.min(LevelFilter::ERROR) };
    let targets = Targets::new().with_default(level).with_target("rskafka", kafka);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(EventLines(io::stderr))
        .with_ansi(is_colourful)
        .with_target(false);
    tracing_subscriber::registry().with(lines).with(targets).init();
    Ok(())
}

/// Makes writers of which each gets one event.
struct EventLines<M>(M);

/// Writes each event as one line.
struct EventLine<W>(W);

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for EventLines<M> {
    type Writer = EventLine<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        EventLine(self.0.make_writer())
    }
}

impl<W: Write> Write for EventLine<W> {
    /// Writes an event, which ends with a line end.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.write_all(one_line(event).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// An event without line ends in it. Hints, which begin a new line in a terminal, follow
/// behind a semicolon.
fn one_line(event: &[u8]) -> String {
    let text = String::from_utf8_lossy(event);
    let Some(line) = text.strip_suffix('\n') else { return escaped(&text) };
    let line = line.replace("\nhint: ", "; hint: ");
    escaped(&line) + "\n"
}

/// Line ends of any kind, and characters that turn the direction of a text, as `\n` or `\u{202e}`.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n'
            | '\r'
            | '\u{b}'
            | '\u{c}'
            | '\u{85}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => out.extend(letter.escape_default()),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct KeptBytes(Arc<Mutex<Vec<u8>>>);

    impl Write for KeptBytes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged while `log` runs.
    fn logged(log: impl FnOnce()) -> String {
        let kept = KeptBytes::default();
        let writer = kept.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(EventLines(move || writer.clone()))
            .with_ansi(false)
            .without_time();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), log);
        let bytes = kept.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// ossec/ossec-hids#1814, ballerina-platform/ballerina-library#426, jeanphorn/log4go#11.
    #[test]
    fn an_event_is_one_line_whatever_names_are_in_it() {
        for end in ["\n", "\r\n", "\r", "\u{2028}", "\u{85}", "\u{b}"] {
            let path = format!("/var/log/a{end}2026-11-27T10:00:00Z ERROR the disk is full");
            let text = logged(|| {
                tracing::warn!("cannot read `{path}`");
                tracing::warn!(path, "cannot read it");
            });
            let lines = text.split(['\n', '\r', '\u{b}', '\u{85}', '\u{2028}']);
            let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
            assert_eq!(lines.len(), 2, "{text:?}");
            assert!(lines.iter().all(|line| line.trim_start().starts_with("WARN")), "{text:?}");
        }
    }

    #[test]
    fn directions_and_escape_sequences_do_not_reach_a_terminal() {
        let text = logged(|| tracing::warn!("agent `a\u{202e}b\u{2066}` \u{1b}[2J is new"));
        assert!(text.contains(r"\u{202e}b\u{2066}") && !text.contains('\u{1b}'), "{text:?}");
    }

    #[test]
    fn hints_stay_readable() {
        let text = logged(|| tracing::error!("cannot open `a`: no\nhint: make it"));
        assert!(text.ends_with("cannot open `a`: no; hint: make it\n"), "{text:?}");
    }
}
