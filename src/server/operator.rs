//! What operators see and do: four-letter words, the AdminServer and the page of metrics.

pub(super) mod admin;
mod exposition;
pub(super) mod four_letter;
mod http_listener;
pub(super) mod inventory;
pub(super) mod metrics_http;
mod monitor;
