//! The clients' connections, and what they watch and own.

use std::cell::RefCell;
use std::fmt::Display;
use std::io;

use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq as _, Serializer};

use super::commands::Command;
use super::json::{self, Fields, Json};
use super::statistics;
use crate::engine::session::SessionId;
use crate::engine::time::Monotonic;
use crate::ensemble::Scope;
use crate::server::client::connection::{Connection, java_address};
use crate::server::operator::four_letter;
use crate::server::operator::inventory;
use crate::server::operator::inventory::{Grouped, InventoryKind};
use crate::server::shared::Server;

/// Of what a command takes an inventory.
pub(super) const fn inventory(command: Command) -> Option<InventoryKind> {
    match command {
        Command::Connections | Command::Stats => Some(InventoryKind::Connections),
        Command::Dump => Some(InventoryKind::Sessions),
        Command::Watches | Command::WatchesByPath => Some(InventoryKind::Watches),
        _ => None,
    }
}

/// Writes the answer to such a command, as it is found.
pub(super) fn write(command: Command, server: &Server, to: impl io::Write) -> io::Result<()> {
    let mut json = json::pretty(to);
    let mut map = json.serialize_map(None)?;
    match command {
        Command::Connections => put_all(&mut map, server, false)?,
        Command::Stats => {
            for (name, value) in statistics::server_stats(server) {
                map.serialize_entry(&name, &value)?;
            }
            put_all(&mut map, server, true)?;
        }
        Command::Dump => {
            map.serialize_entry("expiry_time_to_session_ids", &expiries(server))?;
            let ephemerals = Lists::of(inventory::ephemerals(server), |session| session.0, |it| it);
            map.serialize_entry("session_id_to_ephemeral_paths", &ephemerals)?;
        }
        Command::WatchesByPath => {
            let watches = inventory::watches_by_path(server);
            let watches = Lists::of(watches, |path| path, |session: SessionId| session.0);
            map.serialize_entry("path_to_session_ids", &watches)?;
        }
        _ => {
            let watches = inventory::watches_by_session(server);
            let watches = Lists::of(watches, |session| session.0, |path| path);
            map.serialize_entry("session_id_to_watched_paths", &watches)?;
        }
    }
    map.serialize_entry("command", command.name())?;
    map.serialize_entry("error", &Json::Null)?;
    Ok(SerializeMap::end(map)?)
}

/// All connections; `brief` is how `stats` has them.
fn put_all<M: SerializeMap>(map: &mut M, server: &Server, brief: bool) -> Result<(), M::Error> {
    map.serialize_entry("connections", &All { server, brief })?;
    // There is no TLS for clients.
    map.serialize_entry("secure_connections", &Json::List(Vec::new()))
}

struct All<'a> {
    server: &'a Server,
    brief: bool,
}

impl Serialize for All<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(None)?;
        self.server.connections.try_each(|connection| {
            list.serialize_element(&Json::Object(one(connection, self.brief)))
        })?;
        list.end()
    }
}

/// Lists by their heads, each written as it is found.
struct Lists<'a, K, V, H, E> {
    grouped: RefCell<Grouped<'a, K, V>>,
    shown_head: fn(K) -> H,
    shown: fn(V) -> E,
}

impl<'a, K, V, H, E> Lists<'a, K, V, H, E> {
    fn of(grouped: Grouped<'a, K, V>, shown_head: fn(K) -> H, shown: fn(V) -> E) -> Self {
        Self { grouped: RefCell::new(grouped), shown_head, shown }
    }
}

impl<K: Clone + PartialEq, V, H: Display, E: Serialize> Serialize for Lists<'_, K, V, H, E> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        loop {
            let Some(head) = self.grouped.borrow_mut().head() else { return map.end() };
            let shown = (self.shown_head)(head.clone()).to_string();
            map.serialize_entry(&shown, &List { lists: self, head })?;
        }
    }
}

struct List<'a, 'b, K, V, H, E> {
    lists: &'a Lists<'b, K, V, H, E>,
    head: K,
}

impl<K: Clone + PartialEq, V, H, E: Serialize> Serialize for List<'_, '_, K, V, H, E> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut list = to.serialize_seq(None)?;
        let mut grouped =
            self.lists.grouped.try_borrow_mut().map_err(|_| S::Error::custom("in use"))?;
        while let Some(value) = grouped.next_of(&self.head) {
            list.serialize_element(&(self.lists.shown)(value))?;
        }
        list.end()
    }
}

/// Sessions by the time at which they expire.
fn expiries(server: &Server) -> Json {
    let scopes = [Scope::Local, Scope::Global].map(|scope| inventory::expiries(server, scope));
    let mut all: Vec<(Monotonic, SessionId)> = scopes.into_iter().flatten().flatten().collect();
    all.sort_unstable();
    let buckets = all.chunk_by(|(one, _), (next, _)| one == next).map(|bucket| {
        let end = bucket.first().map_or(0, |(end, _)| end.0);
        let sessions = bucket.iter().map(|(_, session)| Json::from(session.0));
        (end.to_string().into(), sessions.collect())
    });
    Json::Object(buckets.collect())
}

/// `ServerCnxn.getConnectionInfo`.
fn one(connection: &Connection, brief: bool) -> Fields {
    let counters = *connection.counters();
    let peer = connection.peer();
    let address = java_address(peer.ip());
    let address = if peer.is_ipv6() { format!("[{address}]") } else { address };
    let mut fields: Fields = vec![
        ("remote_socket_address".into(), format!("{address}:{}", peer.port()).into()),
        // In reading.
        ("interest_ops".into(), Json::Integer(1)),
        ("outstanding_requests".into(), connection.in_flight().into()),
        ("packets_received".into(), counters.received.into()),
        ("packets_sent".into(), counters.sent.into()),
    ];
    if !brief {
        let attached = connection.session();
        let timeout_ms = attached.map_or(0, |attached| attached.timeout_ms);
        let latency = counters.latency;
        fields.extend([
            ("session_id".into(), connection.session_id().0.into()),
            ("last_operation".into(), counters.last_op.map_or("NA", four_letter::operation).into()),
            ("established".into(), counters.established.0.into()),
            ("session_timeout".into(), i64::from(timeout_ms).into()),
            ("last_cxid".into(), i64::from(counters.last_cxid).into()),
            ("last_zxid".into(), counters.last_zxid.0.into()),
            ("last_response_time".into(), counters.last_response.0.into()),
            ("last_latency".into(), counters.last_latency.into()),
            ("min_latency".into(), latency.min.into()),
            ("avg_latency".into(), (latency.sum / latency.count.max(1)).into()),
            ("max_latency".into(), latency.max.into()),
        ]);
    }
    fields
}

pub(super) fn watch_summary(server: &Server) -> Fields {
    let (connections, paths, watches) = server.replica.shared().watches().lock().data_summary();
    vec![
        ("num_connections".into(), connections.into()),
        ("num_paths".into(), paths.into()),
        ("num_total_watches".into(), watches.into()),
    ]
}
