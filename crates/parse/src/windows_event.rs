//! Events of Windows in XML, as `wevtutil`, PowerShell's `ToXml()`, NXLog and Event Log forwarders write them.
//!
//! Source: the event schema (<http://schemas.microsoft.com/win/2004/08/events/event>). The surprising
//! thing: an event has the values of its message, and the message only where the writer rendered it.

use weir_values::number;

use crate::record::Record;

/// Reads an event, on one line or several; `None`, with the record unchanged, if it is none.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    if !line.starts_with("<Event") {
        return None;
    }
    let event = Xml(line).element("Event")?.text;
    let system = Xml(event).element("System")?.text;
    let part = |name: &str| Xml(system).element(name);
    let value = |name: &str, key: &str| part(name).and_then(|part| part.value(key));
    let text = |name: &str| part(name).map(|part| part.text.trim_ascii());
    record.ts = value("TimeCreated", "SystemTime").and_then(|time| record.times.read(time));
    record.log.severity = text("Level").and_then(severity_of);
    record.log.program = value("Provider", "Name").or_else(|| value("Provider", "EventSourceName"));
    record.log.process_id = value("Execution", "ProcessID").and_then(number::integer);
    for (name, found) in [
        ("event_id", text("EventID")),
        ("event_record_id", text("EventRecordID")),
        ("channel", text("Channel")),
        ("computer", text("Computer")),
        ("task", text("Task")),
        ("opcode", text("Opcode")),
        ("keywords", text("Keywords")),
        ("thread_id", value("Execution", "ThreadID")),
        ("activity_id", value("Correlation", "ActivityID")),
        ("user_id", value("Security", "UserID")),
    ] {
        record.attr([name, found.unwrap_or_default()]);
    }
    let unnamed = put_data(event, record);
    let rendered = Xml(event).element("RenderingInfo").and_then(|info| {
        Xml(info.text).element("Message").map(|message| decoded(message.text.trim_ascii(), record))
    });
    record.log.body = rendered.or(unnamed).unwrap_or_default();
    Some(())
}

/// Values of `<Data Name='key'>` are attributes, and the elements of `<UserData>`; returns the first
/// value without a name.
fn put_data<'a>(event: &'a str, record: &mut Record<'a>) -> Option<&'a str> {
    let mut unnamed = None;
    let data = Xml(event).element("EventData").map(|data| data.text).unwrap_or_default();
    let mut rest = data;
    while let Some(element) = Xml(rest).element("Data") {
        let value = decoded(element.text.trim_ascii(), record);
        match element.value("Name") {
            Some(name) => record.attr([name, value]),
            None => {
                record.attr(["data", value]);
                unnamed = unnamed.or(Some(value).filter(|value| !value.is_empty()));
            }
        }
        rest = element.behind;
    }
    let mut rest = Xml(event).element("UserData").map(|data| data.text).unwrap_or_default();
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let name = &rest[..rest.find(|mark: char| !mark.is_ascii_alphanumeric()).unwrap_or(0)];
        let Some(end) = rest.find(['<', '>']) else { break };
        let Some(behind) = rest[end..].strip_prefix('>') else { continue };
        let (text, end) = behind.split_at(behind.find('<').unwrap_or(behind.len()));
        if !name.is_empty() && end.strip_prefix("</").is_some_and(|end| end.starts_with(name)) {
            record.attr([name, decoded(text.trim_ascii(), record)]);
        }
    }
    unnamed
}

/// 1 to 5; 0 is an event that is always logged, such as one of an audit.
fn severity_of(level: &str) -> Option<&'static str> {
    match level {
        "1" => Some("critical"),
        "2" => Some("error"),
        "3" => Some("warn"),
        "0" | "4" => Some("info"),
        "5" => Some("debug"),
        _ => None,
    }
}

/// An element of XML that does not contain another of its name.
struct Element<'a> {
    attributes: &'a str,
    text: &'a str,
    behind: &'a str,
}

/// Text with elements.
struct Xml<'a>(&'a str);

impl<'a> Xml<'a> {
    /// The first element of this name.
    fn element(&self, name: &str) -> Option<Element<'a>> {
        let mut rest = self.0;
        loop {
            let (_, behind) = rest.split_once('<')?;
            rest = behind;
            let Some(tag) = rest.strip_prefix(name) else { continue };
            if !tag.starts_with(['>', '/', ' ', '\t', '\r', '\n']) {
                continue;
            }
            let (attributes, inner) = tag.split_once('>')?;
            if let Some(attributes) = attributes.strip_suffix('/') {
                return Some(Element { attributes, text: "", behind: inner });
            }
            let mut ends = memchr::memmem::find_iter(inner.as_bytes(), b"</");
            let end = ends.find(|at| {
                inner[at + 2..].strip_prefix(name).is_some_and(|end| end.starts_with(['>', ' ']))
            })?;
            return Some(Element { attributes, text: &inner[..end], behind: &inner[end + 2..] });
        }
    }
}

impl<'a> Element<'a> {
    /// The value of an attribute, in single or double quotes.
    fn value(&self, key: &str) -> Option<&'a str> {
        let mut rest = self.attributes;
        loop {
            let (name, quoted) = rest.split_once('=')?;
            let quoted = quoted.trim_ascii_start();
            let quote = quoted.chars().next().filter(|mark| matches!(mark, '\'' | '"'))?;
            let (value, behind) = quoted[1..].split_once(quote)?;
            if name.trim_ascii() == key {
                return Some(value).filter(|value| !value.is_empty());
            }
            rest = behind;
        }
    }
}

/// Replaces entities (`&lt;`, `&#13;`, `&#xA;`).
fn decoded<'a>(text: &'a str, record: &Record<'a>) -> &'a str {
    let text =
        text.strip_prefix("<![CDATA[").and_then(|rest| rest.strip_suffix("]]>")).unwrap_or(text);
    let mut pieces = text.split('&');
    let Some(first) = pieces.next().filter(|first| first.len() < text.len()) else { return text };
    let mut out = first.to_owned();
    for piece in pieces {
        let named = piece.split_once(';').and_then(|(name, behind)| Some((entity(name)?, behind)));
        match named {
            Some((letter, behind)) => {
                out.push(letter);
                out.push_str(behind);
            }
            None => {
                out.push('&');
                out.push_str(piece);
            }
        }
    }
    record.arena.alloc_str(&out)
}

fn entity(name: &str) -> Option<char> {
    Some(match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let digits = name.strip_prefix('#')?;
            let number = match digits.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => digits.parse(),
            };
            return char::from_u32(number.ok()?);
        }
    })
}
