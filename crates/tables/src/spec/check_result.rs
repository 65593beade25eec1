//! `check_result`: results of checks: plugins, probes from outside, and applications' own health.

table! {
    /// Results of checks: plugins of Nagios, probes of targets from outside, and checks that
    /// applications report about themselves.
    CheckResult, CheckResultRows = "check_result";
    grain: "one row per run of a check; of a health digest one for its summary and one per check, unchanged ones once a minute";
    source: "plugins (exit code, performance data), HTTP, TCP, TLS, DNS, ICMP, health digests of applications, passive results";
    sort: [host, kind, check, ts];
    1 ts: Time = "When the check ended.";
    2 host: Text = "The host that ran the check, or that the passive result is about.";
    3 check: Text = "The check's name; in a health digest that of the application's check (`db`, `broker/us1`), `health` for its summary.";
    4 kind: Text = "digest, plugin, passive, http, tcp, tls, dns or icmp.";
    5 target: Text = "The checked URL, address or name; empty for plugins.";
    6 service: OptText = "The service that the check belongs to; NULL when neither the configuration nor the digest names one.";
    7 status: Text = "ok, warn, critical or unknown (the check itself could not be done).";
    8 scope: OptText = "`self` or `dependency`, as an application's check states it; NULL where it states nothing.";
    9 observed_value: OptFloat = "The measured value: the first figure of a plugin, the status code of HTTP, the days that a certificate is valid; NULL when nothing was measured.";
    10 observed_unit: OptText = "The value's unit as the source writes it; NULL when it has none.";
    11 threshold: OptText = "The bound that applies to the value; NULL when none is known.";
    12 output: OptText = "What the check reports in one line, why it failed; NULL when it reported nothing.";
    13 duration_seconds: OptFloat = "How long the check took; NULL for passive results and for checks inside a health digest.";
    14 zone: OptText = "Zone of the host that ran the check (`collect.zone`); NULL when it is not configured.";
    15 expires_ts: OptTime = "By then the next result should have arrived; NULL when none is expected at a fixed time.";
    16 perfdata: Attrs = "Further figures of a plugin: label to value, unit and bounds as the plugin wrote them.";
}
