//! What a host answers to an order: lines of JSON, the first within milliseconds, the last when
//! the steps have ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::order::{Order, OrderMode, order_id_text};

/// Size limit of one line in bytes; longer output is truncated at its start.
pub const LINE_BYTES_MAX: usize = 128 << 10;

/// Whether a host does what it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderCode {
    /// It is recorded and starts now; a [`RunReport`] follows.
    Taken,
    /// It was taken before and does not run again; the earlier [`RunReport`] follows, if it ran.
    Seen,
    /// It does not run.
    Refused,
}

impl OrderCode {
    /// The name in replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Seen => "seen",
            Self::Refused => "refused",
        }
    }
}

/// First line of the answer to an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderReply {
    /// Whether it runs.
    pub code: OrderCode,
    /// Why, for people.
    pub why: String,
    /// Whether there is a [`RunReport`], or will be: the next line has it, or a later connection.
    #[serde(default)]
    pub has_report: bool,
}

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// A dry run of an action without steps for it: nothing was run.
    Planned,
    /// Each step ended with exit status 0.
    Ended,
    /// A step failed, or was ended at its limit; later steps did not run.
    Failed,
    /// The program that ran it died; steps may have run, and none is repeated.
    Unknown,
}

impl RunState {
    /// The name in replies.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Ended => "ended",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// Last line of the answer to an order that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReport {
    /// The order.
    pub order_id: String,
    /// The order's action.
    pub action: String,
    /// The order's parameters.
    pub params: BTreeMap<String, String>,
    /// The order's mode.
    pub mode: OrderMode,
    /// The outcome.
    pub state: RunState,
    /// Arguments of each step, with the parameters' values.
    pub argv: Vec<Vec<String>>,
    /// Exit status of the last step that ran; 128 and the signal's number if a signal ended it.
    pub exit: Option<i32>,
    /// End of what the steps wrote to stdout and stderr.
    pub output_tail: String,
    /// When the first step started, in microseconds since 1970.
    pub started: Option<i64>,
    /// When the last step ended, in microseconds since 1970.
    pub ended: Option<i64>,
    /// Whether the time limit ended it.
    pub timed_out: bool,
    /// Why it failed or is unknown; empty otherwise.
    pub why: String,
}

impl RunReport {
    /// A report of an order of which nothing has run.
    pub fn planned(order: &Order, argv: Vec<Vec<String>>) -> Self {
        Self {
            order_id: order_id_text(&order.id),
            action: order.action.clone(),
            params: order.params.clone(),
            mode: order.mode,
            state: RunState::Planned,
            argv,
            exit: None,
            output_tail: String::new(),
            started: None,
            ended: None,
            timed_out: false,
            why: String::new(),
        }
    }
}
