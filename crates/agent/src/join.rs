//! `weir agent join`: makes a key, has a hub sign it, and keeps both.

use std::sync::Arc;

use weir_config::Values;
use weir_link::{Identity, JoinToken, LinkError};
use weir_process::clock::SystemClock;
use weir_process::failure::Failure;
use weir_process::terminal::say;
use weir_tables::{Clock, Micros};

/// An error of the link as a command's failure.
pub fn link_failure(error: LinkError) -> Failure {
    Failure::new(error.message).hint(error.hint.unwrap_or_default())
}

/// Joins the fleet of a token.
pub fn join(values: &Values, token: &str) -> Result<(), Failure> {
    let token = match token {
        // A command line can be read by everybody on the host.
        "-" => std::io::read_to_string(std::io::stdin())
            .map_err(|error| Failure::new(format!("cannot read the token from stdin: {error}")))?,
        token => token.to_owned(),
    };
    let token = JoinToken::decode(&token).map_err(link_failure)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    let dir = &values.agent.dir;
    let joined = weir_link::join(dir, &token, &values.collect.host, &clock);
    let identity: Identity = runtime.block_on(joined).map_err(link_failure)?;
    say(&format!(
        "joined {} as `{}`; the certificate in `{}` is renewed by itself, the next time after {}",
        token.addresses.join(", "),
        identity.name,
        dir.display(),
        renewal(&identity),
    ));
    let (name, host) = (&identity.name, &values.collect.host);
    if name != host {
        say(&format!(
            "the hub takes rows of the host `{name}` from this agent, and `collect.host` is `{host}`: start it with --host {name}, or add \"{name}: {host}\" to `link.speaks_for` on the hub",
        ));
    }
    Ok(())
}

fn renewal(identity: &Identity) -> Micros {
    Micros(identity.not_before.0 + (identity.not_after.0 - identity.not_before.0) / 3 * 2)
}
