//! The one command after which a start works again, and what it costs, in words.

use std::fmt;

use super::Zxid;

/// Transactions of a part of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// How many can be read.
    pub txns: u64,
    /// The zxid and the time in milliseconds of the first.
    pub first: Option<(i64, i64)>,
    /// The zxid and the time of the last.
    pub last: Option<(i64, i64)>,
    /// Bytes, other than zeros, of what cannot be read.
    pub unreadable_bytes: u64,
}

/// The one command after which a start works again, and its price.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WayOut {
    /// What to type.
    pub command: String,
    /// What is lost of the log then.
    pub loss: Loss,
    /// What a start does then.
    pub then: Then,
}

/// What a start does after a way out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Then {
    /// It works, with what the logs have up to there.
    #[default]
    Works,
    /// It works, with an older snapshot and all that the logs have.
    FromOlder,
    /// It begins with an empty tree.
    BeginsAnew,
    /// The directory was that of a member of an ensemble: it has the others give it everything.
    AsksOthers,
}

impl WayOut {
    pub(super) fn shown(way_out: Option<&Self>) -> String {
        way_out.map(|way_out| format!("; or {way_out}")).unwrap_or_default()
    }
}

impl fmt::Display for WayOut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.then == Then::AsksOthers {
            return write!(
                out,
                "this is a member of an ensemble: only while a majority of the others is running, \
                 run `{}` and start the server: it loads everything from them; without such a \
                 majority, discard nothing in this directory",
                self.command
            );
        }
        if self.then == Then::FromOlder {
            return write!(
                out,
                "the log does not belong to the newest snapshot, but to an older one: run `{}` and \
                 start the server; lost: only the transactions that the newer snapshots have from \
                 another log",
                self.command
            );
        }
        write!(out, "run `{}` and start the server", self.command)?;
        out.write_str(match self.then {
            Then::BeginsAnew => {
                ", which begins with an empty tree; lost: all znodes and, from the \
                logs, "
            }
            Then::Works | Then::FromOlder | Then::AsksOthers => "; lost: ",
        })?;
        match (self.loss.first, self.loss.last) {
            _ if self.loss == Loss::default() => out.write_str("nothing"),
            (Some((_, from)), Some((last, to))) => write!(
                out,
                "{} transactions that can still be read, up to {}, written from {} to {}, and {} \
                 unreadable bytes",
                self.loss.txns,
                Zxid(last),
                Instant(from),
                Instant(to),
                self.loss.unreadable_bytes
            ),
            _ if self.loss.unreadable_bytes == 0 => {
                out.write_str("nothing that the log still holds")
            }
            _ => write!(
                out,
                "{} unreadable bytes, and no transaction that can still be read",
                self.loss.unreadable_bytes
            ),
        }
    }
}

/// Milliseconds of the epoch in UTC, as RFC 3339 writes them.
struct Instant(i64);

impl fmt::Display for Instant {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = time::macros::format_description!(
            "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z"
        );
        let nanos = i128::from(self.0) * 1_000_000;
        let text = time::OffsetDateTime::from_unix_timestamp_nanos(nanos)
            .ok()
            .and_then(|instant| instant.format(format).ok());
        match text {
            Some(text) => out.write_str(&text),
            // No client's clock; a damaged record that passes its checksum could say it.
            None => write!(out, "{} ms", self.0),
        }
    }
}
