//! Sample runs for the tests of the lab.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use weir_drill::Outcome;
use weir_tables::Micros;

use super::results::{LabRun, LabSitting};

pub(super) fn part(sitting: i64, code: &str) -> LabSitting {
    LabSitting {
        sitting: Micros(sitting),
        code: code.into(),
        commit: format!("commit of {code}"),
        profile: "dev".into(),
        machine: "2 × a processor".into(),
    }
}

pub(super) fn ended(fault: &str, number: u32, seconds: u64, part: &LabSitting) -> LabRun {
    LabRun {
        fault: fault.into(),
        number,
        seed: 1,
        parameters: json!({"visitors": 7}),
        outcome: Outcome {
            detected: Some(Duration::from_secs(seconds)),
            is_right: true,
            others: BTreeSet::new(),
            paged: BTreeSet::from(["app.slow".to_owned()]),
        },
        began: part.sitting,
        took: Duration::from_millis(31_500),
        load: 0.5,
        part: part.clone(),
    }
}
