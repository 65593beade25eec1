//! A long log line makes no rule fail.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use weir_rules::test_file::{NOW, TestFile, TestQuery};
use weir_rules::{RuleSet, SourceFile};
use weir_tables::Batch;

use super::RuleStore;

/// Longest line that an agent ships by default.
const LINE_BYTES: usize = 1 << 20;

#[test]
fn lines_of_a_mebibyte_end_no_rule() {
    let asked = RuleStore::new();
    let (mut cases, mut failures) = (0, Vec::new());
    for rule in RuleSet::built_in().iter().filter(|rule| rule.needs.iter().any(|one| one == "log"))
    {
        let text = RuleSet::built_in_test(&rule.id).expect("each built-in rule has a test");
        let file = TestFile::parse(SourceFile { origin: &rule.id, text })
            .unwrap_or_else(|error| panic!("{error}"));
        for case in file.cases.iter().filter(|case| case.fires).take(1) {
            cases += 1;
            let mut tables = case.tables();
            let long: Vec<Batch> = tables.iter().filter_map(with_long_line).collect();
            tables.extend(long);
            if let Err(error) = asked.query(tables, &rule.sql_at(NOW)) {
                failures.push(format!("{}: {}: {error}", rule.id, case.name));
            }
        }
    }
    assert!(cases > 30, "{cases} rules read logs");
    assert!(failures.is_empty(), "{} of {cases}\n{}", failures.len(), failures.join("\n"));
}

/// The first row of a batch of `log`, with a long end.
fn with_long_line(batch: &Batch) -> Option<Batch> {
    let place = batch.rows.schema().index_of("body").ok().filter(|_| batch.table.name == "log")?;
    let row = batch.rows.slice(0, 1.min(batch.rows.num_rows()));
    let body = row.column(place).as_string::<i32>().iter().flatten().next()?;
    let long: ArrayRef =
        Arc::new(StringArray::from(vec![format!("{body} {}", "x".repeat(LINE_BYTES))]));
    let mut columns = row.columns().to_vec();
    columns[place] = long;
    let rows = RecordBatch::try_new(row.schema(), columns).expect("the types are the same");
    Some(Batch { table: batch.table, rows })
}
