//! `[notify.templates]` as messages use them, their errors, and `weir notify preview`.

use std::sync::Arc;

use weir_actions::NoticeKind;
use weir_config::Values;
use weir_config::templates::{MessageTemplate, TemplateTarget};
use weir_notify::Message;
use weir_notify::forms::{html, phone, subject, text};
use weir_notify::templates::{
    TEMPLATE_FORMS, TEMPLATE_KINDS, TemplateForm, TemplateScope, TemplateSet, TemplateSource,
    sample_message,
};
use weir_process::failure::Failure;
use weir_tables::nearest;

/// The templates; `None` without any.
pub(super) fn set(values: &Values) -> Option<Arc<TemplateSet>> {
    let sources: Vec<TemplateSource> = values.templates.iter().filter_map(source).collect();
    (!sources.is_empty()).then(|| Arc::new(TemplateSet::new(sources)))
}

/// Logs what is wrong with the templates, whose built-in forms are sent instead.
pub(super) fn log_errors(values: &Values) {
    for error in errors(values) {
        tracing::warn!("{error}; the built-in form is sent");
    }
}

/// What is wrong with the templates.
pub fn errors(values: &Values) -> Vec<String> {
    let mut errors: Vec<String> =
        values.templates.iter().filter_map(|template| unknown_receiver(values, template)).collect();
    if let Some(set) = set(values) {
        errors.extend(set.errors().iter().map(ToString::to_string));
    }
    errors
}

fn unknown_receiver(values: &Values, template: &MessageTemplate) -> Option<String> {
    let TemplateTarget::Receiver(name) = &template.target else { return None };
    let mut names = values.notices.receivers.iter().filter_map(|entry| entry.text("name"));
    if names.any(|known| known == name) {
        return None;
    }
    let names = values.notices.receivers.iter().filter_map(|entry| entry.text("name"));
    let hint = nearest(name, names)
        .map_or_else(String::new, |near| format!("\nhint: did you mean `{near}`?"));
    let (file, line) = (&template.file, template.first_line);
    Some(format!("cannot use {file}:{line}: there is no receiver `{name}` for a template{hint}"))
}

fn source(template: &MessageTemplate) -> Option<TemplateSource> {
    let (_, form) = TEMPLATE_FORMS.iter().find(|(name, _)| *name == template.form)?;
    let scope = match &template.target {
        TemplateTarget::All => TemplateScope::All,
        TemplateTarget::Kind(kind) => TemplateScope::Kind(kind_named(kind)?),
        TemplateTarget::Receiver(name) => TemplateScope::Receiver(name.clone()),
    };
    Some(TemplateSource {
        form: *form,
        scope,
        text: template.text.clone(),
        file: template.file.clone(),
        first_line: template.first_line,
    })
}

fn kind_named(name: &str) -> Option<NoticeKind> {
    TEMPLATE_KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

/// A sample message in every form, as its templates make it.
///
/// # Errors
/// A kind that does not exist.
pub fn preview(values: &Values, kind: &str, receiver: Option<&str>) -> Result<String, Failure> {
    let Some(of_kind) = kind_named(kind) else {
        let names = TEMPLATE_KINDS.map(|(name, _)| name).join(", ");
        let what = format!("cannot show a message of kind `{kind}`: there is none");
        return Err(Failure::new(what).hint(format!("known are {names}")));
    };
    let mut message: Message = sample_message(of_kind);
    message.templates = set(values);
    if let Some(receiver) = receiver {
        receiver.clone_into(&mut message.notice.receiver);
    }
    let shown = TEMPLATE_FORMS.iter().map(|(name, form)| {
        let text = match form {
            TemplateForm::Subject => subject(&message),
            TemplateForm::Text => text(&message),
            TemplateForm::Phone => phone(&message),
            TemplateForm::Html => html(&message),
        };
        format!("--- {name}\n{}\n", text.trim_end())
    });
    Ok(shown.collect())
}
