//! The program of the benchmarks. Everything is in the library, since tests use a part of it.

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match weir_bench::main() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Causes on one line; a backtrace would only hide what is missing.
            let _closed = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
