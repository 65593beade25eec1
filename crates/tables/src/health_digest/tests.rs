//! Bodies as frameworks document them, each with a failed check.

use expect_test::expect;

use super::{CheckScope, HealthDigest, HealthStatus};

/// `fails: db (connection refused)?` with `!` for own checks, `~` for dependencies, `?` for others.
fn read(body: &str) -> String {
    let Some(digest) = HealthDigest::parse(body.as_bytes()) else {
        return "no digest".to_owned();
    };
    let is_healthy = digest.is_healthy;
    let summary = match is_healthy {
        Some(true) => "passes",
        Some(false) => "fails",
        None => "no summary",
    };
    let mut out = format!("{summary}:");
    for check in digest.failed() {
        let scope = match check.scope {
            CheckScope::Own => '!',
            CheckScope::Dependency => '~',
            CheckScope::Unstated => '?',
        };
        out += &format!(" {} = {}{scope}", check.name, check.text);
    }
    out
}

/// draft-inadarei-api-health-check-06, section 5, shortened; the failed node is ours.
#[test]
fn draft_has_an_object_of_lists() {
    let body = r#"{"status": "fail", "version": "1", "releaseId": "1.2.2", "notes": [""],
        "output": "", "serviceId": "f03e522f-1f44-4062-9b55-9587f91c9c41",
        "description": "health of authz service", "checks": {
        "cassandra:responseTime": [
          {"componentId": "dfd6cf2b-1b6e-4412-a0b8-f6f7797a60d2", "componentType": "datastore",
           "observedValue": 250, "observedUnit": "ms", "status": "pass",
           "affectedEndpoints": ["/users/{userId}", "/customers/{customerId}/status"],
           "time": "2018-01-17T03:36:48Z", "output": ""}],
        "cassandra:connections": [
          {"componentId": "dfd6cf2b-1b6e-4412-a0b8-f6f7797a60d2", "componentType": "datastore",
           "observedValue": 75, "status": "warn", "time": "2018-01-17T03:36:48Z", "output": "",
           "links": {"self": "http://api.example.com/dbnode/dfd6cf2b/health"}}],
        "uptime": [
          {"componentType": "system", "observedValue": 1209600.245, "observedUnit": "s",
           "status": "pass", "time": "2018-01-17T03:36:48Z"}],
        "cpu:utilization": [
          {"componentId": "6fd416e0-8920-410f-9c7b-c479000f7227", "node": 1,
           "componentType": "system", "observedValue": 85, "observedUnit": "percent",
           "status": "warn", "time": "2018-01-17T03:36:48Z", "output": ""},
          {"componentId": "6fd416e0-8920-410f-9c7b-c479000f7227", "node": 2,
           "componentType": "system", "observedValue": 100, "observedUnit": "percent",
           "status": "fail", "time": "2018-01-17T03:36:48Z", "output": ""}]}}"#;
    expect!["fails: cpu:utilization = cpu:utilization (100 percent)?"].assert_eq(&read(body));
}

#[test]
fn own_scope_of_a_check_in_the_draft_is_read() {
    let body = r#"{"status":"warn","serviceId":"shop","releaseId":"1.4.2","checks":{
        "feed:rate":[{"status":"fail","observedValue":3,"observedUnit":"/s","threshold":50,
        "time":"2026-11-27T10:00:00Z","scope":"dependency","output":"feed is quiet"}],
        "workers":[{"status":"fail","scope":"self","output":"no worker is alive"}]}}"#;
    expect!["passes: feed:rate = feed:rate (3 /s, threshold 50)~ workers = workers (no worker is alive)!"]
        .assert_eq(&read(body));
}

