//! Compiles the program in C for the kernel, with clang; only with the feature `kernel`.
//!
//! Only clang emits the CO-RE relocations that the kernel resolves against its BTF.

use std::path::Path;
use std::process::{Command, ExitCode};

const SOURCE: &str = "src/sockets.bpf.c";
const HINT: &str =
    "hint: `apt-get install clang` (or set CLANG to its path), or build without the feature `ebpf`";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=CLANG");
    if std::env::var_os("CARGO_FEATURE_KERNEL").is_none() {
        return ExitCode::SUCCESS;
    }
    match compile() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("cargo::error=cannot compile `{SOURCE}` for the kernel: {why}");
            println!("cargo::error={HINT}");
            ExitCode::FAILURE
        }
    }
}

fn env_variable(name: &str) -> Result<String, String> {
    std::env::var(name).map_err(|_| format!("{name} is not set"))
}

fn compile() -> Result<(), String> {
    let machine = match env_variable("CARGO_CFG_TARGET_ARCH")?.as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        other => {
            return Err(format!("no system call numbers for architecture `{other}`"));
        }
    };
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let object = Path::new(&env_variable("OUT_DIR")?).join("sockets.bpf.o");
    let output = Command::new(&clang)
        .args(["--target=bpf", "-mcpu=v2", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
        .arg(format!("-D__TARGET_ARCH_{machine}"))
        .args(["-c", SOURCE, "-o"])
        .arg(&object)
        .output()
        .map_err(|error| format!("cannot run `{clang}`: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{clang}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
