//! Plugins of Nagios, run as they are: a program whose exit code is a state and whose output is a
//! sentence with figures.
//!
//! Sources: Monitoring Plugins Development Guidelines; Nagios Core's plugin API (several lines);
//! NRPE's `sample-config/nrpe.cfg`. The surprising thing: an exit code above 3, a signal and a
//! timeout are all "unknown", so a plugin that is missing is not an alarm of what it would check.

mod command_words;
mod nrpe_config;
mod output;
mod performance_value;
mod runner;
mod threshold_range;

pub use nrpe_config::{NrpeCommand, NrpeConfig, RefusedCommand};
pub use output::{CheckState, PluginResult};
pub use performance_value::PerformanceValue;
pub use runner::{
    PluginAccount, PluginControl, PluginEnding, PluginLimits, PluginRun, run_plugin,
    run_plugin_with,
};
pub use threshold_range::ThresholdRange;
