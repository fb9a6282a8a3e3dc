//! The costliest shapes of requests: each operation at its worst in terms of its bytes, its answer,
//! its events, or what its session owns. One client a shape, unless several are the point, ten
//! times a second: what holds others up for a millisecond is then seen in a victim's 99th
//! percentile.

use std::borrow::Cow;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use jute::Acl;
use jute::protocol::{
    AddWatchMode, AddWatchRequest, AuthPacket, CreateRequest, DeleteRequest, MultiOp, ReadOp,
    Request, SetAclRequest, SetDataRequest, SetWatchesRequest,
};

use super::clients::Storm;
use super::{Names, names};
use crate::connection::Connection;
use crate::request::{self, ROOT, key_path};
use crate::watches;

/// From the beginning of one request of a shape to the next.
const PACE: Duration = Duration::from_millis(100);
/// What one request may have, less some for the rest of it.
const REQUEST_LEN: usize = 1_000_000;
/// Entries of a list that fills a request.
const ENTRIES: usize = 38_000;
/// Identities of a connection, and those that are 4 kB each: just below 64 KiB.
const IDENTITIES: usize = 250;
const LARGE_IDENTITIES: usize = 15;
/// Sets in a multi that fills a request.
const SETS: u32 = 20_000;
/// Statistics made and deleted in one multi.
const PAIRS: usize = 1_000;
const EPHEMERALS: u32 = 300_000;
const EPHEMERALS_A_MULTI: u32 = 1_000;
const WATCHERS: u32 = 10_000;
const WATCHES: u32 = 1_000_000;
/// Connections that are open while somebody reads `/metrics`.
const OPEN: u32 = 15_000;
/// Paths of a setWatches that fills a request.
const WATCHED_AGAIN: usize = 30_000;
/// Changes in one pace, for those who watch and never read.
const CHANGES: u32 = 1_000;
/// What a multiRead names over and over, and how often: an answer of 60 MB.
const LARGE: &str = "/bench/storm-large";
const LARGE_LEN: usize = 60_000;
const LARGE_READS: usize = 1_000;

const LIMITED: &str = "/zookeeper/quota/bench";
const LIMITS: &str = "/zookeeper/quota/bench/zookeeper_limits";
const STATISTICS: &str = "/zookeeper/quota/bench/zookeeper_stats";
/// No limit that is reached.
const NO_LIMIT: &[u8] = b"count=1000000000,bytes=1000000000000";

/// Flags of an ephemeral znode.
const EPHEMERAL: i32 = 1;
/// A version that is not checked.
const ANY: i32 = -1;

/// What a server answers.
const DONE: &[i32] = &[0];
const NO_NODE: i32 = -101;
const NO_AUTH: i32 = -102;
/// A list that is 66 MB once it is expanded.
const INVALID_ACL: i32 = -114;

/// A shape, and what it is measured by.
pub(super) struct Shape {
    /// The victim's latencies beside it.
    pub(super) names: Names,
    /// The most memory meanwhile, where the shape is after that.
    pub(super) peak: Option<&'static str>,
    /// Who does it at once.
    pub(super) clients: u32,
    /// Whether the server may end their connections: for what they do not read.
    pub(super) may_be_cut: bool,
    /// How many times the usual span it is measured: some take seconds until it has happened once.
    pub(super) spans: u32,
    /// One of them, from its connection to its end; called again while the storm goes on.
    pub(super) act: fn(&Storm, u32) -> io::Result<()>,
}

macro_rules! shape {
    ($name:literal, $clients:expr, $act:expr) => {
        Shape {
            names: names!($name),
            peak: None,
            clients: $clients,
            may_be_cut: false,
            spans: 1,
            act: $act,
        }
    };
    (memory $name:literal, $clients:expr, $act:expr) => {
        Shape {
            names: names!($name),
            peak: Some(concat!("peak MB, ", $name)),
            clients: $clients,
            may_be_cut: false,
            spans: 1,
            act: $act,
        }
    };
    (slow $name:literal, $clients:expr, $act:expr) => {
        Shape { spans: 3, ..shape!(memory $name, $clients, $act) }
    };
    (unread $name:literal, $clients:expr, $act:expr) => {
        Shape { may_be_cut: true, ..shape!(memory $name, $clients, $act) }
    };
}

