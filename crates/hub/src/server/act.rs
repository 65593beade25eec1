//! `/a/{token}`: the page behind a link of a message, on which one person acts on one incident.
//!
//! It needs no login and no JavaScript. `GET` only shows, since mail scanners fetch links; the
//! buttons send a form, for which a device that was not used before needs the PIN of the message.

use std::fmt::Write as _;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use weir_ledger::LedgerError;
use weir_notify::ReplyAction;
use weir_notify::links::{LinkGrant, PinCheck};

use super::SharedApp;
use crate::notices::LinkedIncident;

/// Name of the cookie of a device.
const COOKIE: &str = "weir_device";
const COOKIE_SECONDS: u32 = 90 * 86_400;
/// Longest body of the form.
pub(crate) const FORM_BYTES_MAX: usize = 4096;
/// Longest text on the page.
const TEXT_CHARS_MAX: usize = 200;
const SYMPTOMS_MAX: usize = 3;
const DID_CHARS_MAX: usize = 500;

const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
    <meta name=\"robots\" content=\"noindex\"><title>weir</title>\n<style>\n\
    body{font:1.1rem/1.4 system-ui,sans-serif;max-width:36rem;margin:auto;padding:1rem;color-scheme:light dark}\n\
    button,input,select{font:inherit;padding:.6rem;width:100%;margin:.3rem 0;box-sizing:border-box}\n\
    .note{border-left:.3rem solid #c33;padding-left:.6rem}\n</style></head><body>\n";

/// Headers of this page in place of the usual ones: the style is inline, and browsers send the
/// form's origin.
const HEADERS: [(HeaderName, &str); 3] = [
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; \
         frame-ancestors 'none'; base-uri 'none'",
    ),
    (header::REFERRER_POLICY, "same-origin"),
];

/// Why there is no page.
enum ActRefusal {
    /// There is no such link, or it is over.
    Gone,
    /// Too many requests.
    Busy,
    /// The ledger cannot be used.
    Unusable(String),
}

impl From<LedgerError> for ActRefusal {
    fn from(error: LedgerError) -> Self {
        Self::Unusable(error.to_string())
    }
}

impl ActRefusal {
    fn answer(&self) -> Response {
        match self {
            Self::Gone => {
                let text = "This link is over, or never was one. `weir incidents` and the page \
                    have all incidents.";
                answer(StatusCode::NOT_FOUND, simple(text))
            }
            Self::Busy => {
                let page = simple("Too many requests: try again in a few seconds.");
                answer(StatusCode::TOO_MANY_REQUESTS, page)
            }
            Self::Unusable(why) => {
                answer(StatusCode::SERVICE_UNAVAILABLE, simple(&format!("Not now: {why}")))
            }
        }
    }
}

/// What the form says.
#[derive(Debug, Default, PartialEq, Eq)]
struct ActForm {
    action: Option<ReplyAction>,
    pin: String,
    judgement: String,
    did: String,
}

impl ActForm {
    fn parse(body: &str) -> Self {
        let mut form = Self::default();
        let Ok(url) = reqwest::Url::parse(&format!("http://form/?{}", body.trim())) else {
            return form;
        };
        for (name, value) in url.query_pairs() {
            match &*name {
                "action" => form.action = ReplyAction::parse(&value),
                "pin" => form.pin = value.chars().take(20).collect(),
                "judgement" => form.judgement = value.into_owned(),
                "did" => form.did = value.trim().chars().take(DID_CHARS_MAX).collect(),
                _ => {}
            }
        }
        form
    }
}

/// `GET /a/{token}`: shows, and changes nothing.
pub(crate) async fn show(
    State(app): State<SharedApp>,
    Path(token): Path<String>,
    headers: HeaderMap,
) -> Response {
    let shown = shown(&app, &token, &headers).await;
    shown.map_or_else(|refusal| refusal.answer(), |page| answer(StatusCode::OK, page))
}

async fn shown(app: &SharedApp, token: &str, headers: &HeaderMap) -> Result<String, ActRefusal> {
    let grant = granted(app, token).await?;
    let is_paired = is_paired(app, &grant, headers).await;
    page(app, &grant, "", is_paired).await
}

