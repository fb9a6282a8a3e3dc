//! The AdminServer: commands and their answers over HTTP (`Commands`), and `/health`.
//!
//! It listens before the data directory is taken, so that a process that recovers is seen to live.
//! What is asked meanwhile is answered like on a server without a leader.

mod authorization;
mod commands;
mod connections;
mod ensemble;
pub(super) mod health;
mod json;
mod rate;
mod restore;
mod snapshot;
mod statistics;

use std::io;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use percent_encoding::percent_decode_str;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use self::authorization::{Asker, NotRun};
use self::commands::Command;
use self::json::{Fields, Json};
use self::rate::RateLimiter;
use super::http_listener::{Client, HttpListener};
use super::inventory::{InventoryKind, Pieces, Sink};
use crate::config::{self, Config};
use crate::message::MessageId;
use crate::server::bind::bind;
use crate::server::shared::Server;

/// `Commands.runCommand` says so where a command needs a server that serves.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

/// What the server holds has not been listed in the time that there is.
const TOOK_TOO_LONG: &str = "it took too long";

/// Commands that may wait for their turn. With the slow ones they leave some of the connections
/// that there may be to probes.
const WAITING_MAX: usize = 8;
/// The same of inventories and snapshots, which take their time: no other command waits for one of
/// them.
const SLOW_WAITING_MAX: usize = 4;

/// The server that the commands are about, once it stands.
pub(in crate::server) type Subject = Arc<OnceLock<Arc<Server>>>;

/// What all connections share.
#[derive(Debug)]
struct Admin {
    config: config::Admin,
    subject: Subject,
    /// One command at a time.
    turn: Mutex<()>,
    /// Those who wait for it.
    waiting: Semaphore,
    /// One snapshot at a time is taken, or put in place of what there is.
    snapshot_turn: Mutex<()>,
    /// Those who wait for it or for an inventory.
    slow_waiting: Semaphore,
    snapshots: RateLimiter,
    restores: RateLimiter,
}

/// Listens, if it can, until the server ends.
pub(in crate::server) fn start(config: &Config, ending: &CancellationToken) -> Subject {
    let subject = Subject::default();
    let Some(config) = config.admin.clone() else { return subject };
    let (address, commands) = (config.listen, config.command_url.as_str());
    match bind(&address, None) {
        Ok(port) => {
            let bound = port.local_addr().map_or(address.port, |bound| bound.port());
            tracing::info!(%address, port = bound, commands, "the AdminServer is listening");
            tokio::spawn(serve(port, config, Arc::clone(&subject), ending.clone()));
        }
        Err(error) => tracing::warn!(
            id = %MessageId::NO_ADMIN_SERVER,
            %address,
            %error,
            "there is no AdminServer: its port cannot be opened. Set admin.serverPort to another \
             port, or admin.enableServer=false"
        ),
    }
    subject
}

async fn serve(
    port: TcpListener,
    config: config::Admin,
    subject: Subject,
    ending: CancellationToken,
) {
    let listener = HttpListener::new(port, config.idle_timeout);
    let [snapshots, restores] = [(); 2].map(|()| RateLimiter::new(config.rate_limiter_interval));
    let admin = Arc::new(Admin {
        config,
        subject,
        turn: Mutex::new(()),
        waiting: Semaphore::new(WAITING_MAX),
        snapshot_turn: Mutex::new(()),
        slow_waiting: Semaphore::new(SLOW_WAITING_MAX),
        snapshots,
        restores,
    });
    let router = Router::new().fallback(answer).with_state(admin);
    let served = axum::serve(listener, router.into_make_service_with_connect_info::<Client>())
        .with_graceful_shutdown(async move { ending.cancelled().await })
        .await;
    if let Err(error) = served {
        tracing::error!(id = %MessageId::ADMIN_SERVER_GONE, %error, "the AdminServer has ended");
    }
}

/// What an answer says, ahead of what every one says.
#[derive(Debug)]
struct CommandAnswer {
    status: StatusCode,
    headers: HeaderMap,
    /// As it was asked for, or its first name.
    command: String,
    fields: Fields,
    error: Option<String>,
}

