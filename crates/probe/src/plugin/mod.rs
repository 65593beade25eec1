//! Plugins of Nagios, run as they are: a program whose exit code is a state and whose output is a
//! sentence with figures.
//!
//! Sources: Monitoring Plugins Development Guidelines; Nagios Core's plugin API (several lines);
//! NRPE's `sample-config/nrpe.cfg`. The surprising thing: an exit code above 3, a signal and a
//! timeout are all "unknown", so a plugin that is missing is not an alarm of what it would check.

mod command_words;
mod nrpe_config;
mod run_result;
mod runner;

pub use nrpe_config::{NrpeCommand, NrpeConfig, RefusedCommand};
pub use runner::{
    PluginAccount, PluginControl, PluginEnding, PluginLimits, PluginRun, run_plugin,
    run_plugin_with,
};
pub use weir_plugin::{CheckState, PerformanceValue, PluginResult, ThresholdRange};
