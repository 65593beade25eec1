//! The cryptography provider of every TLS connection.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
