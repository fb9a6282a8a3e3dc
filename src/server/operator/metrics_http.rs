//! `/metrics` for Prometheus (`PrometheusMetricsProvider`).

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, RawQuery, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use super::exposition;
use super::http_listener::{Client, HttpListener};
use crate::server::shared::Server;

use crate::message::MessageId;

/// A fifth of the time that quantiles are about.
const BETWEEN_MARKS: Duration = Duration::from_secs(120);
/// How long a connection may be without an answer: above the usual pause between two scrapes.
const IDLE_MAX: Duration = Duration::from_secs(90);

/// Answers scrapes until the server ends.
pub(in crate::server) async fn serve(listener: TcpListener, server: Arc<Server>) {
    let ending = server.ending.clone();
    let stats = Arc::clone(&server.stats);
    tokio::spawn(ending.clone().run_until_cancelled_owned(async move {
        loop {
            tokio::time::sleep(BETWEEN_MARKS).await;
            stats.series.mark();
        }
    }));
    let figures = Arc::new(Figures { server, turn: Mutex::new(()) });
    let router = Router::new().route("/metrics", get(metrics)).with_state(figures);
    let listener = HttpListener::new(listener, Some(IDLE_MAX));
    let served = axum::serve(listener, router.into_make_service_with_connect_info::<Client>())
        .with_graceful_shutdown(async move { ending.cancelled().await })
        .await;
    if let Err(error) = served {
        tracing::error!(id = %MessageId::METRICS_GONE, %error, "/metrics is no longer served");
    }
}

/// What the figures are of, and whose turn it is to have them: one page is made at a time.
struct Figures {
    server: Arc<Server>,
    turn: Mutex<()>,
}

async fn metrics(
    State(figures): State<Arc<Figures>>,
    ConnectInfo(client): ConnectInfo<Client>,
    RawQuery(query): RawQuery,
) -> impl IntoResponse {
    let _answering = client.answering();
    let wanted = wanted(query.as_deref().unwrap_or_default());
    let _turn = figures.turn.lock().await;
    let server = Arc::clone(&figures.server);
    // The figures of many connections and quotas take their time, in which this thread has clients
    // to serve.
    let page = spawn_blocking(move || exposition::page(&server, &wanted)).await;
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.unwrap_or_default())
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