/// `POST /a/{token}`: acknowledges or resolves, for a device that is known or has the PIN.
pub(crate) async fn act(
    State(app): State<SharedApp>,
    Path(token): Path<String>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let form = ActForm::parse(&body);
    let acted = acted(&app, &token, &headers, &form).await;
    acted.unwrap_or_else(|refusal| refusal.answer())
}

async fn acted(
    app: &SharedApp,
    token: &str,
    headers: &HeaderMap,
    form: &ActForm,
) -> Result<Response, ActRefusal> {
    let grant = granted(app, token).await?;
    let mut pairing = None;
    if !is_paired(app, &grant, headers).await {
        match app.notices.check_pin(token, &form.pin).await? {
            PinCheck::Right(secret) => pairing = cookie(&secret, headers),
            PinCheck::Wrong(left) => {
                let note = format!("Enter the PIN of the message ({left} tries are left).");
                let page = page(app, &grant, &note, false).await?;
                return Ok(answer(StatusCode::FORBIDDEN, page));
            }
            PinCheck::Dead => return Err(ActRefusal::Gone),
        }
    }
    let note = done(app, &grant, form).await;
    let mut response = answer(StatusCode::OK, page(app, &grant, &note, true).await?);
    if let Some(cookie) = pairing {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Does what the form says; the outcome in words.
async fn done(app: &SharedApp, grant: &LinkGrant, form: &ActForm) -> String {
    let mut words = Vec::new();
    if let Some(action) = form.action {
        let changed = app.notices.act(&grant.incident, action, grant.holder()).await;
        words.push(changed.unwrap_or_else(|error| error.message));
    }
    if !form.judgement.is_empty() {
        let said = super::judgements::PersonVerdict {
            verdict: form.judgement.clone(),
            action: Some(form.did.clone()),
            by: Some(grant.holder().to_owned()),
        };
        match super::judgements::judge_incident(app, &grant.incident, &said).await {
            Ok(_) => words.push(format!("judged as {}", form.judgement.replace('_', " "))),
            Err(refusal) => words.push(refusal.message().to_owned()),
        }
    }
    words.join("; ")
}

async fn granted(app: &SharedApp, token: &str) -> Result<LinkGrant, ActRefusal> {
    if !app.notices.door().admits(&*app.clock) {
        return Err(ActRefusal::Busy);
    }
    app.notices.link(token).await?.ok_or(ActRefusal::Gone)
}

async fn page(
    app: &SharedApp,
    grant: &LinkGrant,
    note: &str,
    is_paired: bool,
) -> Result<String, ActRefusal> {
    let linked = app.notices.linked(grant).await?;
    Ok(ActView { grant, linked: &linked, note }.html(is_paired))
}

async fn is_paired(app: &SharedApp, grant: &LinkGrant, headers: &HeaderMap) -> bool {
    let cookies = headers.get(header::COOKIE).and_then(|value| value.to_str().ok());
    let pairs = cookies.unwrap_or_default().split(';').filter_map(|pair| pair.split_once('='));
    let mut secrets = pairs.filter(|(name, _)| name.trim() == COOKIE);
    match secrets.next().map(|(_, value)| value.trim()) {
        Some(secret) => app.notices.is_paired(grant, secret).await.unwrap_or(false),
        None => false,
    }
}

/// The cookie of a device. It is sent to this page only, and over TLS only where this page came so.
fn cookie(secret: &str, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN).and_then(|value| value.to_str().ok());
    let secure = if origin.is_some_and(|it| it.starts_with("https:")) { "; Secure" } else { "" };
    let text = format!(
        "{COOKIE}={secret}; Path=/a/; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Lax{secure}"
    );
    HeaderValue::from_str(&text).ok()
}

fn answer(status: StatusCode, page: String) -> Response {
    (status, HEADERS, page).into_response()
}

fn simple(text: &str) -> String {
    format!("{HEAD}<p>{}</p>\n</body></html>\n", escaped(text))
}

/// What the page shows.
struct ActView<'a> {
    grant: &'a LinkGrant,
    linked: &'a LinkedIncident,
    note: &'a str,
}

