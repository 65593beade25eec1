//! The configuration in effect, with everything built from it.

use std::sync::Arc;

use http::header::HOST;
use http::request;
use tokio_rustls::TlsAcceptor;

use crate::acme::challenge::ChallengeStore;
use crate::error::EdgeError;
use crate::names::ResolvedNames;
use crate::pool::Pool;
use crate::pool::backend::Backend;
use crate::settings::Settings;
use crate::settings::destination::{BackendSettings, RouteSettings};
use crate::tls::CertificateStore;
use crate::tls::backend_tls::BackendTls;
use crate::tls::session_tickets::TicketKeys;

/// Replaced as a whole when the configuration changes.
#[derive(Clone)]
pub(crate) struct LiveConfig {
    pub(crate) settings: Settings,
    /// The backends of `settings` with their addresses.
    pub(crate) backends: Vec<BackendSettings>,
    /// The first pool takes requests that match no route.
    pub(crate) pools: Vec<Arc<Pool>>,
    pub(crate) routes: Vec<(RouteSettings, Arc<Pool>)>,
    pub(crate) certificates: Option<Arc<CertificateStore>>,
    pub(crate) tls: Option<TlsAcceptor>,
}

/// What a configuration is built with, besides its settings.
pub(crate) struct LiveParts<'a> {
    pub(crate) names: &'a ResolvedNames,
    pub(crate) tickets: &'a Arc<TicketKeys>,
    pub(crate) challenges: &'a Arc<ChallengeStore>,
}

impl LiveConfig {
    /// Builds what `settings` need; what stays the same is taken from `before`.
    pub(crate) fn build(
        settings: &Settings,
        before: Option<&Self>,
        parts: LiveParts<'_>,
    ) -> Result<Self, EdgeError> {
        let needs_tls = settings.backends.iter().any(|backend| backend.protocol.is_tls());
        let backend_tls =
            if needs_tls { Some(BackendTls::load(&settings.backend_tls)?) } else { None };
        let old = before.map(|live| &live.pools[..]);
        let mut names = vec![""];
        for route in &settings.routes {
            if !names.contains(&route.pool.as_str()) {
                names.push(&route.pool);
            }
        }
        let backends = parts.names.expand(&settings.backends);
        let resolved = Settings { backends: backends.clone(), ..settings.clone() };
        let pools = names.iter().map(|name| Pool::new(name, &resolved, backend_tls.clone(), old));
        let pools: Vec<Arc<Pool>> = pools.map(Arc::new).collect();
        let routes = settings.routes.iter().map(|route| {
            let at = names.iter().position(|name| *name == route.pool);
            (route.clone(), Arc::clone(&pools[at.expect("every route's pool is among the names")]))
        });
        let routes = routes.collect();
        let same = before.filter(|live| {
            live.settings.certificates == settings.certificates
                && live.settings.acme == settings.acme
        });
        let (certificates, tls) = match same {
            Some(live) => (live.certificates.clone(), live.tls.clone()),
            None if settings.certificates.is_empty() && settings.acme.is_none() => (None, None),
            None => {
                let certificates = CertificateStore::load(settings, parts.challenges)?;
                let acceptor = certificates.acceptor(parts.tickets)?;
                (Some(certificates), Some(acceptor))
            }
        };
        Ok(Self { settings: settings.clone(), backends, pools, routes, certificates, tls })
    }

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
