//! One order (RFC 8555 §7.4): account, challenges, certificate; and errors with hints.

use std::io;
use std::path::Path;
use std::time::Duration;

use instant_acme::{
    Account, AccountBuilder, AuthorizationStatus, ChallengeType, Error, Identifier, NewAccount,
    NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};

use super::challenge::{ChallengeProof, ChallengeStore};
use super::client::AuthorityClient;
use super::files;
use super::settings::{AcmeNames, AcmeSettings};

/// The authority has lost the account, as a test authority does when it restarts.
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";
/// The authority accepts no more orders for some time.
const RATE_LIMITED: &str = "urn:ietf:params:acme:error:rateLimited";

const fn retry_policy() -> RetryPolicy {
    RetryPolicy::new()
        .initial_delay(Duration::from_millis(300))
        .backoff(1.5)
        .timeout(Duration::from_secs(90))
}

/// Why an order produced no certificate.
#[derive(Debug)]
pub(crate) struct OrderError {
    pub(crate) why: String,
    pub(crate) hint: &'static str,
    /// The next attempt must wait for at least an hour.
    pub(crate) is_rate_limited: bool,
}

impl OrderError {
    fn of(error: &Error) -> Self {
        match error {
            Error::Api(problem) => Self::of_problem(problem),
            other => Self::new(
                other.to_string(),
                "check that this host can reach `edge.acme_directory` and that `edge.acme_ca_file` is right for it",
            ),
        }
    }

    fn of_problem(problem: &Problem) -> Self {
        let is_rate_limited = problem.r#type.as_deref() == Some(RATE_LIMITED);
        let hint = if is_rate_limited {
            "the order is retried later; test settings with `edge.acme_directory = \"letsencrypt-staging\"`"
        } else {
            "the authority gave this reason; current certificates stay in use"
        };
        Self { is_rate_limited, ..Self::new(describe(problem), hint) }
    }

    fn new(why: impl Into<String>, hint: &'static str) -> Self {
        Self { why: why.into(), hint, is_rate_limited: false }
    }

    pub(crate) fn disk(path: &Path, error: &dyn std::fmt::Display) -> Self {
        Self::new(
            format!("cannot save it in `{}`: {error}", path.display()),
            "the edge's user must be able to write to `edge.acme_dir`",
        )
    }
}

/// Formats a problem document (RFC 7807).
fn describe(problem: &Problem) -> String {
    let mut text = describe_part(problem.detail.as_deref(), &problem.r#type);
    for part in &problem.subproblems {
        text += "; ";
        if let Some(Identifier::Dns(name)) = &part.identifier {
            text += &format!("`{name}`: ");
        }
        text += &describe_part(part.detail.as_deref(), &part.r#type);
    }
    text
}

/// `detail (kind)`
fn describe_part(detail: Option<&str>, kind: &Option<String>) -> String {
    let detail = detail.unwrap_or("no reason given");
    let kind = kind.as_deref().and_then(|kind| kind.rsplit(':').next());
    kind.map_or_else(|| detail.to_owned(), |kind| format!("{detail} ({kind})"))
}

/// The account, created if there is none. Configuring names means agreeing to the terms.
pub(crate) async fn account(settings: &AcmeSettings) -> Result<Account, OrderError> {
    let path = settings.account_file();
    let http = AuthorityClient::new(&settings.authorities).map_err(|error| {
        OrderError::new(
            error.message,
            "`edge.acme_ca_file` must contain the authority's CA certificates",
        )
    })?;
    let builder: AccountBuilder = Account::builder_with_http(Box::new(http));
    if let Some(known) = files::account(&path).map_err(|error| cannot_read(&path, &error))? {
        return builder.from_credentials(known).await.map_err(|error| OrderError::of(&error));
    }
    let contact: Vec<&str> = settings.contact.iter().map(String::as_str).collect();
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let making = builder.create(&new, settings.directory.url.clone(), None).await;
    let (account, credentials) = making.map_err(|error| OrderError::of(&error))?;
    let bytes = serde_json::to_vec_pretty(&credentials)
        .map_err(|error| cannot_read(&path, &error.into()))?;
    files::write(&path, &bytes).map_err(|error| OrderError::disk(&path, &error))?;
    Ok(account)
}

fn cannot_read(path: &Path, error: &io::Error) -> OrderError {
    OrderError::new(
        format!("cannot read the account `{}`: {error}", path.display()),
        "move the file away: the edge creates a new account",
    )
}

/// Obtains a certificate: the key, then the chain, as PEM.
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
            "the authority `{}` no longer knows the account: creating a new one",
            settings.directory.authority
        );
        ordered = account(settings).await?.new_order(&new).await;
    }
    let mut order = ordered.map_err(|error| OrderError::of(&error))?;
    publish_challenges(&mut order, kind, challenges).await?;
    match order.poll_ready(&retry_policy()).await {
        Ok(OrderStatus::Ready) => {}
        outcome => return Err(validation_error(&mut order, outcome.err()).await),
    }
    let key = order.finalize().await.map_err(|error| OrderError::of(&error))?;
    let chain =
        order.poll_certificate(&retry_policy()).await.map_err(|error| OrderError::of(&error))?;
    Ok(key + &chain)
}

