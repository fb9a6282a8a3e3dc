//! The commands by their names, and the answers to those that take no long time.

use std::sync::atomic::Ordering;

use super::authorization::Needs;
use super::json::{Fields, Json};
use super::{CommandAnswer, connections, ensemble, parameter, statistics};
use crate::logging;
use crate::message::MessageId;
use crate::server::operator::four_letter;
use crate::server::shared::Server;

macro_rules! commands {
    ($($command:ident = $name:literal $(| $alias:literal)*,)*) => {
        /// A command.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Command {
            $($command,)*
        }

        impl Command {
            /// The command of a name or another one for it.
            pub(super) fn find(name: &str) -> Option<Self> {
                match name {
                    $($name $(| $alias)* => Some(Self::$command),)*
                    _ => None,
                }
            }

            /// Its first name.
            pub(super) const fn name(self) -> &'static str {
                match self {
                    $(Self::$command => $name,)*
                }
            }

            /// All first names, sorted.
            pub(super) fn names() -> impl Iterator<Item = &'static str> {
                [$($name,)*].into_iter()
            }
        }
    };
}

commands! {
    Configuration = "configuration" | "conf" | "config",
    ConnectionStatReset = "connection_stat_reset" | "crst",
    Connections = "connections" | "cons",
    Dirs = "dirs",
    Dump = "dump",
    Environment = "environment" | "env" | "envi",
    GetTraceMask = "get_trace_mask" | "gtmk",
    Hash = "hash",
    HotPaths = "hot_paths",
    InitialConfiguration = "initial_configuration" | "icfg",
    IsReadOnly = "is_read_only" | "isro",
    LastSnapshot = "last_snapshot" | "lsnp",
    Leader = "leader" | "lead",
    LogLevel = "log_level",
    Monitor = "monitor" | "mntr",
    ObserverConnectionStatReset = "observer_connection_stat_reset" | "orst",
    Observers = "observers" | "obsr",
    Restore = "restore" | "rest",
    Ruok = "ruok",
    ServerStats = "server_stats" | "srvr",
    SetTraceMask = "set_trace_mask" | "stmk",
    Snapshot = "snapshot" | "snap",
    StatReset = "stat_reset" | "srst",
    Stats = "stats" | "stat",
    SystemProperties = "system_properties" | "sysp",
    VotingView = "voting_view",
    WatchSummary = "watch_summary" | "wchs",
    Watches = "watches" | "wchc",
    WatchesByPath = "watches_by_path" | "wchp",
    ZabState = "zabstate",
}

impl Command {
    /// Whether it is answered only while clients are.
    pub(super) const fn needs_service(self) -> bool {
        !matches!(
            self,
            Self::Environment
                | Self::GetTraceMask
                | Self::LogLevel
                | Self::SetTraceMask
                | Self::Monitor
                | Self::SystemProperties
                | Self::ZabState
        )
    }

    /// What the asker has to be: over loopback as ZooKeeper has it everywhere, and else, where
    /// ZooKeeper asks nobody for most of them.
    pub(super) const fn needs(self, is_over_loopback: bool, allows_world: bool) -> Option<Needs> {
        match self {
            Self::Snapshot | Self::Restore if is_over_loopback || allows_world => {
                Some(Needs::PassesRoot)
            }
            Self::Restore => Some(Needs::Super),
            Self::Snapshot => Some(Needs::NamedByRoot),
            Self::ConnectionStatReset
            | Self::LogLevel
            | Self::ObserverConnectionStatReset
            | Self::StatReset
            | Self::SetTraceMask => match (is_over_loopback, allows_world) {
                (true, _) => None,
                (false, true) => Some(Needs::PassesRoot),
                (false, false) => Some(Needs::NamedByRoot),
            },
            _ => None,
        }
    }
}

/// The answer to a command.
pub(super) fn answer(command: Command, server: &Server, query: &str) -> CommandAnswer {
    let fields: Fields = match command {
        Command::Configuration => statistics::configuration(server),
        Command::ConnectionStatReset => {
            four_letter::reset_connections(server);
            Fields::new()
        }
        Command::Dirs => statistics::dirs(server),
        Command::Environment => statistics::environment(),
        Command::GetTraceMask => {
            vec![("tracemask".into(), server.trace_mask.load(Ordering::Relaxed).into())]
        }
        Command::Hash => statistics::digests(server),
        Command::HotPaths => statistics::hot_paths(server),
        Command::InitialConfiguration => statistics::initial_configuration(server),
        Command::IsReadOnly => vec![("read_only".into(), server.is_read_only().into())],
        Command::LastSnapshot => statistics::last_snapshot(server),
        Command::Leader => ensemble::leader(server),
        Command::LogLevel => log_level(query),
        Command::Monitor => statistics::monitor(server),
        Command::Observers => ensemble::observers(server),
        // Nothing is counted of observers that could be reset.
        Command::ObserverConnectionStatReset | Command::Ruok => Fields::new(),
        Command::ServerStats => statistics::server_stats(server),
        Command::SetTraceMask => set_trace_mask(server, query),
        // Are answered elsewhere: they take their time.
        Command::Restore
        | Command::Snapshot
        | Command::Connections
        | Command::Dump
        | Command::Stats
        | Command::Watches
        | Command::WatchesByPath => Fields::new(),
        Command::StatReset => {
            server.stats.reset();
            Fields::new()
        }
        Command::SystemProperties => statistics::system_properties(),
        Command::VotingView => ensemble::voting_view(server),
        Command::WatchSummary => connections::watch_summary(server),
        Command::ZabState => ensemble::zab_state(server),
    };
    CommandAnswer::of(command, fields)
}

/// Ferrokeeper's own: shows the level of the log, and sets it from now on.
fn log_level(query: &str) -> Fields {
    let set = parameter(query, "level").map_or(Ok(()), |level| {
        let before = logging::level();
        if level != before {
            // While it can still be told.
            tracing::warn!(
                id = %MessageId::LOG_LEVEL_SET,
                %level,
                %before,
                "the AdminServer was asked to set the level of the log"
            );
        }
        logging::set_level(&level)
    });
    let level = Json::Text(logging::level());
    match set {
        Ok(()) => vec![("level".into(), level)],
        Err(error) => vec![("level".into(), level), ("error".into(), Json::Text(error))],
    }
}

fn set_trace_mask(server: &Server, query: &str) -> Fields {
    let error = |text: String| vec![("error".into(), Json::Text(text))];
    let needs = "setTraceMask requires long traceMask argument";
    let Some(value) = parameter(query, "traceMask") else { return error(needs.to_owned()) };
    let Ok(mask) = value.parse() else { return error(format!("{needs}, got {value}")) };
    server.trace_mask.store(mask, Ordering::Relaxed);
    vec![("tracemask".into(), Json::Integer(mask))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        let names: Vec<&str> = Command::names().collect();
        assert!(names.is_sorted());
        for name in &names {
            assert_eq!(Command::find(name).map(Command::name), Some(*name));
        }
        assert_eq!(Command::find("rest"), Some(Command::Restore));
        assert_eq!(Command::find("CONF"), None);
    }
}