pub(super) const SHAPES: &[Shape] = &[
    shape!("setACL of 38,000 entries", 1, set_acl),
    shape!("64 checks of 38,000 entries by 250 identities", 1, checked),
    shape!(memory "1,100 auth entries of 15 identities of 4 kB", 1, auth_entries),
    shape!("four multis of 20,000 sets below a quota", 1, sets_below_quota),
    shape!("1,000 pairs of quota statistics made and deleted", 1, statistics),
    shape!(slow "sessions of 300,000 ephemerals close", 1, ephemerals),
    shape!(slow "10,000 watchers of one znode go", 1, watchers),
    shape!(memory "wchc, wchp and dump with a million watches", 1, words),
    shape!("/metrics of 15,000 connections", 1, scrapes),
    shape!("setWatches of 30,000 paths", 1, set_watches),
    shape!("a path of half a megabyte", 1, long_path),
    shape!(unread "40 recursive watches that nobody reads", 40, unread_events),
    shape!(unread "20 multiReads of 60 MB that nobody reads", 20, unread_answers),
];

/// The limits and the large znode that some shapes want.
pub(super) fn prepare(server: SocketAddr) -> io::Result<()> {
    let mut connection = Connection::open(server, 0)?;
    let large = vec![b'v'; LARGE_LEN];
    for (path, data) in [(LIMITED, &[][..]), (LIMITS, NO_LIMIT), (LARGE, &large)] {
        let head = connection.call(&request::create(path, data, 0))?;
        if head.error != 0 {
            return Err(io::Error::other(format!("{path} is refused by {}", head.error)));
        }
    }
    Ok(())
}

/// Does something ten times a second.
fn paced(storm: &Storm, mut once: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    while storm.goes_on() {
        let began = Instant::now();
        once()?;
        storm.count();
        thread::sleep(PACE.saturating_sub(began.elapsed()));
    }
    Ok(())
}

/// A list that fills a request; its last entry lets everybody in.
fn long_list(perms: i32) -> Vec<Acl<'static>> {
    let entry = |number| Acl {
        perms,
        scheme: Some("digest".into()),
        id: Some(Cow::Owned(format!("u{number:05}:h"))),
    };
    (0..ENTRIES).map(entry).chain([Acl::anyone(jute::perms::ADMIN)]).collect()
}

fn identity(number: usize, len: usize) -> Request<'static> {
    Request::Auth(AuthPacket {
        auth_type: 0,
        scheme: Some("digest".into()),
        auth: Some(format!("{number:0len$}:p").into_bytes().into()),
    })
}

fn set_acl(storm: &Storm, client: u32) -> io::Result<()> {
    let mut connection = Connection::open(storm.target.server, client)?;
    let path = format!("{ROOT}/storm-acl");
    connection.exchange(&request::frame(1, &request::create(&path, &[], EPHEMERAL)), 1, DONE)?;
    let acl = Some(long_list(jute::perms::READ));
    let set = Request::SetAcl(SetAclRequest { path: path.as_str().into(), acl, version: ANY });
    let frame = request::frame(1, &set);
    paced(storm, || connection.exchange(&frame, 1, DONE))
}

fn checked(storm: &Storm, client: u32) -> io::Result<()> {
    let path = format!("{ROOT}/storm-checked");
    let mut owner = Connection::open(storm.target.server, client)?;
    let create = Request::Create(CreateRequest {
        path: path.as_str().into(),
        data: None,
        acl: Some(long_list(jute::perms::READ)),
        flags: EPHEMERAL,
    });
    owner.exchange(&request::frame(1, &create), 1, DONE)?;
    let mut connection = Connection::open(storm.target.server, client)?;
    for number in 0..IDENTITIES {
        connection.exchange(&request::frame(1, &identity(number, 6)), 1, DONE)?;
    }
    let frames = request::frame(1, &request::get(&path, false)).repeat(64);
    paced(storm, || connection.exchange(&frames, 64, &[NO_AUTH]))
}

