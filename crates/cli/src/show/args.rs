//! Flags of `weir tables`, `weir config` and `weir completions`.

use clap::{Args, ValueEnum};

/// List the tables, or describe one.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir tables
  weir tables request")]
pub(crate) struct TablesArgs {
    /// The table to describe.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// Print every value of the configuration and where it comes from.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir config                                    what is in force
  weir config --format toml > weir.toml          a file to start from")]
pub(crate) struct ConfigArgs {
    /// text with origins, toml as a file to start from, json for programs.
    #[arg(long, value_enum, default_value_t = ConfigFormat::Text)]
    pub(crate) format: ConfigFormat,
}

/// How the configuration is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfigFormat {
    /// One line a key with its origin.
    Text,
    /// A configuration file with the reason of each key.
    Toml,
    /// An array of objects.
    Json,
}

/// Print completions for a shell.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  weir completions bash > /etc/bash_completion.d/weir
  weir completions fish > ~/.config/fish/completions/weir.fish")]
pub(crate) struct CompletionsArgs {
    /// bash, zsh, fish, elvish or powershell.
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}
