//! A running weir: started as users start it, queried over HTTP, ended by SIGTERM.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::data::pause;
use crate::meter;

/// A `weir …` process.
pub(crate) struct Weir {
    child: Option<Child>,
    /// `http://address:port`; empty for an agent, which does not listen.
    pub(crate) url: String,
    /// When the process was started.
    pub(crate) started: Instant,
}

impl Weir {
    /// Starts weir with `args` and waits until it prints its URL.
    pub(crate) fn serve(args: &[&str]) -> anyhow::Result<Self> {
        Self::serve_with(args, &[])
    }

    /// Like [`Self::serve`], with environment variables.
    pub(crate) fn serve_with(args: &[&str], set: &[(&str, String)]) -> anyhow::Result<Self> {
        let mut weir = Self::spawn(args, set, Stdio::piped())?;
        let stdout =
            weir.child.as_mut().and_then(|child| child.stdout.take()).context("stdout is piped")?;
        weir.url = read_url(stdout)?;
        Ok(weir)
    }

    /// Starts weir with `args` as an agent, which prints no URL.
    pub(crate) fn agent(args: &[&str]) -> anyhow::Result<Self> {
        Self::spawn(args, &[], Stdio::null())
    }

    fn spawn(args: &[&str], set: &[(&str, String)], stdout: Stdio) -> anyhow::Result<Self> {
        let program = program()?;
        let mut command = Command::new(&program);
        command.args(args).stdin(Stdio::null()).stdout(stdout);
        command.envs(set.iter().map(|(name, value)| (name, value)));
        let started = Instant::now();
        let child =
            command.spawn().with_context(|| format!("cannot run `{}`", program.display()))?;
        Ok(Self { child: Some(child), url: String::new(), started })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Runs a query and returns its rows.
    pub(crate) fn sql(&self, sql: &str) -> anyhow::Result<Vec<Value>> {
        let url = format!("{}/api/sql", self.url);
        let body = json!({ "sql": sql, "limit": 100_000 }).to_string();
        let answer = ureq::post(&url).header("content-type", "application/json").send(body);
        let text = answer
            .with_context(|| format!("cannot run the query `{sql}`"))?
            .body_mut()
            .read_to_string()?;
        let mut answer: Value = serde_json::from_str(&text)?;
        match answer["rows"].take() {
            Value::Array(rows) => Ok(rows),
            _ => bail!("no rows in the response to `{sql}`: {text}"),
        }
    }

    /// Runs a query that returns one integer; 0 for NULL.
    pub(crate) fn number(&self, sql: &str) -> anyhow::Result<u64> {
        Ok(self.sql(sql)?.first().and_then(|row| row[0].as_u64()).unwrap_or(0))
    }

    /// Sends `GET path` and returns the body.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<String> {
        Ok(ureq::get(format!("{}{path}", self.url)).call()?.body_mut().read_to_string()?)
    }

    /// Flushes all rows to files.
    pub(crate) fn flush(&self) -> anyhow::Result<()> {
        let url = format!("{}/api/store/flush", self.url);
        ureq::post(&url).header("content-type", "application/json").send("{}")?;
        Ok(())
    }

    /// Stops weir and returns the CPU seconds of its lifetime, with its children.
    pub(crate) fn stop(mut self) -> anyhow::Result<f64> {
        let child = self.child.take().context("stopped once only")?;
        let id = i32::try_from(child.id())
            .ok()
            .and_then(Pid::from_raw)
            .context("process ids are positive")?;
        kill_process(id, Signal::TERM)?;
        Ok(meter::wait(child)?)
    }
}

impl Drop for Weir {
    /// Kills the process, also when a benchmark fails.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _gone_already = child.kill();
            let _reaped = child.wait();
        }
    }
}

/// Runs weir with `args` to its end and returns its output.
pub(crate) fn output(args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program()?).args(args).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        bail!("weir {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Path of weir: `WEIR_BIN`, or else the weir next to this program.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let path = match std::env::var_os("WEIR_BIN") {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()?.with_file_name("weir"),
    };
    ensure!(
        path.is_file(),
        "cannot find weir at `{}`\nhint: run `cargo xtask bench NAME`, which builds it, or set WEIR_BIN",
        path.display()
    );
    Ok(path)
}

/// Reads lines up to the first URL and drains the rest, so that weir never blocks on a full pipe.
fn read_url(stdout: ChildStdout) -> anyhow::Result<String> {
    let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let found = lines.find_map(|line| {
        let url = line.get(line.find("http://")?..)?.split_whitespace().next()?;
        Some(url.trim_end_matches('/').to_owned())
    });
    std::thread::spawn(move || lines.for_each(drop));
    found.context("weir ended without printing its URL")
}

/// Calls `is_done` at this interval until it returns true; fails after `limit`.
pub(crate) fn wait_for(
    what: &str,
    limit: Duration,
    every: Duration,
    mut is_done: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let began = Instant::now();
    while !is_done()? {
        if began.elapsed() > limit {
            bail!("timed out after {} s: {what}", limit.as_secs());
        }
        pause(every);
    }
    Ok(())
}
