//! The differences between two settings, by configuration key.

use std::fmt::Display;
use std::time::Duration;

use crate::acme::settings::{AcmeNames, AcmeSettings};
use crate::settings::listener::ListenerSettings;
use crate::settings::{CheckKind, CheckSettings, Limits, Settings, UpstreamSettings};

impl Settings {
    /// What changes if `new` replaces these settings: one line per change, with the keys of section
    /// `[edge]`.
    pub fn differences(&self, new: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        list(&mut lines, &self.listeners, &new.listeners, listener);
        list(&mut lines, &self.backends, &new.backends, |backend| format!("backend {backend}"));
        list(&mut lines, &self.routes, &new.routes, |route| format!("route {route}"));
        list(&mut lines, &self.trusted_proxies, &new.trusted_proxies, |network| {
            format!("trusted_proxy {network}")
        });
        list(&mut lines, &self.certificates, &new.certificates, |files| {
            format!("certificate {}", files.certificate.display())
        });
        list(
            &mut lines,
            &self.limits.listener_idle,
            &new.limits.listener_idle,
            |(address, idle)| format!("listener_idle_seconds {address}={}", idle.as_secs()),
        );
        list(&mut lines, &self.pool_idle, &new.pool_idle, |(pool, idle)| {
            format!("pool_idle_seconds {pool}={}", idle.as_secs())
        });
        list(&mut lines, &self.pool_body, &new.pool_body, |(pool, body)| {
            format!("pool_body_seconds {pool}={}", body.as_secs())
        });
        for ((key, old), (_, new)) in values(self).into_iter().zip(values(new)) {
            if old != new {
                lines.extend([format!("- {key} {old}"), format!("+ {key} {new}")]);
            }
        }
        lines
    }
}

fn list<T: PartialEq>(lines: &mut Vec<String>, old: &[T], new: &[T], name: impl Fn(&T) -> String) {
    lines.extend(old.iter().filter(|one| !new.contains(one)).map(|one| format!("- {}", name(one))));
    lines.extend(new.iter().filter(|one| !old.contains(one)).map(|one| format!("+ {}", name(one))));
}

fn listener(listener: &ListenerSettings) -> String {
    let kinds = [
        (listener.is_tls, " tls"),
        (listener.is_h2c, " h2c"),
        (listener.has_proxy_header, " proxy-header"),
    ];
    let kinds: String = kinds.iter().filter(|(is_so, _)| *is_so).map(|(_, kind)| *kind).collect();
    let networks: String =
        listener.proxy_networks.iter().map(|network| format!(" from {network}")).collect();
    format!("listen {} backlog {}{kinds}{networks}", listener.address, listener.backlog)
}

/// All keys with a single value, in a fixed order.
fn values(settings: &Settings) -> Vec<(&'static str, String)> {
    let mut all = of_clients(settings);
    all.extend(of_backends(settings));
    all.extend(of_checks(settings.check.as_ref()));
    all.extend(of_acme(settings.acme.as_ref()));
    all.extend([
        ("beacon", or_none(settings.beacon.as_ref())),
        ("record_one_of", settings.record_one_of.to_string()),
        ("resolve_seconds", seconds(settings.resolve)),
        ("threads (at the next start)", settings.threads.to_string()),
    ]);
    all
}

fn of_clients(settings: &Settings) -> Vec<(&'static str, String)> {
    // Destructure, so that a new limit cannot be forgotten; `listener_idle` is handled as a list.
    let Limits {
        connections,
        address_connections,
        connection_requests,
        head_bytes,
        headers,
        body_bytes,
        body,
        handshake,
        head,
        idle,
        listener_idle: _,
        client_pause,
        half_closed,
        tunnel_idle,
    } = &settings.limits;
    vec![
        ("connections", connections.to_string()),
        ("address_connections", address_connections.to_string()),
        ("connection_requests", connection_requests.to_string()),
        ("head_bytes", head_bytes.to_string()),
        ("headers", headers.to_string()),
        ("body_bytes", body_bytes.to_string()),
        ("body_seconds", seconds(*body)),
        ("handshake_seconds", seconds(*handshake)),
        ("head_seconds", seconds(*head)),
        ("idle_seconds", seconds(*idle)),
        ("client_pause_seconds", seconds(*client_pause)),
        ("half_closed_seconds", seconds(*half_closed)),
        ("tunnel_idle_seconds", seconds(*tunnel_idle)),
    ]
}

fn of_backends(settings: &Settings) -> Vec<(&'static str, String)> {
    let UpstreamSettings {
        connect,
        answer,
        idle,
        in_flight,
        queue,
        queue_wait,
        retry_percent,
        failures,
        ejection,
        stall,
        stall_late,
        slow_start,
        panic_percent,
        proxy_header,
    } = &settings.upstream;
    let tls = &settings.backend_tls;
    vec![
        ("backend_ca_file", tls.authorities.display().to_string()),
        (
            "backend_certificate_file",
            or_none(tls.certificate.as_ref().map(|files| files.certificate.display())),
        ),
        ("backend_key_file", or_none(tls.certificate.as_ref().map(|files| files.key.display()))),
        ("balance", settings.balance.to_string()),
        ("zone", or_none(settings.zone.as_ref())),
        ("connect_milliseconds", milliseconds(*connect)),
        ("answer_seconds", seconds(*answer)),
        ("upstream_idle_seconds", seconds(*idle)),
        ("in_flight", in_flight.to_string()),
        ("queue", queue.to_string()),
        ("queue_milliseconds", milliseconds(*queue_wait)),
        ("retry_percent", retry_percent.to_string()),
        ("failures", failures.to_string()),
        ("ejection_seconds", seconds(*ejection)),
        ("stall_milliseconds", milliseconds(*stall)),
        ("stall_late_seconds", seconds(*stall_late)),
        ("slow_start_seconds", seconds(*slow_start)),
        ("panic_percent", panic_percent.to_string()),
        ("send_proxy_header", proxy_header.to_string()),
    ]
}

fn of_checks(check: Option<&CheckSettings>) -> Vec<(&'static str, String)> {
    let kind = check.map(|check| match &check.kind {
        CheckKind::Connect => "connect",
        CheckKind::Ask(path) => path.as_str(),
    });
    vec![
        ("check", or_none(kind)),
        ("check_milliseconds", or_none(check.map(|check| milliseconds(check.every)))),
        ("check_rise", or_none(check.map(|check| check.rise))),
        ("check_fall", or_none(check.map(|check| check.fall))),
    ]
}

fn of_acme(acme: Option<&AcmeSettings>) -> Vec<(&'static str, String)> {
    let names = acme.map(|acme| {
        let names: Vec<String> = acme.certificates.iter().map(AcmeNames::text).collect();
        names.join(", ")
    });
    vec![
        ("acme_names", or_none(names)),
        ("acme_directory", or_none(acme.map(|acme| &acme.directory.url))),
        ("acme_contact", or_none(acme.map(|acme| acme.contact.join(" ")))),
        ("acme_dir", or_none(acme.map(|acme| acme.dir.display()))),
        ("acme_ca_file", or_none(acme.map(|acme| acme.authorities.display()))),
        ("acme_challenge", or_none(acme.map(|acme| acme.challenge))),
    ]
}

fn seconds(span: Duration) -> String {
    span.as_secs().to_string()
}

fn milliseconds(span: Duration) -> String {
    span.as_millis().to_string()
}

fn or_none<T: Display>(value: Option<T>) -> String {
    value.map_or_else(|| "(none)".into(), |value| value.to_string())
}
