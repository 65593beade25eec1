//! `slo.burning` in the engine: its causes are on the hosts that it lists, and it stays a note until its window has
//! passed.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use weir_rules::{Class, Engine, Rule, RuleSet};
use weir_tables::Micros;

fn at(second: i64) -> Micros {
    Micros(second * 1_000_000)
}

fn text(value: &str) -> ArrayRef {
    Arc::new(StringArray::from(vec![value]))
}

/// A burning SLO with failures on these hosts and upstreams.
fn burning(hosts: &str, upstreams: &str) -> [RecordBatch; 1] {
    let columns = [
        ("host", text("")),
        ("slo", text("shop")),
        ("pace", text("fast")),
        ("target", text("")),
        ("class", text("page")),
        ("at_hosts", text(hosts)),
        ("at_upstreams", text(upstreams)),
        ("holds_seconds", Arc::new(Int64Array::from(vec![360])) as ArrayRef),
    ];
    [RecordBatch::try_from_iter(columns).expect("columns of one row")]
}

fn refusing(host: &str) -> [RecordBatch; 1] {
    let columns = [("host", text(host)), ("upstream", text("10.0.0.7:8080"))];
    [RecordBatch::try_from_iter(columns).expect("columns of one row")]
}

/// The engine with the built-in rules, and the time.
struct Watch {
    engine: Engine,
    cause: Arc<Rule>,
    slo: Arc<Rule>,
    second: i64,
}

impl Watch {
    fn new() -> Self {
        let rules = RuleSet::built_in();
        let rule = |id| Arc::clone(rules.get(id).expect("a built-in rule"));
        let engine = Engine::new(&rules);
        Self { engine, cause: rule("app.down"), slo: rule("slo.burning"), second: 0 }
    }

    /// Passes time, with app.down on `host` (empty: nowhere); the class of the SLO's finding at its end.
    fn pass(&mut self, seconds: i64, host: &str, slo: &[RecordBatch]) -> Class {
        let end = self.second + seconds;
        while self.second < end {
            self.second += 2;
            let cause = if host.is_empty() { Vec::new() } else { refusing(host).to_vec() };
            self.engine.observe(&self.cause, at(self.second), &cause);
            self.engine.observe(&self.slo, at(self.second), slo);
        }
        let mut open = self.engine.open();
        open.find(|finding| finding.rule == "slo.burning").expect("it fires").class
    }
}

#[test]
fn finding_on_a_host_with_failures_explains_a_burning_slo() {
    assert_eq!(Watch::new().pass(60, "web1", &burning("web1,web2", "")), Class::Note);
    assert_eq!(Watch::new().pass(60, "db1", &burning("web1,web2", "")), Class::Page);
    assert_eq!(Watch::new().pass(60, "", &burning("web1,web2", "")), Class::Page);
}

#[test]
fn finding_on_the_host_of_a_failing_upstream_explains_a_burning_slo() {
    let mut watch = Watch::new();
    watch.engine.set_hosts(BTreeMap::from([("10.0.0.7".to_owned(), "app7".to_owned())]));
    assert_eq!(watch.pass(60, "app7", &burning("web1", "10.0.0.6:80,10.0.0.7:8080")), Class::Note);
}

/// The short window still has the failures of a cause that is repaired; what goes on after it pages.
#[test]
fn repaired_cause_does_not_page_a_second_time() {
    let mut watch = Watch::new();
    let slo = burning("web1", "");
    assert_eq!(watch.pass(60, "web1", &slo), Class::Note);
    assert_eq!(watch.pass(300, "", &slo), Class::Note);
    assert_eq!(watch.pass(400, "", &slo), Class::Page);
}
