//! Containers' logs as their runtimes and the kubelet write, rotate, compress and delete them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;

use super::tests::TailBench;

const PODS: usize = 200;

/// An entry of the CRI.
fn entry(pod: usize, number: u32) -> String {
    format!("2026-11-20T12:00:00.{number:09}Z stdout F {pod} {number}\n")
}

/// A piece of an entry whose end follows.
fn piece(pod: usize, number: u32) -> String {
    entry(pod, number).replace(" F ", " P ")
}

/// The log of a pod; some containers are restarted in the fourth round.
fn live_log(pod: usize, round: u32) -> String {
    let start = if pod % 50 == 7 { round / 4 } else { 0 };
    format!("pods/shop_web-{pod}_{pod}/app/{start}.log")
}

/// An entry of Docker.
fn docker_line(number: u32) -> String {
    format!("{{\"log\":\"{number}\\n\",\"stream\":\"stdout\"}}\n")
}

fn compress(bench: &TailBench, name: &str) {
    let text = fs::read(bench.path(name)).unwrap();
    let file = fs::File::create(bench.path(&format!("{name}.gz"))).unwrap();
    let mut out = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    out.write_all(&text).unwrap();
    out.finish().unwrap();
    fs::remove_file(bench.path(name)).unwrap();
}

/// The kubelet renames the log with a time, compresses the part before, and the container continues
/// in a new file. kubernetes/kubelet#51 and kubernetes/kubernetes#91765: parts that are compressed at
/// once, and a container that restarts repeatedly. Some entries are pieces, and some lines are read
/// when half of them is written.
#[test]
fn every_line_of_200_pods_is_read_once_over_rotations_and_restarts() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bench = TailBench::new("pods/*/*/*.log", "/var/log/pods");
    let mut expected = Vec::new();
    let mut number = 0;
    for round in 0..6 {
        for pod in 0..PODS {
            let live = live_log(pod, round);
            fs::create_dir_all(bench.path(&live).parent().unwrap()).unwrap();
            // A part that was rotated before the first contact is history, and is left out.
            for _ in 0..random.u32(u32::from(round == 0)..5) {
                number += 1;
                let is_piece = random.u32(0..6) == 0;
                let line = if is_piece { piece(pod, number) } else { entry(pod, number) };
                bench.append(&live, &line);
                expected.push(line.trim_end().to_owned());
            }
            if round > 0 && random.u32(0..8) == 0 && bench.path(&live).exists() {
                let part = format!("{live}.20261120-12000{round}");
                fs::rename(bench.path(&live), bench.path(&part)).unwrap();
                bench.append(&live, "");
                let before = format!("{live}.20261120-12000{}", round - 1);
                if bench.path(&before).exists() {
                    compress(&bench, &before);
                }
            }
        }
        // Lines of which a reader sees a part first, once before a restart.
        let mut halves = Vec::new();
        for pod in (0..PODS).step_by(9) {
            number += 1;
            let (live, line) = (live_log(pod, round), entry(pod, number));
            bench.append(&live, &line[..20]);
            halves.push((live, line));
        }
        bench.tick();
        bench.run(u64::from(round == 3));
        if round == 3 {
            bench.restart();
        }
        bench.run(1);
        for (live, line) in halves {
            bench.append(&live, &line[20..]);
            expected.push(line.trim_end().to_owned());
        }
        bench.run(6);
    }
    bench.run(10);
    bench.hub.lines.sort();
    expected.sort();
    let missing: Vec<&String> =
        expected.iter().filter(|line| bench.hub.lines.binary_search(line).is_err()).collect();
    assert!(missing.is_empty(), "missing: {missing:#?}");
    assert_eq!(bench.hub.lines.len(), expected.len());
    assert_eq!(bench.hub.lines, expected);
}

/// The link of a container points to the log of its next start.
#[test]
fn link_whose_target_changes_is_followed_without_gaps_or_doubles() {
    let mut bench = TailBench::new("containers/*.log", "/var/log/containers");
    fs::create_dir_all(bench.path("containers")).unwrap();
    fs::create_dir_all(bench.path("app")).unwrap();
    for start in 0..4 {
        let target = format!("app/{start}.log");
        bench.append(&target, &entry(start, 1));
        let next = bench.path("containers/next");
        symlink(bench.path(&target), &next).unwrap();
        bench.tick();
        // The last line of the one before comes when the link has been replaced.
        fs::rename(next, bench.path("containers/web_shop_app.log")).unwrap();
        if start > 0 {
            bench.append(&format!("app/{}.log", start - 1), &entry(start - 1, 2));
        }
        bench.run(if start == 2 { 0 } else { 4 });
    }
    bench.run(10);
    bench.hub.lines.sort();
    let mut expected: Vec<String> = (0..4).map(|start| entry(start, 1)).collect();
    expected.extend((0..3).map(|start| entry(start, 2)));
    expected.sort();
    let read: Vec<String> = bench.hub.lines.iter().map(|line| format!("{line}\n")).collect();
    assert_eq!(read, expected);
}

/// Docker's own rotation shifts the parts, and a link in `/var/log/pods` names the same file.
#[test]
fn file_under_two_names_is_read_once_over_the_rotation_of_docker() {
    let mut bench = TailBench::new("docker/*/*-json.log", "docker");
    let mut second = bench.sources[0].clone();
    second.path = bench.path("pods/*/*/*.log");
    bench.sources.push(second);
    bench.restart();
    fs::create_dir_all(bench.path("docker/a")).unwrap();
    fs::create_dir_all(bench.path("pods/x/app")).unwrap();
    let log = "docker/a/a-json.log";
    bench.append(log, &docker_line(1));
    symlink(bench.path(log), bench.path("pods/x/app/0.log")).unwrap();
    bench.run(5);
    for number in 2..6 {
        bench.append(log, &docker_line(number));
        bench.tick();
        for part in (1..3).rev() {
            let from = bench.path(&format!("{log}.{part}"));
            if from.exists() {
                fs::rename(from, bench.path(&format!("{log}.{}", part + 1))).unwrap();
            }
        }
        fs::rename(bench.path(log), bench.path(&format!("{log}.1"))).unwrap();
        bench.append(log, &docker_line(number * 10));
        bench.run(6);
    }
    bench.hub.lines.sort();
    let mut expected: Vec<String> = [1, 2, 3, 4, 5, 20, 30, 40, 50]
        .map(|number| docker_line(number).trim_end().to_owned())
        .into();
    expected.sort();
    assert_eq!(bench.hub.lines, expected);
}
