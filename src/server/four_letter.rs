//! Four-letter words: what monitoring asks on the client port (reference 13).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use jute::OpCode;
use time::OffsetDateTime;
use time::macros::format_description;

use super::connection::{Connection, java_address};
use super::environment;
use super::figures::monitor;
use super::figures::stats;
use super::shared::{Role, Server};
use crate::config::{self, FourLetterWords};
use crate::engine::session::SessionId;
use crate::engine::time::{Monotonic, Now};
use crate::engine::watch::ConnectionId;
use crate::ensemble::{Expiry, ExpiryBuckets, Inquiry};

/// The release of ZooKeeper that this is like.
pub(super) const ZOOKEEPER_VERSION: &str = "3.9.5";
/// The version that scripts and exporters parse.
pub(super) const VERSION: &str =
    concat!("3.9.5-rookeeper.", env!("CARGO_PKG_VERSION"), ", built on ", env!("ROOKEEPER_BUILT"));

/// The trace mask that `gtmk` shows until `stmk` sets another.
pub(super) const TRACE_MASK: i64 = 306;

/// `AbstractFourLetterCommand.ZK_NOT_SERVING`.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";
/// How long `dump` waits for the orderer.
const ORDERER_PATIENCE: Duration = Duration::from_secs(5);

/// What telnet sends when its user interrupts it.
const TELNET_CLOSE: [u8; 4] = [0xff, 0xf4, 0xff, 0xfd];

macro_rules! words {
    ($($word:ident = $name:literal,)*) => {
        /// A word.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Word {
            $($word,)*
        }

        impl Word {
            /// The word that a connection begins with, if it is one.
            pub(super) fn parse(bytes: &[u8; 4]) -> Option<Self> {
                $(if bytes == $name.as_bytes() {
                    return Some(Self::$word);
                })*
                (*bytes == TELNET_CLOSE).then_some(Self::TelnetClose)
            }

            const fn name(self) -> &'static str {
                match self {
                    $(Self::$word => $name,)*
                }
            }
        }
    };
}

words! {
    Conf = "conf",
    Cons = "cons",
    Crst = "crst",
    Dirs = "dirs",
    Dump = "dump",
    Envi = "envi",
    Gtmk = "gtmk",
    Hash = "hash",
    Isro = "isro",
    Mntr = "mntr",
    Ruok = "ruok",
    Srst = "srst",
    Srvr = "srvr",
    Stat = "stat",
    Stmk = "stmk",
    TelnetClose = "telnet close",
    Wchc = "wchc",
    Wchp = "wchp",
    Wchs = "wchs",
}

impl Word {
    /// Bytes that belong to the word beside itself. What is not executed waits for none.
    pub(super) fn argument_len(self, allowed: &FourLetterWords) -> usize {
        match self {
            Self::Stmk if allowed.allows(self.name()) => size_of::<i64>(),
            _ => 0,
        }
    }

    /// What the word is answered with.
    pub(super) fn answer(self, server: &Server, argument: &[u8]) -> String {
        let name = self.name();
        if !server.config.four_letter_words.allows(name) {
            return format!("{name} is not executed because it is not in the whitelist.\n");
        }
        let needs_service =
            !matches!(self, Self::Envi | Self::Gtmk | Self::Ruok | Self::Stmk | Self::TelnetClose);
        if needs_service && !server.serves() {
            return match self {
                Self::Isro => "null".to_owned(),
                Self::Hash => NOT_SERVING.trim_end().to_owned(),
                _ => NOT_SERVING.to_owned(),
            };
        }
        match self {
            Self::Conf => conf(server),
            Self::Cons => cons(server),
            Self::Crst => {
                reset_connections(server);
                "Connection stats reset.\n".to_owned()
            }
            Self::Dirs => dirs(server),
            Self::Dump => dump(server),
            Self::Envi => environment::text(),
            Self::Gtmk => server.trace_mask.load(Ordering::Relaxed).to_string(),
            Self::Hash => hash(server),
            Self::Isro => "rw".to_owned(),
            Self::Mntr => monitor::mntr(server),
            Self::Ruok => "imok".to_owned(),
            Self::Srst => {
                server.stats.reset();
                "Server stats reset.\n".to_owned()
            }
            Self::Srvr => summary(server, false),
            Self::Stat => summary(server, true),
            Self::Stmk => set_trace_mask(server, argument),
            Self::TelnetClose => String::new(),
            Self::Wchc => watches_by_session(server),
            Self::Wchp => watches_by_path(server),
            Self::Wchs => wchs(server),
        }
    }
}

