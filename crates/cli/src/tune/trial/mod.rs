//! `weir tune --try KEY=VALUE --for 10m`: sets one kernel setting for a while, and keeps it only
//! when it is shown to help.
//!
//! ```text
//!   look at what is ─► record on disk ─► set ─► look, guards every 5 s ─► kept, or put back with the reason
//!                                         └─ Ctrl-C, SIGTERM, SIGHUP, a failure: put back
//!                                         └─ kill -9: put back by the next trial, or by the weir that watches the host
//! ```
//! Nothing below `/etc` is written: what is kept ends with the next start of the host, unless a
//! person writes it there.

mod measure;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use weir_agent_core::trial::elsewhere;
use weir_agent_core::trial::journal::{DeadTrial, JournalLock, Trial, TrialJournal, TrialState};
use weir_agent_core::trial::setting::{self, KernelSetting};
use weir_config::Values;
use weir_config::place::is_root;
use weir_hub::hooks::is_tryable;
use weir_process::clock::SystemClock;
use weir_process::failure::{EXIT_USAGE, Failure};
use weir_process::terminal::{Paint, complain, say, say_json};
use weir_rules::{GUARDS, TRIAL_SETTINGS, TrialSetting, WantedSetting};
use weir_tables::{Clock, Micros};

use crate::client::Client;
use crate::doctor::source::{HostSource, LiveHost};
use crate::tune::args::{TrialArgs, TuneArgs, TuneFormat};
use measure::{ComparedCount, TrialObserver, Window};

