//! `docs/cli.md`, written from the commands themselves so that it cannot lag behind.

use clap::CommandFactory;
use weir_cli::Cli;

/// `docs/cli.md`: the help of every command, as it is printed.
fn page() -> String {
    let mut out = "# Commands\n\nThe help of every command, as `weir COMMAND --help` prints it. This page is generated \
         (`UPDATE_EXPECT=1 cargo test -p weir-cli`).\n"
        .to_owned();
    let mut root = Cli::command().term_width(120);
    root.build();
    out += &section("weir", &mut root.clone());
    for command in root.get_subcommands_mut() {
        let name = format!("weir {}", command.get_name());
        *command = command.clone().term_width(120);
        out += &section(&name, command);
    }
    out
}

fn section(name: &str, command: &mut clap::Command) -> String {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end())
}

#[test]
fn commands_make_sense_and_docs_show_their_help() {
    Cli::command().debug_assert();
    expect_test::expect_file!["../../../docs/cli.md"].assert_eq(&page());
}
