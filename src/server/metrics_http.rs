//! `/metrics` for Prometheus (reference 15.1).

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;

use super::http_listener::HttpListener;
use super::monitor;
use super::shared::Server;

/// Between two times at which the recorder puts what it was given into its summaries.
const BETWEEN_UPKEEPS: Duration = Duration::from_secs(1);

/// How long a connection may be without an answer: above the usual pause between two scrapes.
const IDLE_MAX: Duration = Duration::from_secs(90);

/// Sets up the recorder that keeps the summaries. `None` where the process has one already.
pub(super) fn record() -> Option<PrometheusHandle> {
    PrometheusBuilder::new().set_quantiles(&[0.5, 0.9, 0.99]).ok()?.install_recorder().ok()
}

#[derive(Clone)]
struct Scraped {
    server: Arc<Server>,
    recorder: PrometheusHandle,
}

/// Answers scrapes until the server ends.
pub(super) async fn serve(listener: TcpListener, server: Arc<Server>, recorder: PrometheusHandle) {
    let ending = server.ending.clone();
    let upkeep = recorder.clone();
    // What nobody scrapes must not wait for ever.
    tokio::spawn(ending.clone().run_until_cancelled_owned(async move {
        let mut turns = tokio::time::interval(BETWEEN_UPKEEPS);
        loop {
            turns.tick().await;
            upkeep.run_upkeep();
        }
    }));
    let router =
        Router::new().route("/metrics", get(metrics)).with_state(Scraped { server, recorder });
    let served = axum::serve(HttpListener::new(listener, Some(IDLE_MAX)), router)
        .with_graceful_shutdown(async move { ending.cancelled().await })
        .await;
    if let Err(error) = served {
        tracing::error!(%error, "/metrics is not served any more");
    }
}

async fn metrics(State(Scraped { server, recorder }): State<Scraped>) -> impl IntoResponse {
    monitor::publish(&server);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], recorder.render())
}
