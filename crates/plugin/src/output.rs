//! The result of a plugin: a state, a sentence, further lines, and figures after `|`.
//!
//! ```text
//!   DISK OK - free space: / 3326 MB (56%); | /=2643MB;5948;5958;0;5968     text | figures
//!   / 15272 MB (77%);                                                      further lines
//!   /home 69357 MB (27%); | /boot=68MB;88;93;0;98                          second `|`: from here on
//!   /home=69357MB;253404;253409;0;253414                                   only figures
//! ```

use crate::performance_value::{PerformanceValue, parse_values};
use crate::threshold_range::ThresholdRange;

/// The state that a plugin reports by its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckState {
    /// Exit code 0.
    Ok,
    /// Exit code 1.
    Warning,
    /// Exit code 2.
    Critical,
    /// Exit code 3, and everything else: another code, a signal, a timeout, a missing program.
    Unknown,
}

impl CheckState {
    /// The state of an exit code.
    pub fn of_code(code: i32) -> Self {
        match code {
            0 => Self::Ok,
            1 => Self::Warning,
            2 => Self::Critical,
            _ => Self::Unknown,
        }
    }

    /// The word in tables and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warn",
            Self::Critical => "critical",
            Self::Unknown => "unknown",
        }
    }
}

/// What a plugin reported.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginResult {
    /// The state.
    pub state: CheckState,
    /// The first line, without figures; why there is no result, if the plugin wrote none.
    pub summary: String,
    /// The further lines, without figures.
    pub long_text: String,
    /// The figures.
    pub values: Vec<PerformanceValue>,
    /// Parts after `|` that are no figures.
    pub unread: Vec<String>,
}

impl PluginResult {
    /// Parses an output.
    pub fn parse(state: CheckState, output: &str) -> Self {
        let mut lines = output.lines();
        let (summary, mut figures) = split_figures(lines.next().unwrap_or_default());
        let mut long_text: Vec<&str> = Vec::new();
        let mut is_text = true;
        for line in lines {
            let more = if is_text {
                let (text, more) = split_figures(line);
                long_text.push(text);
                is_text = more.is_empty();
                more
            } else {
                line.to_owned()
            };
            figures.push('\n');
            figures += &more;
        }
        let mut unread = Vec::new();
        let values = parse_values(&figures, &mut unread);
        Self {
            state,
            summary: summary.to_owned(),
            long_text: long_text.join("\n").trim().to_owned(),
            values,
            unread,
        }
    }

    /// The bound of the first figure: the range that it left, else the first one that it would leave.
    pub fn bound(&self) -> Option<ThresholdRange> {
        let PerformanceValue { warn, crit, .. } = self.values.first()?;
        match self.state {
            CheckState::Critical => crit.or(*warn),
            _ => warn.or(*crit),
        }
    }
}

/// Text and figures of a line.
fn split_figures(line: &str) -> (&str, String) {
    let (text, figures) = line.split_once('|').unwrap_or((line, ""));
    (text.trim(), figures.to_owned())
}

#[cfg(test)]
mod tests;
