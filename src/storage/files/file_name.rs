//! The names of the files in a data directory, read and written.
//!
//! Temporary names begin with `tmp.`: ZooKeeper takes `log.5.tmp` and `snapshot.5.tmp` for a log
//! and a snapshot, but not `tmp.log.5`.

use std::path::Path;

use crate::storage::compression::Compression;

/// The lock of one process per directory.
pub(crate) const LOCK: &str = "ferrokeeper.lock";
/// The epoch of the last record in the log.
pub(crate) const CURRENT_EPOCH: &str = "currentEpoch";
/// The newest epoch that was agreed to.
pub(crate) const ACCEPTED_EPOCH: &str = "acceptedEpoch";
/// The secret behind session passwords.
pub(crate) const SESSION_KEY: &str = "session.key";
/// Whose passwords are not made of it.
pub(crate) const SESSIONS_BEFORE_KEY: &str = "sessions.before.key";
/// Up to which zxid the files of ZooKeeper are released.
pub(crate) const SEALED: &str = "ferrokeeper.sealed";

/// A log of this server is there.
pub(crate) const LOGGED: &str = "ferrokeeper.logged";
/// The log is written without syncs.
pub(crate) const UNSYNCED: &str = "ferrokeeper.unsynced";

/// The data is that of a restore, and the log is not yet.
pub(crate) const RESTORING: &str = "ferrokeeper.restoring";
/// What a member of an ensemble has promised.
pub(crate) const RAFT_STATE: &str = "raft.state";
/// The same of a server that is no member any more; an empty file beside what was copied from a
/// member.
pub(crate) const RAFT_STATE_LEFT: &str = "raft.state.left";
/// A snapshot that comes from another member.
pub(crate) const HANDOVER: &str = "handover";
/// A snapshot that an operator sends.
pub(crate) const UPLOAD: &str = "upload";

/// What a name says that a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileName {
    /// `log.<hex zxid of the first record>`.
    Log(i64),
    /// `snapshot.<hex zxid>`, with `.gz` or `.snappy` after it if it is packed.
    Snapshot(i64, Compression),
    /// `spare.<number>`: a segment filled with zeros that waits for its use.
    Spare(u64),
    /// A file whose writer did not finish.
    Temporary,
    /// Anything else; not touched.
    Other,
}

impl FileName {
    /// Never fails: a name without a meaning is [`FileName::Other`].
    pub(crate) fn parse(name: &str) -> Self {
        if name.starts_with("tmp.")
            || name
                .strip_suffix(".tmp")
                .is_some_and(|of| [CURRENT_EPOCH, ACCEPTED_EPOCH].contains(&of))
        {
            return Self::Temporary;
        }
        match name.split_once('.') {
            Some(("log", zxid)) => hex(zxid).map_or(Self::Other, Self::Log),
            Some(("snapshot", rest)) => {
                let (zxid, compression) = match rest.split_once('.') {
                    None => (rest, Compression::None),
                    Some((zxid, "gz")) => (zxid, Compression::Gzip),
                    Some((zxid, "snappy")) => (zxid, Compression::Snappy),
                    Some(_) => return Self::Other,
                };
                hex(zxid).map_or(Self::Other, |zxid| Self::Snapshot(zxid, compression))
            }
            Some(("spare", number)) => match number.parse() {
                // One name per spare: no sign, no leading zeros.
                Ok(parsed) if spare(parsed) == name => Self::Spare(parsed),
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

/// The zxid in the name of a log; 0 if it has not such a name.
#[must_use]
pub fn log_zxid(path: &Path) -> i64 {
    match path.file_name().and_then(|name| name.to_str()).map(FileName::parse) {
        Some(FileName::Log(zxid)) => zxid,
        _ => 0,
    }
}

/// What keeps a log of ZooKeeper's with no record that can be read. ZooKeeper would take
/// `log.8.unreadable` for a log.
pub(crate) fn unreadable(number: u32, log: &str) -> String {
    format!("unreadable-{number}.{log}")
}

pub(crate) fn log(zxid: i64) -> String {
    format!("log.{zxid:x}")
}

pub(crate) fn snapshot(zxid: i64, compression: Compression) -> String {
    format!("snapshot.{zxid:x}{}", compression.suffix())
}

pub(crate) fn spare(number: u64) -> String {
    format!("spare.{number}")
}

/// The name under which `name` is written until it is whole.
pub(crate) fn temporary(name: &str) -> String {
    format!("tmp.{name}")
}

/// A zxid without a sign.
pub(crate) fn hex(digits: &str) -> Option<i64> {
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    i64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_the_file_is() {
        for (name, meaning) in [
            ("log.1", FileName::Log(1)),
            ("log.500000000a", FileName::Log(0x50_0000_000a)),
            ("log.", FileName::Other),
            ("log.-1", FileName::Other),
            ("log.+1", FileName::Other),
            ("log.ffffffffffffffff", FileName::Other),
            ("log.1.tmp", FileName::Other),
            ("snapshot.0", FileName::Snapshot(0, Compression::None)),
            ("snapshot.ff.gz", FileName::Snapshot(0xff, Compression::Gzip)),
            ("snapshot.ff.snappy", FileName::Snapshot(0xff, Compression::Snappy)),
            ("snapshot.ff.zip", FileName::Other),
            ("spare.12", FileName::Spare(12)),
            ("spare.012", FileName::Other),
            ("tmp.log.5", FileName::Temporary),
            ("currentEpoch.tmp", FileName::Temporary),
            ("currentEpoch", FileName::Other),
            ("myid", FileName::Other),
        ] {
            assert_eq!(FileName::parse(name), meaning, "{name}");
        }
    }
}
