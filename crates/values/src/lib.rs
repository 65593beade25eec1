//! Values of log lines as programs write them: times and zones, numbers, severities, addresses; pure.
//!
//! A text that is no such value is `None`, never zero and never a guess.

pub mod number;
pub mod peer_address;
pub mod severity;
mod tai64;
mod time;
pub mod time_forms;
mod time_problem;
mod time_written;
pub mod zone;

pub use time::TimeReader;
pub use time_problem::TimeProblem;
pub use time_written::TimeForm;
pub use zone::Zone;
