//! Every built-in rule's `.test` file, run by the runner that users get (`weir rules test`), over
//! the real store.
//!
//! The cases check one moment; the replays below check time: how long a fault takes to be found and
//! to be resolved.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use arrow_array::RecordBatch;
use weir_collect::host::{HostOptions, HostSampler};
use weir_rules::test_file::{NOW, TestFile, TestQuery};
use weir_rules::{Engine, Rule, RuleSet, SourceFile, State, Transition};
use weir_store::{ConditionWatch, Query, QueryLimits, Store};
use weir_tables::{
    Batch, FixedClock, Listener, ListenerRows, Micros, Parcel, Request, RequestRows, Rows, TcpStat,
    TcpStatRows,
};

#[path = "rules/long_lines.rs"]
mod long_lines;
#[path = "rules/words.rs"]
mod words;

/// A test that measures CPU time runs alone in this process; all others share.
static ALONE: RwLock<()> = RwLock::new(());

/// A store in memory and a runtime to ask it.
struct RuleStore {
    runtime: tokio::runtime::Runtime,
    _shared: Option<RwLockReadGuard<'static, ()>>,
}

impl RuleStore {
    fn new() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let shared = ALONE.read().unwrap_or_else(PoisonError::into_inner);
        Self { runtime: runtime.expect("a runtime starts"), _shared: Some(shared) }
    }

    fn append(&self, store: &Store, batches: Vec<Batch>) {
        let parcel = Parcel { range: None, batches };
        self.runtime.block_on(store.append(parcel)).expect("a store in memory takes rows");
    }

    /// The answer of the rule's queries at `now`, without the ones that weir leaves out.
    fn answer(
        &self,
        store: &Store,
        watched: &mut WatchedStore,
        rule: &Rule,
        now: Micros,
    ) -> Result<Vec<RecordBatch>, String> {
        let mut known = Vec::new();
        for condition in &*watched
            .entry(rule.id.clone())
            .or_insert_with(|| rule.when.iter().map(|sql| store.watch(sql)).collect())
        {
            let Some(condition) = condition else {
                known.push(false);
                continue;
            };
            let may_have = self.runtime.block_on(store.may_have(condition, now));
            if !may_have.map_err(|error| error.to_string())? {
                return Ok(Vec::new());
            }
            known.push(condition.says_all());
        }
        let mut answer = Vec::new();
        for (place, sql) in rule.queries().into_iter().enumerate() {
            if known.get(place) == Some(&true) {
                continue;
            }
            answer = self.ask(store, sql, now)?;
            if answer.iter().all(|batch| batch.num_rows() == 0) {
                break;
            }
        }
        Ok(answer)
    }

    fn ask(&self, store: &Store, sql: &str, now: Micros) -> Result<Vec<RecordBatch>, String> {
        let limits = QueryLimits::of_rule(100_000, TIMEOUT);
        self.result(store, Query::new(sql).at(now).limits(limits))
    }

    fn result(&self, store: &Store, query: Query) -> Result<Vec<RecordBatch>, String> {
        let answer = self.runtime.block_on(store.query(query).run());
        answer.map(|result| result.batches).map_err(|error| error.to_string())
    }

    /// The answer that the page gets for a chart.
    fn drawn(&self, tables: Vec<Batch>, sql: &str) -> Result<Vec<RecordBatch>, String> {
        let store = Store::in_memory(Arc::new(FixedClock::new(NOW)));
        self.append(&store, tables);
        self.result(&store, Query::new(sql).at(NOW))
    }
}

/// By rule, the conditions that the store watches.
type WatchedStore = BTreeMap<String, Vec<Option<ConditionWatch>>>;

impl TestQuery for RuleStore {
    fn query(&self, tables: Vec<Batch>, sql: &str) -> Result<Vec<RecordBatch>, String> {
        let store = Store::in_memory(Arc::new(FixedClock::new(NOW)));
        self.append(&store, tables);
        self.ask(&store, sql, NOW)
    }
}

/// The cases themselves run once, by `weir rules test rules`, a step of `cargo xtask test`.
#[test]
fn every_built_in_rule_has_a_firing_and_a_silent_case() {
    for rule in RuleSet::built_in().iter() {
        let text = RuleSet::built_in_test(&rule.id).expect("each built-in rule has a test");
        let file = TestFile::parse(SourceFile { origin: &rule.id, text })
            .unwrap_or_else(|error| panic!("{error}"));
        let kinds: Vec<bool> = file.cases.iter().map(|case| case.fires).collect();
        assert!(
            kinds.contains(&true) && kinds.contains(&false),
            "{} lacks a firing or a silent case",
            rule.id
        );
    }
}