/// Forgets what was counted of each connection.
pub(super) fn reset_connections(server: &Server) {
    for connection in server.connections.all() {
        connection.counters().reset();
    }
}

fn set_trace_mask(server: &Server, argument: &[u8]) -> String {
    let mask = argument.first_chunk().map_or(TRACE_MASK, |bytes| i64::from_be_bytes(*bytes));
    server.trace_mask.store(mask, Ordering::Relaxed);
    mask.to_string()
}

fn dirs(server: &Server) -> String {
    let directory = &server.directory;
    format!(
        "datadir_size: {}\nlogdir_size: {}\n",
        monitor::folder_size(directory.snapshots()),
        monitor::folder_size(directory.logs())
    )
}

fn hash(server: &Server) -> String {
    let mut text = String::new();
    for (zxid, digest) in server.replica.shared().digests() {
        let _ = writeln!(text, "{:x}: {digest}", zxid.0);
    }
    text
}

/// Asks the orderer when its sessions expire.
pub(super) fn expiry(server: &Server) -> Expiry {
    let (to, answer) = mpsc::sync_channel(1);
    server.queue.ask(Inquiry::Expiry(to));
    answer.recv_timeout(ORDERER_PATIENCE).unwrap_or_default()
}

/// Sessions by the time at which they expire, and what they own.
fn dump(server: &Server) -> String {
    let Expiry { local, global } = expiry(server);
    let mut text = "SessionTracker dump:\n".to_owned();
    let now = server.clock.now();
    let has_local = local.is_some();
    if let Some(local) = local {
        text.push_str("Local ");
        put_session_sets(&mut text, local, now);
    }
    match global {
        Some(global) => {
            text.push_str(if has_local { "Global " } else { "" });
            put_session_sets(&mut text, global, now);
        }
        None => {
            let database = server.replica.shared();
            let _ = writeln!(text, "Global Sessions({}):", database.sessions().len());
            for (session, timeout_ms) in database.sessions() {
                let _ = writeln!(text, "{session}\t{timeout_ms}ms");
            }
        }
    }
    text.push_str("ephemeral nodes dump:\n");
    {
        let database = server.replica.shared();
        let owners = database.tree().sessions_with_ephemerals();
        let _ = writeln!(text, "Sessions with Ephemerals ({}):", owners.len());
        for session in owners {
            let _ = writeln!(text, "{session}:");
            for node in database.tree().ephemerals(session) {
                let _ = writeln!(text, "\t{}", database.tree().path(node));
            }
        }
    }
    let connections = server.connections.all();
    let _ = writeln!(
        text,
        "Connections dump:\nConnections Sets ({})/({}):",
        usize::from(!connections.is_empty()),
        connections.len()
    );
    if !connections.is_empty() {
        let _ =
            writeln!(text, "{} expire at {}:", connections.len(), java_date(now.monotonic, now));
    }
    for connection in connections {
        let peer = connection.peer();
        let _ = writeln!(
            text,
            "\tip: /{}:{} sessionId: {}",
            java_address(peer.ip()),
            peer.port(),
            connection.session_id()
        );
    }
    text
}

fn put_session_sets(text: &mut String, buckets: ExpiryBuckets, now: Now) {
    let sessions: usize = buckets.iter().map(|(_, sessions)| sessions.len()).sum();
    let _ = writeln!(text, "Session Sets ({})/({sessions}):", buckets.len());
    for (end, sessions) in buckets {
        let _ = writeln!(text, "{} expire at {}:", sessions.len(), java_date(end, now));
        for session in sessions {
            let _ = writeln!(text, "\t{session}");
        }
    }
}

/// A reading of the monotonic clock as `java.util.Date` prints it, in UTC.
fn java_date(at: Monotonic, now: Now) -> String {
    let ahead = i64::try_from(at.since(now.monotonic)).unwrap_or(0);
    let behind = i64::try_from(now.monotonic.since(at)).unwrap_or(0);
    let ms = now.wall.0.saturating_add(ahead).saturating_sub(behind);
    let format = format_description!(
        "[weekday repr:short] [month repr:short] [day] [hour]:[minute]:[second] UTC [year]"
    );
    OffsetDateTime::from_unix_timestamp(ms / 1000)
        .ok()
        .and_then(|date| date.format(&format).ok())
        .unwrap_or_default()
}

