//! `weir haproxy`: an HAProxy that is there already, driven over its runtime socket.

pub(crate) mod args;

use serde_json::{Value, json};
use weir_haproxy::{Haproxy, HaproxyError, HaproxyOrder, HaproxyServer};
use weir_hub::haproxy::{haproxy_failure, server};
use weir_process::failure::{EXIT_CONFIG, Failure};
use weir_process::terminal::{Paint, say};

use crate::show::aligned;
use args::{HaproxyAction, HaproxyArgs, OrderOptions};

/// Asks or orders, and prints the answer.
pub(crate) fn run(args: &HaproxyArgs, configured: &[String]) -> Result<(), Failure> {
    let order = |server: &str, order, how: &OrderOptions| {
        let socket = only(how.target.socket.as_ref(), configured)?;
        tell(&socket, order, server, how.dry_run)
    };
    match &args.action {
        HaproxyAction::Show { format, target } => {
            let sockets =
                target.socket.clone().map_or_else(|| configured.to_vec(), |one| vec![one]);
            show(&sockets, format.is_json())
        }
        HaproxyAction::Weight { server, weight, how } => {
            order(server, HaproxyOrder::Weight(*weight), how)
        }
        HaproxyAction::Drain(it) => order(&it.server, HaproxyOrder::Drain, &it.how),
        HaproxyAction::Maint(it) => order(&it.server, HaproxyOrder::Maint, &it.how),
        HaproxyAction::Ready(it) => order(&it.server, HaproxyOrder::Ready, &it.how),
    }
}

fn only(named: Option<&String>, configured: &[String]) -> Result<String, Failure> {
    match (named, configured) {
        (Some(one), _) | (None, [one]) => Ok(one.clone()),
        (None, []) => Err(Failure::new("cannot change a server: no HAProxy is known")
            .hint("--socket PATH, or `haproxy.sockets`")
            .code(EXIT_CONFIG)),
        (None, all) => {
            Err(Failure::new(format!("cannot change a server: {} HAProxys are known", all.len()))
                .hint(format!("choose one: --socket {}", all[0]))
                .code(EXIT_CONFIG))
        }
    }
}

fn failed(error: HaproxyError) -> Failure {
    haproxy_failure(error).code(1)
}

fn tell(socket: &str, order: HaproxyOrder, server: &str, is_dry_run: bool) -> Result<(), Failure> {
    let haproxy = Haproxy::new(socket);
    if is_dry_run {
        let now = haproxy.find(server).map_err(failed)?;
        let wish = match order {
            HaproxyOrder::Weight(weight) => format!("weight {weight}"),
            HaproxyOrder::Drain => "drain".to_owned(),
            HaproxyOrder::Maint => "maint".to_owned(),
            HaproxyOrder::Ready => "ready".to_owned(),
        };
        say(&format!("{server}: {} weight {}, would be told: {wish}", now.state, now.weight));
        return Ok(());
    }
    say(&haproxy.order(server, order).map_err(failed)?.to_string());
    Ok(())
}

fn show(sockets: &[String], is_json: bool) -> Result<(), Failure> {
    let mut answers = Vec::new();
    for socket in sockets {
        answers.push((socket, Haproxy::new(socket).servers().map_err(failed)?));
    }
    if is_json {
        let all = answers.iter().map(|(socket, servers)| {
            json!({"socket": socket, "servers": servers.iter().map(server).collect::<Vec<_>>()})
        });
        say(&Value::Array(all.collect()).to_string());
        return Ok(());
    }
    let texts = answers.iter().map(|(socket, servers)| match answers.len() {
        1 => text(servers),
        _ => format!("{socket}\n{}", text(servers)),
    });
    say(&texts.collect::<Vec<_>>().join("\n\n"));
    Ok(())
}

fn text(servers: &[HaproxyServer]) -> String {
    let head = [
        "SERVER", "ADDRESS", "STATE", "WEIGHT", "SESSIONS", "QUEUED", "TOTAL", "FAILURES", "CHECK",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(servers.iter().map(|one| {
        [
            format!("{}/{}", one.backend, one.server),
            or_dash(&one.address),
            one.state.clone(),
            one.weight.to_string(),
            one.sessions.to_string(),
            one.queued.to_string(),
            one.sessions_total.to_string(),
            one.failures_total.to_string(),
            or_dash(&one.check),
        ]
    }));
    aligned(rows.iter().map(|row| row.each_ref().map(String::as_str)), Paint::for_stdout())
}

fn or_dash(text: &Option<String>) -> String {
    text.clone().unwrap_or_else(|| "-".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_goes_to_the_only_haproxy_or_to_the_one_that_is_named() {
        let two = ["/a".to_owned(), "/b".to_owned()];
        assert_eq!(only(None, &two[..1]).expect("the only one"), "/a");
        assert_eq!(only(Some(&two[1]), &two[..1]).expect("it is named"), "/b");
        assert!(only(None, &two).expect_err("which").to_string().contains("--socket /a"));
        assert!(only(None, &[]).expect_err("none").to_string().contains("haproxy.sockets"));
    }
}
