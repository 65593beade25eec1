//! The thread that runs checks: plugins, probes of targets, and health digests of local
//! applications.

use weir_config::Values;
use weir_config::check_plan::CheckPlan;
use weir_probe::check::{CheckLoop, CheckOrigin, CheckSpec, DigestSearch, digest_targets};
use weir_process::failure::Failure;
use weir_tables::Micros;

use super::WatchContext;

/// How often the listeners are compared with those that are queried for digests.
const TARGETS_SECONDS: f64 = 5.0;

/// What the thread runs.
pub(super) struct CheckRunner {
    specs: Vec<CheckSpec>,
    zone: Option<String>,
    /// Where digests are searched; `None`: nowhere.
    search: Option<DigestSearch>,
}

impl CheckRunner {
    /// As configured; `None` if there is nothing to run.
    ///
    /// # Errors
    /// When a file of commands cannot be read.
    pub(super) fn configured(values: &Values) -> Result<Option<Self>, Failure> {
        let collect = &values.collect;
        let plan = CheckPlan::of(values)?;
        for note in plan.notes {
            tracing::warn!("{note}");
        }
        // Listeners of a recorded host do not listen here.
        let is_live = collect.sample_host && collect.root.as_os_str() == "/";
        let search = (collect.health_digests && is_live).then(|| DigestSearch {
            procfs: collect.root.join("proc"),
            exclude: collect.health_digests_exclude.clone(),
        });
        let has_work = !plan.specs.is_empty() || search.is_some();
        let zone = Some(collect.zone.clone()).filter(|zone| !zone.is_empty());
        Ok(has_work.then_some(Self { specs: plan.specs, zone, search }))
    }

    /// Runs checks until the stop.
    pub(super) fn run(self, context: &WatchContext) {
        let origin = CheckOrigin { host: context.host.clone(), zone: self.zone };
        let mut checks = CheckLoop::new(origin, self.specs, context.clock.now());
        let mut compared: Option<Micros> = None;
        while !context.stop.is_set() {
            let now = context.clock.now();
            let age = compared.map_or(f64::INFINITY, |at| now.seconds_since(at));
            if let Some(search) = &self.search
                && !(0.0..TARGETS_SECONDS).contains(&age)
            {
                compared = Some(now);
                let upstreams = &context.status.probe_targets().http_upstreams;
                let listeners = context.status.listeners();
                checks.set_digest_targets(digest_targets(&listeners, upstreams, search), now);
            }
            let batches = checks.step(&|| context.clock.now());
            if !batches.is_empty() {
                context.destination.send_sample(batches);
            }
        }
        checks.end();
    }
}
