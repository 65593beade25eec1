//! `weir store`: what a data directory holds, beside a running weir and after it.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use super::harness::{Weir, quiet, serve, text, wait_for, weir};

const COUNT: &str = "select count(*) from log where source like '%app.log'";

fn start(dir: &Path, data: &Path) -> Weir {
    let mut command = serve("up", data);
    quiet(&mut command);
    command.arg("--tail").arg(dir.join("app.log"));
    Weir::start(command)
}

/// A weir that has read a log of two lines.
fn with_two_lines(dir: &Path, data: &Path) -> Weir {
    let text = "the first line\nthe second\n";
    std::fs::write(dir.join("app.log"), text).expect("a directory of our own");
    let up = start(dir, data);
    wait_for("two lines", Duration::from_secs(20), || (up.number(COUNT) == 2).then_some(()));
    up
}

#[test]
fn files_are_checked_and_what_they_cost_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let up = with_two_lines(dir.path(), &data);
    let name = data.to_str().expect("a plain name");
    assert!(store_command(name, &["check"]).status.success(), "beside a running weir");
    assert_eq!(up.terminate(), Some(0));

    let output = store_command(name, &["check"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let checked = text(&output.stdout);
    assert!(checked.ends_with("every file is as the manifest says\n"), "{checked}");
    let output = store_command(name, &["stats", "logs"]);
    assert_eq!(output.status.code(), Some(64), "{}", text(&output.stderr));
    assert!(checked.contains("log: 1 files, "), "{checked}");
    let costs = text(&store_command(name, &["stats", "log"]).stdout);
    assert!(costs.contains("(footers)") && costs.contains("body"), "{costs}");

    let day = std::fs::read_dir(data.join("data/log")).expect("it has files");
    let day = day.flatten().next().expect("one day").path();
    let file = std::fs::read_dir(day).expect("it has files").flatten().next().expect("one").path();
    std::fs::write(&file, "PAR1").expect("it is ours");
    let output = store_command(name, &["check"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("has 4 bytes, not"), "{}", text(&output.stdout));

    let nowhere = weir(&["store", "stats", "--data", "/nowhere"]);
    assert!(text(&nowhere.stderr).contains("hint: name a hub's data directory"));
}

fn store_command(data: &str, args: &[&str]) -> Output {
    weir(&[&["store"], args, &["--data", data]].concat())
}

#[test]
fn rows_are_written_to_files_on_demand_and_damage_is_mended() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let up = with_two_lines(dir.path(), &data);
    let name = data.to_str().expect("a plain name");
    let refused = store_command(name, &["repair"]);
    assert!(text(&refused.stderr).contains("has it"), "{}", text(&refused.stderr));
    assert!(!text(&store_command(name, &["stats"]).stdout).contains("log "), "in the log only");
    let output = store_command(name, &["flush", "--url", &up.url]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&store_command(name, &["stats"]).stdout).contains("log "), "in files");
    up.kill();

    let output = store_command(name, &["flush"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let day = std::fs::read_dir(data.join("data/log")).expect("it has files");
    let day = day.flatten().next().expect("one day").path();
    let file = std::fs::read_dir(day).expect("it has files").flatten().next().expect("one").path();
    std::fs::write(&file, "PAR1").expect("it is ours");
    let output = store_command(name, &["repair"]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}{}", text(&output.stderr));
    assert!(
        told.contains("has 4 bytes, not") && told.contains("`log`, of the times from "),
        "{told}"
    );
    assert!(told.contains("the file is now `lost/log/"), "{told}");
    let output = store_command(name, &["repair"]);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(0), "0 files mended\n")
    );
    let up = start(dir.path(), &data);
    assert_eq!(up.number(COUNT), 0, "lost is what was said to be lost");
    assert_eq!(up.terminate(), Some(0));
}

#[test]
fn a_backup_beside_a_running_weir_comes_back_with_every_row() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let up = with_two_lines(dir.path(), &data);
    let (data, copy, new) =
        (name_in(dir.path(), "data"), name_in(dir.path(), "copy"), name_in(dir.path(), "new"));
    let (code, told) = run(&["backup", &copy, "--data", &data, "--url", &up.url]);
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(up.terminate(), Some(0));
    let (code, told) = run(&["backup", &copy, "--data", &data, "--keep", "1"]);
    assert!(code == Some(0) && told.contains("\nremoved 20"), "{told}");
    let (code, told) = run(&["backup", &copy, "--verify"]);
    assert!(code == Some(0) && told.starts_with("1 snapshots: "), "{told}");
    let (_, listed) = run(&["backup", &copy, "--list"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    let (code, told) = run(&["restore", &copy, "--data", &new]);
    assert_eq!(code, Some(0), "{told}");
    let mut command = serve("hub", dir.path().join("new").as_path());
    quiet(&mut command);
    assert_eq!(Weir::start(command).number(COUNT), 2);
    let (code, told) = run(&["backup", &name_in(dir.path(), "data/copy"), "--data", &data]);
    assert!(code == Some(64) && told.contains("into itself"), "{told}");
}

fn name_in(dir: &Path, path: &str) -> String {
    dir.join(path).to_str().expect("a plain name").to_owned()
}

fn run(args: &[&str]) -> (Option<i32>, String) {
    let output = weir(args);
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn reads_of_a_directory_are_measured_by_several_processes_and_drawn() {
    let dir = tempfile::tempdir().expect("a directory");
    let (place, out) = (dir.path().join("slow"), dir.path().join("reads"));
    let small = ["--seconds", "1", "--objects", "2", "--object-bytes", "64k", "--range", "1k,16k"];
    let grid = ["--nodes", "1,2", "--concurrency", "2", "--out", &path_text(&out)];
    let output = weir(&[&["bench", "store", &path_text(&place)][..], &small, &grid].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("lookups/s") && table.contains("reads at a time pay here"), "{table}");
    let csv = std::fs::read_to_string(out.with_extension("csv")).expect("a table");
    let rates = csv.lines().skip(1).map(|line| line.split(',').nth(3)?.parse::<f64>().ok());
    let rates: Vec<f64> = rates.map(|rate| rate.expect("a number")).collect();
    assert!(rates.len() == 4 && rates.iter().all(|rate| *rate > 1.0), "{csv}");
    let svg = std::fs::read_to_string(out.with_extension("svg")).expect("a picture");
    assert_eq!(svg.matches("<circle").count(), 4);
    let left = std::fs::read_dir(place.join("weir-bench")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "its objects are removed");
    let output = weir(&["bench", "store", "s3:///x"]);
    assert!(text(&output.stderr).contains("it names no bucket"), "{}", text(&output.stderr));
}

fn path_text(path: &Path) -> String {
    path.to_str().expect("a plain name").to_owned()
}