fn auth_entries(storm: &Storm, client: u32) -> io::Result<()> {
    let mut connection = Connection::open(storm.target.server, client)?;
    for number in 0..LARGE_IDENTITIES {
        connection.exchange(&request::frame(1, &identity(number, 4_000)), 1, DONE)?;
    }
    let entry = |perms| Acl { perms, scheme: Some("auth".into()), id: Some("".into()) };
    let create = Request::Create(CreateRequest {
        path: format!("{ROOT}/storm-auth").into(),
        data: None,
        acl: Some((0..1_100).map(entry).collect()),
        flags: EPHEMERAL,
    });
    let frame = request::frame(1, &create);
    paced(storm, || connection.exchange(&frame, 1, &[INVALID_ACL]))
}

fn sets_below_quota(storm: &Storm, client: u32) -> io::Result<()> {
    let mut connection = Connection::open(storm.target.server, client)?;
    let set = |key| {
        let path = key_path(key).into();
        MultiOp::SetData(SetDataRequest { path, data: None, version: ANY })
    };
    let frames = request::frame(1, &Request::Multi((0..SETS).map(set).collect())).repeat(4);
    paced(storm, || connection.exchange(&frames, 4, DONE))
}

fn statistics(storm: &Storm, client: u32) -> io::Result<()> {
    let mut connection = Connection::open(storm.target.server, client)?;
    let path = || STATISTICS.into();
    let delete = || MultiOp::Delete(DeleteRequest { path: path(), version: ANY });
    let create = || {
        let acl = Some(vec![Acl::anyone(jute::perms::ALL)]);
        MultiOp::Create(CreateRequest { path: path(), data: None, acl, flags: 0 })
    };
    connection.exchange(&request::frame(1, &Request::Multi(vec![delete()])), 1, DONE)?;
    let pairs = (0..PAIRS).flat_map(|_| [create(), delete()]).collect();
    let frame = request::frame(1, &Request::Multi(pairs));
    paced(storm, || connection.exchange(&frame, 1, DONE))
}

fn ephemerals(storm: &Storm, client: u32) -> io::Result<()> {
    while storm.goes_on() {
        let mut connection = Connection::open(storm.target.server, client)?;
        for first in (0..EPHEMERALS).step_by(EPHEMERALS_A_MULTI as usize) {
            let create = |number| {
                let path = format!("{ROOT}/storm-e{number:09}").into();
                let acl = Some(vec![Acl::anyone(jute::perms::ALL)]);
                MultiOp::Create(CreateRequest { path, data: None, acl, flags: EPHEMERAL })
            };
            let numbers = first..first + EPHEMERALS_A_MULTI;
            let frame = request::frame(1, &Request::Multi(numbers.map(create).collect()));
            connection.exchange(&frame, 1, DONE)?;
        }
        connection.exchange(&request::frame(1, &Request::CloseSession), 1, DONE)?;
        storm.count();
    }
    Ok(())
}

/// As many as the descriptors allow, without a closeSession.
fn watchers(storm: &Storm, _client: u32) -> io::Result<()> {
    let exists = request::frame(1, &request::exists("/bench/storm-watched", true));
    while storm.goes_on() {
        let mut watchers = Vec::new();
        for number in 0..WATCHERS {
            let mut connection = Connection::open(storm.target.server, number)?;
            connection.exchange(&exists, 1, &[NO_NODE])?;
            watchers.push(connection);
            if !storm.goes_on() {
                break;
            }
        }
        drop(watchers);
        storm.count();
    }
    Ok(())
}

