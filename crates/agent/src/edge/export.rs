//! What an edge is and knows, as JSON: for a clone on another host, and for the weir that takes its
//! place.
//!
//! It holds the keys of session tickets: with them, traffic of resumed sessions can be decrypted.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_config::{KEYS, Values};
use weir_edge::{LearntBackend, LearntState, TicketKey};
use weir_process::failure::Failure;

/// Changes when a reader of before would misunderstand it.
const FORMAT: u32 = 1;

#[derive(Deserialize, Serialize)]
struct EdgeExport {
    format: u32,
    weir: String,
    /// The section `[edge]`, TOML.
    config: String,
    backends: Vec<KnownBackend>,
    ticket_keys: Vec<KnownKey>,
}

#[derive(Deserialize, Serialize)]
struct KnownBackend {
    backend: String,
    latency_seconds: f64,
    keeps_idle_seconds: Option<f64>,
    connections: u32,
}

#[derive(Deserialize, Serialize)]
struct KnownKey {
    name: String,
    secret: String,
    age_seconds: u64,
}

/// The section `[edge]` with the keys that are not as by default.
pub(super) fn config(values: &Values) -> String {
    let defaults = Values::default();
    let mut out = "[edge]\n".to_owned();
    for key in KEYS.iter().filter(|key| key.section == "edge") {
        let value = values.get(key);
        if let Some(value) = value.filter(|value| defaults.get(key).as_ref() != Some(value)) {
            out += &format!("{} = {value}\n", key.name);
        }
    }
    out
}

/// All of it.
pub(super) fn export(values: &Values, learnt: &LearntState) -> Value {
    let export = EdgeExport {
        format: FORMAT,
        weir: env!("CARGO_PKG_VERSION").to_owned(),
        config: config(values),
        backends: learnt
            .backends
            .iter()
            .map(|one: &LearntBackend| KnownBackend {
                backend: one.backend.clone(),
                latency_seconds: one.latency.as_secs_f64(),
                keeps_idle_seconds: one.keeps_idle.map(|span| span.as_secs_f64()),
                connections: one.connections,
            })
            .collect(),
        ticket_keys: learnt
            .ticket_keys
            .iter()
            .map(|one: &TicketKey| KnownKey {
                name: BASE64_STANDARD.encode(one.name),
                secret: BASE64_STANDARD.encode(one.secret),
                age_seconds: one.age.as_secs(),
            })
            .collect(),
    };
    serde_json::to_value(export).expect("texts and numbers become JSON")
}

/// The configuration, and what was learnt.
pub(super) fn import(export: &Value) -> Result<(String, LearntState), Failure> {
    let export: EdgeExport =
        serde_json::from_value(export.clone()).map_err(|error| wrong_export(&error.to_string()))?;
    if export.format != FORMAT {
        return Err(wrong_export(&format!(
            "it is of format {}, this weir reads {FORMAT}",
            export.format
        )));
    }
    let backend = |one: KnownBackend| {
        Some(LearntBackend {
            latency: span(one.latency_seconds)?,
            keeps_idle: match one.keeps_idle_seconds {
                Some(seconds) => Some(span(seconds)?),
                None => None,
            },
            connections: one.connections,
            backend: one.backend,
        })
    };
    let backends: Option<_> = export.backends.into_iter().map(backend).collect();
    let keys: Option<_> = export
        .ticket_keys
        .into_iter()
        .map(|one: KnownKey| {
            Some(TicketKey {
                name: bytes(&one.name)?.try_into().ok()?,
                secret: bytes(&one.secret)?.try_into().ok()?,
                age: Duration::from_secs(one.age_seconds),
            })
        })
        .collect();
    Ok((
        export.config,
        LearntState {
            backends: backends.ok_or_else(|| wrong_export("a time of a backend is no time"))?,
            ticket_keys: keys.ok_or_else(|| wrong_export("a key of tickets is no key"))?,
        },
    ))
}

fn wrong_export(why: &str) -> Failure {
    Failure::new(format!("cannot use the exported configuration: {why}"))
        .hint("it is what `weir edge export` writes, whole and unchanged")
}

fn span(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_exported_is_what_is_imported() {
        let mut values = Values::default();
        values.edge.listen = vec!["127.0.0.1:80".into()];
        values.edge.queue = 7;
        let learnt = LearntState {
            backends: vec![LearntBackend {
                backend: "127.0.0.1:1".into(),
                latency: Duration::from_millis(7),
                keeps_idle: Some(Duration::from_secs(5)),
                connections: 3,
            }],
            ticket_keys: vec![TicketKey {
                name: [1; 16],
                secret: [2; 32],
                age: Duration::from_secs(9),
            }],
        };
        let (config, back) = import(&export(&values, &learnt)).expect("its own");
        assert_eq!(config, "[edge]\nlisten = [\"127.0.0.1:80\"]\nqueue = 7\n");
        assert_eq!(back, learnt);
    }

    #[test]
    fn what_was_changed_is_refused_with_the_reason() {
        let whole = export(&Values::default(), &LearntState::default());
        let with = |name: &str, value: Value| {
            let mut wrong = whole.clone();
            wrong[name] = value;
            import(&wrong).expect_err("it is wrong").to_string()
        };
        assert!(with("format", 2.into()).contains("it is of format 2, this weir reads 1"));
        assert!(with("backends", 1.into()).contains("invalid type"));
        let key = serde_json::json!([{"name": "", "secret": "", "age_seconds": 1}]);
        assert!(with("ticket_keys", key).contains("a key of tickets is no key"));
        let time = serde_json::json!([{"backend": "x", "latency_seconds": -1.0, "connections": 1}]);
        assert!(with("backends", time).contains("a time of a backend is no time"));
    }
}
