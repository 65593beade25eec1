//! Splits a command line into arguments as a shell would, and refuses what only a shell can do.

/// Characters outside of quotes that a shell would act upon.
const SHELL_CHARS: &[char] = &['|', '&', ';', '<', '>', '(', ')', '$', '`', '*', '?', '['];

/// The arguments of a command line; the error is the part that needs a shell.
pub(crate) fn split_words(line: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            '\'' => {
                let word = word.get_or_insert_default();
                take_until(&mut chars, '\'', word)?;
            }
            '"' => {
                let word = word.get_or_insert_default();
                take_quoted(&mut chars, word)?;
            }
            '\\' => {
                let escaped = chars.next().ok_or("a `\\` at the end")?;
                word.get_or_insert_default().push(escaped);
            }
            _ if char.is_whitespace() => words.extend(word.take()),
            '#' | '~' if word.is_none() => return Err(format!("the shell's `{char}`")),
            _ if SHELL_CHARS.contains(&char) => return Err(format!("the shell's `{char}`")),
            _ => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    Ok(words)
}

/// The rest of a text in single quotes.
fn take_until(
    chars: &mut std::str::Chars<'_>,
    quote: char,
    word: &mut String,
) -> Result<(), String> {
    for char in chars.by_ref() {
        if char == quote {
            return Ok(());
        }
        word.push(char);
    }
    Err(format!("a `{quote}` that does not end"))
}

/// The rest of a text in double quotes, where a shell still expands variables and commands.
fn take_quoted(chars: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), String> {
    while let Some(char) = chars.next() {
        match char {
            '"' => return Ok(()),
            '$' | '`' => return Err(format!("the shell's `{char}`")),
            '\\' => match chars.next() {
                Some(escaped @ ('"' | '\\' | '$' | '`')) => word.push(escaped),
                Some(other) => word.extend(['\\', other]),
                None => return Err("a `\\` at the end".to_owned()),
            },
            _ => word.push(char),
        }
    }
    Err("a `\"` that does not end".to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::split_words;

    #[test]
    fn words_are_those_of_a_real_shell() {
        for line in [
            "/bin/x -w 5,4 -c 10",
            r#"/bin/x -w '20%' -a "two words" a\ b 'it'"'"'s'"#,
            r#"/bin/x "" '' a"b"c "\$x \" \n \\" \'"#,
            "/bin/x --regex=^a{2}$(true)",
            "  /bin/x\t-p /\t ",
            "/bin/x a#b a~b a=b !x ]",
        ] {
            let script = format!("printf '%s\\0' {line}");
            let output = Command::new("sh").args(["-c", &script]).output().expect("sh runs");
            let printed = String::from_utf8(output.stdout).expect("it is text");
            let shell: Vec<&str> = printed.split_terminator('\0').collect();
            match split_words(line) {
                Ok(words) => assert_eq!(words, shell, "{line}"),
                Err(why) => assert!(line.contains("$("), "{line}: {why}"),
            }
        }
    }

    #[test]
    fn what_needs_a_shell_is_refused_and_named() {
        for (line, why) in [
            ("/bin/x | grep y", "the shell's `|`"),
            ("/bin/x; /bin/y", "the shell's `;`"),
            ("/bin/x > /tmp/y", "the shell's `>`"),
            ("/bin/x $HOME", "the shell's `$`"),
            ("/bin/x \"$HOME\"", "the shell's `$`"),
            ("/bin/x \"`id`\"", "the shell's ``"),
            ("/bin/x *.log", "the shell's `*`"),
            ("/bin/x ~/y", "the shell's `~`"),
            ("/bin/x # y", "the shell's `#`"),
            ("/bin/x 'y", "a `'` that does not end"),
            ("/bin/x \"y", "a `\"` that does not end"),
            ("/bin/x \\", "a `\\` at the end"),
        ] {
            let error = split_words(line).expect_err(line);
            assert!(error.starts_with(why), "{line}: {error}");
        }
    }

    #[test]
    fn no_line_makes_it_panic() {
        arbtest::arbtest(|u| {
            let _words = split_words(u.arbitrary::<&str>()?);
            Ok(())
        });
    }
}
