//! Binding the page's address: refused without a login when others can reach it, with the owner of a port that is taken.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use weir_agent_core::client::is_loopback;
use weir_process::failure::{EXIT_CONFIG, Failure};

use crate::port_owner;

/// Binds the address, refusing what would show rows of visitors to everybody.
/// `flag` is what names another.
pub(crate) fn listen(text: &str, has_login: bool, flag: &str) -> Result<TcpListener, Failure> {
    let address =
        text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next()).ok_or_else(
            || {
                Failure::new(format!("cannot listen on `{text}`: not an address and a port"))
                    .hint("write it as 127.0.0.1:4770 or [::1]:4770")
                    .code(EXIT_CONFIG)
            },
        )?;
    if !is_loopback(address) && !has_login {
        return Err(refused_without_login(address));
    }
    let bound = TcpListener::bind(address).and_then(|socket| {
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    bound.map_err(|error| cannot_listen(address, &error, flag))
}

fn refused_without_login(address: SocketAddr) -> Failure {
    Failure::new(format!(
        "cannot listen on `{address}`: it can be reached from other machines and no login is configured"
    ))
    .hint(
        "make a login and name it in weir.toml:\n  \
         head -c 24 /dev/urandom | base64 > /etc/weir/token && chmod 600 /etc/weir/token\n  \
         [api]\n  token_file = \"/etc/weir/token\"",
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