fn words(storm: &Storm, _client: u32) -> io::Result<()> {
    let _watching = watches::on_absent(storm.target.server, WATCHES)?;
    let mut words = ["wchc", "wchp", "dump"].iter().cycle();
    paced(storm, || {
        let mut socket = TcpStream::connect(storm.target.server)?;
        socket.write_all(words.next().unwrap_or(&"dump").as_bytes())?;
        let mut buffer = vec![0; 1 << 20];
        while storm.goes_on() && socket.read(&mut buffer)? > 0 {}
        Ok(())
    })
}

/// As many connections as the descriptors allow; they ask nothing.
fn scrapes(storm: &Storm, _client: u32) -> io::Result<()> {
    let open =
        |number| storm.goes_on().then(|| Connection::open(storm.target.server, number).ok())?;
    let open: Vec<Connection> = (0..OPEN).map_while(open).collect();
    if open.len() < OPEN as usize / 10 * 9 && storm.goes_on() {
        return Err(io::Error::other(format!("only {} connections are open", open.len())));
    }
    let mut page = Vec::new();
    paced(storm, || {
        let mut socket = TcpStream::connect(storm.target.metrics)?;
        socket
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        page.clear();
        socket.read_to_end(&mut page)?;
        if !page.starts_with(b"HTTP/1.1 200 ") {
            return Err(io::Error::other("/metrics is answered by no page"));
        }
        Ok(())
    })
}

fn set_watches(storm: &Storm, client: u32) -> io::Result<()> {
    let mut connection = Connection::open(storm.target.server, client)?;
    let path = |number| Cow::Owned(format!("{ROOT}/storm-again-{number:07}"));
    let again = Request::SetWatches(SetWatchesRequest {
        relative_zxid: i64::MAX,
        data_watches: Vec::new(),
        exist_watches: (0..WATCHED_AGAIN).map(path).collect(),
        child_watches: Vec::new(),
    });
    let frame = request::frame(-8, &again);
    paced(storm, || connection.exchange(&frame, 1, DONE))
}

fn long_path(storm: &Storm, client: u32) -> io::Result<()> {
    let mut connection = Connection::open(storm.target.server, client)?;
    let path = "/a".repeat(REQUEST_LEN / 4);
    let mut frames = request::frame(1, &request::exists(&path, false));
    frames.extend(request::frame(2, &request::create(&path, &[], 0)));
    paced(storm, || connection.exchange(&frames, 2, &[NO_NODE]))
}

/// The first of them changes what all watch.
fn unread_events(storm: &Storm, client: u32) -> io::Result<()> {
    let mut connection = Connection::open(storm.target.server, client)?;
    if client == 0 {
        let frame = request::frame(1, &request::set(ROOT, &[]));
        let frames = frame.repeat(CHANGES as usize);
        return paced(storm, || connection.exchange(&frames, CHANGES as usize, DONE));
    }
    let watch = Request::AddWatch(AddWatchRequest {
        path: "/".into(),
        mode: AddWatchMode::PersistentRecursive,
    });
    connection.exchange(&request::frame(1, &watch), 1, DONE)?;
    hold(storm, &connection)
}

/// Keeps a connection and reads nothing, until the server ends it.
fn hold(storm: &Storm, connection: &Connection) -> io::Result<()> {
    while storm.goes_on() && !connection.is_over()? {
        thread::sleep(PACE);
    }
    Ok(())
}

fn unread_answers(storm: &Storm, client: u32) -> io::Result<()> {
    let mut connection = Connection::open(storm.target.server, client)?;
    let reads = (0..LARGE_READS).map(|_| ReadOp::GetData(LARGE.into())).collect();
    let frame = request::frame(1, &Request::MultiRead(reads));
    connection.unblock()?;
    connection.out().extend_from_slice(&frame);
    while storm.goes_on() && !connection.is_over()? {
        connection.flush()?;
        // Offered, or held.
        storm.count();
        thread::sleep(PACE);
    }
    Ok(())
}
