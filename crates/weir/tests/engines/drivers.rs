//! Drivers of PostgreSQL that need another toolchain: pgx (Go) and pgJDBC (Java).

use std::process::Command;

use crate::pg_drivers::{DriverGap, DriverProfile, PIPELINE, conforms, directory, installed};

#[test]
fn pgx_conforms() {
    let modes = &["simple", "text", "described", "binary"];
    let driver = DriverProfile { name: "pgx", modes, gaps: &[] };
    let mut program = Command::new(installed().join("pgx"));
    program.env("WEIR_SCENARIOS", directory().join("scenarios.json"));
    conforms(&driver, program);
}

#[test]
fn pgjdbc_conforms() {
    let gaps =
        &[DriverGap { scenario: PIPELINE, mode: "once", why: "its batches cannot have queries" }];
    let driver = DriverProfile { name: "pgJDBC", modes: &["simple", "text", "binary"], gaps };
    let mut program = Command::new("java");
    program.arg("-cp").arg(installed().join("libs/*")).arg(directory().join("Pgjdbc.java"));
    conforms(&driver, program);
}
