//! Lines of klog and glog (Kubernetes, many Go and C++ services): `I1120 12:00:00.123456    12
//! file.go:34] message`.

use weir_values::number;

use crate::record::Record;

/// Reads a line; `None`, with the record unchanged, if it is not in this format.
pub(crate) fn parse<'a>(line: &'a str, record: &mut Record<'a>) -> Option<()> {
    let severity = match line.as_bytes().first()? {
        b'I' => "info",
        b'W' => "warn",
        b'E' => "error",
        b'F' => "critical",
        _ => return None,
    };
    let (head, message) = line.split_once("] ")?;
    let mut words = head.get(1..)?.split_ascii_whitespace();
    let (day, clock, thread_id, place) =
        (words.next()?, words.next()?, words.next()?, words.next()?);
    if day.len() != 4 || words.next().is_some() {
        return None;
    }
    let ts = record.times.read_month_day([day, clock])?;
    record.log.process_id = Some(number::integer(thread_id)?);
    record.ts = Some(ts);
    record.log.severity = Some(severity);
    record.log.body = message;
    record.attr(["code_location", place]);
    Some(())
}