impl CommandAnswer {
    fn of(command: Command, fields: Fields) -> Self {
        Self {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            command: command.name().to_owned(),
            fields,
            error: None,
        }
    }

    fn error(command: &str, status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            command: command.to_owned(),
            fields: Fields::new(),
            error: Some(error.into()),
        }
    }
}

impl IntoResponse for CommandAnswer {
    fn into_response(self) -> Response {
        let Self { status, headers, command, mut fields, error } = self;
        fields.push(("command".into(), command.into()));
        // A command that tells of an error itself has its own place for it.
        if !fields.iter().any(|(name, _)| name == "error") {
            fields.push(("error".into(), error.map_or(Json::Null, Json::from)));
        }
        (status, headers, json_body(fields)).into_response()
    }
}

fn json_body(fields: Fields) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], Json::Object(fields).to_string())
}

/// Answers one request.
async fn answer(
    State(admin): State<Arc<Admin>>,
    ConnectInfo(client): ConnectInfo<Client>,
    request: Request,
) -> Response {
    let _answering = client.answering();
    let (request, body) = request.into_parts();
    let method = request.method.clone();
    if method == Method::TRACE {
        return StatusCode::FORBIDDEN.into_response();
    }
    let path = percent_decode_str(request.uri.path()).decode_utf8_lossy().into_owned();
    if let Some(probe) = path.strip_prefix("/health/") {
        return health::answer(probe, &method, admin.subject.get());
    }
    let below = path.strip_prefix(admin.config.command_url.as_str());
    let Some(below) = below.filter(|below| below.is_empty() || below.starts_with('/')) else {
        return not_found();
    };
    match method {
        Method::GET | Method::HEAD | Method::POST => {}
        Method::OPTIONS => return allowed(StatusCode::OK, "GET, HEAD, POST, OPTIONS"),
        Method::PUT | Method::DELETE => {
            return allowed(StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD, POST, OPTIONS");
        }
        _ => return StatusCode::NOT_IMPLEMENTED.into_response(),
    }
    match below.strip_prefix('/') {
        None | Some("") => list(&admin.config.command_url).into_response(),
        Some(name) => run(&admin, name, &client, &request, body).await,
    }
}

fn allowed(status: StatusCode, methods: &'static str) -> Response {
    (status, [(ALLOW, methods)], Body::empty()).into_response()
}

fn not_found() -> Response {
    let text = "<html><head><title>Error 404 Not Found</title></head>\
                <body><h2>HTTP ERROR 404 Not Found</h2></body></html>\n";
    (StatusCode::NOT_FOUND, [(CONTENT_TYPE, "text/html;charset=iso-8859-1")], text).into_response()
}

/// Links to all commands.
fn list(url: &str) -> Response {
    let links =
        Command::names().map(|name| format!("<a href=\"{url}/{name}\">{name}</a>\n<br/>\n"));
    let mut response = links.collect::<String>().into_response();
    // ZooKeeper leaves it out, and browsers find out; nothing in it comes from outside.
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
    response
}

/// What is sent along is read by a command that wants it only.
async fn run(admin: &Admin, name: &str, client: &Client, request: &Parts, body: Body) -> Response {
    let Some(command) = Command::find(name) else {
        return CommandAnswer::error(name, StatusCode::OK, format!("Unknown command: {name}"))
            .into_response();
    };
    let server = admin.subject.get();
    let serving = server.filter(|server| server.serves() || !command.needs_service());
    let not_serving = || CommandAnswer::error(name, StatusCode::OK, NOT_SERVING).into_response();
    let Some(server) = serving else { return not_serving() };
    let headers = &request.headers;
    let asker = Asker::new((client.peer, client.own), headers, admin.config.x_forwarded_for);
    let needs = command.needs(asker.is_over_loopback(), admin.config.remote_allow_world);
    // What the root lets whom do is in the data.
    if needs.is_some() && server.knows_nothing() {
        return not_serving();
    }
    let shown = headers.get(AUTHORIZATION);
    if let Some(needs) = needs
        && let Err(refused) = asker.authorize(server, shown, needs)
    {
        tracing::warn!(
            id = %MessageId::ADMIN_REFUSED,
            client = %client.peer,
            command = command.name(),
            %refused,
            "refused by the AdminServer"
        );
        let status = match refused {
            NotRun::Missing | NotRun::NotAuthenticated => StatusCode::UNAUTHORIZED,
            NotRun::NotAuthorized | NotRun::NotOverLoopback(_) => StatusCode::FORBIDDEN,
        };
        return CommandAnswer::error(name, status, refused.to_string()).into_response();
    }
    let (wants, allows) = match command {
        Command::Restore => (request.method == Method::POST, "POST"),
        _ => (request.method != Method::POST, "GET, HEAD"),
    };
    if !wants {
        let mut refusal = CommandAnswer::error(
            command.name(),
            StatusCode::METHOD_NOT_ALLOWED,
            format!("{} requires {allows}", command.name()),
        );
        refusal.headers.insert(ALLOW, HeaderValue::from_static(allows));
        return refusal.into_response();
    }
    if command == Command::Restore {
        return restore::answer(admin, server, headers, body).await;
    }
    let query = request.uri.query().unwrap_or_default();
    let inventory = connections::inventory(command);
    let is_slow = inventory.is_some() || command == Command::Snapshot;
    let waiting = if is_slow { &admin.slow_waiting } else { &admin.waiting };
    let Ok(_waiting) = waiting.try_acquire() else {
        let why = "too many commands are waiting: try again later";
        return CommandAnswer::error(command.name(), StatusCode::SERVICE_UNAVAILABLE, why)
            .into_response();
    };
    if let Some(kind) = inventory {
        return take_inventory(command, kind, server).await;
    }
    if command == Command::Snapshot {
        let _turn = admin.snapshot_turn.lock().await;
        return snapshot::answer(admin, server, query).await;
    }
    let _turn = admin.turn.lock().await;
    // Some look into folders, which a slow disk may hold up, and some ask the orderer.
    tokio::task::block_in_place(|| commands::answer(command, server, query)).into_response()
}

/// Answers with what is found as it is found: in one piece where that is little.
async fn take_inventory(command: Command, kind: InventoryKind, server: &Arc<Server>) -> Response {
    let failed = || {
        CommandAnswer::error(command.name(), StatusCode::SERVICE_UNAVAILABLE, TOOK_TOO_LONG)
            .into_response()
    };
    let Some(turn) = server.inventories.turn(kind).await else { return failed() };
    let write = move |server: &Arc<Server>, to: &mut Sink| connections::write(command, server, to);
    let mut pieces = Pieces::take(server, turn, write);
    let headers = [(CONTENT_TYPE, "application/json")];
    let Ok(first) = pieces.next().await else { return failed() };
    let first = first.unwrap_or_default();
    match pieces.next().await {
        Ok(None) => (headers, first).into_response(),
        Ok(Some(second)) => {
            let begun = stream::iter([Ok(first), Ok(second)]);
            let rest = stream::try_unfold(pieces, |mut pieces| async move {
                Ok::<_, io::Error>(pieces.next().await?.map(|piece| (piece, pieces)))
            });
            (headers, Body::from_stream(begun.chain(rest))).into_response()
        }
        Err(_) => failed(),
    }
}

/// The first value of a parameter.
fn parameter(query: &str, name: &str) -> Option<String> {
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8_lossy().into_owned()
    };
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(key) == name).then(|| decode(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_of_a_parameter_counts() {
        for (query, value) in [
            ("", None),
            ("traceMask=1", Some("1")),
            ("a=b&traceMask=1&traceMask=2", Some("1")),
            ("trace%4Dask=%201+2", Some(" 1 2")),
            ("traceMask", Some("")),
            ("traceMaskx=1", None),
        ] {
            assert_eq!(parameter(query, "traceMask").as_deref(), value, "{query}");
        }
    }
}
