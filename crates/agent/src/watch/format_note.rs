//! What a log's format lacks, for the lines that a start prints.
//!
//! Source: nginx's `ngx_http_log_module`, Apache's `mod_log_config`. The surprising thing: the
//! default format of both has no time at all, so a proxy that hangs for 50 s looks healthy in it.

use weir_tables::{LogFormat, LogSource, Program};

/// Variables of nginx and directives of Apache that log how long a request took.
const TIMES: &[&str] = &["$request_time", "$upstream_response_time", "%D", "%T", "ms}T", "us}T"];

/// A note for each access log whose format has no times, with the line that sets the format.
pub fn format_notes(sources: &[LogSource]) -> Vec<String> {
    sources.iter().filter(|source| !has_times(source)).map(note).collect()
}

fn note(source: &LogSource) -> String {
    let fields = match source.program {
        Program::Apache => "`%D`",
        _ => "`rt=$request_time ua=$upstream_addr urt=$upstream_response_time`",
    };
    format!(
        "{} has no times: failures are seen, slow requests are not\n\
         hint: add {fields} to the format of {} (`weir rules show log.format_without_times`)",
        source.path.display(),
        source.found_in
    )
}

fn has_times(source: &LogSource) -> bool {
    let template = match &source.format {
        LogFormat::Combined => "",
        LogFormat::NginxTemplate { template, .. } | LogFormat::ApacheTemplate { template } => {
            template.as_str()
        }
        _ => return true,
    };
    let is_server = matches!(source.program, Program::Nginx | Program::Apache);
    !is_server || TIMES.iter().any(|time| template.contains(time))
}

#[cfg(test)]
mod tests {
    use weir_tables::JsonEscape;

    use super::*;

    fn source(program: Program, format: LogFormat) -> LogSource {
        LogSource { path: "/a.log".into(), program, format, found_in: "/n.conf:3".into() }
    }

    #[test]
    fn default_formats_have_a_note_and_formats_with_times_have_none() {
        let nginx = |template: &str| {
            let template = template.to_owned();
            LogFormat::NginxTemplate { template, escape: JsonEscape::Json }
        };
        let notes = format_notes(&[
            source(Program::Nginx, LogFormat::Combined),
            source(Program::Nginx, nginx("$remote_addr $status")),
            source(Program::Nginx, nginx("$remote_addr $status $request_time")),
            source(Program::Nginx, LogFormat::NginxError),
            source(Program::Apache, LogFormat::ApacheTemplate { template: "%h %>s %D".into() }),
            source(Program::Other, LogFormat::Combined),
        ]);
        assert_eq!(notes.len(), 2);
        assert_eq!(
            notes[0],
            "/a.log has no times: failures are seen, slow requests are not\n\
             hint: add `rt=$request_time ua=$upstream_addr urt=$upstream_response_time` to the format of \
             /n.conf:3 (`weir rules show log.format_without_times`)"
        );
    }
}
