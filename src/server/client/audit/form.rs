//! The form of a line.

use std::io::Write as _;
use std::process;
use std::time::SystemTime;

use time::OffsetDateTime;
use time::macros::format_description;

use super::Outcome;

/// Facility 13 of RFC 5424, log audit.
const FACILITY: u8 = 13;
const NOTICE: u8 = 5;
const ERROR: u8 = 3;

/// Bytes of a znode, an ACL or names in a line for syslog: rsyslog takes 8 KiB of a line, and its
/// result is to be among them.
const SYSLOG_FIELD_MAX: usize = 3 << 10;

/// Words of the log4j layout that ZooKeeper comes with.
const LOGGER: &str = "audit.Slf4jAuditLogger";

/// Lines, one after the other.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) bytes: Vec<u8>,
    /// Where each ends.
    pub(super) ends: Vec<usize>,
    /// Without a time: syslog adds its own, in the zone that the machine has.
    pub(super) is_syslog: bool,
}

impl Lines {
    /// Bytes of a field that may be long.
    pub(super) const fn field_max(&self) -> usize {
        if self.is_syslog { SYSLOG_FIELD_MAX } else { usize::MAX }
    }

    pub(super) fn put(&mut self, at: SystemTime, outcome: Outcome, line: &str) {
        let is_failure = outcome == Outcome::Failure;
        // A vector takes whatever it is given.
        let _ = if self.is_syslog {
            let priority = FACILITY * 8 + if is_failure { ERROR } else { NOTICE };
            write!(self.bytes, "<{priority}>ferrokeeper[{}]: {line}", process::id())
        } else {
            let format = format_description!(
                "[year]-[month]-[day] [hour]:[minute]:[second],[subsecond digits:3]Z"
            );
            let time = OffsetDateTime::from(at).format(format).unwrap_or_default();
            let level = if is_failure { "ERROR" } else { "INFO" };
            writeln!(self.bytes, "{time} {level} {LOGGER}: {line}")
        };
        self.ends.push(self.bytes.len());
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}
