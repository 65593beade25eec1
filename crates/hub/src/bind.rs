//! Binding an address: refused when others can reach it and could read logins and rows on the way,
//! with the owner of a port that is taken.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use weir_agent_core::client::is_loopback;
use weir_process::failure::{EXIT_CONFIG, Failure};

use crate::port_owner;

/// Binds the address, refusing what would show logins and rows of visitors on the way, unless
/// `is_closed` says that it does not. `flag` is what names another.
pub(crate) fn listen(text: &str, is_closed: bool, flag: &str) -> Result<TcpListener, Failure> {
    let address =
        text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next()).ok_or_else(
            || {
                Failure::new(format!("cannot listen on `{text}`: not an address and a port"))
                    .hint("write it as 127.0.0.1:4770 or [::1]:4770")
                    .code(EXIT_CONFIG)
            },
        )?;
    if !is_loopback(address) && !is_closed {
        return Err(refused_in_clear(address));
    }
    let bound = TcpListener::bind(address).and_then(|socket| {
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    bound.map_err(|error| cannot_listen(address, &error, flag))
}

fn refused_in_clear(address: SocketAddr) -> Failure {
    Failure::new(format!(
        "cannot listen on `{address}`: other machines reach it, and the login could be read on the way"
    ))
    .hint(
        "name a certificate in weir.toml:\n  \
         [api]\n  tls_certificate_file = \"/etc/weir/cert.pem\"\n  tls_key_file = \"/etc/weir/key.pem\"\n\
         or, in a network of your own or behind a proxy that speaks TLS:\n  \
         [api]\n  plain_http = true",
    )
    .code(EXIT_CONFIG)
}

fn cannot_listen(address: SocketAddr, error: &std::io::Error, flag: &str) -> Failure {
    let failure = Failure::new(format!("cannot listen on `{address}`: {error}"));
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            let owner = port_owner::find(address.port());
            let owner = owner.unwrap_or_else(|| "another program".into());
            let place =
                if flag == "--page" { ", or take the place of an edge: --replace" } else { "" };
            failure.hint(format!(
                "{owner} listens there; end it, or take another port: {flag} 127.0.0.1:0{place}"
            ))
        }
        std::io::ErrorKind::PermissionDenied => failure.hint("ports below 1024 need root"),
        _ => failure.hint("the address must be one of this machine's own: `ip address`"),
    }
}
