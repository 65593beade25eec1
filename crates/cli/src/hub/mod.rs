//! `weir hub invite`, `agents` and `revoke`: who belongs to the fleet.
//!
//! The hub's commands work on files of its data directory, whether it runs or not; a running hub
//! sees them at once.

pub(crate) mod args;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use weir_agent_core::join::link_failure;
use weir_config::Values;
use weir_hub::fleet::link_dir;
use weir_link::{Agent, Authority, Invitation, JoinToken, Registry};
use weir_process::clock::SystemClock;
use weir_process::failure::{EXIT_USAGE, Failure};
use weir_process::terminal::{complain, say};
use weir_tables::{Clock, parse_duration};

use crate::hub::args::{HubAction, InviteArgs};

/// A list of who is connected that is older than this is of a hub that was killed.
const LIST_AGE: Duration = Duration::from_secs(30);
/// Longest life of an invitation.
const INVITED_FOR: Duration = Duration::from_secs(30 * 86_400);

/// Runs one of the hub's commands.
pub(crate) fn run(values: &Values, action: &HubAction) -> Result<(), Failure> {
    let dir = link_dir(values);
    match action {
        HubAction::Invite(args) => invite(values, &dir, args),
        HubAction::Agents { .. } => agents(&dir),
        HubAction::Revoke { name, .. } => {
            let agent =
                Registry::new(&dir).revoke(name, SystemClock.now()).map_err(link_failure)?;
            say(&format!(
                "the agent `{name}` is revoked since {}; a running hub has cut it off within a second",
                agent.revoked.unwrap_or_default()
            ));
            Ok(())
        }
    }
}

fn invite(values: &Values, dir: &Path, args: &InviteArgs) -> Result<(), Failure> {
    let (now, span) = (SystemClock.now(), span(&args.r#for)?);
    let addresses = addresses(values, dir, &args.address)?;
    let authority = Authority::open(dir, now).map_err(link_failure)?;
    let invitation = Invitation { expires: now + span, name: args.name.clone() };
    let (invite, secret) = Registry::new(dir).invite(&invitation, now).map_err(link_failure)?;
    let token = JoinToken {
        expires: invitation.expires,
        invite,
        secret,
        authority: authority.fingerprint(),
        addresses: addresses.clone(),
    };
    complain(&format!(
        "one agent can join until {} by way of {}; on its host:\n  weir agent join TOKEN",
        invitation.expires,
        addresses.join(", "),
    ));
    say(&token.encode());
    Ok(())
}

/// `90s`, `15m`, `1h`, `7d`.
fn span(text: &str) -> Result<Duration, Failure> {
    let bad = || {
        Failure::new(format!("cannot invite for `{text}`: not a duration of at most 30 days"))
            .hint("write it as 90s, 15m, 1h or 7d")
            .code(EXIT_USAGE)
    };
    let span = parse_duration(text).map_err(|_| bad())?;
    if span.is_zero() || span > INVITED_FOR { Err(bad()) } else { Ok(span) }
}

/// Where agents shall find the hub: as told, else as configured, else what can be known of the
/// address it listens on.
fn addresses(values: &Values, dir: &Path, told: &[String]) -> Result<Vec<String>, Failure> {
    let given = if told.is_empty() { &values.link.addresses } else { told };
    let listening = std::fs::read_to_string(dir.join("address")).unwrap_or_default();
    let listening = listening.trim().parse().or_else(|_| values.link.listen.parse::<SocketAddr>());
    let port = listening.as_ref().map_or(4771, SocketAddr::port);
    let addresses: Vec<String> = match listening {
        _ if !given.is_empty() => given.iter().map(|address| with_port(address, port)).collect(),
        Ok(address) if !address.ip().is_unspecified() => vec![address.to_string()],
        _ => vec![with_port(&weir_config::place::host_name(), port)],
    };
    match addresses.iter().find(|address| address.len() > 255) {
        Some(long) => Err(Failure::new(format!("cannot use `{long}`: it is too long"))),
        None if addresses.len() > 16 => Err(Failure::new("cannot name more than 16 addresses")),
        None => Ok(addresses),
    }
}

fn with_port(address: &str, port: u16) -> String {
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
        Ok(IpAddr::V4(ip)) => format!("{ip}:{port}"),
        Err(_) if address.rsplit_once(':').is_some_and(|(_, p)| p.parse::<u16>().is_ok()) => {
            address.to_owned()
        }
        Err(_) => format!("{address}:{port}"),
    }
}

fn agents(dir: &Path) -> Result<(), Failure> {
    let agents = Registry::new(dir).agents().map_err(link_failure)?;
    if agents.is_empty() {
        say("no agent has joined; `weir hub invite` makes a token for the first");
        return Ok(());
    }
    let connected = connected(&dir.join("connected"));
    let width = agents.iter().map(|agent| agent.name.len()).max().unwrap_or_default();
    let mut out = String::new();
    for agent in &agents {
        out += &format!(
            "{:width$}  joined {}  {}\n",
            agent.name,
            agent.joined,
            state(agent, &connected)
        );
    }
    say(out.trim_end());
    Ok(())
}

fn state(agent: &Agent, connected: &str) -> String {
    if let Some(at) = agent.revoked {
        return format!("revoked {at}");
    }
    let line = connected.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    match line.into_iter().find(|fields| fields.first() == Some(&agent.name.as_str())) {
        Some(fields) if fields.len() == 5 => {
            format!("connected from {} since {} ({}{})", fields[1], fields[2], fields[3], fields[4])
        }
        _ => "not connected".to_owned(),
    }
}

/// Empty when no hub runs.
fn connected(path: &Path) -> String {
    let age = std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let age = age.and_then(|at| at.elapsed().ok());
    if age.is_some_and(|age| age < LIST_AGE) {
        return std::fs::read_to_string(path).unwrap_or_default();
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{span, with_port};

    #[test]
    fn spans_have_a_unit_and_an_end() {
        assert_eq!(seconds("90s"), Some(90));
        assert_eq!(seconds("15m"), Some(900));
        assert_eq!(seconds("1h"), Some(3600));
        assert_eq!(seconds("30d"), Some(30 * 86_400));
        assert_eq!(seconds("1.5h"), Some(5400));
        for bad in ["", "1", "h", "0s", "31d", "-1h", "1y", "99999999999999999999d", "1é"] {
            assert!(span(bad).is_err(), "{bad}");
        }
        assert!(span("1h").expect("a span") == Duration::from_secs(3600));
    }

    fn seconds(text: &str) -> Option<u64> {
        span(text).ok().map(|span| span.as_secs())
    }

    #[test]
    fn addresses_without_a_port_get_the_hubs() {
        assert_eq!(with_port("hub.example.net", 4771), "hub.example.net:4771");
        assert_eq!(with_port("hub.example.net:80", 4771), "hub.example.net:80");
        assert_eq!(with_port("10.0.0.5", 4771), "10.0.0.5:4771");
        assert_eq!(with_port("2001:db8::1", 4771), "[2001:db8::1]:4771");
        assert_eq!(with_port("[2001:db8::1]:80", 4771), "[2001:db8::1]:80");
    }
}
