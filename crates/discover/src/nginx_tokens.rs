//! nginx's configuration syntax: words, quotes, escapes, comments, blocks; words have lines.
//!
//! Source: `ngx_conf_read_token` of nginx. The surprising things: `\t`, `\n`, `\r`, `\"`, `\'` and
//! `\\` are unescaped even outside quotes while other backslashes stay, `#` begins a comment only
//! where a word could begin, and a `*_by_lua_block` contains Lua up to its closing brace.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Word(String),
    /// `;`
    End,
    /// `{`
    Open,
    /// `}`
    Close,
}

/// Splits `text` into tokens with their lines.
///
/// # Errors
/// The line and the error, when a quote or a block is never closed.
pub(super) fn tokens(text: &[u8]) -> Result<Vec<(Token, i64)>, (i64, String)> {
    let mut lexer = Lexer { text, at: 0, line: 1, tokens: Vec::new() };
    while let Some(byte) = lexer.peek() {
        lexer.token(byte)?;
    }
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    line: i64,
    tokens: Vec<(Token, i64)>,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        self.line += i64::from(byte == b'\n');
        Some(byte)
    }

    fn push(&mut self, token: Token) {
        self.tokens.push((token, self.line));
    }

    fn token(&mut self, byte: u8) -> Result<(), (i64, String)> {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                self.next();
            }
            b'#' => self.comment(),
            b';' => self.sign(Token::End),
            b'}' => self.sign(Token::Close),
            b'{' if self.is_lua() => return self.lua(),
            b'{' => self.sign(Token::Open),
            b'"' | b'\'' => return self.quoted(byte),
            _ => self.word(),
        }
        Ok(())
    }

    fn sign(&mut self, token: Token) {
        self.push(token);
        self.next();
    }

    fn comment(&mut self) {
        while self.peek().is_some_and(|byte| byte != b'\n') {
            self.next();
        }
    }

    fn quoted(&mut self, quote: u8) -> Result<(), (i64, String)> {
        let line = self.line;
        self.next();
        let mut word = Vec::new();
        loop {
            match self.next() {
                None => return Err((line, "a quote is never closed".into())),
                Some(byte) if byte == quote => break,
                Some(b'\\') => self.escape(&mut word),
                Some(byte) => word.push(byte),
            }
        }
        self.tokens.push((Token::Word(String::from_utf8_lossy(&word).into_owned()), line));
        Ok(())
    }

    fn word(&mut self) {
        let line = self.line;
        let mut word = Vec::new();
        while let Some(byte) = self.peek() {
            let is_variable = byte == b'{' && word.last() == Some(&b'$');
            if matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b';') || (byte == b'{' && !is_variable)
            {
                break;
            }
            self.next();
            if is_variable {
                self.variable(&mut word);
            } else if byte == b'\\' {
                self.escape(&mut word);
            } else {
                word.push(byte);
            }
        }
        self.tokens.push((Token::Word(String::from_utf8_lossy(&word).into_owned()), line));
    }

    /// Reads the remainder of `${name}`.
    fn variable(&mut self, word: &mut Vec<u8>) {
        word.push(b'{');
        while let Some(byte) = self.peek().filter(|byte| !matches!(byte, b' ' | b'\n' | b';')) {
            self.next();
            word.push(byte);
            if byte == b'}' {
                break;
            }
        }
    }

    fn escape(&mut self, word: &mut Vec<u8>) {
        match self.next() {
            Some(byte @ (b'"' | b'\'' | b'\\')) => word.push(byte),
            Some(b't') => word.push(b'\t'),
            Some(b'n') => word.push(b'\n'),
            Some(b'r') => word.push(b'\r'),
            Some(byte) => word.extend([b'\\', byte]),
            None => word.push(b'\\'),
        }
    }

    fn is_lua(&self) -> bool {
        matches!(self.tokens.last(), Some((Token::Word(word), _)) if word.ends_with("_by_lua_block"))
    }

    /// Skips Lua up to the brace that closes the block, and emits `;` instead.
    fn lua(&mut self) -> Result<(), (i64, String)> {
        let line = self.line;
        let mut depth = 0;
        while let Some(byte) = self.next() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                b'"' | b'\'' => self.lua_string(byte),
                b'-' if self.peek() == Some(b'-') => self.comment(),
                _ => {}
            }
            if depth == 0 {
                self.push(Token::End);
                return Ok(());
            }
        }
        Err((line, "a block of Lua is never closed".into()))
    }

    fn lua_string(&mut self, quote: u8) {
        while let Some(byte) = self.next() {
            match byte {
                b'\\' => {
                    self.next();
                }
                b'\n' => return,
                _ if byte == quote => return,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(text: &str, expected: Expect) {
        let shown = match tokens(text.as_bytes()) {
            Err((line, message)) => format!("line {line}: {message}"),
            Ok(tokens) => {
                let shown = tokens.iter().map(|(token, line)| match token {
                    Token::Word(word) => format!("{line}:<{}>", word.escape_debug()),
                    Token::End => ";".into(),
                    Token::Open => "{".into(),
                    Token::Close => "}".into(),
                });
                shown.collect::<Vec<_>>().join(" ")
            }
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn words_quotes_escapes_and_comments_split_as_nginx_splits_them() {
        check("listen 80; # x;\n}", expect!["1:<listen> 1:<80> ; }"]);
        check("a 'b c' \"d\\\"e\" f\\;g;", expect![[r#"1:<a> 1:<b c> 1:<d\"e> 1:<f\\;g> ;"#]]);
        check("x a#b;", expect!["1:<x> 1:<a#b> ;"]);
        check("x ${a}b$c{y;}", expect!["1:<x> 1:<${a}b$c> { 1:<y> ; }"]);
        check(
            "log_format j '{'\n '\"a\":\"$b\"'\n'}';",
            expect![[r#"1:<log_format> 1:<j> 1:<{> 2:<\"a\":\"$b\"> 3:<}> ;"#]],
        );
        check("x 'never", expect!["line 1: a quote is never closed"]);
        check("x '\\x'", expect![[r#"1:<x> 1:<\\x>"#]]);
    }

    #[test]
    fn lua_is_skipped() {
        check(
            "content_by_lua_block { local a = {'}'} -- }\n return \"}\" }\nlisten 1;",
            expect!["1:<content_by_lua_block> ; 3:<listen> 3:<1> ;"],
        );
    }

    #[test]
    fn any_bytes_do_not_panic() {
        arbtest::arbtest(|u| {
            let bytes: Vec<u8> = u.arbitrary()?;
            let _ = tokens(&bytes);
            Ok(())
        });
    }
}
