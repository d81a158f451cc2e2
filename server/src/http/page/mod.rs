//! The dashboard's files, embedded in the program: nothing is fetched from elsewhere.

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

/// Only resources from this server may be loaded, requested or run.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

macro_rules! file {
    ($type:literal, $name:literal) => {
        get(|| async {
            let headers = [
                (header::CONTENT_TYPE, $type),
                (header::CONTENT_SECURITY_POLICY, POLICY),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
                (header::CACHE_CONTROL, "no-cache"),
            ];
            (headers, include_str!($name)).into_response()
        })
    };
}

/// The page at `/` and its files.
pub(super) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route("/", file!("text/html; charset=utf-8", "index.html"))
        .route("/dashboard.js", file!("text/javascript; charset=utf-8", "dashboard.js"))
        .route("/plots.js", file!("text/javascript; charset=utf-8", "plots.js"))
        .route("/style.css", file!("text/css; charset=utf-8", "style.css"))
        .route("/uplot.js", file!("text/javascript; charset=utf-8", "uplot/uPlot.iife.min.js"))
        .route("/uplot.css", file!("text/css; charset=utf-8", "uplot/uPlot.min.css"))
        .route("/favicon.ico", file!("image/svg+xml", "icon.svg"))
}
