//! Settings of the intake for passive results of checks: encryption of NSCA, and which sender may report about what.

use weir_config::Values;
use weir_config::place::read_secret;
use weir_intake::{CheckName, CheckRules, Intake, NscaCipher, NscaKey};
use weir_process::failure::{EXIT_CONFIG, Failure};
use weir_rules::{Cell, rows_of};
use weir_store::{Query, QueryLimits, Store};
use weir_tables::IpNetwork;

use super::REMEMBER;

/// The newest results of each check, from which its rhythm is restored.
const RESULTS: &str = "select ts, host, check from (select ts, host, check, \
    row_number() over (partition by host, check order by ts desc) as place from check_result \
    where kind = 'passive' and ts > now() - interval '5 days') as newest where place <= 17 order by ts";
const RESULTS_MAX: usize = 500_000;

/// Encryption and rules, read before anything is served.
#[derive(Clone, Debug, Default)]
pub(super) struct CheckSettings {
    pub(super) nsca: Option<NscaKey>,
    pub(super) rules: CheckRules,
}

/// Reads the settings.
///
/// # Errors
/// What cannot be used.
pub(super) fn settings(values: &Values) -> Result<CheckSettings, Failure> {
    let intake = &values.intake;
    let nsca = if intake.nsca.is_empty() { None } else { Some(nsca_key(values)?) };
    let speakers = intake.check_hosts.iter().map(|entry| speaker(entry));
    let ttl = i64::try_from(intake.check_ttl_seconds).unwrap_or(i64::MAX);
    let rules = CheckRules {
        speakers: speakers.collect::<Result<_, _>>()?,
        ttl_seconds: Some(ttl).filter(|ttl| *ttl > 0),
    };
    Ok(CheckSettings { nsca, rules })
}

fn nsca_key(values: &Values) -> Result<NscaKey, Failure> {
    let intake = &values.intake;
    let word = intake.nsca_encryption.trim();
    let cipher = NscaCipher::parse(word).ok_or_else(|| {
        Failure::new(format!(
            "cannot use `intake.nsca_encryption`: there is no encryption `{word}`"
        ))
        .hint("write none, xor or aes256: 0, 1 and 14 of `encryption_method` in send_nsca.cfg")
        .code(EXIT_CONFIG)
    })?;
    let password = intake.nsca_password_file.as_deref().map(read_secret).transpose()?;
    match password {
        None if cipher == NscaCipher::Aes256 => {
            Err(Failure::new("cannot listen for NSCA: `intake.nsca_password_file` is not set")
                .hint("write the password of send_nsca.cfg into a file with mode 0600, and name it")
                .code(EXIT_CONFIG))
        }
        password => Ok(NscaKey { cipher, password: password.unwrap_or_default() }),
    }
}

/// `NETWORK: HOST`; IPv6 addresses also contain colons.
fn speaker(entry: &str) -> Result<(IpNetwork, String), Failure> {
    let pair = entry.rsplit_once(':').and_then(|(network, host)| {
        let (network, host) = (IpNetwork::parse(network.trim())?, host.trim());
        (!host.is_empty()).then(|| (network, host.to_owned()))
    });
    pair.ok_or_else(|| {
        let what = format!("cannot read `{entry}` of `intake.check_hosts`: no network and a host");
        Failure::new(what)
            .hint("write it as \"10.0.0.0/8: web*\"; `*` stands for any characters")
            .code(EXIT_CONFIG)
    })
}

/// Restores when checks reported before the start. Without it their rhythms begin with the next results.
pub(super) async fn remember(intake: &Intake, store: &Store) {
    let limits = QueryLimits::of_rule(RESULTS_MAX, REMEMBER);
    match store.query(Query::new(RESULTS).limits(limits)).run().await {
        Ok(result) => {
            let rows = rows_of(&result.batches, limits.rows);
            intake.remember_checks(rows.iter().filter_map(|row| {
                let Some(Cell::Time(ts)) = row.get("ts") else { return None };
                Some((*ts, CheckName { host: row.text("host")?, check: row.text("check")? }))
            }));
        }
        Err(error) => tracing::warn!("cannot restore the rhythms of checks: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speakers_are_a_network_and_a_host() {
        for (entry, host) in [
            ("10.0.0.0/8: web*", "web*"),
            ("192.0.2.7:db1", "db1"),
            ("2001:db8::/32: db*.example", "db*.example"),
        ] {
            assert_eq!(speaker(entry).expect(entry).1, host);
        }
        for bad in ["web1", "10.0.0.0/8", "10.0.0.0/8:", "relay: web1", ""] {
            assert!(speaker(bad).is_err(), "{bad}");
        }
    }
}
