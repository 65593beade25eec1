//! The list of targets. A new target is one file and one line in this list.

use crate::settings::TargetKind;
use crate::{elastic, http, kafka, objects};

/// All targets, in the order of docs/outputs.md.
pub const TARGETS: &[&TargetKind] = &[&elastic::KIND, &kafka::KIND, &http::KIND, &objects::KIND];
