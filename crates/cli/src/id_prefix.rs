//! Ids that people type: the first letters are enough if they fit one id.

use serde_json::Value;
use weir_process::failure::{EXIT_USAGE, Failure};

/// What a prefix is looked up in.
pub(crate) struct IdList<'a> {
    /// The rows of the API.
    pub(crate) rows: &'a [Value],
    /// The field with the id.
    pub(crate) field: &'static str,
    /// One of the rows, for people.
    pub(crate) noun: &'static str,
    /// The command that lists them.
    pub(crate) lists: &'static str,
}

/// The id that begins with `prefix`, letters of any case.
///
/// # Errors
/// No id has this prefix, or several have; `verb` is what was to be done.
pub(crate) fn whole_id(
    list: &IdList<'_>,
    prefix: &str,
    verb: &'static str,
) -> Result<String, Failure> {
    let begins =
        |id: &&str| id.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let mut fitting = list.rows.iter().filter_map(|row| row[list.field].as_str()).filter(begins);
    let (why, hint) = match (fitting.next(), fitting.next()) {
        (Some(id), None) => return Ok(id.to_owned()),
        (Some(_), Some(_)) => (
            format!("more than one {} has this prefix", list.noun),
            "write more of its id".to_owned(),
        ),
        (None, _) => {
            (format!("there is no such {}", list.noun), format!("`{}` lists them", list.lists))
        }
    };
    Err(Failure::new(format!("cannot {verb} `{prefix}`: {why}")).hint(hint).code(EXIT_USAGE))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_prefix_fits_one_id_or_is_refused_with_a_hint() {
        let rows = [json!({"run_id": "4kab"}), json!({"run_id": "4kxy"}), json!({"run_id": "zz"})];
        let list = IdList { rows: &rows, field: "run_id", noun: "run", lists: "weir heal runs" };
        assert_eq!(whole_id(&list, "4KX", "undo").unwrap(), "4kxy");
        let several = whole_id(&list, "4k", "undo").unwrap_err().to_string();
        assert!(
            several.contains("cannot undo `4k`: more than one run has this prefix"),
            "{several}"
        );
        let none = whole_id(&list, "q", "undo").unwrap_err().to_string();
        assert!(none.contains("there is no such run"), "{none}");
    }
}