/// Exit code when a trial may not be made here (`EX_NOPERM` of sysexits.h).
const EXIT_NOT_ALLOWED: u8 = 77;
/// How long to measure before the trial, by default.
const BEFORE_MAX: Duration = Duration::from_secs(300);
/// Interval of the guards' checks; two failures in a row end the trial.
const GUARDS_EVERY_SECONDS: f64 = 5.0;
/// A weir that looks for trials that died holds the lock for a moment.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// Runs the command; exit code 0 when the setting was kept, 1 when it was put back.
pub(crate) fn run(args: &TuneArgs, values: &Values) -> Result<ExitCode, Failure> {
    let trial = &args.trial;
    let wish = trial.wish.as_deref().unwrap_or_default();
    if !matches!(args.format, TuneFormat::Text | TuneFormat::Json) || args.dir.is_some() {
        return Err(Failure::new(
            "cannot try a setting: --format must be text or json, and only settings of this host can be tried",
        )
        .code(EXIT_USAGE));
    }
    let (tryable, value) = asked(wish)?;
    let fail = |why: &str| Failure::new(format!("cannot try `{} = {value}`: {why}", tryable.name));
    if !is_root() {
        return Err(fail("only root may change kernel settings").code(EXIT_NOT_ALLOWED));
    }
    let journal = open(values, &fail)?;
    let before = KernelSetting(tryable.name).read()?;
    let wanted = WantedSetting { name: tryable.name, value: &value };
    if let Some(why) = wanted.never(Some(&before)) {
        return Err(never_set(wanted, why));
    }
    if before == value {
        return Err(fail("it has that value").hint("`weir tune` lists the proposals for this host"));
    }
    let is_quiet = args.format == TuneFormat::Json;
    let plan = TrialPlan { tryable, before, value, spans: spans(trial)?, is_quiet };
    let hub = trial.weir.is_named().then(|| trial.weir.client()).transpose()?;
    let ended = plan.run(&journal, values, hub)?;
    match args.format {
        TuneFormat::Json => say_json(&serde_json::to_string(&ended).unwrap_or_default()),
        _ => say(&text(&ended, Paint::for_stdout())),
    }
    Ok(if ended.state == TrialState::Kept { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The setting and the value of `KEY=VALUE`, if that may be tried.
fn asked(wish: &str) -> Result<(&'static TrialSetting, String), Failure> {
    let Some((name, value)) = wish.split_once('=') else {
        return Err(Failure::new(format!("cannot try `{wish}`: it is not KEY=VALUE"))
            .hint("weir tune --try net.core.somaxconn=8192 --for 10m")
            .code(EXIT_USAGE));
    };
    let (name, value) = (name.trim(), setting::plain(value));
    let wanted = WantedSetting { name, value: &value };
    if let Some(why) = wanted.never(None) {
        return Err(never_set(wanted, why));
    }
    let fail = |why: String| {
        Failure::new(format!("cannot try `{name} = {value}`: {why}")).code(EXIT_USAGE)
    };
    let Some(tryable) = TrialSetting::named(name) else {
        let names: Vec<&str> = TRIAL_SETTINGS.iter().map(|tryable| tryable.name).collect();
        return Err(fail("no counter of this host shows whether it helps".into())
            .hint(format!("what can be tried: {}", names.join(", "))));
    };
    match tryable.refusal(&value) {
        Some(why) => Err(fail(why)),
        None => Ok((tryable, value)),
    }
}

fn never_set(WantedSetting { name, value }: WantedSetting<'_>, why: &str) -> Failure {
    Failure::new(format!("cannot try `{name} = {value}`: this is never set: {why}"))
        .hint("`weir tune` lists what is never set")
        .code(EXIT_USAGE)
}

fn spans(args: &TrialArgs) -> Result<[Duration; 2], Failure> {
    let before = args.before.unwrap_or_else(|| args.r#for.min(BEFORE_MAX));
    let limits = Duration::from_secs(5)..=Duration::from_secs(3600);
    if [before, args.r#for].iter().all(|span| limits.contains(span)) {
        return Ok([before, args.r#for]);
    }
    Err(Failure::new("cannot try a setting for that long: --for and --before are from 5s to 1h")
        .code(EXIT_USAGE))
}

/// The journal, after what a trial that died had set is put back.
fn open(values: &Values, fail: &impl Fn(&str) -> Failure) -> Result<TrialJournal, Failure> {
    let dir = &values.tune.dir;
    let end = SystemClock.now() + LOCK_PATIENCE;
    let journal = loop {
        match TrialJournal::open(dir)? {
            JournalLock::Ours(journal) => break journal,
            JournalLock::Held(None) if SystemClock.now() < end => pause(Duration::from_millis(50)),
            JournalLock::Held(trial) => {
                let running = trial.map_or_else(
                    || "another trial runs".to_owned(),
                    |trial| {
                        format!(
                            "`{}` is being tried since {}",
                            trial.name,
                            Micros(trial.began_micros)
                        )
                    },
                );
                return Err(fail(&running)
                    .hint("one at a time, so that the effect of each is known; wait for it, or end it with Ctrl-C"));
            }
        }
    };
    match journal.put_back(SystemClock.now(), is_tryable)? {
        None => {}
        Some(DeadTrial::Ended(trial)) => {
            complain(&format!("`{}`: {}", trial.name, trial.reason.unwrap_or_default()));
        }
        Some(DeadTrial::Elsewhere(trial)) => return Err(fail(&elsewhere(&trial))),
    }
    Ok(journal)
}

#[expect(clippy::disallowed_methods, reason = "waits for a lock that nobody announces")]
fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// The setting to try.
struct TrialPlan {
    tryable: &'static TrialSetting,
    before: String,
    value: String,
    /// Before, and with it.
    spans: [Duration; 2],
    is_quiet: bool,
}

/// Set, and put back when dropped, unless it was ended.
struct RunningTrial<'a> {
    journal: &'a TrialJournal,
    trial: Trial,
}

impl RunningTrial<'_> {
    fn end(
        &mut self,
        state: TrialState,
        reason: String,
        measures: Option<Value>,
    ) -> Result<(), Failure> {
        if state == TrialState::Reverted {
            KernelSetting(&self.trial.name).write(&self.trial.value_before)?;
        }
        self.trial.state = state;
        self.trial.reason = Some(reason);
        self.trial.measures = measures;
        self.trial.ended_micros = Some(SystemClock.now().0);
        self.journal.end(&self.trial)
    }
}

impl Drop for RunningTrial<'_> {
    fn drop(&mut self) {
        if self.trial.state == TrialState::Running
            && let Err(failure) = self.end(TrialState::Reverted, "weir failed".into(), None)
        {
            complain(&format!("error: {failure}"));
        }
    }
}

impl TrialPlan {
    fn say(&self, text: &str) {
        if !self.is_quiet {
            say(text);
        }
    }

    fn run(
        &self,
        journal: &TrialJournal,
        values: &Values,
        hub: Option<Client>,
    ) -> Result<Trial, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(|error| Failure::new(format!("cannot start threads: {error}")))?;
        let live = LiveHost::new(&values.collect.root, values.collect.host.clone(), u32::MAX - 1);
        runtime.block_on(async {
            let is_ended = weir_process::signals::ended_by_signal()?;
            self.watched(journal, TrialObserver::new(live, hub), &is_ended).await
        })
    }

    async fn watched<S: HostSource>(
        &self,
        journal: &TrialJournal,
        mut eyes: TrialObserver<S>,
        is_ended: &AtomicBool,
    ) -> Result<Trial, Failure> {
        let [before, during] = self.spans;
        self.say(&format!("looking for {} s at what is so far", before.as_secs()));
        let from = eyes.look().await?;
        let mut to = from;
        while to < from + before {
            if is_ended.load(Ordering::Relaxed) {
                return Err(Failure::new("ended before anything was set"));
            }
            to = eyes.look().await?;
        }
        let was = Window { from, to };
        let mut running = self.set(journal)?;
        let began = Micros(running.trial.began_micros);
        let (mut now, mut checked, mut harm) = (to, began, None);
        let mut reason = None;
        while now < began + during && reason.is_none() {
            now = eyes.look().await?;
            if is_ended.load(Ordering::Relaxed) {
                reason = Some("it was ended by a signal".to_owned());
            } else if now.seconds_since(checked) >= GUARDS_EVERY_SECONDS {
                checked = now;
                let found = self.harm(&eyes, was, Window { from: began, to: now }).await?;
                reason = harm.and(found.clone());
                harm = found;
            }
        }
        let is = Window { from: began, to: now };
        let aim = eyes.compare(&self.tryable.aim, was, is).await?;
        let mut measures = vec![aim.json()];
        for guard in GUARDS.iter().filter(|guard| **guard != self.tryable.aim) {
            measures.push(eyes.compare(guard, was, is).await?.json());
        }
        if reason.is_none() {
            reason = self.harm(&eyes, was, is).await?;
        }
        let (state, reason) = verdict(&aim, reason);
        running.end(state, reason, Some(measures.into()))?;
        Ok(running.trial.clone())
    }

    /// Writes down what comes, then sets it.
    fn set<'a>(&self, journal: &'a TrialJournal) -> Result<RunningTrial<'a>, Failure> {
        let (name, now) = (self.tryable.name, SystemClock.now());
        let trial = Trial {
            trial_id: format!("{:x}", now.0),
            name: name.to_owned(),
            value_before: self.before.clone(),
            value: self.value.clone(),
            netns: setting::netns_name(),
            netns_id: setting::netns_id(),
            boot_id: setting::boot_id(),
            began_micros: now.0,
            user_name: std::env::var("SUDO_USER").unwrap_or_else(|_| "root".into()),
            state: TrialState::Running,
            reason: None,
            ended_micros: None,
            measures: None,
        };
        journal.begin(&trial)?;
        let running = RunningTrial { journal, trial };
        KernelSetting(name).write(&self.value)?;
        let seconds = self.spans[1].as_secs();
        self.say(&format!(
            "{name}: {} -> {} for {seconds} s; Ctrl-C puts it back",
            self.before, self.value
        ));
        if let Some(effect) = self.tryable.effect {
            self.say(&format!("it takes effect {effect}"));
        }
        Ok(running)
    }

    /// Measures that are clearly worse with the setting.
    async fn harm<S: HostSource>(
        &self,
        eyes: &TrialObserver<S>,
        was: Window,
        is: Window,
    ) -> Result<Option<String>, Failure> {
        for guard in GUARDS.iter().filter(|guard| **guard != self.tryable.aim) {
            let compared = eyes.compare(guard, was, is).await?;
            if compared.is_more() {
                return Ok(Some(format!("more {}", compared.words())));
            }
        }
        let aim = eyes.compare(&self.tryable.aim, was, is).await?;
        if aim.is_more() {
            return Ok(Some(format!("more {}", aim.words())));
        }
        eyes.slower(was, is).await
    }
}