#[test]
fn every_proposal_of_tune_passes_its_test_file() {
    let asked = RuleStore::new();
    let mut failures = Vec::new();
    for (rule, (id, text)) in weir_rules::tuning().iter().zip(weir_rules::tuning_tests()) {
        let file = TestFile::parse(SourceFile { origin: id, text })
            .unwrap_or_else(|error| panic!("{error}"));
        let fires = file.cases.iter().filter(|case| case.fires).count();
        assert!((1..file.cases.len()).contains(&fires), "{id} lacks a firing or a silent case");
        for result in file.run(rule, &asked) {
            if let Some(failure) = result.failure {
                failures.push(format!("{id}.test:{} {}: {failure}", result.line, result.name));
            }
        }
    }
    assert!(failures.is_empty(), "{} cases fail\n{}", failures.len(), failures.join("\n"));
}

/// The conditions of a firing case must not count as quiet, at whatever time they are evaluated.
#[test]
fn conditions_are_watched_and_none_is_quiet_when_its_rule_fires() {
    let asked = RuleStore::new();
    let (mut watched_first, mut rules) = (0, 0);
    for rule in RuleSet::built_in().iter().filter(|rule| !rule.when.is_empty()) {
        rules += 1;
        let store = Store::in_memory(Arc::new(FixedClock::new(NOW)));
        watched_first += usize::from(store.watch(&rule.when[0]).is_some());
        let text = RuleSet::built_in_test(&rule.id).expect("each built-in rule has a test");
        let file = TestFile::parse(SourceFile { origin: &rule.id, text })
            .unwrap_or_else(|error| panic!("{error}"));
        for case in file.cases.iter().filter(|case| case.fires) {
            for is_asked_before in [true, false] {
                let store = Store::in_memory(Arc::new(FixedClock::new(NOW)));
                let mut watched = WatchedStore::new();
                if is_asked_before {
                    let nothing = asked.answer(&store, &mut watched, rule, NOW).expect("it runs");
                    assert!(nothing.iter().all(|batch| batch.num_rows() == 0), "{}", rule.id);
                }
                asked.append(&store, case.tables());
                let answer = asked.answer(&store, &mut watched, rule, NOW).expect("it runs");
                let rows: usize = answer.iter().map(RecordBatch::num_rows).sum();
                assert!(rows > 0, "{}: {}, asked before: {is_asked_before}", rule.id, case.name);
            }
        }
    }
    assert!(watched_first >= rules - 8, "{watched_first} of {rules} first conditions are watched");
}

#[test]
fn every_rule_and_every_chart_runs_on_empty_tables_and_says_nothing() {
    let asked = RuleStore::new();
    for rule in RuleSet::built_in().iter() {
        let answer = asked
            .query(Vec::new(), &rule.sql_at(NOW))
            .unwrap_or_else(|error| panic!("{}: {error}", rule.id));
        assert_eq!(answer.iter().map(RecordBatch::num_rows).sum::<usize>(), 0, "{}", rule.id);
    }
}

#[test]
fn causes_exist_and_come_before_what_they_explain() {
    let rules = RuleSet::built_in();
    let order: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
    for (place, rule) in rules.iter().enumerate() {
        for cause in &rule.causes {
            // That also means that no rule explains itself by way of others.
            let at = order.iter().position(|id| id == cause);
            assert!(at.is_some_and(|at| at < place), "{}: cause {cause} is at {at:?}", rule.id);
        }
    }
}

