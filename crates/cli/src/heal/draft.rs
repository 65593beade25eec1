//! `weir heal draft`: known cures as an action file for the host and a block for weir.toml.
//!
//! A draft is a start: names of units and paths have to be those of the host.

use weir_process::failure::{EXIT_USAGE, Failure};
use weir_rules::RuleSet;
use weir_tables::nearest;

/// A cure that is known for some rules.
struct KnownCure {
    action: &'static str,
    rules: &'static [&'static str],
    /// The action file without `id` and `heals`.
    file: &'static str,
    /// Keys of the block after `rule` and `action`.
    block: &'static str,
}

const RESTART: &str = r#"steps = [
  ["/usr/bin/systemctl", "reset-failed", "{unit}"],   # a unit past its start limit refuses otherwise
  ["/usr/bin/systemctl", "restart", "{unit}"],
]
undo_none = "a restart cannot be taken back"
user = "root"
timeout_seconds = 60
runs_per_hour = 2
cooldown_seconds = 900

[params.unit]
any_of = ["shop.service"]           # the units that may be restarted
"#;

const RELOAD: &str = r#"steps = [
  ["/usr/sbin/nginx", "-t"],         # nothing is reloaded if the configuration is wrong
  ["/usr/bin/systemctl", "reload", "nginx.service"],
]
undo_none = "a reload cannot be taken back"
user = "root"
timeout_seconds = 30
runs_per_hour = 4
cooldown_seconds = 300
"#;

const REOPEN: &str = r#"steps = [["/usr/bin/systemctl", "kill", "--kill-whom=main", "--signal=USR1", "{unit}"]]
undo_none = "log files that were opened stay open"
user = "root"
timeout_seconds = 10
runs_per_hour = 4
cooldown_seconds = 300

[params.unit]
any_of = ["nginx.service"]          # units whose main process opens its logs on SIGUSR1
"#;

const RENEW: &str = r#"steps = [["/usr/bin/systemctl", "start", "certbot.service"]]
undo_none = "the previous certificate stays on disk"
user = "root"
timeout_seconds = 300
runs_per_hour = 1
cooldown_seconds = 43200
"#;

const REPLICA: &str = r#"steps = [["/usr/bin/mysql", "-e", "START REPLICA"]]   # only after errors 1205, 1213, 2003 or 2013
undo = [["/usr/bin/mysql", "-e", "STOP REPLICA"]]
user = "root"
timeout_seconds = 30
runs_per_hour = 1
cooldown_seconds = 3600
"#;

const CURES: &[KnownCure] = &[
    KnownCure {
        action: "restart-unit",
        rules: &["app.fd_limit", "tcp.close_wait_leak", "app.check_failing", "log.ship_lag"],
        file: RESTART,
        block: "params = { unit = \"shop.service\" }\n",
    },
    KnownCure {
        action: "restart-unit",
        rules: &["app.down"],
        file: RESTART,
        block: "on = \"{upstream}\"                   # the host that refuses, not the proxy that reports it\n\
            params = { unit = \"shop.service\" }\n",
    },
    KnownCure {
        action: "reload-proxy",
        rules: &["tls.cert_not_reloaded"],
        file: RELOAD,
        block: "",
    },
    KnownCure {
        action: "reopen-logs",
        rules: &["disk.deleted_but_open", "log.rotated_unfinished"],
        file: REOPEN,
        block: "params = { unit = \"nginx.service\" }\n",
    },
    KnownCure {
        action: "renew-certificate",
        rules: &["tls.cert_expiring", "edge.certificate_failing"],
        file: RENEW,
        block: "",
    },
    KnownCure {
        action: "restart-replica",
        rules: &["mysql.replica_broken"],
        file: REPLICA,
        block: "",
    },
];

/// The draft of a rule's cure.
///
/// # Errors
/// There is no such rule, or no known cure.
pub(crate) fn draft(rule: &str) -> Result<String, Failure> {
    if let Some(cure) = CURES.iter().find(|cure| cure.rules.contains(&rule)) {
        return Ok(cure.text(rule));
    }
    let rules = RuleSet::built_in();
    let known = rules.iter().map(|known| known.id.as_str());
    let Some(known) = rules.iter().find(|known| known.id == rule) else {
        let hint = nearest(rule, known).map_or_else(
            || "`weir rules` lists all rules".to_owned(),
            |near| format!("did you mean `{near}`?"),
        );
        let what = format!("cannot draft a repair for `{rule}`: there is no such rule");
        return Err(Failure::new(what).hint(hint).code(EXIT_USAGE));
    };
    let cures: Vec<&str> = CURES.iter().flat_map(|cure| cure.rules).copied().collect();
    let what = format!("cannot draft a repair for `{rule}` ({}): no cure is known", known.title);
    let hint = format!("there are drafts for {}; the format is in docs/heal.md", cures.join(", "));
    Err(Failure::new(what).hint(hint).code(EXIT_USAGE))
}

impl KnownCure {
    fn text(&self, rule: &str) -> String {
        let Self { action, rules, file, block } = self;
        let heals: Vec<String> = rules.iter().map(|rule| format!("\"{rule}\"")).collect();
        let heals = heals.join(", ");
        format!(
            "# 1. On each host, as root: /etc/weir/actions.d/{action}.toml, mode 0644. Correct what is marked.\n\
             id = \"{action}\"\nceiling = \"ask\"                     # the host has the last word\n\
             heals = [{heals}]\n{file}\n\
             # 2. On each host, as root: weir-act check, then weir-act trust with the key of `weir heal key`.\n\n\
             # 3. On the hub, in weir.toml. It only records until `mode` is suggest, ask or auto.\n\
             # [heal]\n# enabled = true\n#\n# [[heals]]\n# rule = \"{rule}\"\n# action = \"{action}\"\n{}# mode = \"observe\"\n",
            commented(block)
        )
    }
}

fn commented(block: &str) -> String {
    block.lines().map(|line| format!("# {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_draft_is_toml_and_its_rules_exist() {
        let rules = RuleSet::built_in();
        for cure in CURES {
            for rule in cure.rules {
                // A rule of a later release may be named before it is there.
                let is_known = rules.iter().any(|known| known.id == *rule);
                assert!(is_known || *rule == "app.check_failing", "{rule}");
                let text = draft(rule).expect("it is known");
                let file: toml::Table = toml::from_str(&text).expect("an action file");
                assert_eq!(file["id"].as_str(), Some(cure.action));
                let block: Vec<&str> = text
                    .lines()
                    .skip_while(|line| *line != "# [heal]")
                    .map(|line| line.trim_start_matches("# ").trim_start_matches('#'))
                    .collect();
                let block = block.join("\n");
                let config = weir_config::Config::read("weir.toml".as_ref(), &block);
                let config = config.unwrap_or_else(|failure| panic!("{failure}\n{block}"));
                assert_eq!(config.values.heals[0].rule, *rule);
            }
        }
    }

    #[test]
    fn rules_without_a_cure_say_so() {
        let error = draft("disk.slow").expect_err("nothing restarts a disk").to_string();
        assert!(error.contains("no cure is known"), "{error}");
        let error = draft("app.dwn").expect_err("a typo").to_string();
        assert!(error.contains("did you mean `app.down`?"), "{error}");
    }
}
