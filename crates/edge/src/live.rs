//! The configuration in effect, with everything built from it.

use std::sync::Arc;

use http::header::HOST;
use http::request;
use tokio_rustls::TlsAcceptor;

use crate::pool::Pool;
use crate::pool::backend::Backend;
use crate::settings::Settings;
use crate::settings::destination::RouteSettings;
use crate::tls::CertificateStore;

/// Replaced as a whole when the configuration changes.
#[derive(Clone)]
pub(crate) struct LiveConfig {
    pub(crate) settings: Settings,
    /// The first pool takes requests that match no route.
    pub(crate) pools: Vec<Arc<Pool>>,
    pub(crate) routes: Vec<(RouteSettings, Arc<Pool>)>,
    pub(crate) certificates: Option<Arc<CertificateStore>>,
    pub(crate) tls: Option<TlsAcceptor>,
}

impl LiveConfig {
    /// The pool for a request; `None` when it has no backend.
    pub(crate) fn pool(&self, parts: &request::Parts) -> Option<&Arc<Pool>> {
        let path = parts.uri.path();
        let mut routes = self.routes.iter();
        let routed = routes.find(|(route, _)| route.matches(host_of(parts), path));
        let pool = routed.map(|(_, pool)| pool).or(self.pools.first());
        pool.filter(|pool| !pool.backends.is_empty())
    }

    /// Every backend with its pool.
    pub(crate) fn backends(&self) -> impl Iterator<Item = (&Arc<Pool>, &Arc<Backend>)> {
        self.pools.iter().flat_map(|pool| pool.backends.iter().map(move |one| (pool, one)))
    }
}

fn host_of(parts: &request::Parts) -> Option<&str> {
    let field = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    field.or_else(|| parts.uri.authority().map(|authority| authority.as_str()))
}
