//! The output of Nagios' plugins: a state, a sentence, further lines, figures with their bounds.
//!
//! Sources: Monitoring Plugins Development Guidelines; Nagios Core's plugin API (several lines). The surprising thing:
//! a state is a number from 0 to 3, and every other number is "unknown", no alarm.

mod output;
mod performance_value;
mod threshold_range;

pub use output::{CheckState, PluginResult};
pub use performance_value::PerformanceValue;
pub use threshold_range::ThresholdRange;