#[test]
fn every_kernel_setting_that_a_rule_names_exists() {
    // What rules warn of, although no kernel that is still in use has it, and names that only look
    // like one.
    let others = ["net.ipv4.tcp_tw_recycle", "kernel.rst", "kernel.new_drop_counter"];
    let rules = RuleSet::built_in();
    let ids: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
    for rule in rules.iter() {
        let chosen = rule.texts.iter().flat_map(|texts| texts.by_key.values());
        for text in [&rule.fix, &rule.sql, &rule.look_at].into_iter().chain(chosen) {
            let words =
                text.split(|letter| !is_part(letter)).map(|word| word.trim_matches(['.', '-']));
            let named = words.filter(|word| {
                let parts: Vec<&str> = word.split('.').collect();
                ["net", "vm", "kernel"].contains(&parts[0])
                    && parts.len() > 1
                    && !parts[1].is_empty()
            });
            for word in named.filter(|word| !others.contains(word) && !ids.contains(word)) {
                let path = std::path::Path::new("/proc/sys").join(word.replace('.', "/"));
                // Connection tracking's settings come with its module.
                let is_module = word.starts_with("net.netfilter.");
                assert!(path.exists() || is_module, "{} names {word}, which is not there", rule.id);
            }
        }
    }
}

fn is_part(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "._-".contains(letter)
}

#[test]
fn chart_of_every_finding_runs() {
    let asked = RuleStore::new();
    for rule in RuleSet::built_in().iter().filter(|rule| rule.chart.is_some()) {
        let text = RuleSet::built_in_test(&rule.id).expect("each built-in rule has a test");
        let file = TestFile::parse(SourceFile { origin: &rule.id, text })
            .unwrap_or_else(|error| panic!("{error}"));
        let case = file.cases.iter().find(|case| case.fires).expect("one case fires");
        let answer = asked.query(case.tables(), &rule.sql_at(NOW)).expect("the rule runs");
        let evidence = weir_rules::rows_of(&answer, 10);
        let sql = rule.chart_sql_at(NOW, &evidence).expect("it has a chart");
        let drawn = asked
            .drawn(case.tables(), &sql)
            .unwrap_or_else(|error| panic!("{}: {error}\n{sql}", rule.id));
        assert!(drawn.iter().any(|batch| batch.num_rows() > 0), "{} draws nothing\n{sql}", rule.id);
        assert!(drawn[0].column_by_name("ts").is_some(), "{} draws without a column ts", rule.id);
    }
}

/// Limit of one query of a test.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Hosts, and simulated seconds: with the planning of each rule, and after it.
const HOSTS: usize = 20;
const SECONDS: (u64, u64) = (60, 30);

#[test]
fn all_rules_over_twenty_hosts_take_a_small_part_of_a_processor() {
    let _alone = ALONE.write().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let asked = RuleStore { runtime: runtime.expect("a runtime starts"), _shared: None };
    let clock = Arc::new(FixedClock::new(NOW));
    let store = Store::in_memory(Arc::<FixedClock>::clone(&clock));
    let mut engine = Engine::new(&RuleSet::built_in());
    let mut samplers: Vec<HostSampler> = (0..HOSTS).map(sampler).collect();
    let (mut first, mut steady) = (0.0, BTreeMap::<String, f64>::new());
    let mut watched = WatchedStore::new();
    for second in 0..SECONDS.0 + SECONDS.1 {
        let now = NOW + Duration::from_secs(second);
        clock.set(now);
        for sampler in &mut samplers {
            asked.append(&store, sampler.sample(now));
        }
        for rule in engine.due(now) {
            let began = process_seconds();
            let answer = asked.answer(&store, &mut watched, &rule, now);
            let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", rule.id));
            let took = process_seconds() - began;
            engine.record_duration(&rule, took);
            engine.observe(&rule, now, &answer);
            if second < SECONDS.0 {
                first += took;
            } else {
                *steady.entry(rule.id.clone()).or_default() += took;
            }
        }
    }
    println!(
        "{HOSTS} hosts, first minute with planning: {:.2} % of a core",
        percent(first, SECONDS.0)
    );
    let share = percent(steady.values().sum(), SECONDS.1);
    println!("{HOSTS} hosts, afterwards: {share:.2} % of a core");
    let mut dearest: Vec<(String, f64)> = steady.into_iter().collect();
    dearest.sort_by(|one, other| other.1.total_cmp(&one.1));
    for (rule, took) in dearest.iter().take(10) {
        println!("{:.3} % {rule}", percent(*took, SECONDS.1));
    }
    assert!(share < 50.0, "all rules together take {share:.2} % of a processor");
}

fn percent(spent: f64, seconds: u64) -> f64 {
    spent / Duration::from_secs(seconds).as_secs_f64() * 100.0
}

fn sampler(number: usize) -> HostSampler {
    let host = format!("web{number}");
    HostSampler::new(HostOptions { host, ..HostOptions::default() })
}

