//! IP addresses and networks. An IPv4-mapped IPv6 address (`::ffff:10.1.2.3`) counts as IPv4.

use std::net::IpAddr;

use arrow_schema::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ScalarUDF;
use datafusion::scalar::ScalarValue;
use weir_tables::IpNetwork;

use super::{number_of, of_text, text_of};

/// `ip_in(address, networks)`: whether the address is in one of the comma-separated networks.
pub(super) fn ip_in() -> ScalarUDF {
    of_text("ip_in", vec![DataType::Utf8], |constants| {
        let networks = text_of(constants.first()).map(networks).transpose()?;
        Ok(move |text: &str| {
            let (address, networks) = (address(text)?, networks.as_ref()?);
            Some(networks.iter().any(|network| network.contains(address)))
        })
    })
}

/// `ip_network(address, bits_v4, bits_v6)`: the network with that prefix length around the address,
/// as text.
pub(super) fn ip_network() -> ScalarUDF {
    of_text("ip_network", vec![DataType::Int64, DataType::Int64], |constants| {
        let v4 = bits(constants, 0, 32)?;
        let v6 = bits(constants, 1, 128)?;
        Ok(move |text: &str| {
            let address = address(text)?;
            let network = IpNetwork::around(address, if address.is_ipv4() { v4? } else { v6? })?;
            Some(network.to_string())
        })
    })
}

fn address(text: &str) -> Option<IpAddr> {
    text.parse().ok().map(|address: IpAddr| address.to_canonical())
}

fn networks(text: &str) -> Result<Vec<IpNetwork>> {
    match IpNetwork::parse_each(text.split(',').map(str::trim)) {
        Ok(networks) => Ok(networks),
        Err(part) => {
            exec_err!("ip_in: `{part}` is not a network; write `10.0.0.0/8` or `2001:db8::/32`")
        }
    }
}

fn bits(constants: &[Option<ScalarValue>], place: usize, most: u32) -> Result<Option<u32>> {
    let Some(bits) = number_of(constants.get(place)) else { return Ok(None) };
    match u32::try_from(bits) {
        Ok(bits) if bits <= most => Ok(Some(bits)),
        _ => exec_err!("ip_network: {bits} bits are not between 0 and {most}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{address, networks};

    #[test]
    fn networks_hold_their_addresses() {
        let is_in = |text: &str, list: &str| {
            let address = address(text).expect("an address");
            networks(list).expect("networks").iter().any(|network| network.contains(address))
        };
        assert!(is_in("10.255.0.1", "10.0.0.0/8"));
        assert!(is_in("::ffff:10.1.2.3", "192.168.0.0/16, 10.0.0.0/8"));
        assert!(is_in("2001:db8::1", "2001:db8::/32"));
        assert!(is_in("10.0.0.1", "10.0.0.1"));
        assert!(!is_in("11.0.0.1", "10.0.0.0/8"));
        assert!(networks("10.0.0/8").is_err());
        assert!(address("unix:").is_none());
    }
}
