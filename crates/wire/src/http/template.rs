//! URL templates: `/item/4711` becomes `/item/{id}`.

/// Paths are cut here; longer ones are not worth grouping.
const TEMPLATE_BYTES_MAX: usize = 160;

/// Writes the template of a request's target into `out`: the path, with apparent ids replaced.
pub(crate) fn template(target: &[u8], out: &mut String) {
    out.clear();
    // Proxies receive `http://host/path`.
    let path = match target.windows(3).take(9).position(|three| three == b"://") {
        Some(at) => {
            let rest = &target[at + 3..];
            rest.iter().position(|byte| *byte == b'/').map_or(&b"/"[..], |slash| &rest[slash..])
        }
        None => target,
    };
    let end = path.iter().position(|byte| matches!(byte, b'?' | b'#' | b';'));
    let path = &path[..end.unwrap_or(path.len())];
    let path = &path[..path.len().min(TEMPLATE_BYTES_MAX)];
    for (at, segment) in path.split(|byte| *byte == b'/').enumerate() {
        if at > 0 {
            out.push('/');
        }
        for (at, word) in segment.split(|byte| *byte == b'.').enumerate() {
            if at > 0 {
                out.push('.');
            }
            push_word(word, out);
        }
    }
}

fn push_word(word: &[u8], out: &mut String) {
    let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
    if word.is_empty() {
    } else if digits == word.len() {
        out.push_str("{id}");
    } else if word.len() == 36 && word.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
    {
        out.push_str("{uuid}");
    } else if word.len() >= 8 && digits > 0 && word.iter().all(u8::is_ascii_hexdigit) {
        out.push_str("{hex}");
    } else if word.len() >= 20 && digits >= 2 && word.iter().all(u8::is_ascii_alphanumeric) {
        out.push_str("{token}");
    } else {
        push_numbers(word, out);
    }
}

/// Runs of three or more digits within a word are numbers; `v2` and `h1` are names.
fn push_numbers(word: &[u8], out: &mut String) {
    let mut at = 0;
    while at < word.len() {
        let run = word[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if run >= 3 {
            out.push_str("{n}");
            at += run;
            continue;
        }
        let end = at + run.max(1);
        for byte in &word[at..end] {
            out.push(if byte.is_ascii_graphic() { char::from(*byte) } else { '\u{fffd}' });
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::template;

    #[test]
    fn ids_are_taken_out_and_names_stay() {
        for (target, expected) in [
            ("/", "/"),
            ("/app/search?q=1", "/app/search"),
            ("/item/4711", "/item/{id}"),
            ("/v2/users/7/orders/81", "/v2/users/{id}/orders/{id}"),
            ("/o/0f8fad5b-d9cb-469f-a165-70867728950e", "/o/{uuid}"),
            ("/static/app.3f9ab2c1.js", "/static/app.{hex}.js"),
            ("/blob/9b2f3a5d9f8c4e6ab1d0", "/blob/{hex}"),
            ("/s/AbCdEf12345GhIjKlMnOp", "/s/{token}"),
            ("/img/photo-20261121_1.jpg", "/img/photo-{n}_1.jpg"),
            ("/h1/ab12", "/h1/ab12"),
            ("http://www.example.com/item/5", "/item/{id}"),
            ("http://www.example.com", "/"),
            ("*", "*"),
            ("", ""),
        ] {
            let mut out = String::new();
            template(target.as_bytes(), &mut out);
            assert_eq!(out, expected, "{target}");
        }
    }

    #[test]
    fn any_bytes_make_a_short_printable_template() {
        arbtest::arbtest(|u| {
            let target: Vec<u8> = u.arbitrary()?;
            let mut out = String::new();
            template(&target, &mut out);
            assert!(out.len() <= 3 * 160 && !out.contains(char::is_control), "{out:?}");
            Ok(())
        });
    }
}