/// Watched paths by session, data watches only.
pub(super) fn watched_paths(server: &Server) -> BTreeMap<SessionId, BTreeSet<String>> {
    let mut by_session: BTreeMap<SessionId, BTreeSet<String>> = BTreeMap::new();
    for (connection, paths) in server.replica.shared().watches().lock().data_by_connection() {
        if let Some(connection) = server.connections.get(connection) {
            by_session
                .entry(connection.session_id())
                .or_default()
                .extend(paths.into_iter().map(str::to_owned));
        }
    }
    by_session
}

fn watches_by_session(server: &Server) -> String {
    let mut text = String::new();
    for (session, paths) in watched_paths(server) {
        let _ = writeln!(text, "{session}");
        for path in paths {
            let _ = writeln!(text, "\t{path}");
        }
    }
    text.push('\n');
    text
}

/// Watching sessions by path, data watches only.
pub(super) fn watching_sessions(server: &Server) -> BTreeMap<String, Vec<SessionId>> {
    let by_path: BTreeMap<String, Vec<ConnectionId>> = {
        let database = server.replica.shared();
        let watches = database.watches().lock();
        watches.data_by_path().map(|(path, watchers)| (path.to_owned(), watchers)).collect()
    };
    let sessions = |watchers: Vec<ConnectionId>| {
        let there = watchers.into_iter().filter_map(|id| server.connections.get(id));
        there.map(|connection| connection.session_id()).collect()
    };
    by_path.into_iter().map(|(path, watchers)| (path, sessions(watchers))).collect()
}

fn watches_by_path(server: &Server) -> String {
    let mut text = String::new();
    for (path, sessions) in watching_sessions(server) {
        let _ = writeln!(text, "{path}");
        for session in sessions {
            let _ = writeln!(text, "\t{session}");
        }
    }
    text.push('\n');
    text
}

fn conf(server: &Server) -> String {
    let config = &server.config;
    let directory = &server.directory;
    let ensemble = config.ensemble.as_ref();
    let id = ensemble.map_or(0, |ensemble| ensemble.my_id);
    let backlog = config.client_listen_backlog.map_or_else(|| "-1".to_owned(), |n| n.to_string());
    let mut text = format!(
        "clientPort={}\nsecureClientPort=-1\ndataDir={}\ndataDirSize={}\ndataLogDir={}\n\
         dataLogSize={}\ntickTime={}\nmaxClientCnxns={}\nminSessionTimeout={}\n\
         maxSessionTimeout={}\nclientPortListenBacklog={backlog}\nserverId={id}\n",
        config.client_listen.port,
        directory.snapshots().display(),
        monitor::folder_size(directory.snapshots()),
        directory.logs().display(),
        monitor::folder_size(directory.logs()),
        config.tick_time_ms,
        config.max_client_cnxns.map_or(0, std::num::NonZeroU32::get),
        config.min_session_timeout_ms,
        config.max_session_timeout_ms,
    );
    if let Some(ensemble) = ensemble {
        put_membership(&mut text, ensemble, config.tick_time_ms);
    }
    text
}

/// What `conf` of a member has beside: the list as zoo.cfg has it, which is version 0 of it, and no end of the last line.
fn put_membership(text: &mut String, ensemble: &config::Ensemble, tick_ms: u32) {
    let ticks = |limit: Duration| limit.as_millis() / u128::from(tick_ms.max(1));
    let (init, sync) = (ticks(ensemble.init_limit), ticks(ensemble.sync_limit));
    let _ = writeln!(text, "initLimit={init}\nsyncLimit={sync}\nelectionAlg=3");
    if let Some(me) = ensemble.me() {
        let kind = u8::from(me.observer);
        let (election, quorum) = (me.election_port, me.port);
        let _ = writeln!(text, "electionPort={election}\nquorumPort={quorum}\npeerType={kind}");
    }
    text.push_str("membership: \n");
    for (id, server) in &ensemble.servers {
        let role = if server.observer { "observer" } else { "participant" };
        let host = match server.host.contains(':') {
            true => format!("[{}]", server.host),
            false => server.host.clone(),
        };
        let _ = write!(text, "server.{id}={host}:{}:{}:{role}", server.port, server.election_port);
        if let Some(client) = server.client {
            let _ = write!(text, ";{client}");
        }
        text.push('\n');
    }
    text.push_str("version=0");
}

