//! `/metrics` for Prometheus (reference 15.1).

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;

use super::figures::exposition;
use super::http_listener::HttpListener;
use super::shared::Server;

use crate::message::MessageId;

/// A fifth of the time that quantiles are about.
const BETWEEN_MARKS: Duration = Duration::from_secs(120);
/// How long a connection may be without an answer: above the usual pause between two scrapes.
const IDLE_MAX: Duration = Duration::from_secs(90);

/// Answers scrapes until the server ends.
pub(super) async fn serve(listener: TcpListener, server: Arc<Server>) {
    let ending = server.ending.clone();
    let stats = Arc::clone(&server.stats);
    tokio::spawn(ending.clone().run_until_cancelled_owned(async move {
        loop {
            tokio::time::sleep(BETWEEN_MARKS).await;
            stats.series.mark();
        }
    }));
    let router = Router::new().route("/metrics", get(metrics)).with_state(server);
    let served = axum::serve(HttpListener::new(listener, Some(IDLE_MAX)), router)
        .with_graceful_shutdown(async move { ending.cancelled().await })
        .await;
    if let Err(error) = served {
        tracing::error!(id = %MessageId::METRICS_GONE, %error, "/metrics is not served any more");
    }
}

async fn metrics(
    State(server): State<Arc<Server>>,
    RawQuery(query): RawQuery,
) -> impl IntoResponse {
    let wanted = wanted(query.as_deref().unwrap_or_default());
    let page = exposition::page(&server, &wanted);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page)
}

/// The names that `name[]=...` asks for; none is all.
fn wanted(query: &str) -> Vec<String> {
    let names = query.split('&').filter_map(|part| part.split_once('='));
    let names = names.filter(|(key, _)| ["name[]", "name%5B%5D", "name%5b%5d"].contains(key));
    names.map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_what_it_wants() {
        for (query, names) in [
            ("", vec![]),
            ("name[]=uptime", vec!["uptime"]),
            ("name%5B%5D=uptime&x=y&name[]=znode_count", vec!["uptime", "znode_count"]),
            ("name=uptime", vec![]),
        ] {
            assert_eq!(wanted(query), names, "{query}");
        }
    }
}
