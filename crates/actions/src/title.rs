//! The title of an incident: at most 78 ASCII characters, for subjects of mails and lock screens.

/// The longest subject that mail programs keep on one line (RFC 5322).
const TITLE_CHARS_MAX: usize = 78;

/// The parts of a title.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TitleParts<'a> {
    pub(crate) host: &'a str,
    pub(crate) rule: &'a str,
    pub(crate) summary: &'a str,
    /// Findings beside the root.
    pub(crate) behind: usize,
}

impl TitleParts<'_> {
    /// `web3 app.down 10.0.0.7:8080 refuses connections (+3 behind)`.
    pub(crate) fn title(&self) -> String {
        let (host, rule) = (ascii(self.host), ascii(self.rule));
        let mut title = [host.as_str(), rule.as_str()].join(" ").trim().to_owned();
        let summary = ascii(first_clause(self.summary));
        let text = summary.strip_prefix(&format!("{host} ")).unwrap_or(&summary);
        if !text.is_empty() {
            title = format!("{title} {text}");
        }
        let tail = match self.behind {
            0 => String::new(),
            count => format!(" (+{count} behind)"),
        };
        let most = TITLE_CHARS_MAX - tail.len();
        if title.len() > most {
            title.truncate(most - 3);
            title.truncate(title.trim_end().len());
            title.push_str("...");
        }
        title + &tail
    }
}

/// The text up to the first colon, semicolon or full stop that ends a word.
fn first_clause(text: &str) -> &str {
    let ends = text.char_indices().filter(|(_, letter)| [':', ';', '.'].contains(letter));
    let end = ends.map(|(at, _)| at).find(|at| !text[at + 1..].starts_with(|c: char| c != ' '));
    &text[..end.unwrap_or(text.len())]
}

/// The text in printable ASCII, with single spaces.
fn ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            ' '..='~' => plain.push(letter),
            '×' => plain.push('x'),
            '–' | '—' | '−' => plain.push('-'),
            '…' => plain.push_str("..."),
            '“' | '”' | '„' => plain.push('"'),
            '’' | '‘' => plain.push('\''),
            letter if letter.is_whitespace() => plain.push(' '),
            letter if letter.is_control() => {}
            _ => plain.push('?'),
        }
    }
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title(host: &'static str, summary: &'static str, behind: usize) -> String {
        TitleParts { host, rule: "app.down", summary, behind }.title()
    }

    #[test]
    fn title_has_host_rule_first_clause_and_count() {
        let summary = "10.0.0.7:8080 refuses connections: 40 of 40 in 12.5 s";
        assert_eq!(
            title("web3", summary, 3),
            "web3 app.down 10.0.0.7:8080 refuses connections (+3 behind)"
        );
        assert_eq!(title("", "pool is empty", 0), "app.down pool is empty");
        assert_eq!(
            title("web3", "web3 is 2.0× slower\r\nBcc: x", 0),
            "web3 app.down is 2.0x slower Bcc"
        );
        assert_eq!(title("web3", "", 0), "web3 app.down");
    }

    #[test]
    fn title_is_short_ascii_whatever_the_finding_has() {
        arbtest::arbtest(|u| {
            let (host, rule, summary): (String, String, String) =
                (u.arbitrary()?, u.arbitrary()?, u.arbitrary()?);
            let summary = summary.repeat(9);
            let parts =
                TitleParts { host: &host, rule: &rule, summary: &summary, behind: u.arbitrary()? };
            let title = parts.title();
            assert!(
                title.len() <= 78 && title.chars().all(|c| (' '..='~').contains(&c)),
                "{title}"
            );
            Ok(())
        });
    }
}
