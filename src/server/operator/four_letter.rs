//! Four-letter words: what monitoring asks on the client port (`FourLetterCommands`).

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jute::OpCode;
use time::OffsetDateTime;
use time::macros::format_description;

use super::inventory::{self, InventoryKind, Pieces, Sink};
use super::monitor;
use crate::config::{self, FourLetterWords};
use crate::engine::session::SessionId;
use crate::engine::time::{Monotonic, Now};
use crate::ensemble::Scope;
use crate::list;
use crate::planted;
use crate::server::client::connection::{Connection, Counters, java_address};
use crate::server::environment;
use crate::server::figures::stats;
use crate::server::role::Role;
use crate::server::shared::Server;

/// The release of ZooKeeper that this is like.
pub(super) const ZOOKEEPER_VERSION: &str = "3.9.5";
/// The version that scripts and exporters parse.
pub(in crate::server) const VERSION: &str = concat!(
    "3.9.5-ferrokeeper.",
    env!("CARGO_PKG_VERSION"),
    ", built on ",
    env!("FERROKEEPER_BUILT")
);

/// The trace mask that `gtmk` shows until `stmk` sets another.
pub(in crate::server) const TRACE_MASK: i64 = 306;

/// `AbstractFourLetterCommand.ZK_NOT_SERVING`.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

/// What telnet sends when its user interrupts it.
const TELNET_CLOSE: [u8; 4] = [0xff, 0xf4, 0xff, 0xfd];

