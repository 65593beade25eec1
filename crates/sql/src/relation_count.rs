//! Bounds the relations of a statement once the names of `with` are replaced by their queries.
//!
//! `with a as (…), b as (select * from a, a x), c as (select * from b, b x), …` doubles with each
//! name: 30 of them are a plan of a billion nodes. The count is taken of the parsed statement,
//! before it is planned.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::common::{Result, plan_err};
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{ObjectName, Query, Statement, Visit, Visitor};

/// Limit of relations and subqueries after expansion.
const RELATIONS_MAX: u64 = 2000;

/// Checks a parsed statement.
///
/// # Errors
/// It has too many relations.
pub(crate) fn check_relations(statement: &Parsed) -> Result<()> {
    let count = match statement {
        Parsed::Statement(statement) => relations(statement),
        Parsed::Explain(explain) => return check_relations(&explain.statement),
        _ => 0,
    };
    if count > RELATIONS_MAX {
        return plan_err!(
            "the statement reads {count} relations once the names of `with` are replaced by their \
             queries, the limit is {RELATIONS_MAX}: use each name fewer times"
        );
    }
    Ok(())
}

fn relations(statement: &Statement) -> u64 {
    let mut counter = RelationCounter::default();
    let _ = statement.visit(&mut counter);
    counter.total.max(counter.largest)
}

/// Counts while the parser's visitor descends.
#[derive(Default)]
struct RelationCounter {
    open: Vec<OpenQuery>,
    total: u64,
    /// Relations of the largest name: it is planned even if nothing uses it.
    largest: u64,
}

#[derive(Default)]
struct OpenQuery {
    relations: u64,
    /// Names of `with` by the address of their query.
    names: HashMap<usize, String>,
    /// Relations of each name that is complete.
    complete: HashMap<String, u64>,
}

fn address(query: &Query) -> usize {
    std::ptr::from_ref(query).addr()
}

impl Visitor for RelationCounter {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        let names =
            tables.map(|table| (address(&table.query), table.alias.name.value.to_lowercase()));
        let names = names.collect();
        self.open.push(OpenQuery { relations: 1, names, complete: HashMap::new() });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let Some(done) = self.open.pop() else { return ControlFlow::Continue(()) };
        match self.open.last_mut() {
            Some(outer) => match outer.names.remove(&address(query)) {
                Some(name) => {
                    self.largest = self.largest.max(done.relations);
                    outer.complete.insert(name, done.relations);
                }
                None => outer.relations = outer.relations.saturating_add(done.relations),
            },
            None => self.total = self.total.saturating_add(done.relations),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let name = relation.to_string().replace('"', "").to_lowercase();
        let found = self.open.iter().rev().find_map(|query| query.complete.get(&name)).copied();
        if let Some(query) = self.open.last_mut() {
            query.relations = query.relations.saturating_add(found.unwrap_or(1));
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    fn count(sql: &str) -> u64 {
        let parsed = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        match parsed {
            Parsed::Statement(statement) => relations(&statement),
            other => panic!("{other}"),
        }
    }

    fn doubling(names: usize) -> String {
        let next = |at: usize| format!(", c{at} as (select x.x from c{0} x, c{0} y)", at - 1);
        let names: String = (1..names).map(next).collect();
        format!("with c0 as (select 1 as x){names} select * from c0")
    }

    #[test]
    fn names_count_as_often_as_they_are_used() {
        assert_eq!(count("select 1"), 1);
        assert_eq!(count("select * from log l join request r on l.host = r.host"), 3);
        assert_eq!(count("with a as (select * from log) select * from a, a b, A c"), 7);
        assert_eq!(count("select * from log where host in (select host from request)"), 4);
        // A name of an inner query does not count for the outer one.
        assert_eq!(count("select * from (with a as (select 1) select * from a) s, a"), 4);
        assert_eq!(count("with recursive t as (select 1 union all select 2 from t) select 1"), 2);
    }

    #[test]
    fn doubling_names_are_refused_and_do_not_overflow() {
        let check = |sql: &str| {
            let parsed = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
            check_relations(&parsed)
        };
        let use_last = |names: usize| format!("{}, c{} z", doubling(names), names - 1);
        check(&use_last(8)).unwrap();
        check(&doubling(10)).unwrap();
        assert!(check(&doubling(40)).is_err(), "unused names are planned too");
        for names in [15, 60, 150] {
            let error = check(&use_last(names)).unwrap_err().to_string();
            assert!(error.contains("the limit is 2000"), "{error}");
            assert!(check(&format!("explain {}", use_last(names))).is_err());
        }
    }
}
