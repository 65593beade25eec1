//! Decides whether failed checks take a backend out: not when they are about something that its
//! whole pool depends on, because the others are no better.
//!
//! ```text
//!   failed check      1 of 4 members     3 of 4 members
//!   scope self        ejected            ejected
//!   scope dependency  stays in           stays in
//!   no scope          ejected            stays in; members ejected for it are back
//! ```
//! Members report one after the other, so the first ones may be ejected before the others report
//! the same; hence the way back, without slow start.

use std::sync::atomic::Ordering::Relaxed;

use weir_tables::CheckScope;

use crate::pool::Pool;
use crate::pool::backend::Backend;
use crate::pool::health_report::{HealthReport, texts_of};
use crate::settings::CheckSettings;
use crate::time::MonoTime;

/// Records the result of a backend's health check, and logs what it changes.
pub(crate) fn record(
    pool: &Pool,
    backend: &Backend,
    report: HealthReport,
    now: MonoTime,
    settings: &CheckSettings,
) {
    backend.check_record.lock().report = report.clone();
    let failure = failure_of(pool, &report);
    let tolerated = if failure.is_none() { report.failed.as_slice() } else { &[] };
    if backend.check_record.lock().set_tolerated(tolerated) {
        let texts = texts_of(tolerated).unwrap_or_default();
        tracing::warn!("backend `{}` stays in, although checks fail: {texts}", backend.name);
    }
    if backend.record_check(now, failure.is_none(), settings) {
        let ejected_for = failure.as_ref().map(|_| shareable(&report));
        backend.check_record.lock().ejected_for = ejected_for.unwrap_or_default();
        match failure {
            None => tracing::info!("backend `{}` passes its checks again", backend.name),
            Some(why) => tracing::warn!("backend `{}` fails its checks: {why}", backend.name),
        }
    }
    readmit(pool);
}

/// Why a backend with this report fails; `None` if it does not.
fn failure_of(pool: &Pool, report: &HealthReport) -> Option<String> {
    if report.failure.is_some() {
        return report.failure.clone();
    }
    let failed = report.failed.iter().filter(|check| match check.scope {
        CheckScope::Own => true,
        CheckScope::Dependency => false,
        CheckScope::Unstated => !is_shared(pool, &check.name),
    });
    let texts = texts_of(failed)?;
    Some(format!("its health response reports a failure: {texts}"))
}

/// The checks that alone make a report fail, if other members can show them to be shared.
fn shareable(report: &HealthReport) -> Vec<String> {
    let has_own = report.failed.iter().any(|check| check.scope == CheckScope::Own);
    if report.failure.is_some() || has_own {
        return Vec::new();
    }
    let unstated = report.failed.iter().filter(|check| check.scope == CheckScope::Unstated);
    unstated.map(|check| check.name.clone()).collect()
}

/// Whether most members that respond, and at least two, fail the check of this name.
fn is_shared(pool: &Pool, name: &str) -> bool {
    let (mut members, mut failing) = (0_usize, 0_usize);
    for backend in &pool.backends {
        if backend.weight.load(Relaxed) > 0 {
            let record = backend.check_record.lock();
            members += usize::from(record.report.has_responded);
            failing += usize::from(record.report.has_failed(name));
        }
    }
    failing >= 2 && failing * 2 > members
}

/// Ends the ejection of backends whose failed checks have turned out to be shared.
fn readmit(pool: &Pool) {
    for backend in &pool.backends {
        let Some(report) = report_of_ejected(backend) else { continue };
        if failure_of(pool, &report).is_none() {
            backend.clear_checks();
            let texts = texts_of(&report.failed).unwrap_or_default();
            let name = &backend.name;
            tracing::warn!("backend `{name}` is back, most of its pool fails the same: {texts}");
        }
    }
}

