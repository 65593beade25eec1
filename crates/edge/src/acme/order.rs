//! One order (RFC 8555 §7.4): account, proofs, certificate; what went wrong in words that tell what to do.

use std::io;
use std::time::Duration;

use instant_acme::{
    Account, AccountBuilder, AuthorizationStatus, ChallengeType, Error, Identifier, NewAccount,
    NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};

use super::challenge::ChallengeStore;
use super::client::AuthorityClient;
use super::files;
use super::settings::{AcmeNames, AcmeSettings};

/// The authority does not know the account any more, such as one for tests that began anew.
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";
/// So many were issued, or so many attempts failed, that the authority wants none for some time.
const RATE_LIMITED: &str = "urn:ietf:params:acme:error:rateLimited";

const fn patience() -> RetryPolicy {
    RetryPolicy::new()
        .initial_delay(Duration::from_millis(300))
        .backoff(1.5)
        .timeout(Duration::from_secs(90))
}

/// Why there is no certificate.
#[derive(Debug)]
pub(crate) struct OrderError {
    pub(crate) why: String,
    pub(crate) hint: &'static str,
    /// The authority wants to be left alone for an hour or more.
    pub(crate) is_rate_limited: bool,
}

impl OrderError {
    fn of(error: &Error) -> Self {
        match error {
            Error::Api(problem) => Self::told(problem),
            other => Self::new(
                other.to_string(),
                "can this host reach the authority (`edge.acme_directory`), and is `edge.acme_ca_file` right for it?",
            ),
        }
    }

    fn told(problem: &Problem) -> Self {
        let is_rate_limited = problem.r#type.as_deref() == Some(RATE_LIMITED);
        let hint = if is_rate_limited {
            "it is tried again later; try settings out with `edge.acme_directory = \"letsencrypt-staging\"`"
        } else {
            "the authority says why; nothing is wrong with what is served meanwhile"
        };
        Self { is_rate_limited, ..Self::new(words(problem), hint) }
    }

    fn new(why: impl Into<String>, hint: &'static str) -> Self {
        Self { why: why.into(), hint, is_rate_limited: false }
    }

    pub(crate) fn disk(path: &std::path::Path, error: &io::Error) -> Self {
        Self::new(
            format!("cannot keep it in `{}`: {error}", path.display()),
            "the edge's user must be able to write to `edge.acme_dir`",
        )
    }
}