fn process_seconds() -> f64 {
    let at = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(at).expect("it is positive").as_secs_f64()
}

/// A replay second by second: makes rows and evaluates due rules.
struct Replay {
    asked: RuleStore,
    store: Arc<Store>,
    engine: Engine,
    watched: WatchedStore,
    transitions: Vec<(i64, Transition)>,
}

impl Replay {
    fn new() -> Self {
        Self {
            asked: RuleStore::new(),
            store: Store::in_memory(Arc::new(FixedClock::new(NOW))),
            engine: Engine::new(&RuleSet::built_in()),
            watched: WatchedStore::new(),
            transitions: Vec::new(),
        }
    }

    fn run(&mut self, seconds: i64, mut rows: impl FnMut(i64, Micros) -> Vec<Batch>) {
        for second in 0..seconds {
            let now = NOW + Duration::from_secs(u64::try_from(second).expect("positive"));
            self.asked.append(&self.store, rows(second, now));
            for rule in self.engine.due(now) {
                let changes = self.answer(&rule, now);
                self.transitions.extend(changes.into_iter().map(|change| (second, change)));
            }
        }
    }

    fn answer(&mut self, rule: &Rule, now: Micros) -> Vec<Transition> {
        let answer = self.asked.answer(&self.store, &mut self.watched, rule, now);
        let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", rule.id));
        self.engine.observe(rule, now, &answer)
    }

    /// (second, rule, state) of every change of state.
    fn changes(&self) -> Vec<(i64, &str, State)> {
        let changes = self.transitions.iter().filter(|(_, change)| change.is_state_change());
        changes
            .map(|(second, change)| (*second, change.finding.rule.as_str(), change.finding.state))
            .collect()
    }

    fn when(&self, rule: &str, state: State) -> Option<i64> {
        self.changes()
            .into_iter()
            .find(|change| change.1 == rule && change.2 == state)
            .map(|change| change.0)
    }
}

fn listener(now: Micros, length: i64) -> Batch {
    let mut rows = ListenerRows::default();
    rows.push(&Listener {
        ts: now,
        host: "web1",
        netns: "host",
        server_address: "0.0.0.0",
        server_port: 8080,
        accept_queue_length: length,
        accept_queue_limit: 128,
        process_id: Some(7),
        process_name: Some("python3"),
        ..Default::default()
    });
    Batch { table: ListenerRows::SPEC, rows: rows.finish() }
}

/// A counter of the kernel, and how much it grew in a second.
#[derive(Clone, Copy)]
struct CounterSample {
    counter: &'static str,
    value: i64,
    increase: i64,
}

fn counter(now: Micros, sample: CounterSample) -> Batch {
    let CounterSample { counter, value, increase } = sample;
    let mut rows = TcpStatRows::default();
    rows.push(&TcpStat {
        ts: now,
        host: "web1",
        netns: "host",
        protocol: "TcpExt",
        counter,
        value,
        increase: Some(increase),
        interval_seconds: Some(1.0),
    });
    Batch { table: TcpStatRows::SPEC, rows: rows.finish() }
}

/// What each request takes.
#[derive(Clone, Copy)]
struct RequestSeconds {
    app: f64,
    client: f64,
}

/// `count` requests of one second, as nginx writes them.
fn requests(now: Micros, count: usize, seconds: RequestSeconds) -> Batch {
    let mut rows = RequestRows::default();
    for _ in 0..count {
        rows.push(&Request {
            ts: now,
            host: "web1",
            tier: "proxy",
            observed_ts: now,
            program: Some("nginx"),
            server_address: Some("www.example.com"),
            url_path: Some("/"),
            upstream_address: Some("10.0.0.2:8080"),
            duration_seconds: Some(seconds.app + seconds.client),
            upstream_connect_seconds: Some(0.0),
            upstream_header_seconds: Some(seconds.app),
            upstream_response_seconds: Some(seconds.app),
            ..Default::default()
        });
    }
    Batch { table: RequestRows::SPEC, rows: rows.finish() }
}

