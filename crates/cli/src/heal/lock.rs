//! `weir heal lock`, `unlock` and `locks`: repairs wait for a deployment.

use serde_json::{Value, json};
use weir_process::failure::{EXIT_USAGE, Failure};
use weir_process::terminal::{say, say_json};
use weir_tables::parse_whole_seconds;

use super::TIMEOUT;
use super::args::LockScope;
use crate::client::Client;
use crate::id_prefix::{IdList, whole_id};

/// A lock that is wanted.
pub(super) struct WantedLock<'a> {
    pub(super) scope: &'a LockScope,
    pub(super) length: &'a str,
    pub(super) reason: &'a str,
    pub(super) by: Option<&'a str>,
}

/// Adds a lock.
pub(super) fn lock(client: &Client, wanted: &WantedLock<'_>) -> Result<(), Failure> {
    let WantedLock { scope, length, reason, by } = *wanted;
    let seconds = parse_whole_seconds(length).map_err(|error| {
        Failure::new(format!("cannot use `--for {length}`: {error}"))
            .hint("write it as 90s, 30m or 2h")
            .code(EXIT_USAGE)
    })?;
    let body = json!({
        "role": scope.role.as_deref().unwrap_or_default(),
        "host": scope.host.as_deref().unwrap_or_default(),
        "seconds": seconds,
        "reason": reason,
        "by": by,
    });
    client.post_json("/api/heal/locks", &body)?;
    say(&format!("repairs of {} are locked for {length}", scope.text()));
    Ok(())
}

/// Ends a lock, or all of a scope.
pub(super) fn unlock(
    client: &Client,
    (id, scope): (Option<&str>, &LockScope),
    by: Option<&str>,
) -> Result<(), Failure> {
    let all = held(client)?;
    let all = all.as_array().map_or(&[][..], Vec::as_slice);
    let ids: Vec<String> = match id {
        Some(id) => {
            let (field, noun, lists) = ("lock_id", "lock", "weir heal locks");
            vec![whole_id(&IdList { rows: all, field, noun, lists }, id, "unlock")?]
        }
        None => all.iter().filter(|lock| scope.is_of(lock)).filter_map(id_of).collect(),
    };
    if ids.is_empty() {
        if scope.role.is_none() && scope.host.is_none() {
            return Err(Failure::new("cannot unlock: name a lock, a role or a host")
                .hint("`weir heal unlock --role web`; `weir heal locks` lists them")
                .code(EXIT_USAGE));
        }
        return Err(Failure::new(format!("cannot unlock {}: no lock holds", scope.text()))
            .hint("`weir heal locks` lists them"));
    }
    for id in ids {
        client.post_json(&format!("/api/heal/locks/{id}/end"), &json!({"by": by}))?;
        say(&format!("lock {id} ended"));
    }
    Ok(())
}

/// Lists locks.
pub(super) fn locks(client: &Client, is_json: bool) -> Result<(), Failure> {
    let all = held(client)?;
    if is_json {
        say_json(&serde_json::to_string_pretty(&all).expect("what was parsed can be printed"));
        return Ok(());
    }
    let all = all.as_array().map_or(&[][..], Vec::as_slice);
    for lock in all {
        let word = |name: &str| lock[name].as_str().unwrap_or_default();
        let scope = match word("role") {
            "" => word("host").to_owned(),
            role => format!("role {role}"),
        };
        let (id, until, by) = (word("lock_id"), word("until_ts"), word("by"));
        say(&format!("{id}  until {until}  {scope}  {by}: {}", word("reason")));
    }
    if all.is_empty() {
        say("no locks");
    }
    Ok(())
}

fn held(client: &Client) -> Result<Value, Failure> {
    client.get_json("/api/heal/locks", TIMEOUT)
}

fn id_of(lock: &Value) -> Option<String> {
    lock["lock_id"].as_str().map(str::to_owned)
}

impl LockScope {
    fn text(&self) -> String {
        match (&self.role, &self.host) {
            (Some(role), _) => format!("role {role}"),
            (None, Some(host)) => host.clone(),
            (None, None) => "nothing".to_owned(),
        }
    }

    fn is_of(&self, lock: &Value) -> bool {
        match (&self.role, &self.host) {
            (Some(role), _) => lock["role"] == **role,
            (None, Some(host)) => lock["host"] == **host,
            (None, None) => false,
        }
    }
}
