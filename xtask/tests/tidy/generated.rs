//! Pages that are made from the source; `cargo xtask docs` writes them again.

use std::fmt::Write;

use expect_test::expect_file;
use weir_tables::{Column, TABLES, TableSpec, VIEWS, ViewSpec, unit_of};

#[test]
fn tables_page_is_up_to_date() {
    expect_file!["../../../docs/tables.md"].assert_eq(&tables_page());
}

fn tables_page() -> String {
    let mut page = String::from(
        "# Tables\n\n\
         What weir keeps, and what every column means. This page is made from the table specs in\n\
         `crates/tables/src/spec/`: after changing one, run `cargo xtask docs`. `weir tables NAME` prints the same.\n\n\
         Every table has `ts` (UTC, microseconds) and `host`. NULL means not measured; 0 is a measured zero. Units are\n\
         the last word of a column's name.\n\n",
    );
    let views = VIEWS.iter().map(|view| &view.table);
    for spec in TABLES.iter().copied().chain(views) {
        writeln!(page, "- [`{0}`](#{0}): {1}", spec.name, sentence(spec.doc))
            .expect("a string takes all");
    }
    for spec in TABLES {
        table(&mut page, spec).expect("a string takes all");
    }
    page += "\n# Views\n\nQueries that rules, page and hub share. Name one like a table: a condition on `ts` reaches the table \
        below it, except in\n`finding_now`. They are defined in `crates/tables/src/view.rs`.\n";
    for spec in VIEWS {
        view(&mut page, spec).expect("a string takes all");
    }
    page
}

/// A view has the columns of its table and some more.
fn view(page: &mut String, view: &ViewSpec) -> std::fmt::Result {
    let spec = &view.table;
    let own = TABLES
        .iter()
        .find(|table| table.name == spec.source)
        .map_or(0, |table| table.columns.len());
    writeln!(page, "\n## {}\n\n{}\n", spec.name, sentence(spec.doc))?;
    writeln!(page, "- Grain: {}.", cell(spec.grain))?;
    writeln!(
        page,
        "- Columns: those of [`{0}`](#{0}){1}\n",
        spec.source,
        if own < spec.columns.len() { ", and:" } else { "." }
    )?;
    if own < spec.columns.len() {
        writeln!(page, "| column | kind | unit | meaning |\n| --- | --- | --- | --- |")?;
        spec.columns[own..].iter().try_for_each(|column| row(page, column))?;
        writeln!(page)?;
    }
    writeln!(page, "```sql\n{}\n```", view.sql)
}

fn table(page: &mut String, spec: &TableSpec) -> std::fmt::Result {
    writeln!(page, "\n## {}\n\n{}\n", spec.name, sentence(spec.doc))?;
    writeln!(page, "- Grain: {}.", cell(spec.grain))?;
    writeln!(page, "- Source: {}.", cell(spec.source))?;
    writeln!(page, "- Sorted by: {}.\n", spec.sort.join(", "))?;
    writeln!(page, "| column | kind | unit | meaning |\n| --- | --- | --- | --- |")?;
    spec.columns.iter().try_for_each(|column| row(page, column))
}

fn row(page: &mut String, column: &Column) -> std::fmt::Result {
    let null = if column.is_nullable { ", NULL possible" } else { "" };
    let (name, kind, unit) = (column.name, column.kind.as_str(), unit_of(column.name));
    writeln!(page, "| `{name}` | {kind}{null} | {unit} | {} |", cell(column.doc))
}

/// A doc comment keeps the space after its slashes.
fn sentence(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A bar would end the cell.
fn cell(text: &str) -> String {
    sentence(text).replace('|', "\\|")
}
