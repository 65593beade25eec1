//! From a finding to the host and the parameters of a repair.
//!
//! A placeholder is a whole value, `{COLUMN}`: the column of the finding's key, else one on which
//! all rows of its evidence agree. What is missing or ambiguous refuses the repair.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::facts::HealFacts;
use super::policy::HealEntry;
use crate::Finding;

/// Longest value of a parameter, in bytes.
const VALUE_BYTES_MAX: usize = 256;

/// Name of the placeholder of the finding's own host.
const HOST: &str = "host";

/// The host that an entry repairs for a finding.
pub(crate) fn target_host(
    entry: &HealEntry,
    finding: &Finding,
    facts: &HealFacts<'_>,
) -> Result<String, String> {
    let name = placeholder(&entry.on).unwrap_or(HOST);
    if name == HOST {
        return match finding.host.as_str() {
            "" => Err("the finding concerns more than one host".to_owned()),
            host => Ok(host.to_owned()),
        };
    }
    let value = column(finding, name)?;
    let address = address_of(&value);
    if is_loopback(address) {
        return match finding.host.as_str() {
            "" => Err(format!("`{value}` is local to a host that is unknown")),
            host => Ok(host.to_owned()),
        };
    }
    if facts.hosts.contains_key(address) {
        return Ok(address.to_owned());
    }
    let owner = facts.addresses.get(address);
    owner.cloned().ok_or_else(|| format!("`{value}` is an address of no known host, or of several"))
}

/// The parameters of a repair for a finding.
pub(crate) fn parameters(
    entry: &HealEntry,
    finding: &Finding,
) -> Result<BTreeMap<String, String>, String> {
    let mut values = BTreeMap::new();
    for (name, text) in &entry.params {
        let value = match placeholder(text) {
            Some(HOST) => finding.host.clone(),
            Some(column_name) => column(finding, column_name)?,
            None => text.clone(),
        };
        check_value(&value).map_err(|why| format!("parameter `{name}` {why}"))?;
        values.insert(name.clone(), value);
    }
    Ok(values)
}

/// The name in `{name}`, if a text is a placeholder.
pub(crate) fn placeholder(text: &str) -> Option<&str> {
    let name = text.strip_prefix('{')?.strip_suffix('}')?;
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name.then_some(name)
}

/// What is wrong with a value, if anything: it becomes an argument of a program that root runs.
pub(crate) fn check_value(value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Err("is empty".to_owned());
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(format!("has more than {VALUE_BYTES_MAX} bytes"));
    }
    if value.starts_with('-') {
        return Err("begins with `-`, as an option does".to_owned());
    }
    if !value.bytes().all(is_plain) {
        return Err("has other characters than letters, digits and `._:@/+,=%-`".to_owned());
    }
    if value.split('/').any(|part| part == "..") {
        return Err("has a `..`".to_owned());
    }
    Ok(())
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._:@/+,=%-".contains(&byte)
}

/// A column of a finding: of its key, else of its evidence if all rows agree.
fn column(finding: &Finding, name: &str) -> Result<String, String> {
    let key: Value = serde_json::from_str(&finding.key).unwrap_or_default();
    if let Some(value) = key.get(name).and_then(plain) {
        return Ok(value);
    }
    let rows: Vec<Value> = serde_json::from_str(&finding.evidence).unwrap_or_default();
    let values: BTreeSet<Option<String>> =
        rows.iter().map(|row| row.get(name).and_then(plain)).collect();
    let mut values = values.into_iter();
    match (values.next(), values.next()) {
        (Some(Some(value)), None) => Ok(value),
        (Some(_), Some(_)) => Err(format!("the finding has several values of `{name}`")),
        _ => Err(format!("the finding has no value of `{name}`")),
    }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => number.as_i64().map(|number| number.to_string()),
        _ => None,
    }
}

/// The address of `10.0.0.7:8080`, `[2001:db8::7]:8080` or `web3:8080`.
fn address_of(text: &str) -> &str {
    if let Some((address, _)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address;
    }
    match text.rsplit_once(':') {
        Some((address, port))
            if !address.contains(':') && port.bytes().all(|b| b.is_ascii_digit()) =>
        {
            address
        }
        _ => text,
    }
}

fn is_loopback(address: &str) -> bool {
    let is_ip = address.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    is_ip || address == "localhost" || address.starts_with("unix")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_whole_values() {
        assert_eq!(placeholder("{unit}"), Some("unit"));
        for text in ["unit", "{}", "a{unit}", "{unit}.service", "{a}{b}", "{a b}"] {
            assert_eq!(placeholder(text), None, "{text}");
        }
    }

    #[test]
    fn values_that_a_program_could_misread_are_refused() {
        for text in ["shop.service", "php8.2-fpm.service", "/srv/log", "10.0.0.7:80", "a@b"] {
            assert_eq!(check_value(text), Ok(()), "{text}");
        }
        let long = "x".repeat(257);
        for text in
            ["", "-rf", "--now", "a b", "a;b", "$(id)", "a\nb", "a\0", "/a/../b", "ä", &long]
        {
            assert!(check_value(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_lose_their_port() {
        for (text, address) in [
            ("10.0.0.7:8080", "10.0.0.7"),
            ("[2001:db8::7]:8080", "2001:db8::7"),
            ("2001:db8::7", "2001:db8::7"),
            ("web3:8080", "web3"),
            ("web3", "web3"),
            ("unix:/run/app.sock", "unix:/run/app.sock"),
        ] {
            assert_eq!(address_of(text), address);
        }
        assert!(is_loopback("127.0.0.1") && is_loopback("::1") && is_loopback("unix:/run/a"));
        assert!(!is_loopback("10.0.0.1"));
    }
}
