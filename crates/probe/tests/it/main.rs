//! Tests with real programs: health digests of the clients in six languages, Nagios' plugins.

mod client_program;
mod digest_reader;
mod health_clients;
mod health_examples;
mod nagios_plugins;

/// Reports a program that is missing; in CI that is a failure.
#[expect(clippy::print_stdout, reason = "a skipped test is reported")]
fn skip(what: &str) {
    let is_required =
        ["CI", "WEIR_REQUIRE_ALL"].into_iter().any(|name| std::env::var_os(name).is_some());
    assert!(!is_required, "{what} is missing (cargo xtask test)");
    println!("skipped: {what} is missing (cargo xtask test)");
}
