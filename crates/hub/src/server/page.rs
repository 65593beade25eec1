//! The page: files built into the program, or read from a directory while one edits them.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Component, Path, PathBuf};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::SharedApp;
use super::answer::Refusal;

macro_rules! files {
    ($($path:literal)+) => {
        &[$(($path, include_bytes!(concat!("../../../../ui/", $path)))),+]
    };
}

/// Every file of the page. A new file below `ui/` is one line here; a test compares the two.
const FILES: &[(&str, &[u8])] = files! {
    "api.js"
    "app.js"
    "format.js"
    "hooks.js"
    "icon.svg"
    "index.html"
    "parts/chart.js"
    "parts/dialog.js"
    "parts/grid.js"
    "parts/histogram.js"
    "parts/icon.js"
    "parts/panel.js"
    "parts/spark.js"
    "router.js"
    "search.js"
    "style.css"
    "theme.js"
    "vendor/preact-htm.js"
    "vendor/uPlot.esm.js"
    "vendor/uPlot.min.css"
    "views/actions.js"
    "views/checks.js"
    "views/compare.js"
    "views/edge.js"
    "views/edge_certificates.js"
    "views/edge_haproxy.js"
    "views/edge_request.js"
    "views/edge_sql.js"
    "views/facets.js"
    "views/finding.js"
    "views/finding_tiers.js"
    "views/findings.js"
    "views/help.js"
    "views/host.js"
    "views/incident.js"
    "views/incident_actions.js"
    "views/incidents.js"
    "views/log_row.js"
    "views/logs.js"
    "views/notices.js"
    "views/oncall.js"
    "views/overview.js"
    "views/parse.js"
    "views/rule_past.js"
    "views/rules.js"
    "views/slos.js"
    "views/sql.js"
    "views/tier.js"
    "views/tier_details.js"
    "views/tier_sql.js"
    "views/tiers.js"
    "views/tiers_below.js"
    "views/watched.js"
    "views/wire.js"
    "views/wire_request.js"
    "views/wire_sql.js"
};

/// Everything that is not the API.
pub(crate) async fn serve(State(app): State<SharedApp>, uri: Uri, headers: HeaderMap) -> Response {
    let path = match uri.path().trim_start_matches('/') {
        "" => "index.html",
        path => path,
    };
    let content = match &app.ui_dir {
        Some(dir) => read_below(dir, path).await,
        None => FILES.iter().find(|file| file.0 == path).map(|file| file.1.to_vec()),
    };
    let Some(content) = content else {
        return Refusal::new(StatusCode::NOT_FOUND, format!("there is no `{}`", uri.path()))
            .hint("the page is at /, the API below /api")
            .into_response();
    };
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    let tag = format!("\"{:016x}\"", hasher.finish());
    let cache = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, "no-cache".to_owned())];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| *known == tag) {
        return (StatusCode::NOT_MODIFIED, cache).into_response();
    }
    ([(header::CONTENT_TYPE, media_type(path))], cache, content).into_response()
}

async fn read_below(dir: &Path, path: &str) -> Option<Vec<u8>> {
    let path = PathBuf::from(path);
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    if !is_inside {
        return None;
    }
    tokio::fs::read(dir.join(path)).await.ok()
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("json") => "application/json",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::FILES;

    fn files_below(dir: &Path, root: &Path, out: &mut Vec<String>) {
        for entry in std::fs::read_dir(dir).expect("the directory of the page").flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).expect("below").display().to_string();
            if path.is_dir() && name != "tests" {
                files_below(&path, root, out);
            } else if path.is_file()
                && path.file_name().is_some_and(|n| n != "README" && n != "README.md")
            {
                out.push(name);
            }
        }
    }

    #[test]
    fn every_file_of_the_page_is_built_in() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ui");
        let mut found = Vec::new();
        files_below(&root, &root, &mut found);
        found.retain(|name| !name.contains("LICENSE"));
        found.sort();
        let mut listed: Vec<&str> = FILES.iter().map(|file| file.0).collect();
        listed.sort_unstable();
        assert_eq!(listed, found);
    }
}