/// The report of a backend that still fails what it was ejected for.
fn report_of_ejected(backend: &Backend) -> Option<HealthReport> {
    let record = backend.check_record.lock();
    let mut names = record.ejected_for.iter();
    let is_ejected = !record.ejected_for.is_empty() && backend.is_check_failed();
    let still_fails = names.any(|name| record.report.has_failed(name));
    (is_ejected && still_fails).then(|| record.report.clone())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::settings::destination::BackendSettings;
    use crate::settings::{CheckKind, Settings};

    const DB_DOWN: &str = r#"{"status":"DOWN","components":{"db":{"status":"DOWN"}}}"#;
    const STUCK: &str = r#"{"deadlocks":{"healthy":false},"db":{"healthy":true}}"#;
    const FEED: &str =
        r#"{"status":"fail","checks":{"feed":[{"status":"fail","scope":"dependency"}]}}"#;
    const UP: &str = r#"{"status":"UP"}"#;

    fn pool(backends: &[&str]) -> Pool {
        let backends = backends.iter().map(|text| BackendSettings::parse(text).unwrap());
        let settings = Settings { backends: backends.collect(), ..Settings::default() };
        Pool::new("", &settings, None, None)
    }

    fn pool_of_four() -> Pool {
        pool(&["192.0.2.1:80", "192.0.2.2:80", "192.0.2.3:80", "192.0.2.4:80"])
    }

    /// Checks the backends once, in their order; returns which ones fail their checks then.
    fn round(pool: &Pool, fall: u32, reports: &[HealthReport]) -> String {
        let (every, within) = (Duration::from_secs(1), Duration::from_secs(1));
        let settings =
            CheckSettings { kind: CheckKind::Ask("/".into()), every, within, rise: 2, fall };
        for (backend, report) in pool.backends.iter().zip(reports) {
            record(pool, backend, report.clone(), MonoTime::NEVER, &settings);
        }
        let states = pool.backends.iter().map(|one| if one.is_check_failed() { 'x' } else { '.' });
        states.collect()
    }

    fn down(body: &str) -> HealthReport {
        HealthReport::of_response(503, body.as_bytes())
    }

    fn up() -> HealthReport {
        HealthReport::of_response(200, UP.as_bytes())
    }

    #[test]
    fn one_member_without_the_database_is_ejected_and_returns_after_rise_checks() {
        let pool = pool_of_four();
        let reports = [up(), down(DB_DOWN), up(), up()];
        assert_eq!(round(&pool, 2, &reports), "....");
        assert_eq!(round(&pool, 2, &reports), ".x..");
        let all_up = [up(), up(), up(), up()];
        assert_eq!(round(&pool, 2, &all_up), ".x..");
        assert_eq!(round(&pool, 2, &all_up), "....");
    }

    #[test]
    fn no_member_is_ejected_when_most_fail_the_same_check() {
        for fall in [1, 2] {
            let pool = pool_of_four();
            let reports = [down(DB_DOWN), down(DB_DOWN), down(DB_DOWN), up()];
            for _ in 0..4 {
                assert_eq!(round(&pool, fall, &reports), "....");
            }
            assert_eq!(pool.backends[0].failed_checks().as_deref(), Some("db"));
            assert_eq!(pool.backends[3].failed_checks(), None);
        }
    }

    #[test]
    fn member_that_failed_first_is_back_once_most_fail_the_same_check() {
        let pool = pool_of_four();
        assert_eq!(round(&pool, 1, &[down(DB_DOWN), up(), up(), up()]), "x...");
        assert_eq!(round(&pool, 1, &[down(DB_DOWN), down(DB_DOWN), up(), up()]), "xx..");
        let most = [down(DB_DOWN), down(DB_DOWN), down(DB_DOWN), up()];
        assert_eq!(round(&pool, 1, &most), "....");
    }

    #[test]
    fn member_with_another_fault_besides_stays_out() {
        let pool = pool_of_four();
        let no_response = HealthReport::without_response("no response in time".into());
        let crash = [no_response, down(DB_DOWN), down(DB_DOWN), down(DB_DOWN)];
        assert_eq!(round(&pool, 1, &crash), "x...");
        // It responds again and fails what all fail: that alone does not bring it back early.
        let all = [down(DB_DOWN), down(DB_DOWN), down(DB_DOWN), down(DB_DOWN)];
        assert_eq!(round(&pool, 1, &all), "x...");
        assert_eq!(round(&pool, 1, &all), "....");
    }

    #[test]
    fn own_checks_always_count_and_dependencies_never() {
        let pool = pool_of_four();
        let stuck = HealthReport::of_response(500, STUCK.as_bytes());
        let reports = [stuck.clone(), stuck.clone(), stuck, down(FEED)];
        assert_eq!(round(&pool, 1, &reports), "xxx.");
        assert_eq!(pool.backends[3].failed_checks().as_deref(), Some("feed"));
    }

    #[test]
    fn two_of_two_are_most_and_one_of_one_is_not() {
        let two = pool(&["192.0.2.1:80", "192.0.2.2:80"]);
        assert_eq!(round(&two, 1, &[down(DB_DOWN), up()]), "x.");
        assert_eq!(round(&two, 1, &[down(DB_DOWN), down(DB_DOWN)]), "..");
        let drained = pool(&["192.0.2.1:80", "192.0.2.2:80*0"]);
        assert_eq!(round(&drained, 1, &[down(DB_DOWN), down(DB_DOWN)]), "xx");
    }

    #[test]
    fn body_that_reports_no_checks_is_judged_by_the_status() {
        let failure =
            |status, body: &str| HealthReport::of_response(status, body.as_bytes()).failure;
        assert_eq!(failure(200, "fine"), None);
        assert_eq!(failure(204, ""), None);
        assert_eq!(failure(200, UP), None);
        let by_status = Some("it responds with status 503".to_owned());
        assert_eq!(failure(503, "down for maintenance"), by_status);
        assert_eq!(failure(503, r#"{"status": 503, "title": "x"}"#), by_status);
        assert_eq!(failure(503, r#"{"status": "DOWN"}"#), by_status);
        assert_eq!(failure(503, UP), by_status);
        let reported = Some("its health response reports a failure".to_owned());
        assert_eq!(failure(200, r#"{"status": "DOWN"}"#), reported);
    }

    #[test]
    fn failure_names_five_checks_and_counts_the_others() {
        let check = |n| format!(r#"{{"name": "c{n}", "ok": false}}"#);
        let checks: Vec<String> = (1..=7).map(check).collect();
        let body = format!(r#"{{"checks": [{}]}}"#, checks.join(","));
        let report = HealthReport::of_response(200, body.as_bytes());
        assert_eq!(
            failure_of(&pool(&["192.0.2.1:80"]), &report).as_deref(),
            Some("its health response reports a failure: c1; c2; c3; c4; c5 and 2 more")
        );
    }
}
