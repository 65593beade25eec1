//! Faults with little evidence: one slow member, a pause, a quiet site, a log without a line.

use std::time::Duration;

use rustix::process::Signal;

use crate::fault::{Fault, parameter};
use crate::faults::proxy::members;
use crate::pause;
use crate::testbed::{NginxConfig, PROXIED};

/// Members of the pool with a slow one.
const MEMBERS: u64 = 3;

pub(crate) const FAULTS: &[Fault] = &[
    Fault {
        name: "one of three slow",
        rules: &[&["app.slow_outlier"]],
        parameters: &[
            parameter("millis", 1500..=4000, "milliseconds that its slow requests take"),
            parameter("member", 1..=MEMBERS, "which of the three"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            let netns = testbed.server.clone();
            let mut servers = String::new();
            for number in 1..=MEMBERS {
                let address = format!("127.0.0.{number}:9001");
                let slow = testbed.path(&format!("slow{number}"));
                testbed.app_at(&netns, &address, 256, &["--slow-page", &slow])?;
                servers += &format!("server {address} max_fails=0; ");
            }
            let http = format!("upstream app {{ {servers} }}");
            let server = "location / { proxy_pass http://app; }";
            testbed.nginx_with(&NginxConfig { http: &http, server, ..NginxConfig::default() })?;
            // Two pages, so half of the member's requests are slow and the pool's median is not.
            testbed.visitors(12, &["--pages", "2", "--pause-millis", "100"])
        },
        inject: |testbed| {
            let (millis, member) = (testbed.draw("millis"), testbed.draw("member"));
            testbed.put(&format!("slow{member}"), millis)?;
            Ok(None)
        },
    },
    Fault {
        name: "pause of the application",
        rules: &[&["app.brief_stall", "tcp.accept_pause"]],
        parameters: &[
            parameter("millis", 2500..=4500, "milliseconds for which it stands still"),
            parameter("visitors", 6..=20, "visitors"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            testbed.proxied_app(256)?;
            testbed.baseline_seconds = 30;
            let visitors = testbed.draw("visitors");
            testbed.visitors(visitors, &["--pause-millis", "100", "--patience-millis", "15000"])
        },
        inject: |testbed| {
            let millis = testbed.draw("millis");
            testbed.signal("app", Signal::STOP)?;
            pause(Duration::from_millis(millis));
            testbed.signal("app", Signal::CONT)?;
            Ok(None)
        },
    },
    Fault {
        name: "quiet site fails",
        rules: &[&["app.errors_quiet", "app.errors"]],
        parameters: &[
            parameter("percent", 55..=100, "percent of its responses"),
            parameter("millis", 700..=1500, "milliseconds between two requests"),
        ],
        tools: &["nginx"],
        set: |testbed| {
            members(testbed, 1, "")?;
            testbed.baseline_seconds = 30;
            let millis = testbed.draw("millis").to_string();
            testbed.visitors(1, &["--pause-millis", &millis])
        },
        inject: |testbed| {
            let percent = testbed.draw("percent");
            testbed.put("failing1", percent)?;
            Ok(None)
        },
    },
    Fault {
        name: "application answers no request",
        rules: &[&["app.requests_stopped", "app.slow"]],
        parameters: &[parameter("visitors", 6..=20, "visitors")],
        tools: &["nginx"],
        set: |testbed| {
            testbed.app(256, &[])?;
            testbed.nginx(PROXIED)?;
            testbed.baseline_seconds = 30;
            let visitors = testbed.draw("visitors");
            testbed.visitors(visitors, &["--pause-millis", "200", "--patience-millis", "30000"])
        },
        inject: |testbed| {
            testbed.put("delay", 120_000)?;
            Ok(None)
        },
    },
];