/// Spring Boot's reference, "Health (health)", with the database down: its documentation of
/// `DataSourceHealthIndicator` has the error.
#[test]
fn spring_has_components_that_nest() {
    let body = r#"{"status": "DOWN", "components": {
        "broker": {"status": "DOWN", "components": {
          "us1": {"status": "UP", "details": {"version": "1.0.2"}},
          "us2": {"status": "DOWN", "details": {"version": "1.0.4"}}}},
        "db": {"status": "DOWN", "details": {"error":
          "org.springframework.jdbc.CannotGetJdbcConnectionException: Failed to obtain JDBC Connection"}},
        "diskSpace": {"status": "UP", "details": {"total": 76887154688, "free": 46753374208,
          "threshold": 10485760, "path": "/srv/app/.", "exists": true}},
        "readinessState": {"status": "OUT_OF_SERVICE"}}}"#;
    expect!["fails: broker/us2 = broker/us2? db = db (org.springframework.jdbc.CannotGetJdbcConnectionException: Failed to obtain JDBC Connection)? readinessState = readinessState!"]
        .assert_eq(&read(body));
    // An aggregator of the application may count a failed component as harmless.
    let tolerant = r#"{"status": "UP", "components": {"mail": {"status": "DOWN"}}}"#;
    expect!["passes: mail = mail?"].assert_eq(&read(tolerant));
    // Without `management.endpoint.health.show-details` there is no more.
    expect!["fails:"].assert_eq(&read(r#"{"status":"DOWN","groups":["liveness","readiness"]}"#));
}

/// Spring Boot 2.0 and 2.1, "Production-ready features"; the error is PostgreSQL's driver's.
#[test]
fn older_spring_has_details() {
    let body = r#"{"status":"DOWN","details":{"diskSpace":{"status":"UP","details":{
        "total":499055067136,"free":30911418368,"threshold":10485760}},"db":{"status":"DOWN",
        "details":{"error":"org.postgresql.util.PSQLException: Connection to localhost:54321 refused. Check that the hostname and port are correct and that the postmaster is accepting TCP/IP connections."}},
        "mail":{"status":"UP","details":{"location":"smtp.example.com:587"}}}}"#;
    expect!["fails: db = db (org.postgresql.util.PSQLException: Connection to localhost:54321 refused. Check that the hostname and port are correct a…)?"]
        .assert_eq(&read(body));
}

/// docs.nestjs.com/recipes/terminus: `details` has everything, `info` and `error` repeat it.
#[test]
fn terminus_has_details_beside_info_and_error() {
    let body = r#"{"status": "error", "info": {"redis": {"status": "up"}},
        "error": {"database": {"status": "down", "message": "Connection refused"}},
        "details": {"redis": {"status": "up"},
          "database": {"status": "down", "message": "Connection refused"}}}"#;
    expect!["fails: database = database (Connection refused)?"].assert_eq(&read(body));
}

/// AspNetCore.HealthChecks.UI, `UIResponseWriter`; learn.microsoft.com's own writer has `results`.
#[test]
fn aspnet_has_entries_or_results() {
    let body = r#"{"status": "Unhealthy", "totalDuration": "00:00:00.0620730", "entries": {
        "sqlserver": {"data": {}, "description": "A network-related or instance-specific error occurred",
          "duration": "00:00:00.0343575", "exception": "A network-related or instance-specific error occurred",
          "status": "Unhealthy", "tags": ["ready"]},
        "cache": {"data": {}, "duration": "00:00:00.0620093", "status": "Degraded", "tags": []},
        "orders": {"data": {"scope": "dependency"}, "status": "Unhealthy", "tags": []}}}"#;
    expect!["fails: orders = orders~ sqlserver = sqlserver (A network-related or instance-specific error occurred)?"]
        .assert_eq(&read(body));
    let results = r#"{"status": "Unhealthy", "results": {"sample": {"status": "Unhealthy",
        "description": "An unhealthy result.", "data": {}}}}"#;
    expect!["fails: sample = sample (An unhealthy result.)?"].assert_eq(&read(results));
}

/// quarkus.io/guides/smallrye-health, "Negative health check procedures".
#[test]
fn microprofile_has_a_list_with_data() {
    let body = r#"{"status": "DOWN", "checks": [
        {"name": "Health check with data", "status": "UP", "data": {"bar": "barValue", "foo": "fooValue"}},
        {"name": "Database connection health check", "status": "DOWN",
         "data": {"error": "Cannot contact database"}}]}"#;
    expect!["fails: Database connection health check = Database connection health check (Cannot contact database)?"]
        .assert_eq(&read(body));
}

/// dropwizard.io, manual of core ("Health Checks") and of health ("Health Data Access").
#[test]
fn dropwizard_has_names_alone_or_a_list() {
    let admin = r#"{"deadlocks": {"healthy": true, "duration": 0, "timestamp": "2021-05-22T13:04:30.100+05:30"},
        "database": {"healthy": false, "message": "Cannot connect to jdbc:postgresql://db/shop",
          "error": {"type": "java.sql.SQLException", "message": "refused", "stack": ["a"]}}}"#;
    expect!["no summary: database = database (Cannot connect to jdbc:postgresql://db/shop)?"]
        .assert_eq(&read(admin));
    expect!["no summary: deadlocks = deadlocks (app is stuck)!"].assert_eq(&read(
        r#"{"deadlocks": {"healthy": false, "error": {"message": "app is stuck"}}}"#,
    ));
    let view = r#"[{"name": "user-db", "healthy": false, "type": "READY", "critical": true},
        {"name": "topic", "healthy": false, "type": "READY", "critical": false}]"#;
    expect!["no summary: user-db = user-db? topic = topic~"].assert_eq(&read(view));
}

