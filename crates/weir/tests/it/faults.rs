//! The promise itself: a fault is made, the finding names the tier that hurts within 10 s, and
//! resolves without it.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::harness::{Weir, can_run, is_root, serve, wait_for, weir};
use super::netns::{Manner, Netns, Nginx, ReadingPace, application, knocks, visitors};

/// A fault has to be named within this.
const NAMED_WITHIN: Duration = Duration::from_secs(10);
/// For what happens before the fault begins, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Faults use both cores; two at a time would hurt each other.
pub(crate) static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

struct FaultScene {
    manner: Manner,
    weir: Weir,
    netns: Netns,
    _nginx: Nginx,
    dir: tempfile::TempDir,
}

impl FaultScene {
    /// nginx before an application in a namespace, and weir that watches without being told of
    /// them.
    fn set(purpose: &str, backlog: i32) -> Option<Self> {
        let has_nginx = Path::new("/usr/sbin/nginx").exists();
        let netns = if is_root() && has_nginx { Netns::make(purpose) } else { None };
        if !can_run(purpose, "root, nginx and iproute2", netns.is_some()) {
            return None;
        }
        let netns = netns?;
        let dir = tempfile::tempdir().expect("a directory");
        // nginx's worker is another user and makes its temporary directories here.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path(), open).expect("it is ours");
        let manner = Manner::default();
        manner.body_bytes.store(1000, Ordering::Relaxed);
        let weir = Weir::start(serve("up", &dir.path().join("data")));
        application(&netns, backlog, &manner);
        let nginx = Nginx::start(&netns, dir.path());
        let scene = Self { manner, weir, netns, _nginx: nginx, dir };
        wait_for("nginx's listener is seen", PATIENCE, || scene.sees_nginx().then_some(()));
        wait_for("the namespace's somaxconn is read", PATIENCE, || {
            scene.knows_somaxconn().then_some(())
        });
        Some(scene)
    }

    fn sees_nginx(&self) -> bool {
        let sql = format!(
            "select count(*) from listener where netns = '{}' and server_port = 8080 and process_name = 'nginx'",
            self.netns.name
        );
        self.weir.number(&sql) > 0
    }

    fn knows_somaxconn(&self) -> bool {
        let sql = format!(
            "select count(*) from sysctl where netns = '{}' and name = 'net.core.somaxconn'",
            self.netns.name
        );
        self.weir.number(&sql) > 0
    }

    /// Requests of this scene's nginx, which weir found by itself.
    fn requests(&self) -> i64 {
        let dir = self.dir.path().display();
        let sql = format!("select count(*) from request where source like '%{dir}/access.log'");
        self.weir.number(&sql)
    }

    /// A firing finding of the rule about this scene.
    fn firing(&self, rule: &str, port: Option<u16>) -> Option<Value> {
        let part = port.map(|port| port.to_string()).unwrap_or_default();
        let found = self.weir.findings(rule);
        found.into_iter().find(|finding| {
            finding["state"] == "firing"
                && finding["summary"].as_str().is_some_and(|s| s.contains(&part))
        })
    }

    /// The finding in full.
    fn one(&self, finding: &Value) -> Value {
        let id = finding["finding_id"].as_str().expect("an id");
        self.weir.get(&format!("/api/findings/{id}"))
    }

    fn end(self) {
        self.manner.is_ended.store(true, Ordering::Relaxed);
        self.manner.is_stalled.store(false, Ordering::Relaxed);
    }
}