impl ActView<'_> {
    fn html(&self, is_paired: bool) -> String {
        let mut page = HEAD.to_owned();
        if !self.note.is_empty() {
            let _ = writeln!(page, "<p class=\"note\" role=\"status\">{}</p>", escaped(self.note));
        }
        self.write_incident(&mut page);
        self.write_form(&mut page, is_paired);
        page.push_str("</body></html>\n");
        page
    }

    fn write_incident(&self, page: &mut String) {
        let Some(incident) = &self.linked.summary else {
            let id = escaped(&self.grant.incident);
            let _ = writeln!(page, "<h1>Incident {id}</h1>\n<p>It is over.</p>");
            return;
        };
        let state = match (&incident.acked_by, self.linked.is_open) {
            (Some(name), true) => format!("acknowledged by {name}"),
            (None, true) => "open".to_owned(),
            (_, false) => "over".to_owned(),
        };
        let _ = writeln!(page, "<h1>{}</h1>", escaped(&incident.title));
        let _ = writeln!(page, "<p><b>{}</b> · {}</p>", escaped(&state), escaped(&incident.id));
        for text in [&incident.summary, &incident.fix] {
            if !text.is_empty() {
                let _ = writeln!(page, "<p>{}</p>", escaped(text));
            }
        }
        if incident.symptoms.is_empty() {
            return;
        }
        page.push_str("<ul>\n");
        for symptom in incident.symptoms.iter().take(SYMPTOMS_MAX) {
            let line = format!("{} {}: {}", symptom.rule, symptom.host, symptom.summary);
            let _ = writeln!(page, "<li>{}</li>", escaped(&line));
        }
        page.push_str("</ul>\n");
    }

    fn write_form(&self, page: &mut String, is_paired: bool) {
        let _ = writeln!(
            page,
            "<form method=\"post\">\n<p>You act as {}.</p>",
            escaped(self.grant.holder())
        );
        if !is_paired {
            page.push_str(
                "<label>PIN of the message, once on this device\
                 <input name=\"pin\" inputmode=\"numeric\" autocomplete=\"off\" required></label>\n",
            );
        }
        if self.linked.is_open {
            page.push_str("<button name=\"action\" value=\"ack\">Acknowledge</button>\n");
        }
        page.push_str(
            "<label>Was it real?<select name=\"judgement\"><option value=\"\">not judged</option>\
             <option value=\"real\">real</option><option value=\"not_actionable\">not actionable</option>\
             <option value=\"wrong\">wrong</option></select></label>\n\
             <label>What was done<input name=\"did\" maxlength=\"500\"></label>\n",
        );
        if self.linked.is_open {
            page.push_str("<button name=\"action\" value=\"resolve\">Resolve</button>\n");
        } else {
            page.push_str("<button>Send</button>\n");
        }
        page.push_str("</form>\n");
    }
}

/// Text as HTML shows it, without a meaning, at most 200 characters of it.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars().take(TEXT_CHARS_MAX) {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_is_read_and_everything_else_left_out() {
        let form = ActForm::parse("action=resolve&pin=47+11&judgement=real&did=restarted%20it&x=1");
        assert_eq!(form.action, Some(ReplyAction::Resolve));
        assert_eq!((form.pin.as_str(), form.did.as_str()), ("47 11", "restarted it"));
        assert_eq!(ActForm::parse("action=delete"), ActForm::default());
    }

    /// The longest texts of the most hostile kind still fit into 10 KiB.
    #[test]
    fn texts_make_no_markup() {
        assert!(HEAD.len() + (3 + SYMPTOMS_MAX) * 6 * TEXT_CHARS_MAX + 2000 <= 10 << 10);
        let text = escaped("<script>alert(1)</script>\r\n\"x\" & 'y'");
        assert!(!text.contains(['<', '>', '"', '\'', '\n']), "{text}");
        assert!(escaped(&"&".repeat(5000)).len() <= 5 * TEXT_CHARS_MAX);
    }
}
