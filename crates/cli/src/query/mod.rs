//! `weir query`: one query to the running weir, answered as a table, JSON, NDJSON, CSV, Arrow or
//! Parquet.

pub(crate) mod args;

use std::io::{ErrorKind, IsTerminal, Read};

use serde_json::{Map, Value, json};
use weir_hub::cells::plain;
use weir_process::failure::Failure;
use weir_process::terminal::{
    CleanedParts, Paint, complain, say, say_json, try_write_all, write_all,
};

use crate::client::{Client, OpenResponse, RequestError, unreachable_weir};
use crate::query::args::{QueryArgs, QueryFormat};

/// A cell of a table is cut here; the other formats give it whole.
const MAX_CELL_CHARS: usize = 100;
/// What `explain` answers.
const PLAN_COLUMNS: [&str; 2] = ["plan_type", "plan"];
/// Exit code of a query that was not answered.
const EXIT_QUERY: u8 = 2;

/// Runs the command.
pub(crate) fn run(args: &QueryArgs) -> Result<(), Failure> {
    ask(args).map_err(|failure| failure.code(EXIT_QUERY))
}

fn ask(args: &QueryArgs) -> Result<(), Failure> {
    let client = Client::of(args.url.as_deref(), args.token_file.as_deref())?;
    let sql = if args.sql == "-" { from_stdin()? } else { args.sql.clone() };
    if args.dry_run {
        return forecast(args, &client, &sql);
    }
    let format = match args.format {
        QueryFormat::Csv => "csv",
        QueryFormat::Ndjson => "ndjson",
        QueryFormat::Arrow => "arrow",
        QueryFormat::Parquet => "parquet",
        QueryFormat::Table | QueryFormat::Json => "json",
    };
    if matches!(args.format, QueryFormat::Arrow | QueryFormat::Parquet)
        && std::io::stdout().is_terminal()
    {
        return Err(Failure::new(format!("cannot show {format} on a terminal"))
            .hint("write it to a file: `> FILE`"));
    }
    let path = format!("/api/sql?format={format}");
    let body = json!({"sql": sql, "limit": args.limit});
    let answer = client.open_json(&path, &body);
    let answer = answer.map_err(|error| unreachable_weir(&client, &error))?;
    if answer.status() != 200 {
        return Err(answer.whole().map_err(|error| incomplete(&error))?.failure());
    }
    match args.format {
        QueryFormat::Csv | QueryFormat::Ndjson | QueryFormat::Arrow | QueryFormat::Parquet => {
            return write_answer(answer);
        }
        QueryFormat::Json => say_json(&objects(&read_answer(answer)?)),
        QueryFormat::Table => {
            let answer = read_answer(answer)?;
            say(&table(&answer, Paint::for_stdout()));
            if answer["is_truncated"] == true {
                let shown = answer["row_count"].as_u64().unwrap_or_default();
                complain(&format!("only the first {shown} rows are shown; raise --limit"));
            }
        }
    }
    Ok(())
}

fn read_answer(answer: OpenResponse<'_>) -> Result<Value, Failure> {
    read(&answer.whole().map_err(|error| incomplete(&error))?.body)
}

/// Writes the answer as it arrives. A file that lacks its end must not pass for the answer.
fn write_answer(mut answer: OpenResponse<'_>) -> Result<(), Failure> {
    // Rows hold text of visitors, which acts on terminals.
    let mut shown = std::io::stdout().is_terminal().then(CleanedParts::default);
    while let Some(part) = answer.next_part().map_err(|error| incomplete(&error))? {
        let written = match &mut shown {
            Some(parts) => try_write_all(parts.next(part.as_ref()).as_bytes()),
            None => try_write_all(part.as_ref()),
        };
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(Failure::new(format!("cannot write the answer: {error}"))),
        }
    }
    Ok(())
}

fn incomplete(error: &RequestError) -> Failure {
    Failure::new(format!("the answer is incomplete: {error}"))
        .hint("weir's log has the reason, and `slow_query` if it was a limit")
}

fn forecast(args: &QueryArgs, client: &Client, sql: &str) -> Result<(), Failure> {
    let body = json!({"sql": sql}).to_string();
    let answer = client
        .post("/api/sql/forecast", body.as_bytes())
        .map_err(|error| unreachable_weir(client, &error))?;
    if answer.status != 200 {
        return Err(answer.failure());
    }
    match args.format {
        QueryFormat::Table => say(read(&answer.body)?["text"].as_str().unwrap_or_default()),
        _ => write_all(&answer.body),
    }
    Ok(())
}

