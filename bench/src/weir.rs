//! A running weir: started as users start it, asked over HTTP, ended by SIGTERM.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::data::pause;
use crate::meter;

/// One `weir …` process.
pub(crate) struct Weir {
    child: Option<Child>,
    /// `http://address:port`; empty for an agent, which listens to nobody.
    pub(crate) url: String,
    /// When exec was called.
    pub(crate) started: Instant,
}

impl Weir {
    /// Starts weir with `args` and waits until it prints the URL that it serves.
    pub(crate) fn serve(args: &[&str]) -> anyhow::Result<Self> {
        Self::serve_with(args, &[])
    }

    /// The same with variables of its environment.
    pub(crate) fn serve_with(args: &[&str], set: &[(&str, String)]) -> anyhow::Result<Self> {
        let mut weir = Self::spawn(args, set, Stdio::piped())?;
        let stdout =
            weir.child.as_mut().and_then(|child| child.stdout.take()).context("stdout is piped")?;
        weir.url = read_url(stdout)?;
        Ok(weir)
    }

    /// Starts weir with `args`, which serves nothing.
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

    /// The rows of one query's answer.
    pub(crate) fn sql(&self, sql: &str) -> anyhow::Result<Vec<Value>> {
        let url = format!("{}/api/sql", self.url);
        let body = json!({ "sql": sql, "limit": 100_000 }).to_string();
        let answer = ureq::post(&url).header("content-type", "application/json").send(body);
        let text =
            answer.with_context(|| format!("cannot ask `{sql}`"))?.body_mut().read_to_string()?;
        let mut answer: Value = serde_json::from_str(&text)?;
        match answer["rows"].take() {
            Value::Array(rows) => Ok(rows),
            _ => bail!("no rows in the answer to `{sql}`: {text}"),
        }
    }

    /// The one whole number that a query gives; 0 for NULL.
    pub(crate) fn number(&self, sql: &str) -> anyhow::Result<u64> {
        Ok(self.sql(sql)?.first().and_then(|row| row[0].as_u64()).unwrap_or(0))
    }

    /// `GET path`; the body.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<String> {
        Ok(ureq::get(format!("{}{path}", self.url)).call()?.body_mut().read_to_string()?)
    }

    /// Has every row come into files.
    pub(crate) fn flush(&self) -> anyhow::Result<()> {
        let url = format!("{}/api/store/flush", self.url);
        ureq::post(&url).header("content-type", "application/json").send("{}")?;
        Ok(())
    }

    /// Asks it to end and waits; user and system seconds of its whole life, and of what it started.
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
    /// A benchmark that failed leaves no process behind.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _gone_already = child.kill();
            let _reaped = child.wait();
        }
    }
}

/// Runs weir with `args` to its end; what it prints.
pub(crate) fn output(args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program()?).args(args).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        bail!("weir {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `WEIR_BIN`, else the weir built beside this program.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let beside = || Ok::<_, anyhow::Error>(std::env::current_exe()?.with_file_name("weir"));
    std::env::var_os("WEIR_BIN").map_or_else(beside, |path| Ok(Path::new(&path).to_owned()))
}

/// Reads lines up to the first URL; the rest is drained, or weir would block on a full pipe.
fn read_url(stdout: ChildStdout) -> anyhow::Result<String> {
    let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
    let found = lines.find_map(|line| {
        let url = line.get(line.find("http://")?..)?.split_whitespace().next()?;
        Some(url.trim_end_matches('/').to_owned())
    });
    std::thread::spawn(move || lines.for_each(drop));
    found.context("weir ended without printing its URL")
}

/// Calls `is_done` every `every` until it says yes; fails after `limit`.
pub(crate) fn wait_for(
    what: &str,
    limit: Duration,
    every: Duration,
    mut is_done: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let began = Instant::now();
    while !is_done()? {
        if began.elapsed() > limit {
            bail!("gave up waiting for {what} after {} s", limit.as_secs());
        }
        pause(every);
    }
    Ok(())
}
