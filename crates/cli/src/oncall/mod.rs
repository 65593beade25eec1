//! `weir oncall`: the people on call.

pub(crate) mod args;

use std::time::Duration;

use serde_json::Value;
use weir_process::failure::Failure;
use weir_process::terminal::{say, say_json};

use crate::incidents::args::ListFormat;
use crate::oncall::args::OncallArgs;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the command.
pub(crate) fn run(args: &OncallArgs) -> Result<(), Failure> {
    let mut pairs = form_urlencoded::Serializer::new(String::new());
    for (name, value) in [("rota", &args.rota), ("at", &args.at)] {
        if let Some(value) = value {
            pairs.append_pair(name, value);
        }
    }
    let path = format!("/api/oncall?{}", pairs.finish());
    let mut answer = args.weir.client()?.get_json(&path, TIMEOUT)?;
    let rotas = answer["rotas"].take();
    if args.format == ListFormat::Json {
        say_json(&serde_json::to_string_pretty(&rotas).expect("rotas become JSON"));
        return Ok(());
    }
    let rotas = rotas.as_array().map_or(&[][..], Vec::as_slice);
    for rota in rotas {
        let word = |name: &str| rota[name].as_str().unwrap_or_default();
        let people = rota["people"].as_array().map_or(&[][..], Vec::as_slice);
        let people: Vec<&str> = people.iter().filter_map(Value::as_str).collect();
        let people = if people.is_empty() { "no one".to_owned() } else { people.join(", ") };
        let until = match word("until") {
            "" => String::new(),
            until => format!(" until {until}"),
        };
        say(&format!("{:<16}  {people}{until} ({})", word("rota"), word("why")));
    }
    if rotas.is_empty() {
        say("no rota is configured ([[rotas]], docs/notify.md)");
    }
    Ok(())
}