fn from_stdin() -> Result<String, Failure> {
    let mut sql = String::new();
    std::io::stdin()
        .read_to_string(&mut sql)
        .map_err(|error| Failure::new(format!("cannot read the query from stdin: {error}")))?;
    Ok(sql)
}

fn read(body: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(body).map_err(|error| {
        Failure::new(format!("cannot read the answer: {error}")).hint("is it a weir?")
    })
}

fn cells(answer: &Value) -> (Vec<&str>, &[Value]) {
    let columns = answer["columns"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names = columns.iter().map(|column| column["name"].as_str().unwrap_or_default()).collect();
    (names, answer["rows"].as_array().map(Vec::as_slice).unwrap_or_default())
}

/// One array of objects, one object a line.
fn objects(answer: &Value) -> String {
    let (names, rows) = cells(answer);
    let lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let values = row.as_array().into_iter().flatten().cloned();
            let pairs = names.iter().map(|name| (*name).to_owned()).zip(values);
            Value::Object(pairs.collect::<Map<_, _>>()).to_string()
        })
        .collect();
    if lines.is_empty() { "[]".to_owned() } else { format!("[\n{}\n]", lines.join(",\n")) }
}

fn table(answer: &Value, paint: Paint) -> String {
    let (names, rows) = cells(answer);
    if names == PLAN_COLUMNS {
        return plan(rows, paint);
    }
    let text: Vec<Vec<String>> =
        rows.iter().map(|row| row.as_array().into_iter().flatten().map(shown).collect()).collect();
    let mut widths: Vec<usize> = names.iter().map(|name| name.chars().count()).collect();
    for row in &text {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let is_number =
        |at: usize| matches!(answer["columns"][at]["kind"].as_str(), Some("integer" | "float"));
    let line = |cells: &[String]| {
        let padded = cells.iter().enumerate().map(|(at, cell)| {
            let pad = " ".repeat(widths[at].saturating_sub(cell.chars().count()));
            if is_number(at) { pad + cell } else { cell.clone() + &pad }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut out = paint.bold(&line(&head)) + "\n";
    for row in &text {
        out += &(line(row) + "\n");
    }
    let elapsed = answer["elapsed_seconds"].as_f64().unwrap_or_default();
    let count = match rows.len() {
        1 => "1 row".to_owned(),
        count => format!("{count} rows"),
    };
    out + &paint.dim(&format!("({count}, {elapsed:.3} s)"))
}

/// A plan is a tree of long lines, which is shown below its name and whole.
fn plan(rows: &[Value], paint: Paint) -> String {
    rows.iter()
        .map(|row: &Value| {
            let name = paint.bold(row[0].as_str().unwrap_or_default());
            let lines = row[1].as_str().unwrap_or_default().lines();
            lines.fold(name, |text, line| format!("{text}\n  {}", without_control(line)))
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// Text comes from logs: what moves a terminal's cursor must not reach it.
fn without_control(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => "NULL".to_owned(),
        other => plain(other).replace(['\n', '\r', '\t'], " "),
    };
    let clean = without_control(&text);
    match clean.char_indices().nth(MAX_CELL_CHARS) {
        Some((at, _)) => format!("{}…", &clean[..at]),
        None => clean,
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;
    use weir_process::terminal::Paint;

    use super::{objects, table};

    #[test]
    fn a_plan_is_shown_whole_and_in_lines() {
        let answer = json!({
            "columns": [{"name": "plan_type", "kind": "text"}, {"name": "plan", "kind": "text"}],
            "rows": [["physical_plan", "SortExec\n  Scan: like '\u{1b}[31m'"], ["reads", "fast: none"]],
        });
        expect![[r#"
            physical_plan
              SortExec
                Scan: like '�[31m'
            reads
              fast: none"#]]
        .assert_eq(&table(&answer, Paint::off()));
    }

    #[test]
    fn an_answer_is_a_table_or_objects() {
        let answer = json!({
            "columns": [{"name": "host", "kind": "text"}, {"name": "n", "kind": "integer"}],
            "rows": [["web1", 7], ["\u{1b}[31m", null]], "elapsed_seconds": 0.0041,
        });
        expect![[r#"
            host      n
            web1      7
            �[31m  NULL
            (2 rows, 0.004 s)"#]]
        .assert_eq(&table(&answer, Paint::off()));
        expect![[r#"
            [
            {"host":"web1","n":7},
            {"host":"\u001b[31m","n":null}
            ]"#]]
        .assert_eq(&objects(&answer));
    }
}
