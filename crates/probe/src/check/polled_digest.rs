//! One listener that is queried for a digest: how often, and which results are written.
//!
//! ```text
//!   no digest ── 404, other JSON ──► next poll in an hour      no answer ──► in a minute
//!   digest ───── every 5 s ─► missing: 12 more polls, each a row, then one an hour
//!   not HTTP ─── never again, until another process listens
//!   a trial ──── anything but a digest: never again, until another process listens
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use weir_tables::Micros;

use super::check_row::{CheckSubject, RowWriter};
use super::digest_poll::{DigestReply, FoundDigest, SUMMARY};
use super::digest_target::DigestTarget;
use super::{CheckOutcome, CheckState};

const INTERVAL: Duration = Duration::from_secs(5);
/// Pause after an answer that is no digest.
pub(super) const ABSENT_PAUSE: Duration = Duration::from_secs(3600);
/// Pause after no answer, while the application may be starting.
const SILENT_PAUSE: Duration = Duration::from_secs(60);
/// Time from the first sight of a listener to its trial.
const TRIAL_PAUSE: Duration = Duration::from_secs(10);
/// Failed polls until the pause is an hour.
const FAILURES_MAX: u32 = 12;
/// An unchanged result is written again after this long.
const REPEAT: Duration = Duration::from_secs(55);

/// A listener and what is known of its digest.
#[derive(Debug)]
pub(super) struct PolledDigest {
    pub(super) target: DigestTarget,
    /// Where the digest was found; an application that had one is expected to have it.
    path: Option<&'static str>,
    failures: u32,
    /// Whether another process has begun to listen since the last poll.
    is_restarted: bool,
    /// Whether it is not queried again: it speaks another protocol than HTTP, or was a trial.
    pub(super) is_foreign: bool,
    /// State of each check when it was written, and when that was.
    written: BTreeMap<String, (CheckState, Micros)>,
}

impl PolledDigest {
    pub(super) fn new(target: DigestTarget) -> Self {
        Self {
            target,
            path: None,
            failures: 0,
            is_restarted: false,
            is_foreign: false,
            written: BTreeMap::new(),
        }
    }

    /// Another process is another application, which may have a digest.
    pub(super) fn restart(&mut self, target: DigestTarget) {
        self.target = target;
        self.failures = 0;
        self.is_restarted = true;
        self.is_foreign = false;
    }

    /// Whether a target is what this one is about, and the same start of its process.
    pub(super) fn is_of(&self, target: &DigestTarget) -> bool {
        let known = &self.target;
        let starts = known.process_start.zip(target.process_start);
        let is_same_start = starts.is_none_or(|(before, now)| before == now);
        known.process_id == target.process_id && is_same_start
    }

    /// Whether it was tried, for nothing: that is remembered as long as a digest is.
    pub(super) fn is_tried(&self) -> bool {
        self.target.is_trial && self.is_foreign
    }

    /// Whether a proxy sends HTTP to it now, and it was tried without that.
    pub(super) fn has_evidence(&self, target: &DigestTarget) -> bool {
        self.is_tried() && !target.is_trial
    }

    /// The pause before the first query: an application that has just begun to listen is not tried
    /// before it serves.
    pub(super) fn first_pause(&self) -> Duration {
        if self.target.is_trial && self.path.is_none() { TRIAL_PAUSE } else { Duration::ZERO }
    }

    /// Whether there was a digest.
    pub(super) fn is_expected(&self) -> bool {
        self.path.is_some()
    }

    /// The path to query alone. After a restart and after many failures all are tried, since it may
    /// have moved.
    pub(super) fn known_path(&self) -> Option<&'static str> {
        self.path.filter(|_| self.failures < FAILURES_MAX && !self.is_restarted)
    }

    /// Writes what a reply is about; returns the pause until the next poll.
    pub(super) fn take(
        &mut self,
        reply: DigestReply,
        now: Micros,
        writer: &mut RowWriter,
    ) -> Duration {
        self.is_restarted = false;
        let (why, pause) = match reply {
            DigestReply::Found(found) => {
                self.path = Some(found.path);
                self.failures = 0;
                self.write(&found, now, writer);
                return INTERVAL;
            }
            DigestReply::NotHttp => {
                self.is_foreign = true;
                ("the response is not HTTP".to_owned(), ABSENT_PAUSE)
            }
            DigestReply::Absent(why) => (why, ABSENT_PAUSE),
            DigestReply::Silent(why) => (why, SILENT_PAUSE),
        };
        self.is_foreign |= self.target.is_trial && self.path.is_none();
        self.failures = self.failures.saturating_add(1);
        if let Some(path) = self.path {
            let subject = CheckSubject { check: SUMMARY, kind: "digest", ..<_>::default() };
            let target = self.url(path);
            let outcome = CheckOutcome::new(CheckState::Unknown, why);
            writer.push(now, &CheckSubject { target: &target, ..subject }, &outcome);
            self.written.insert(SUMMARY.to_owned(), (outcome.state, now));
        }
        match self.failures {
            FAILURES_MAX.. => ABSENT_PAUSE,
            _ if self.path.is_some() => INTERVAL,
            _ => pause,
        }
    }

    /// Writes what changed, and what was written a minute before.
    fn write(&mut self, found: &FoundDigest, now: Micros, writer: &mut RowWriter) {
        let target = self.url(found.path);
        let mut written = BTreeMap::new();
        for result in found.results() {
            let state = result.outcome.state;
            let before = self.written.get(&result.check).copied();
            let is_same = before.is_some_and(|(known, at)| known == state && now < at + REPEAT);
            if is_same {
                written.extend(before.map(|before| (result.check, before)));
                continue;
            }
            let subject = CheckSubject {
                check: &result.check,
                kind: "digest",
                target: &target,
                service: found.digest.service.as_deref(),
                scope: result.scope,
                duration: (result.check == SUMMARY).then_some(found.duration),
                expires: None,
            };
            writer.push(now, &subject, &result.outcome);
            written.insert(result.check, (state, now));
        }
        self.written = written;
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.target.address)
    }
}