/// What an authority said, without its own frame of words.
fn words(problem: &Problem) -> String {
    let of = |kind: &Option<String>, detail: &Option<String>| {
        let detail = detail.as_deref().unwrap_or("it does not say why");
        let kind = kind.as_deref().and_then(|kind| kind.rsplit(':').next());
        kind.map_or_else(|| detail.to_owned(), |kind| format!("{detail} ({kind})"))
    };
    let mut text = of(&problem.r#type, &problem.detail);
    for part in &problem.subproblems {
        text += "; ";
        if let Some(Identifier::Dns(name)) = &part.identifier {
            text += &format!("`{name}`: ");
        }
        text += &of(&part.r#type, &part.detail);
    }
    text
}

/// The account, made when there is none; whoever has names to be certified agrees to the authority's terms.
pub(crate) async fn account(settings: &AcmeSettings) -> Result<Account, OrderError> {
    let path = settings.account_file();
    let unread = |error: io::Error| {
        OrderError::new(
            format!("cannot read the account `{}`: {error}", path.display()),
            "move it away: another one is made",
        )
    };
    let http = AuthorityClient::new(&settings.authorities)
        .map_err(|error| OrderError::new(error.message, "`edge.acme_ca_file` names authorities"))?;
    let builder = || -> AccountBuilder { Account::builder_with_http(Box::new(http.clone())) };
    if let Some(known) = files::account(&path).map_err(unread)? {
        return builder().from_credentials(known).await.map_err(|error| OrderError::of(&error));
    }
    let contact: Vec<&str> = settings.contact.iter().map(String::as_str).collect();
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let making = builder().create(&new, settings.directory.url.clone(), None).await;
    let (account, credentials) = making.map_err(|error| OrderError::of(&error))?;
    let bytes = serde_json::to_vec_pretty(&credentials).map_err(|error| unread(error.into()))?;
    files::write(&path, &bytes).map_err(|error| OrderError::disk(&path, &error))?;
    Ok(account)
}

/// Obtains a certificate: the key, then the chain, PEM.
pub(crate) async fn obtain(
    settings: &AcmeSettings,
    names: &AcmeNames,
    kind: &ChallengeType,
    challenges: &ChallengeStore,
) -> Result<String, OrderError> {
    let identifiers: Vec<_> = names.0.iter().cloned().map(Identifier::Dns).collect();
    let new = NewOrder::new(&identifiers);
    let mut ordered = account(settings).await?.new_order(&new).await;
    if let Err(Error::Api(problem)) = &ordered
        && problem.r#type.as_deref() == Some(NO_ACCOUNT)
    {
        let path = settings.account_file();
        let aside = std::fs::rename(&path, path.with_extension("unknown"));
        aside.map_err(|error| OrderError::disk(&path, &error))?;
        tracing::warn!(
            "the authority `{}` does not know the account any more: another one is made",
            settings.directory.authority
        );
        ordered = account(settings).await?.new_order(&new).await;
    }
    let mut order = ordered.map_err(|error| OrderError::of(&error))?;
    prove(&mut order, kind, challenges).await?;
    match order.poll_ready(&patience()).await {
        Ok(OrderStatus::Ready) => {}
        outcome => return Err(unproved(&mut order, outcome.err()).await),
    }
    let failed = |error: Error| OrderError::of(&error);
    let key = order.finalize().await.map_err(failed)?;
    let chain = order.poll_certificate(&patience()).await.map_err(failed)?;
    Ok(key + &chain)
}

/// Answers for each name that is not proved already, and tells the authority to look.
async fn prove(
    order: &mut Order,
    kind: &ChallengeType,
    challenges: &ChallengeStore,
) -> Result<(), OrderError> {
    let failed = |error: Error| OrderError::of(&error);
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(failed)?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            other => {
                let name = authorization.identifier().to_string();
                return Err(OrderError::new(
                    format!("`{name}` is {other:?} there"),
                    "it is tried again",
                ));
            }
        }
        let name = authorization.identifier().to_string();
        let Some(mut challenge) = authorization.challenge(kind.clone()) else {
            return Err(OrderError::new(
                format!("the authority does not take {} for `{name}`", word(kind)),
                "set `edge.acme_challenge` to another one",
            ));
        };
        let proof = challenge.key_authorization();
        let digest = (*kind == ChallengeType::TlsAlpn01).then(|| proof.digest());
        let digest = digest.as_ref().map(AsRef::as_ref);
        challenges
            .add(&name, &challenge.token, proof.as_str(), digest)
            .map_err(|error| OrderError::new(format!("cannot make a proof: {error}"), ""))?;
        challenge.set_ready().await.map_err(failed)?;
    }
    Ok(())
}

/// What the authority found when it looked.
async fn unproved(order: &mut Order, error: Option<Error>) -> OrderError {
    let mut found = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_err() {
            continue;
        }
        let name = authorization.identifier().to_string();
        let told = authorization.challenges.iter().find_map(|challenge| {
            Some(format!(
                "`{name}` by {}: {}",
                word(&challenge.r#type),
                words(challenge.error.as_ref()?)
            ))
        });
        found.extend(told);
    }
    if found.is_empty() {
        return error.map_or_else(
            || OrderError::new("the authority calls the order invalid", "it is tried again"),
            |error| OrderError::of(&error),
        );
    }
    OrderError::new(
        found.join("; "),
        "the name must lead to this edge in DNS, and the authority must reach it at port 80 (http-01) or 443 (tls-alpn-01)",
    )
}

/// A challenge as RFC 8555 and 8737 call it.
pub(crate) fn word(kind: &ChallengeType) -> &'static str {
    match kind {
        ChallengeType::Http01 => "http-01",
        ChallengeType::TlsAlpn01 => "tls-alpn-01",
        ChallengeType::Dns01 => "dns-01",
        _ => "another way",
    }
}