/// `srvr`, and `stat` with the clients.
fn summary(server: &Server, with_clients: bool) -> String {
    let mut text = format!("Zookeeper version: {VERSION}\n");
    if with_clients {
        text.push_str("Clients:\n");
        for connection in server.connections.all() {
            let counters = *connection.counters();
            let _ = writeln!(
                text,
                "{}(queued={},recved={},sent={})",
                peer(&connection),
                connection.in_flight(),
                counters.received,
                counters.sent
            );
        }
        text.push('\n');
    }
    let latency = server.stats.latency();
    let zxid = server.replica.applied();
    let nodes = server.replica.shared().tree().count() + 1;
    let _ = write!(
        text,
        "Latency min/avg/max: {}/{}/{}\nReceived: {}\nSent: {}\nConnections: {}\nOutstanding: {}\n\
         Zxid: {zxid}\nMode: {}\nNode count: {nodes}\n",
        latency.min,
        latency.average(),
        latency.max,
        stats::get(&server.stats.packets_received),
        stats::get(&server.stats.packets_sent),
        server.connections.count(),
        monitor::outstanding(server),
        server.role.get(),
    );
    if server.role.get() == Role::Leader {
        let [last, min, max] = server.stats.quorum.proposal_sizes();
        let _ = writeln!(text, "Proposal sizes last/min/max: {last}/{min}/{max}");
    }
    text
}

/// ` /address:port[interest]`; the interest is always in reading.
fn peer(connection: &Connection) -> String {
    let peer = connection.peer();
    format!(" /{}:{}[1]", java_address(peer.ip()), peer.port())
}

fn cons(server: &Server) -> String {
    let mut text = String::new();
    for connection in server.connections.all() {
        let counters = *connection.counters();
        let _ = write!(
            text,
            "{}(queued={},recved={},sent={}",
            peer(&connection),
            connection.in_flight(),
            counters.received,
            counters.sent
        );
        if let Some(attached) = connection.session() {
            let _ = write!(
                text,
                ",sid={},lop={},est={},to={}",
                attached.session,
                counters.last_op.map_or("NA", operation),
                counters.established.0,
                attached.timeout_ms
            );
            if counters.last_cxid >= 0 {
                let _ = write!(text, ",lcxid={:#x}", counters.last_cxid);
            }
            let _ = write!(
                text,
                ",lzxid={},lresp={},llat={},minlat={},avglat={},maxlat={}",
                counters.last_zxid,
                counters.last_response.0,
                counters.last_latency,
                counters.latency.min,
                counters.latency.sum / counters.latency.count.max(1),
                counters.latency.max
            );
        }
        text.push_str(")\n");
    }
    text.push('\n');
    text
}

/// The operation as `cons` abbreviates it.
pub(super) const fn operation(op_code: OpCode) -> &'static str {
    match op_code {
        OpCode::CreateSession => "SESS",
        OpCode::Ping => "PING",
        OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => "CREA",
        OpCode::Delete | OpCode::DeleteContainer => "DELE",
        OpCode::Exists => "EXIS",
        OpCode::GetData => "GETD",
        OpCode::SetData => "SETD",
        OpCode::GetAcl => "GETA",
        OpCode::SetAcl => "SETA",
        OpCode::GetChildren | OpCode::GetChildren2 => "GETC",
        OpCode::Sync => "SYNC",
        OpCode::CloseSession => "CLOS",
        OpCode::Multi => "MULT",
        OpCode::MultiRead => "MLTR",
        OpCode::SetWatches => "SETW",
        OpCode::SetWatches2 => "STW2",
        OpCode::AddWatch => "ADDW",
        OpCode::CheckWatches => "CHKW",
        OpCode::RemoveWatches => "REMW",
        OpCode::GetEphemerals => "GETE",
        OpCode::GetAllChildrenNumber => "GETACN",
        OpCode::Reconfig => "RECO",
        OpCode::WhoAmI => "HOMI",
        OpCode::Check => "CHEC",
        OpCode::Auth | OpCode::Sasl | OpCode::Notification | OpCode::Error => "NA",
    }
}

fn wchs(server: &Server) -> String {
    let (connections, paths, watches) = server.replica.shared().watches().lock().data_summary();
    format!("{connections} connections watching {paths} paths\nTotal watches:{watches}\n")
}
