//! Turns SQL answers into findings; pure.
//!
//! A rule is a file of SQL with a TOML head (`docs/rules.md`). [`RuleSet`] holds the rules, [`Engine`] says which are
//! due, takes the answers that somebody else got by SQL, and gives back the changes of state. There is no SQL engine
//! and no clock in here: whoever drives the engine hands both in, so a month of rows replays in one test.

mod built_in;
mod cell;
mod engine;
mod error;
mod finding;
mod head;
pub mod mine;
mod restore;
mod rule;
mod set;
mod suggest;
mod template;
pub mod test_file;
pub mod trial;
mod tryable;
mod tuning;
mod verdict;

pub use cell::{Cell, Row, rows_of};
pub use engine::{Engine, Precision, RuleStatus};
pub use error::RuleError;
pub use finding::{Cause, OpenFinding, State, Transition};
pub use rule::{Chart, Class, Mining, Rule, Setting, TIERS};
pub use set::RuleSet;
pub use template::duration;
pub use tryable::{Count, GUARDS, TRYABLE, Tryable, latency_between, never};
pub use tuning::{MYTHS, NEVER, tuning, tuning_tests};
pub use verdict::verdict;
