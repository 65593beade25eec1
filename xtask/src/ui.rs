//! UI tests: `node --test` with a real browser against a real `weir up` on a port of its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use xshell::{Shell, cmd};

use crate::count::Counts;
use crate::{Result, run};

/// Starts weir on an empty data directory, points the tests at it, ends it.
pub(crate) fn test(shell: &Shell, counts: &mut Counts) -> Result<bool> {
    let weir = run::build(shell, false)?;
    let dir = shell.create_temp_dir()?;
    let logs = dir.path().join("logs");
    std::fs::create_dir(&logs)?;
    let server = Server::start(&weir, dir.path(), &logs)?;
    let tests = cmd!(shell, "node --test --test-reporter=tap ui/tests/");
    let tests =
        tests.env("WEIR_URL", &server.url).env("WEIR_LOG_DIR", &logs).env("WEIR_BIN", &weir);
    counts.run(tests.into())
}

/// A running `weir up`; ended when dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(weir: &Path, data: &Path, logs: &Path) -> Result<Self> {
        let mut command = Command::new(weir);
        command.args(["up", "--listen", "127.0.0.1:0", "--data"]).arg(data.join("data"));
        command.arg("--tail").arg(logs.join("*.log")).stdin(Stdio::null()).stdout(Stdio::piped());
        let child =
            command.spawn().map_err(|error| format!("cannot run `{}`: {error}", weir.display()))?;
        let mut server = Self { child, url: String::new() };
        let mut lines =
            BufReader::new(server.child.stdout.take().expect("stdout is piped")).lines();
        server.url = lines
            .by_ref()
            .map_while(std::result::Result::ok)
            .find_map(|line| url_in(&line))
            .ok_or("`weir up` ended without printing its URL")?;
        // Whatever it still prints must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let ended = self.child.kill().and_then(|()| self.child.wait());
        if let Err(error) = ended {
            eprintln!("cannot end `weir up`: {error}");
        }
    }
}

/// The first http URL of a line, up to white space.
fn url_in(line: &str) -> Option<String> {
    let url = line.get(line.find("http://")?..)?.split_whitespace().next()?;
    Some(url.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::url_in;

    #[test]
    fn url_is_found_in_a_sentence() {
        assert_eq!(
            url_in("weir 0.1.0: http://127.0.0.1:4770/  (Ctrl-C)").as_deref(),
            Some("http://127.0.0.1:4770")
        );
        assert_eq!(url_in("watching nginx"), None);
    }
}