/// Publishes the challenge of each name that is not validated yet, and asks for validation.
async fn publish_challenges(
    order: &mut Order,
    kind: &ChallengeType,
    challenges: &ChallengeStore,
) -> Result<(), OrderError> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(|error| OrderError::of(&error))?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            other => {
                let name = authorization.identifier().to_string();
                return Err(OrderError::new(
                    format!("the authorization of `{name}` is {other:?}"),
                    "the order is retried later",
                ));
            }
        }
        let name = authorization.identifier().to_string();
        let Some(mut challenge) = authorization.challenge(kind.clone()) else {
            return Err(OrderError::new(
                format!("the authority does not offer {} for `{name}`", type_name(kind)),
                "set `edge.acme_challenge` to another type",
            ));
        };
        let authorization = challenge.key_authorization();
        let digest = (*kind == ChallengeType::TlsAlpn01).then(|| authorization.digest());
        let proof = ChallengeProof {
            name: &name,
            token: &challenge.token,
            authorization: authorization.as_str(),
            digest: digest.as_ref().map(AsRef::as_ref),
        };
        challenges
            .add(proof)
            .map_err(|error| OrderError::new(format!("cannot create a proof: {error}"), ""))?;
        challenge.set_ready().await.map_err(|error| OrderError::of(&error))?;
    }
    Ok(())
}

/// Why the authority could not validate the names.
async fn validation_error(order: &mut Order, error: Option<Error>) -> OrderError {
    let mut found = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_err() {
            continue;
        }
        let name = authorization.identifier().to_string();
        let problem = authorization.challenges.iter().find_map(|challenge| {
            Some(format!(
                "`{name}` by {}: {}",
                type_name(&challenge.r#type),
                describe(challenge.error.as_ref()?)
            ))
        });
        found.extend(problem);
    }
    if found.is_empty() {
        return error.map_or_else(
            || OrderError::new("the authority rejects the order", "the order is retried later"),
            |error| OrderError::of(&error),
        );
    }
    OrderError::new(
        found.join("; "),
        "DNS must point the name to this edge, and the authority must reach it on port 80 (http-01) or 443 (tls-alpn-01)",
    )
}

/// The name of a challenge type in RFC 8555 and 8737.
pub(crate) fn type_name(kind: &ChallengeType) -> &'static str {
    match kind {
        ChallengeType::Http01 => "http-01",
        ChallengeType::TlsAlpn01 => "tls-alpn-01",
        ChallengeType::Dns01 => "dns-01",
        _ => "another type",
    }
}