#[test]
fn stalled_acceptor_is_found_within_ten_seconds_and_resolved_within_thirty() {
    let mut replay = Replay::new();
    let (begin, end) = (20, 50);
    let mut total = 0;
    replay.run(100, |second, now| {
        let is_stalled = (begin..end).contains(&second);
        let dropped = if is_stalled { 30 } else { 0 };
        total += dropped;
        let mut rows = vec![listener(now, if is_stalled { 129 } else { 0 })];
        if dropped > 0 {
            rows.push(counter(
                now,
                CounterSample { counter: "ListenOverflows", value: total, increase: dropped },
            ));
        }
        rows
    });
    let fired = replay.when("tcp.listen_overflow", State::Firing).expect("it fires");
    let resolved = replay.when("tcp.listen_overflow", State::Resolved).expect("it is resolved");
    assert!((begin..begin + 10).contains(&fired), "fired at {fired}");
    assert!((end..end + 30).contains(&resolved), "resolved at {resolved}");
    let queue = replay
        .transitions
        .iter()
        .filter(|(_, change)| change.finding.rule == "tcp.accept_queue_high");
    let is_lowered =
        queue.clone().any(|(_, change)| change.finding.class == weir_rules::Class::Note);
    assert!(is_lowered, "the full queue is explained by the overflow");
    assert_eq!(replay.engine.open().count(), 0);
}

#[test]
fn slow_application_is_named_and_slow_readers_are_not_blamed_on_it() {
    let mut replay = Replay::new();
    replay.run(120, |second, now| {
        let app = if (80..100).contains(&second) { 0.4 } else { 0.02 };
        vec![requests(now, 20, RequestSeconds { app, client: 0.001 })]
    });
    let fired = replay.when("app.slow", State::Firing).expect("it fires");
    assert!((80..90).contains(&fired), "fired at {fired}");
    assert!(replay.when("app.slow", State::Resolved).is_none_or(|at| at >= 100));
    assert_eq!(replay.when("client.slow_reader", State::Pending), None);
}

#[test]
fn slow_reader_is_named_and_not_the_application() {
    let mut replay = Replay::new();
    replay.run(60, |second, now| {
        let client = if second >= 30 { 4.0 } else { 0.001 };
        vec![requests(now, 20, RequestSeconds { app: 0.02, client })]
    });
    let fired = replay.when("client.slow_reader", State::Firing).expect("it fires");
    assert!((30..40).contains(&fired), "fired at {fired}");
    assert_eq!(replay.when("app.slow", State::Pending), None);
}

#[test]
fn healthy_load_gives_no_finding() {
    let mut replay = Replay::new();
    replay.run(180, |second, now| {
        let length = second * 7 % 60;
        vec![
            listener(now, length),
            requests(now, 30, RequestSeconds { app: 0.02, client: 0.005 }),
            counter(
                now,
                CounterSample { counter: "PassiveOpens", value: second * 900, increase: 900 },
            ),
        ]
    });
    assert_eq!(replay.changes(), []);
}

/// Absence of evidence is not health: whatever the proxy and whatever its logs lack, a fifth of the
/// requests that fails or hangs is found by some rule, and the same shapes without failures by none.
#[test]
fn no_outage_is_silent_and_no_healthy_scene_alerts() {
    let asked = RuleStore::new();
    let text = include_str!("outages.test");
    let file = TestFile::parse(SourceFile { origin: "outages.test", text })
        .unwrap_or_else(|error| panic!("{error}"));
    let rules = RuleSet::built_in();
    let mut failures = Vec::new();
    for case in &file.cases {
        let store = Store::in_memory(Arc::new(FixedClock::new(NOW)));
        let tables = case.tables();
        let names: Vec<&str> = tables.iter().map(|batch| batch.table.name).collect();
        asked.append(&store, tables);
        let mut engine = Engine::new(&rules);
        let mut watched = WatchedStore::new();
        // A rule without rows says nothing, as another test shows.
        let has_rows = |rule: &&Arc<Rule>| rule.needs.iter().any(|table| names.contains(&&**table));
        for rule in rules.iter().filter(has_rows) {
            let answer = asked.answer(&store, &mut watched, rule, NOW);
            let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", rule.id));
            engine.observe(rule, NOW, &answer);
        }
        let alerts: Vec<&str> = engine
            .open()
            .filter(|finding| finding.class != weir_rules::Class::Note)
            .map(|finding| finding.rule.as_str())
            .collect();
        if alerts.is_empty() == case.fires {
            failures.push(format!("outages.test:{} {}: {alerts:?}", case.line, case.name));
        }
    }
    assert!(failures.is_empty(), "{} scenes\n{}", failures.len(), failures.join("\n"));
}
