//! A connection to the PostgreSQL server that holds a cluster's manifest. A broken connection is
//! replaced at the next use.
//!
//! Blocks; not for threads of an async runtime.

use std::sync::Arc;
use std::time::Duration;

use postgres::config::SslMode;
use postgres::{Client, Config, NoTls};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;
use weir_datafile::{ErrorKind, StoreError};

use crate::cluster::ManifestOptions;

/// Timeout for establishing a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Timeout for a server that acknowledges nothing.
const SILENCE: Duration = Duration::from_secs(15);
/// Upper bound for every manifest statement, including lock waits.
const STATEMENT: &str = "SET statement_timeout = '30s'; SET lock_timeout = '15s'; SET idle_in_transaction_session_timeout = '30s'";

/// A PostgreSQL server and its connection.
pub(crate) struct PostgresServer {
    config: Config,
    schema: String,
    tls: Option<MakeRustlsConnect>,
    client: Option<Client>,
}

impl PostgresServer {
    /// Makes a client that connects at the first use.
    ///
    /// # Errors
    /// `Io`: what is wrong with the options.
    pub(crate) fn new(options: &ManifestOptions) -> Result<Self, StoreError> {
        let mut config: Config = options.url.parse().map_err(|error: postgres::Error| {
            let why = std::error::Error::source(&error)
                .map_or_else(|| error.to_string(), ToString::to_string);
            StoreError::new(ErrorKind::Io, format!("cannot use the address of the manifest: {why}"))
                .with_hint("write it as postgresql://USER@HOST:5432/DATABASE")
        })?;
        if let Some(password) = &options.password {
            config.password(password);
        }
        config.connect_timeout(CONNECT).tcp_user_timeout(SILENCE).application_name("weir");
        // Encryption that the server can decline would be no protection.
        let tls = match config.get_ssl_mode() {
            SslMode::Require => Some(MakeRustlsConnect::new(client_config(options)?)),
            _ => None,
        };
        Ok(Self { config, schema: options.schema.clone(), tls, client: None })
    }

    /// Runs `work` on the connection; reconnects after an error that broke it.
    ///
    /// # Errors
    /// `Io`, `Full`: with the server's name and message.
    pub(crate) fn with<T>(
        &mut self,
        mut work: impl FnMut(&mut Client) -> Result<T, postgres::Error>,
    ) -> Result<T, StoreError> {
        if self.client.as_ref().is_none_or(Client::is_closed) {
            self.client = None;
            let client = self.connect().map_err(|error| self.fail("reach", &error))?;
            self.client = Some(client);
        }
        let client = self.client.as_mut().expect("it was made above");
        let outcome = work(client);
        outcome.map_err(|error| {
            if error.as_db_error().is_none() {
                self.client = None;
            }
            self.fail("use", &error)
        })
    }

    fn connect(&self) -> Result<Client, postgres::Error> {
        let mut client = match &self.tls {
            Some(tls) => self.config.connect(tls.clone())?,
            None => self.config.connect(NoTls)?,
        };
        let schema = self.schema.replace('"', "\"\"");
        client.batch_execute(&format!("SET search_path = \"{schema}\"; {STATEMENT}"))?;
        Ok(client)
    }

    fn fail(&self, what: &str, error: &postgres::Error) -> StoreError {
        let is_full = error.code() == Some(&postgres::error::SqlState::DISK_FULL);
        let kind = if is_full { ErrorKind::Full } else { ErrorKind::Io };
        let mut why = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause {
            let text = inner.to_string();
            if !why.contains(&text) {
                why = format!("{why}: {text}");
            }
            cause = inner.source();
        }
        let text = format!("cannot {what} the manifest in PostgreSQL at {}: {why}", self.name());
        StoreError::new(kind, text).with_hint(
            "rows that came in stay in the log and are written when it can be used again; `cluster.manifest` has its address",
        )
    }

    fn name(&self) -> String {
        let hosts: Vec<String> = self
            .config
            .get_hosts()
            .iter()
            .map(|host| match host {
                postgres::config::Host::Tcp(name) => name.clone(),
                postgres::config::Host::Unix(path) => path.display().to_string(),
            })
            .collect();
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        format!("`{}:{port}`", hosts.join(","))
    }
}

impl Drop for PostgresServer {
    /// Dropping a client sends a terminate message, which blocks, and this thread may not be
    /// allowed to block.
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(std::thread::Builder::new().spawn(move || drop(client)));
        }
    }
}

fn client_config(options: &ManifestOptions) -> Result<ClientConfig, StoreError> {
    let mut roots = RootCertStore::empty();
    match &options.ca_file {
        Some(path) => {
            let found = CertificateDer::pem_file_iter(path).map_err(|error| {
                tls_failure(format!("cannot read `{}`: {error}", path.display()))
            })?;
            for certificate in found.flatten() {
                roots.add(certificate).map_err(|error| tls_failure(error.to_string()))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| tls_failure(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn tls_failure(why: String) -> StoreError {
    StoreError::new(ErrorKind::Io, format!("cannot use TLS with PostgreSQL: {why}"))
}
