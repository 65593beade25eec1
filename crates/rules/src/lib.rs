//! Turns SQL answers into findings; pure.
//!
//! A rule is a file of SQL with a TOML head (`docs/rules.md`). [`RuleSet`] holds the rules;
//! [`Engine`] names the ones that are due, takes the results of their queries and returns the
//! changes of state. The crate has no SQL engine and no clock: the caller passes both in, so a
//! month of rows replays in one test.

mod built_in;
mod causes;
mod cell;
mod engine;
mod error;
mod finding;
mod head;
mod headline;
pub mod mine;
mod restore;
mod rule;
mod set;
pub mod slo;
mod suggest;
mod template;
pub mod test_file;
mod texts;
pub mod trial;
mod trial_settings;
mod tuning;

pub use cell::{Cell, Row, rows_of};
pub use engine::{Engine, Precision, RuleStatus};
pub use error::{RuleError, SourceFile};
pub use finding::{Cause, OpenFinding, State, Transition};
pub use headline::headline;
pub use rule::{Chart, Class, Rule, SettingNotes, TIERS, ThresholdSpec};
pub use set::RuleSet;
pub use template::duration;
pub use texts::ChosenText;
pub use trial_settings::{
    EventCount, GUARDS, TRIAL_SETTINGS, TrialSetting, WantedSetting, latency_between,
};
pub use tuning::{MYTHS, NEVER, tuning, tuning_tests};