macro_rules! words {
    ($($word:ident = $name:literal,)*) => {
        /// A word.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(in crate::server) enum Word {
            $($word,)*
        }

        impl Word {
            /// The word that a connection begins with, if it is one.
            pub(in crate::server) fn parse(bytes: &[u8; 4]) -> Option<Self> {
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
    pub(in crate::server) fn argument_len(self, allowed: &FourLetterWords) -> usize {
        match self {
            Self::Stmk if allowed.allows(self.name()) => size_of::<i64>(),
            _ => 0,
        }
    }

    /// What it is answered with where it is not answered.
    fn refusal(self, server: &Server) -> Option<String> {
        let name = self.name();
        let is_allowed = server.config.four_letter_words.allows(name);
        if !is_allowed && !planted::is("whitelist-ignored") {
            return Some(format!("{name} is not executed because it is not in the whitelist.\n"));
        }
        let needs_service =
            !matches!(self, Self::Envi | Self::Gtmk | Self::Ruok | Self::Stmk | Self::TelnetClose);
        (needs_service && !server.serves()).then(|| match self {
            Self::Isro => "null".to_owned(),
            Self::Hash => NOT_SERVING.trim_end().to_owned(),
            _ => NOT_SERVING.to_owned(),
        })
    }

    /// Of what it takes an inventory.
    const fn inventory(self) -> Option<InventoryKind> {
        match self {
            Self::Cons | Self::Stat => Some(InventoryKind::Connections),
            Self::Dump => Some(InventoryKind::Sessions),
            Self::Wchc | Self::Wchp => Some(InventoryKind::Watches),
            _ => None,
        }
    }

    /// Whether it is answered piece by piece.
    pub(in crate::server) fn takes_inventory(self, server: &Server) -> bool {
        self.inventory().is_some() && self.refusal(server).is_none()
    }

    /// Answers it piece by piece.
    ///
    /// # Errors
    /// When the client is gone or reads too slowly, or the turn did not come.
    pub(in crate::server) async fn tell(
        self,
        connection: &Connection,
        server: &Arc<Server>,
    ) -> io::Result<()> {
        let Some(kind) = self.inventory() else { return Ok(()) };
        let turn = server.inventories.turn(kind).await.ok_or(io::ErrorKind::TimedOut)?;
        let write = move |server: &Arc<Server>, to: &mut Sink| match self {
            Self::Cons => cons(server, to),
            Self::Dump => dump(server, to),
            Self::Stat => summary(server, true, to),
            Self::Wchc => watches_by_session(server, to),
            _ => watches_by_path(server, to),
        };
        Pieces::take(server, turn, write).send(connection).await
    }

    /// What the word is answered with, if that is not told piece by piece.
    pub(in crate::server) fn answer(self, server: &Server, argument: &[u8]) -> String {
        match self {
            // These look into folders, which a slow disk may hold up. Others need no thread more.
            Self::Dirs | Self::Mntr if self.refusal(server).is_none() => {
                tokio::task::block_in_place(|| self.text(server, argument))
            }
            _ => self.text(server, argument),
        }
    }

    fn text(self, server: &Server, argument: &[u8]) -> String {
        if let Some(refusal) = self.refusal(server) {
            return refusal;
        }
        match self {
            Self::Conf => conf(server),
            Self::Crst => {
                reset_connections(server);
                "Connection stats reset.\n".to_owned()
            }
            Self::Dirs => dirs(server),
            Self::Envi => environment::text(),
            Self::Gtmk => server.trace_mask.load(Ordering::Relaxed).to_string(),
            Self::Hash => hash(server),
            Self::Isro => if server.is_read_only() { "ro" } else { "rw" }.to_owned(),
            Self::Mntr => monitor::mntr(server),
            Self::Ruok => "imok".to_owned(),
            Self::Srst => {
                server.stats.reset();
                "Server stats reset.\n".to_owned()
            }
            Self::Srvr => in_memory(|to| summary(server, false, to)),
            Self::Stmk => set_trace_mask(server, argument),
            Self::TelnetClose => String::new(),
            Self::Cons | Self::Dump | Self::Stat | Self::Wchc | Self::Wchp => String::new(),
            Self::Wchs => wchs(server),
        }
    }
}

/// Forgets what was counted of each connection.
pub(super) fn reset_connections(server: &Server) {
    server.connections.each(|connection| connection.counters().reset());
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

fn in_memory(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
    let mut text = Vec::new();
    // Memory refuses nothing.
    let _ = write(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Sessions by the time at which they expire, and what they own.
fn dump(server: &Server, to: &mut impl Write) -> io::Result<()> {
    writeln!(to, "SessionTracker dump:")?;
    let now = server.clock.now();
    let local = inventory::expiries(server, Scope::Local);
    let ahead = if local.is_some() { "Global " } else { "" };
    if let Some(local) = local {
        write!(to, "Local ")?;
        put_session_sets(to, &local, now)?;
    }
    match inventory::expiries(server, Scope::Global) {
        Some(global) => {
            write!(to, "{ahead}")?;
            put_session_sets(to, &global, now)?;
        }
        None => {
            let count = server.replica.shared().sessions().len();
            writeln!(to, "Global Sessions({count}):")?;
            inventory::each_session(server, |session, timeout_ms| {
                writeln!(to, "{session}\t{timeout_ms}ms")
            })?;
        }
    }
    let owners = server.replica.shared().tree().ephemeral_owners();
    writeln!(to, "ephemeral nodes dump:\nSessions with Ephemerals ({owners}):")?;
    let mut ephemerals = inventory::ephemerals(server);
    while let Some(session) = ephemerals.head() {
        writeln!(to, "{session}:")?;
        while let Some(path) = ephemerals.next_of(&session) {
            writeln!(to, "\t{path}")?;
        }
    }
    let count = server.connections.count();
    writeln!(to, "Connections dump:\nConnections Sets ({})/({count}):", usize::from(count > 0))?;
    if count > 0 {
        writeln!(to, "{count} expire at {}:", java_date(now.monotonic, now))?;
    }
    server.connections.try_each(|connection| {
        let (peer, session) = (connection.peer(), connection.session_id());
        writeln!(to, "\tip: /{}:{} sessionId: {session}", java_address(peer.ip()), peer.port())
    })
}

fn put_session_sets(
    to: &mut impl Write,
    sessions: &[(Monotonic, SessionId)],
    now: Now,
) -> io::Result<()> {
    let buckets = || sessions.chunk_by(|(one, _), (next, _)| one == next);
    writeln!(to, "Session Sets ({})/({}):", buckets().count(), sessions.len())?;
    for bucket in buckets() {
        let Some((end, _)) = bucket.first() else { continue };
        writeln!(to, "{} expire at {}:", bucket.len(), java_date(*end, now))?;
        for (_, session) in bucket {
            writeln!(to, "\t{session}")?;
        }
    }
    Ok(())
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

fn watches_by_session(server: &Server, to: &mut impl Write) -> io::Result<()> {
    let mut watches = inventory::watches_by_session(server);
    while let Some(session) = watches.head() {
        writeln!(to, "{session}")?;
        while let Some(path) = watches.next_of(&session) {
            writeln!(to, "\t{path}")?;
        }
    }
    writeln!(to)
}

fn watches_by_path(server: &Server, to: &mut impl Write) -> io::Result<()> {
    let mut watches = inventory::watches_by_path(server);
    while let Some(path) = watches.head() {
        writeln!(to, "{path}")?;
        while let Some(session) = watches.next_of(&path) {
            writeln!(to, "\t{session}")?;
        }
    }
    writeln!(to)
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

/// What `conf` of a member has beside: the list as its files have it, and no end of the last line.
fn put_membership(text: &mut String, ensemble: &config::Ensemble, tick_ms: u32) {
    let ticks = |limit: Duration| limit.as_millis() / u128::from(tick_ms.max(1));
    let (init, sync) = (ticks(ensemble.init_limit), ticks(ensemble.sync_limit));
    let _ = writeln!(text, "initLimit={init}\nsyncLimit={sync}\nelectionAlg=3");
    if let Some(me) = ensemble.me() {
        let kind = u8::from(me.role == list::Role::Observer);
        let (election, quorum) = (me.election_port, me.quorum_port);
        let _ = writeln!(text, "electionPort={election}\nquorumPort={quorum}\npeerType={kind}");
    }
    text.push_str("membership: \n");
    text.push_str(&ensemble.list.text());
}

/// `srvr`, and `stat` with the clients.
fn summary(server: &Server, with_clients: bool, to: &mut impl Write) -> io::Result<()> {
    writeln!(to, "Zookeeper version: {VERSION}")?;
    if server.is_read_only() {
        writeln!(to, "READ-ONLY mode; serving only read-only clients")?;
    }
    if with_clients {
        writeln!(to, "Clients:")?;
        server.connections.try_each(|connection| {
            let Counters { received, sent, .. } = *connection.counters();
            let queued = connection.in_flight();
            writeln!(to, "{}(queued={queued},recved={received},sent={sent})", peer(connection))
        })?;
        writeln!(to)?;
    }
    let latency = server.stats.latency();
    let zxid = server.replica.applied();
    let nodes = server.replica.shared().tree().count() + 1;
    write!(
        to,
        "Latency min/avg/max: {}/{}/{}\nReceived: {}\nSent: {}\nConnections: {}\nOutstanding: {}\n\
         Zxid: {zxid}\nMode: {}\nNode count: {nodes}\n",
        latency.min,
        latency.average(),
        latency.max,
        stats::get(&server.stats.packets_received),
        stats::get(&server.stats.packets_sent),
        server.connections.count(),
        server.outstanding(),
        server.role.get(),
    )?;
    if server.role.get() == Role::Leader {
        let [last, min, max] = server.stats.quorum.proposal_sizes();
        writeln!(to, "Proposal sizes last/min/max: {last}/{min}/{max}")?;
    }
    Ok(())
}

/// ` /address:port[interest]`; the interest is always in reading.
fn peer(connection: &Connection) -> String {
    let peer = connection.peer();
    format!(" /{}:{}[1]", java_address(peer.ip()), peer.port())
}

fn cons(server: &Server, to: &mut impl Write) -> io::Result<()> {
    server.connections.try_each(|connection| {
        let counters = *connection.counters();
        write!(
            to,
            "{}(queued={},recved={},sent={}",
            peer(connection),
            connection.in_flight(),
            counters.received,
            counters.sent
        )?;
        if let Some(attached) = connection.session() {
            write!(
                to,
                ",sid={},lop={},est={},to={}",
                attached.session,
                counters.last_op.map_or("NA", operation),
                counters.established.0,
                attached.timeout_ms
            )?;
            if counters.last_cxid >= 0 {
                write!(to, ",lcxid={:#x}", counters.last_cxid)?;
            }
            write!(
                to,
                ",lzxid={},lresp={},llat={},minlat={},avglat={},maxlat={}",
                counters.last_zxid,
                counters.last_response.0,
                counters.last_latency,
                counters.latency.min,
                counters.latency.sum / counters.latency.count.max(1),
                counters.latency.max
            )?;
        }
        writeln!(to, ")")
    })?;
    writeln!(to)
}

/// The operation as `cons` abbreviates it.
pub(in crate::server) const fn operation(op_code: OpCode) -> &'static str {
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
