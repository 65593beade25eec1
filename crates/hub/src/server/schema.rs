//! `GET /api/tables`: every table and view with its columns, kinds, units and docs.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use weir_tables::{Column, TABLES, TableSpec, VIEWS, unit_of};

use super::answer::Refusal;
use super::{SharedApp, objects};

/// `GET /api/tables`.
pub(crate) async fn list(State(app): State<SharedApp>) -> Result<Json<Value>, Refusal> {
    let counts: Vec<String> = TABLES
        .iter()
        .map(|spec| format!("select '{0}' as name, count(*) as row_count from \"{0}\"", spec.name))
        .collect();
    let counts = objects(&app.query(&counts.join(" union all "), TABLES.len()).await?);
    let count_of = |name: &str| {
        counts
            .iter()
            .find(|row| row["name"] == name)
            .map_or(Value::Null, |row| row["row_count"].clone())
    };
    // The rows of a view are those of its table.
    let views = VIEWS.iter().map(|view| described(&view.table, Value::Null));
    let tables = TABLES.iter().map(|spec| described(spec, count_of(spec.name)));
    let tables: Vec<Value> = tables.chain(views).collect();
    Ok(Json(json!({"tables": tables})))
}

fn described(spec: &TableSpec, row_count: Value) -> Value {
    json!({
        "name": spec.name,
        "doc": spec.doc.trim(),
        "grain": spec.grain,
        "source": spec.source,
        "sort": spec.sort,
        "row_count": row_count,
        "columns": spec.columns.iter().map(column).collect::<Vec<_>>(),
    })
}

fn column(column: &Column) -> Value {
    json!({
        "name": column.name,
        "kind": column.kind.as_str(),
        "unit": unit_of(column.name),
        "is_nullable": column.is_nullable,
        "doc": column.doc,
    })
}
