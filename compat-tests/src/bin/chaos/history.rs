//! What clients were told, as they wrote it down: a JSON object a line.

use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

/// Nanoseconds of the machine's monotonic clock, which all clients share, and this program with
/// them.
pub(crate) type Nanos = u64;

pub(crate) fn now() -> Nanos {
    let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(Nanos::MAX)
}

/// A request and what came of it, or an event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    pub(crate) client: String,
    /// The host that it is on, and the server that answered, where the client knows it.
    pub(crate) host: u8,
    pub(crate) at: Option<u8>,
    /// None where it is not known whose request it was in the end.
    pub(crate) session: Option<String>,
    pub(crate) op: String,
    pub(crate) path: String,
    /// When it was asked, and when answered.
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
    /// `ok`, `unknown`, or an error's name.
    pub(crate) end: String,
    /// The zxid in the reply's header, where the client shows it.
    pub(crate) header: Option<i64>,
    /// The zxid of the change in the reply's stat.
    pub(crate) zxid: Option<i64>,
    pub(crate) version: Option<i32>,
    /// The version that a set asked for; -1 is any.
    pub(crate) want: Option<i32>,
    pub(crate) value: Option<String>,
    /// The path that a create made.
    pub(crate) made: Option<String>,
    pub(crate) names: Vec<String>,
    /// When the sync in front of a read was asked.
    pub(crate) synced: Option<Nanos>,
    pub(crate) timeout_ms: u64,
    /// What was held during a write, in which hold, and the session that has it.
    pub(crate) lock: Option<String>,
    pub(crate) hold: Option<String>,
    pub(crate) owner: Option<String>,
}

impl Entry {
    pub(crate) fn is_ok(&self) -> bool {
        self.end == "ok"
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.end == "unknown"
    }

    pub(crate) fn parse(line: &str, host: u8) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let text = |name: &str| value.get(name)?.as_str().map(str::to_owned);
        let nanos = |name: &str| value.get(name)?.as_u64();
        let number = |name: &str| value.get(name)?.as_i64();
        let names = value.get("names").and_then(Value::as_array).cloned().unwrap_or_default();
        Some(Self {
            client: text("c")?,
            host,
            at: text("at").as_deref().and_then(number_of_host),
            session: text("s"),
            op: text("op")?,
            path: text("path").unwrap_or_default(),
            from: nanos("t0")?,
            to: nanos("t1")?,
            end: text("end").unwrap_or_default(),
            header: number("header").filter(|zxid| *zxid > 0),
            zxid: number("zxid"),
            version: number("version").and_then(|version| i32::try_from(version).ok()),
            want: number("want").and_then(|version| i32::try_from(version).ok()),
            value: text("value"),
            made: text("made"),
            names: names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            synced: nanos("synced"),
            timeout_ms: nanos("timeout").unwrap_or_default(),
            lock: text("lock"),
            hold: text("hold"),
            owner: text("owner"),
        })
    }
}

/// Hosts have the last number of their address.
fn number_of_host(address: &str) -> Option<u8> {
    address.parse().ok().map(|address: Ipv4Addr| address.octets()[3])
}

/// All entries of a file that clients on this host wrote.
pub(crate) fn read(path: &Path, host: u8) -> io::Result<Vec<Entry>> {
    let text = fs::read_to_string(path)?;
    let broken = |line: &str| io::Error::other(format!("{}: {line}", path.display()));
    text.lines().map(|line| Entry::parse(line, host).ok_or_else(|| broken(line))).collect()
}