#[test]
fn a_stalled_acceptor_is_named_with_process_and_limit_and_resolves() {
    let _turn = ONE_AT_A_TIME.lock();
    let Some(scene) = FaultScene::set("stalled", 8) else { return };
    visitors(&scene.netns, 4, ReadingPace::Fast, &scene.manner);
    // More than the queue holds; that they leave is a part of the cause's end.
    let crowd = Manner { is_ended: std::sync::Arc::default(), ..scene.manner.clone() };
    visitors(&scene.netns, 26, ReadingPace::Fast, &crowd);
    wait_for("requests are logged and read", PATIENCE, || (scene.requests() > 20).then_some(()));

    let begun = Instant::now();
    scene.manner.is_stalled.store(true, Ordering::Relaxed);
    let finding = wait_for("tcp.listen_overflow", NAMED_WITHIN, || {
        scene.firing("tcp.listen_overflow", Some(9001))
    });
    println!("named after {:?}: {}", begun.elapsed(), finding["summary"]);
    assert_eq!(finding["class"], "page");
    assert_eq!(finding["tier"], "app", "{finding}");
    let whole = scene.one(&finding);
    let evidence = whole["evidence"].to_string();
    let own_name = std::fs::read_to_string("/proc/self/comm").expect("a name").trim().to_owned();
    assert!(
        finding["subject"].as_str().is_some_and(|subject| subject.contains(&own_name)),
        "{finding}"
    );
    assert!(evidence.contains("\"queue_limit\":8"), "{evidence}");
    let summary = finding["summary"].as_str().unwrap_or_default();
    assert!(summary.contains("of 8") && !summary.contains("could not be read"), "{summary}");
    assert!(whole["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "{whole}");
    assert!(whole["history"].as_array().is_some_and(|history| !history.is_empty()), "{whole}");
    assert!(scene.weir.rows(whole["sql"].as_str().expect("a query")).len() < 100);
    let chart = whole["chart"]["sql"].as_str().expect("a chart");
    assert!(!scene.weir.rows(chart).is_empty(), "{chart}");

    scene.manner.is_stalled.store(false, Ordering::Relaxed);
    crowd.is_ended.store(true, Ordering::Relaxed);
    wait_for("it resolves", Duration::from_secs(60), || {
        scene.firing("tcp.listen_overflow", Some(9001)).is_none().then_some(())
    });
    scene.end();
}

#[test]
fn a_slow_application_is_called_app_and_not_proxy_or_client() {
    let _turn = ONE_AT_A_TIME.lock();
    let Some(scene) = FaultScene::set("slowapp", 128) else { return };
    visitors(&scene.netns, 30, ReadingPace::Fast, &scene.manner);
    wait_for("requests are logged and read", PATIENCE, || (scene.requests() > 20).then_some(()));
    assert!(scene.firing("app.slow", None).is_none(), "a fast application is not slow");

    let begun = Instant::now();
    scene.manner.think_millis.store(700, Ordering::Relaxed);
    let finding = wait_for("app.slow", NAMED_WITHIN, || scene.firing("app.slow", Some(9001)));
    println!("named after {:?}: {}", begun.elapsed(), finding["summary"]);
    assert_eq!(finding["tier"], "app");
    assert!(scene.firing("client.slow_reader", None).is_none(), "no client reads slowly");
    let all = scene.weir.get("/api/findings");
    let open = all["findings"].as_array().expect("an array");
    let blamed: Vec<&Value> =
        open.iter().filter(|f| f["state"] == "firing" && f["class"] != "note").collect();
    assert!(blamed.iter().all(|finding| finding["tier"] != "proxy"), "{blamed:?}");
    scene.end();
}

#[test]
fn a_slow_reader_is_called_client_and_not_app() {
    let _turn = ONE_AT_A_TIME.lock();
    let Some(scene) = FaultScene::set("slowreader", 128) else { return };
    scene.manner.body_bytes.store(400_000, Ordering::Relaxed);
    visitors(&scene.netns, 40, ReadingPace::Slow, &scene.manner);
    let begun = Instant::now();
    let finding =
        wait_for("client.slow_reader", PATIENCE, || scene.firing("client.slow_reader", None));
    println!("named after {:?}: {}", begun.elapsed(), finding["summary"]);
    assert_eq!(finding["tier"], "client");
    assert!(scene.firing("app.slow", None).is_none(), "the application is fast");
    scene.end();
}

#[test]
fn doctors_exit_code_says_the_worst_class() {
    let _turn = ONE_AT_A_TIME.lock();
    let netns = if is_root() { Netns::make("doctor") } else { None };
    if !can_run("doctor", "root and iproute2", netns.is_some()) {
        return;
    }
    let Some(netns) = netns else { return };
    let manner = Manner::default();
    manner.is_stalled.store(true, Ordering::Relaxed);
    application(&netns, 8, &manner);
    // Six wait in a queue for eight: nothing is lost yet. A queue that grows while it is sampled
    // would be one that nothing is accepted from.
    let connected = knocks(&netns, 6, &manner);
    wait_for("six in the queue", NAMED_WITHIN, || {
        (connected.load(Ordering::Relaxed) == 6).then_some(())
    });
    let waiting = doctor("tcp.accept_queue_high");
    assert_eq!(waiting["class"], "mail", "{waiting}");
    knocks(&netns, 30, &manner);
    let overflowing = doctor("tcp.listen_overflow");
    assert_eq!(overflowing["class"], "page", "{overflowing}");
    manner.is_ended.store(true, Ordering::Relaxed);
}

/// The findings of `weir doctor` for port 9001 by this rule; its exit code fits the worst of all
/// findings, of this host too.
fn doctor(rule: &str) -> Value {
    let output = weir(&["doctor", "--seconds", "12", "--format", "json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = answer.as_array().expect("an array");
    let code = if has_class(findings, "page") { 2 } else { i32::from(has_class(findings, "mail")) };
    assert_eq!(output.status.code(), Some(code), "{findings:?}");
    let ours = findings.iter().find(|finding| {
        finding["rule"] == rule && finding["subject"].as_str().is_some_and(|s| s.contains("9001"))
    });
    ours.unwrap_or_else(|| panic!("{rule} is not among {findings:?}")).clone()
}

fn has_class(findings: &[Value], class: &str) -> bool {
    findings.iter().any(|finding| finding["class"] == class)
}
