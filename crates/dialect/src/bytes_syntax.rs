//! Functions of bytes that the engine has in another form.

use sqlparser::ast::Expr;

use crate::fragments::{call, literal, text};

/// A call as the engine has it; `None` if it stays.
pub(crate) fn rewrite_function(name: &str, arguments: &[Expr]) -> Option<Expr> {
    let [value, form] = arguments else { return None };
    let word = literal(form)?.to_lowercase();
    let is_utf8 = ["utf8", "utf-8"].contains(&word.as_str());
    Some(match name {
        // With padding, and in lines of 76 digits.
        "encode" if word == "base64" => {
            let digits = call("encode", vec![value.clone(), text("base64pad")]);
            let lines = [text("([A-Za-z0-9+/]{76})"), text("${1}\n"), text("g")];
            call("regexp_replace", [digits].into_iter().chain(lines).collect())
        }
        // The text of a constant is in the form of `bytea`.
        "convert_from" if is_utf8 && literal(value).is_none() => {
            call("arrow_cast", vec![value.clone(), text("Utf8")])
        }
        "convert_to" if is_utf8 => call("arrow_cast", vec![value.clone(), text("Binary")]),
        _ => return None,
    })
}