/// Whether it is kept, and why; `against` is what speaks against it.
fn verdict(aim: &ComparedCount, against: Option<String>) -> (TrialState, String) {
    let words = aim.words();
    if let Some(reason) = against {
        return (TrialState::Reverted, reason);
    }
    if aim.is_less() {
        return (TrialState::Kept, format!("clearly fewer {words}"));
    }
    if aim.change.before.events + aim.change.after.events < 1.0 {
        let what = aim.what;
        return (
            TrialState::Reverted,
            format!("nothing shows that it helps: no {what}, before or with it"),
        );
    }
    (TrialState::Reverted, format!("nothing shows that it helps: not clearly fewer {words}"))
}

fn text(trial: &Trial, paint: Paint) -> String {
    let reason = trial.reason.as_deref().unwrap_or_default();
    let name = paint.bold(&trial.name);
    if trial.state != TrialState::Kept {
        return format!("{name} is put back to {}: {reason}", trial.value_before);
    }
    format!(
        "{name} stays {}: {reason}\nuntil the next start of this host; to make it permanent:\n  \
         echo '{} = {}' >> /etc/sysctl.d/90-weir.conf\nto undo it:\n  sysctl -w {}='{}'",
        trial.value, trial.name, trial.value, trial.name, trial.value_before
    )
}
