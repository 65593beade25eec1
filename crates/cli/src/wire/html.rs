//! The answer as one page that needs nothing else: the JSON answer, uPlot, and a little script that
//! shows it.
//!
//! Names in a capture are strangers' text: the script only ever sets text, and the data cannot end
//! its element.

use std::path::Path;

use weir_process::failure::Failure;

const PAGE: &str = include_str!("report.html");
const UPLOT_JS: &str = include_str!("../../../../ui/vendor/uPlot.esm.js");
const UPLOT_CSS: &str = include_str!("../../../../ui/vendor/uPlot.min.css");

/// Writes the page; `answer` is what `--format json` prints.
pub(super) fn write(path: &Path, answer: &str) -> Result<(), Failure> {
    std::fs::write(path, page(answer)).map_err(|error| {
        Failure::new(format!("cannot write `{}`: {error}", path.display()))
            .hint("check that the directory exists and is writable")
    })
}

fn page(answer: &str) -> String {
    // A single file has nothing to export to; a function scope keeps its names apart from the
    // page's.
    let script = UPLOT_JS
        .replace("export { uPlot as default };", "return uPlot;")
        .replace("\nexport function ", "\nfunction ");
    let script = format!("const uPlot = (() => {{\n{script}\n}})();");
    let parts = [
        ("/*UPLOT_CSS*/", UPLOT_CSS),
        ("/*UPLOT_JS*/", &script),
        // A `<` in JSON is in text only, where it may be written so.
        ("/*DATA*/", &answer.replace('<', "\\u003c")),
    ];
    // Marks are replaced in order, so inserted text is not searched again.
    let (mut out, mut rest) = (String::new(), PAGE);
    let mut sorted = parts;
    sorted.sort_by_key(|(mark, _)| PAGE.find(mark));
    for (mark, content) in sorted {
        let (before, after) = rest.split_once(mark).expect("the page has each mark once");
        out += before;
        out += content;
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn the_page_is_whole_and_strangers_text_stays_text() {
        let page = page(r#"{"why": "</script><script>alert(1)</script> /*UPLOT_JS*/"}"#);
        assert!(page.contains(r"\u003c/script>\u003cscript>alert(1)"));
        assert!(!page.contains("alert(1)</script>"));
        assert!(page.contains("class uPlot") || page.contains("function uPlot"));
        assert!(!page.contains("\nexport ") && page.contains("return uPlot;"));
        let outside = page.replace("/*UPLOT_JS*/\"}", "");
        assert!(!outside.contains("/*UPLOT_JS*/") && !outside.contains("/*DATA*/"));
        // Nothing is fetched.
        assert!(!page.contains("src=") && !page.contains("<link"));
    }
}
