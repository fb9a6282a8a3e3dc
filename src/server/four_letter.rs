//! Four-letter words: what monitoring asks on the client port (reference 13).

use std::fmt::Write as _;

use jute::OpCode;

use super::connection::{Connection, java_address};
use super::monitor;
use super::shared::Server;
use super::stats;

/// The version that scripts and exporters parse.
pub(super) const VERSION: &str =
    concat!("3.9.5-rookeeper.", env!("CARGO_PKG_VERSION"), ", built on ", "2026-11-21 00:00 UTC");

/// A word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Conf,
    Cons,
    Isro,
    Mntr,
    Ruok,
    Srvr,
    Stat,
    Wchs,
    /// A word of ZooKeeper's that is not answered here.
    Other([u8; 4]),
}

impl Word {
    /// The word that a connection begins with, if it is one.
    pub(super) const fn parse(bytes: &[u8; 4]) -> Option<Self> {
        Some(match bytes {
            b"conf" => Self::Conf,
            b"cons" => Self::Cons,
            b"isro" => Self::Isro,
            b"mntr" => Self::Mntr,
            b"ruok" => Self::Ruok,
            b"srvr" => Self::Srvr,
            b"stat" => Self::Stat,
            b"wchs" => Self::Wchs,
            b"crst" | b"dirs" | b"dump" | b"envi" | b"gtmk" | b"hash" | b"srst" | b"stmk"
            | b"wchc" | b"wchp" => Self::Other(*bytes),
            _ => return None,
        })
    }

    fn name(self) -> String {
        match self {
            Self::Conf => "conf".to_owned(),
            Self::Cons => "cons".to_owned(),
            Self::Isro => "isro".to_owned(),
            Self::Mntr => "mntr".to_owned(),
            Self::Ruok => "ruok".to_owned(),
            Self::Srvr => "srvr".to_owned(),
            Self::Stat => "stat".to_owned(),
            Self::Wchs => "wchs".to_owned(),
            Self::Other(bytes) => bytes.iter().copied().map(char::from).collect(),
        }
    }

    /// Bytes that belong to the word beside itself.
    pub(super) const fn argument_len(self) -> usize {
        0
    }

    /// What the word is answered with.
    pub(super) fn answer(self, server: &Server, _argument: &[u8]) -> String {
        let name = self.name();
        if !server.config.four_letter_words.allows(&name) {
            return format!("{name} is not executed because it is not in the whitelist.\n");
        }
        match self {
            Self::Conf => conf(server),
            Self::Cons => cons(server),
            Self::Isro => "rw".to_owned(),
            Self::Mntr => monitor::mntr(server),
            Self::Ruok => "imok".to_owned(),
            Self::Srvr => summary(server, false),
            Self::Stat => summary(server, true),
            Self::Wchs => wchs(server),
            Self::Other(_) => format!("{name} is not there yet in this version of rookeeper.\n"),
        }
    }
}

fn conf(server: &Server) -> String {
    let config = &server.config;
    let directory = &server.directory;
    let backlog = config.client_listen_backlog.map_or_else(|| "-1".to_owned(), |n| n.to_string());
    format!(
        "clientPort={}\nsecureClientPort=-1\ndataDir={}\ndataDirSize={}\ndataLogDir={}\n\
         dataLogSize={}\ntickTime={}\nmaxClientCnxns={}\nminSessionTimeout={}\n\
         maxSessionTimeout={}\nclientPortListenBacklog={backlog}\nserverId=0\n",
        config.client_listen.port,
        directory.snapshots().display(),
        monitor::folder_size(directory.snapshots()),
        directory.logs().display(),
        monitor::folder_size(directory.logs()),
        config.tick_time_ms,
        config.max_client_cnxns.map_or(0, std::num::NonZeroU32::get),
        config.min_session_timeout_ms,
        config.max_session_timeout_ms,
    )
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
         Zxid: {zxid}\nMode: standalone\nNode count: {nodes}\n",
        latency.min,
        latency.average(),
        latency.max,
        stats::get(&server.stats.packets_received),
        stats::get(&server.stats.packets_sent),
        server.connections.count(),
        monitor::outstanding(server),
    );
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
const fn operation(op_code: OpCode) -> &'static str {
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
