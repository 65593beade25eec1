//! Logs as they really lie there: events of several lines, parts that are packed, over `kill -9`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use super::harness::{Weir, quiet, serve, try_rows, wait_for};

const WITHIN: Duration = Duration::from_secs(30);

fn append(log: &Path, text: &str) {
    let mut file =
        OpenOptions::new().create(true).append(true).open(log).expect("it can be written");
    file.write_all(text.as_bytes()).expect("there is room");
}

/// `weir up` with a configuration that names the logs of `dir`.
fn up(dir: &Path, multiline: &str) -> Weir {
    let config = dir.join("weir.toml");
    let text = format!("[[logs]]\npath = '{}/*.log'\n{multiline}\n", dir.display());
    std::fs::write(&config, text).expect("it can be written");
    let mut command = serve("up", &dir.join("data"));
    command.arg("--config").arg(config).args(["--log-level", "warn"]);
    quiet(&mut command);
    Weir::start(command)
}

fn bodies(weir: &Weir, dir: &Path, count: usize) -> Vec<String> {
    let sql = format!(
        "select body from log where source = '{}' order by source_offset, body",
        dir.join("app.log").display()
    );
    wait_for("the rows", WITHIN, || {
        let rows = try_rows(&weir.url, &sql).ok()?;
        let bodies = rows.iter().map(|row| row[0].as_str().unwrap_or_default().to_owned());
        (rows.len() >= count).then(|| bodies.collect())
    })
}

#[test]
fn event_of_several_lines_is_one_row_although_weir_dies_in_the_middle_of_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("app.log");
    append(
        &log,
        "INFO started\nERROR cannot save\njava.io.IOException: disk\n\tat a.B.c(B.java:1)\n",
    );
    let weir = up(dir.path(), "multiline = { preset = 'java', timeout = '1m' }");
    assert_eq!(bodies(&weir, dir.path(), 1), ["INFO started"]);
    weir.kill();
    append(&log, "\tat a.B.d(B.java:2)\nINFO next\nINFO last\n");
    let weir = up(dir.path(), "multiline = { preset = 'java', timeout = '1s' }");
    let trace =
        "ERROR cannot save\njava.io.IOException: disk\n\tat a.B.c(B.java:1)\n\tat a.B.d(B.java:2)";
    assert_eq!(bodies(&weir, dir.path(), 4), ["INFO started", trace, "INFO next", "INFO last"]);
    assert_eq!(weir.terminate(), Some(0));
}

#[test]
fn part_that_was_packed_while_weir_was_dead_is_read_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("app.log");
    append(&log, "first one\nfirst two\n");
    let weir = up(dir.path(), "");
    assert_eq!(bodies(&weir, dir.path(), 2), ["first one", "first two"]);
    weir.kill();
    append(&log, "first three\n");
    let part = dir.path().join("app.log.1");
    std::fs::rename(&log, &part).expect("it is there");
    let packed = Command::new("gzip").arg(&part).status().expect("gzip is part of every system");
    assert!(packed.success());
    append(&log, "second one\n");
    let weir = up(dir.path(), "");
    let mut found = bodies(&weir, dir.path(), 4);
    found.sort();
    assert_eq!(found, ["first one", "first three", "first two", "second one"]);
    assert_eq!(weir.terminate(), Some(0));
}

#[test]
fn log_that_is_cut_before_it_was_read_is_a_row_of_log_gap() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("app.log");
    append(&log, "one\n");
    let weir = up(dir.path(), "");
    assert_eq!(bodies(&weir, dir.path(), 1), ["one"]);
    std::fs::write(&log, "other\n").expect("it can be written");
    assert_eq!(bodies(&weir, dir.path(), 2), ["one", "other"]);
    let sql = "select reason, source_offset, is_exact, detail from log_gap";
    let rows =
        wait_for("the gap", WITHIN, || try_rows(&weir.url, sql).ok().filter(|r| !r.is_empty()));
    assert_eq!((rows[0][0].as_str(), rows[0][1].as_i64()), (Some("truncated"), Some(4)));
    assert_eq!(rows[0][2], false);
    assert_eq!(weir.terminate(), Some(0));
}

/// A server that writes a line to its standard output for each connection.
const SERVER: &str = r#"
import socket
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    print("Error: connect ECONNREFUSED 127.0.0.1:6379", flush=True)
    connection.close()
"#;

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn output_of_a_process_that_listens_is_read_without_configuration() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("output");
    let file = File::create(&log).expect("it can be written");
    let mut server = Command::new("python3");
    let server = server.args(["-c", SERVER]).stdout(file).spawn().expect("the tests have Python");
    let _server = Server(server);
    let port: u16 = wait_for("the server's port", WITHIN, || {
        std::fs::read_to_string(&log).ok()?.strip_suffix('\n')?.parse().ok()
    });
    let mut command = serve("up", &dir.path().join("data"));
    command.args(["--log-level", "warn"]);
    let weir = Weir::start(command);
    let sql = format!(
        "select count(*) from log where source = '{}' and body like '%ECONNREFUSED%'",
        log.display()
    );
    wait_for("a line of the server", WITHIN, || {
        TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        let rows = try_rows(&weir.url, &sql).ok()?;
        (rows[0][0].as_i64()? > 0).then_some(())
    });
    assert_eq!(weir.terminate(), Some(0));
}
