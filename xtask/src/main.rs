//! The project's own commands: run, test, bench.

fn main() {}
