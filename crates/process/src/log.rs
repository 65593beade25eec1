//! What weir says about itself: one line an event on stderr.

use std::str::FromStr;

use tracing_subscriber::filter::{LevelFilter, Targets};
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
    let is_colourful = std::io::IsTerminal::is_terminal(&std::io::stderr())
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // The output reports its own failures; Kafka's client repeats each of them, which helps only when debugging.
    let kafka = if level >= LevelFilter::DEBUG { level } else { level.min(LevelFilter::ERROR) };
    let targets = Targets::new().with_default(level).with_target("rskafka", kafka);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(is_colourful)
        .with_target(false);
    tracing_subscriber::registry().with(lines).with(targets).init();
    Ok(())
}
