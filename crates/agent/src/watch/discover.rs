//! The discovery thread: which logs there are, and what the servers' configurations say.
//!
//! A log that the user names and that is found as well is read once, in the found format.

use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::Duration;

use weir_collect::logs::{Discovery, FoundDirective, discover};
use weir_probe::Prober;
use weir_process::meter::{Stage, StageRun};
use weir_tables::{Batch, ConfigDirectiveRows, LogSource, Micros, Rows};

use super::{WatchContext, server_logs, written_logs};

/// Unchanged directives are written again after this long, so that a query over the last day finds
/// them.
const REPEAT: Duration = Duration::from_secs(3600);

pub(super) struct LogFinder {
    pub(super) root: PathBuf,
    pub(super) extra: Vec<LogSource>,
    pub(super) finds_logs: bool,
    pub(super) every: Duration,
}

impl LogFinder {
    /// Until the stop; says `ready` after the first round.
    pub(super) fn run(&self, context: &WatchContext, ready: &Sender<()>) {
        let mut written: Option<(Micros, Vec<FoundDirective>)> = None;
        let mut seen_nudges = 0;
        loop {
            let run = StageRun::start();
            let mut found =
                if self.finds_logs { discover(&self.root) } else { Discovery::default() };
            if self.finds_logs {
                add_unknown(&mut found.sources, server_logs::find(&self.root));
                let listeners = context.status.listeners();
                add_unknown(&mut found.sources, written_logs::find(&self.root, &listeners));
            }
            let sources = merged(self.extra.clone(), std::mem::take(&mut found.sources));
            context.meter.ran(Stage::Discover, &run, found.directives.len());
            for problem in context.status.set_problems(found.problems) {
                tracing::warn!("{problem}");
            }
            context.status.set_sources(sources);
            context.status.set_probe_targets(Prober::targets(&found.directives));
            let now = context.clock.now();
            let is_known = written
                .as_ref()
                .is_some_and(|(at, old)| *old == found.directives && now < *at + REPEAT);
            if !is_known && !found.directives.is_empty() {
                let batch = directive_batch(&found.directives, &context.host, now);
                context.destination.send_sample(vec![batch]);
                written = Some((now, found.directives));
            }
            let _ = ready.send(());
            if context.nudge.wait_for_nudge(self.every, &mut seen_nudges) {
                return;
            }
        }
    }
}

/// Adds logs that no configuration has named.
fn add_unknown(known: &mut Vec<LogSource>, found: Vec<LogSource>) {
    for source in found {
        if known.iter().all(|other| other.path != source.path) {
            known.push(source);
        }
    }
}

/// Named sources first; where one of them is also found, the found format counts.
fn merged(named: Vec<LogSource>, found: Vec<LogSource>) -> Vec<LogSource> {
    let mut all = named;
    for source in found {
        match all.iter_mut().find(|known| known.path == source.path) {
            Some(known) => {
                known.program = source.program;
                known.format = source.format;
                known.found_in = format!("--tail, {}", source.found_in);
            }
            None => all.push(source),
        }
    }
    all
}

/// Rows of `config_directive`.
pub fn directive_batch(directives: &[FoundDirective], host: &str, now: Micros) -> Batch {
    let mut rows = ConfigDirectiveRows::default();
    for directive in directives {
        let file = directive.file.display().to_string();
        rows.push(&directive.row(host, now, &file));
    }
    Batch { table: ConfigDirectiveRows::SPEC, rows: rows.finish() }
}

#[cfg(test)]
mod tests {
    use weir_tables::{LogFormat, LogSource, Program};

    use super::merged;

    #[test]
    fn a_named_log_that_is_found_too_is_read_once_in_the_found_format() {
        let named = crate::watch::named_by_user("/var/log/nginx/access.log");
        let found = LogSource {
            program: Program::Nginx,
            format: LogFormat::Combined,
            found_in: "/etc/nginx/nginx.conf:3".into(),
            ..named.clone()
        };
        let all = merged(vec![named], vec![found]);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].format, LogFormat::Combined);
        assert_eq!(all[0].found_in, "--tail, /etc/nginx/nginx.conf:3");
    }
}