#[test]
fn own_form_is_read_with_figures() {
    let body = r#"{"checks": [{"name": "feed", "ok": false, "value": 3, "threshold": 50},
        {"status": "fail"}, {"name": "disk", "ok": true}, 7]}"#;
    expect!["no summary: feed = feed (3, threshold 50)? an unnamed check = an unnamed check?"]
        .assert_eq(&read(body));
    expect!["passes: disk = disk?"]
        .assert_eq(&read(r#"{"ok": true, "checks": [{"name": "disk", "ok": false}]}"#));
}

#[test]
fn other_bodies_are_no_digest() {
    for body in [
        "",
        "OK",
        "[]",
        "[1]",
        "{}",
        r#""down""#,
        r#"{"version": 3}"#,
        r#"{"type": "about:blank", "title": "Not Found", "status": 404}"#,
        r#"{"timestamp": 1, "status": 500, "error": "Internal Server Error", "path": "/health"}"#,
        r#"{"db": {"healthy": false}, "version": 3}"#,
        r#"{"details": {"name": "x"}, "checks": 3, "entries": [1, null]}"#,
    ] {
        expect!["no digest"].assert_eq(&read(body));
    }
}

/// hellofresh/health-go, README ("Partially Available", "Unavailable"): failed checks are names and
/// reasons, passed ones are not listed.
#[test]
fn health_go_lists_failures_only() {
    let body = r#"{"status": "Service Unavailable", "timestamp": "2017-01-01T00:00:00Z",
        "failures": {"rabbitmq": "failed during RabbitMQ health check", "mongodb": "timeout"},
        "system": {"version": "go1.8", "goroutines_count": 4}}"#;
    expect!["fails: mongodb = mongodb (timeout)? rabbitmq = rabbitmq (failed during RabbitMQ health check)?"]
        .assert_eq(&read(body));
    let partly = HealthDigest::parse(br#"{"status": "Partially Available", "failures": {}}"#);
    assert!(partly.is_some_and(|digest| digest.is_degraded && digest.is_healthy == Some(true)));
}

#[test]
fn passed_checks_and_warnings_are_kept_with_figures() {
    let body = r#"{"status": "warn", "serviceId": "shop", "checks": {
        "queue": [{"status": "warn", "observedValue": 12.5, "observedUnit": "s", "threshold": "10"}],
        "db": [{"status": "pass", "output": ""}], "workers": [{"observedValue": null}]}}"#;
    let digest = HealthDigest::parse(body.as_bytes()).expect("it is a digest");
    assert_eq!((digest.service.as_deref(), digest.is_degraded), (Some("shop"), true));
    let mut statuses: Vec<_> =
        digest.checks.iter().map(|check| (check.name.as_str(), check.status)).collect();
    statuses.sort_by_key(|(name, _)| *name);
    assert_eq!(statuses, [("db", HealthStatus::Pass), ("queue", HealthStatus::Warn)]);
    let queue = digest.checks.iter().find(|check| check.name == "queue").expect("it is there");
    assert_eq!(queue.value.as_deref(), Some("12.5"));
    assert_eq!((queue.unit.as_deref(), queue.threshold.as_deref()), (Some("s"), Some("10")));
    assert_eq!(digest.failed().count(), 0);
}

#[test]
fn body_with_very_many_checks_is_cut() {
    let checks: Vec<String> =
        (0..5_000).map(|number| format!(r#"{{"name": "c{number}", "status": "DOWN"}}"#)).collect();
    let body = format!(r#"{{"status": "DOWN", "checks": [{}]}}"#, checks.join(","));
    let digest = HealthDigest::parse(body.as_bytes()).expect("it is a digest");
    assert_eq!((digest.is_healthy, digest.checks.len()), (Some(false), 200));
}

#[test]
fn no_bytes_make_it_panic() {
    arbtest::arbtest(|u| {
        let _digest = HealthDigest::parse(u.arbitrary::<&[u8]>()?);
        Ok(())
    });
}
