//! Transcripts: what Apache ZooKeeper 3.9.5 said, and whether the engine says the same.
//!
//! A file of `testdata` is a list of blocks: comments, one command, `----`, the expected output.
//! `compat-tests/clients/record_transcripts.py` runs the same files against a real server and
//! writes the outputs; what is marked `# ours` differs on purpose and is written by hand.
//!
//! A command is a session's name and a request: `a create /x "data" mode=ephemeral
//! acl=[world:anyone:r]`. A session opens when it is first named; `a reattach` gives it a new
//! connection, `a close` ends it, `expire a` lets it expire. `multi {` and `multiread {` hold one
//! part a line. `pipelined {` holds requests that are all prepared before the first of them is
//! applied; a real server gets them in one write. `raw OP HEX` is a body by its bytes.
//!
//! The output is what the session's connection receives, events and reply in their order, then the
//! events of the others. Zxids are named in the order in which they are first seen; names of
//! children are sorted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use jute::protocol::{AuthPacket, MultiResult, Request, Response};
use jute::txn::{Txn, TxnRecord};
use jute::{Acl, ErrorCode, OpCode, Stat, perms};
use sha1::Digest as _;

use super::access::acl::{Identities, Identity};
use super::answer::read;
use super::answer::read::Caller;
use super::apply::Mode;
use super::database::{Database, Rules};
use super::decide::request::{Chore, Origin, Work};
use super::decide::sequencer::{Prepared, Sequencer};
use super::session::SessionId;
use super::time::{Monotonic, Now, WallClock};
use super::watch::{ConnectionId, Event};
use super::zxid::Zxid;

const PERMS: &str = "rwcda";
const TIMEOUT_MS: i32 = 30_000;

// The language: words, values, bodies.

/// Words of a line; quotes and brackets hold blanks together.
fn tokens(line: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let (mut quoted, mut escaped, mut depth) = (false, false, 0);
    for char in line.chars() {
        if char == ' ' && !quoted && depth == 0 {
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            continue;
        }
        word.push(char);
        if escaped {
            escaped = false;
        } else if quoted {
            escaped = char == '\\';
            quoted = char != '"';
        } else {
            quoted = char == '"';
            depth += i32::from(char == '[') - i32::from(char == ']');
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// The bytes of a word; `None` for null.
fn value(word: &str) -> Option<Vec<u8>> {
    if word == "null" {
        return None;
    }
    let Some(text) = word.strip_prefix('"') else { return Some(word.as_bytes().to_vec()) };
    let mut rest = text.strip_suffix('"').expect("a quoted word ends in a quote");
    let mut bytes = Vec::new();
    while let Some(char) = rest.chars().next() {
        rest = &rest[char.len_utf8()..];
        if char != '\\' {
            bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let (escape, behind) = rest.split_at(1);
        rest = behind;
        match escape {
            "x" => {
                bytes.push(u8::from_str_radix(&rest[..2], 16).unwrap());
                rest = &rest[2..];
            }
            "u" => {
                let (hex, behind) = rest[1..].split_once('}').unwrap();
                let code = u32::from_str_radix(hex, 16).unwrap();
                match char::from_u32(code) {
                    Some(char) => bytes.extend(char.encode_utf8(&mut [0; 4]).bytes()),
                    // A surrogate by itself, in the three bytes that it would take.
                    None => bytes.extend([
                        0xe0 | (code >> 12) as u8,
                        0x80 | (code >> 6 & 0x3f) as u8,
                        0x80 | (code & 0x3f) as u8,
                    ]),
                }
                rest = behind;
            }
            "n" => bytes.push(b'\n'),
            other => bytes.extend_from_slice(other.as_bytes()),
        }
    }
    Some(bytes)
}

fn items(list: &str) -> Vec<&str> {
    let list = list.strip_prefix('[').and_then(|list| list.strip_suffix(']')).expect("a list");
    list.split(',').filter(|item| !item.is_empty()).collect()
}

/// A body in the making.
#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn int(&mut self, int: i32) {
        self.0.extend(int.to_be_bytes());
    }

    fn long(&mut self, long: i64) {
        self.0.extend(long.to_be_bytes());
    }

    fn buffer(&mut self, bytes: Option<Vec<u8>>) {
        self.int(bytes.as_ref().map_or(-1, |bytes| bytes.len() as i32));
        self.0.extend(bytes.unwrap_or_default());
    }

    fn list(&mut self, list: &str, mut item: impl FnMut(&mut Self, &str)) {
        if list == "null" {
            return self.int(-1);
        }
        let items = items(list);
        self.int(items.len() as i32);
        for one in items {
            item(self, one);
        }
    }

    fn acl(&mut self, list: &str) {
        self.list(list, |body, entry| {
            let (scheme, rest) = entry.split_once(':').unwrap();
            let (id, perms) = rest.rsplit_once(':').unwrap();
            let bits = perms.parse().unwrap_or_else(|_| {
                perms.chars().filter_map(|perm| PERMS.find(perm)).map(|bit| 1 << bit).sum()
            });
            body.int(bits);
            body.buffer(value(scheme));
            body.buffer(value(id));
        });
    }
}

fn mode_flags(mode: &str) -> i32 {
    match mode {
        "persistent" => 0,
        "ephemeral" => 1,
        "sequential" => 2,
        "ephemeral_sequential" => 3,
        "container" => 4,
        "ttl" => 5,
        "sequential_ttl" => 6,
        number => number.parse().unwrap(),
    }
}

fn op_code(op: &str) -> i32 {
    let op_code = match op {
        "create" => OpCode::Create,
        "create2" => OpCode::Create2,
        "container" => OpCode::CreateContainer,
        "ttl" => OpCode::CreateTtl,
        "delete" => OpCode::Delete,
        "exists" => OpCode::Exists,
        "get" => OpCode::GetData,
        "set" => OpCode::SetData,
        "getacl" => OpCode::GetAcl,
        "setacl" => OpCode::SetAcl,
        "ls" => OpCode::GetChildren,
        "ls2" => OpCode::GetChildren2,
        "sync" => OpCode::Sync,
        "ping" => OpCode::Ping,
        "check" => OpCode::Check,
        "multi" => OpCode::Multi,
        "multiread" => OpCode::MultiRead,
        "reconfig" => OpCode::Reconfig,
        "checkwatches" => OpCode::CheckWatches,
        "removewatches" => OpCode::RemoveWatches,
        "addauth" => OpCode::Auth,
        "setwatches" => OpCode::SetWatches,
        "setwatches2" => OpCode::SetWatches2,
        "ephemerals" => OpCode::GetEphemerals,
        "count" => OpCode::GetAllChildrenNumber,
        "addwatch" => OpCode::AddWatch,
        "whoami" => OpCode::WhoAmI,
        "close" => OpCode::CloseSession,
        other => panic!("no operation {other}"),
    };
    op_code.code()
}

/// The body of a request.
fn body(op: &str, words: &[String], ranks: &Ranks) -> Vec<u8> {
    let is_named = |word: &str| {
        let name = word.split_once('=').map_or("", |(name, _)| name);
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    let plain: Vec<&str> =
        words.iter().map(String::as_str).filter(|word| !is_named(word)).collect();
    let named: BTreeMap<&str, &str> = words
        .iter()
        .filter(|word| is_named(word))
        .filter_map(|word| word.split_once('='))
        .collect();
    let named = |name: &str, default: &'static str| *named.get(name).unwrap_or(&default);
    let second = || *plain.get(1).unwrap_or(&"\"\"");
    let mut body = Body::default();
    if let Some(first) = plain.first()
        && !matches!(op, "addauth" | "reconfig")
    {
        body.buffer(value(first));
    }
    match op {
        "create" | "create2" | "container" | "ttl" => {
            let default = match op {
                "container" | "ttl" => op,
                _ => "persistent",
            };
            body.buffer(value(second()));
            body.acl(named("acl", "[world:anyone:31]"));
            body.int(mode_flags(match named("mode", "") {
                "" => default,
                mode => mode,
            }));
            if op == "ttl" {
                body.long(named("ttl", "1000").parse().unwrap());
            }
        }
        "delete" | "check" => body.int(named("version", "-1").parse().unwrap()),
        "exists" | "get" | "ls" | "ls2" => body.0.push(u8::from(plain.contains(&"watch"))),
        "set" => {
            body.buffer(value(second()));
            body.int(named("version", "-1").parse().unwrap());
        }
        "setacl" => {
            body.acl(second());
            body.int(named("version", "-1").parse().unwrap());
        }
        "checkwatches" | "removewatches" => body.int(match second() {
            "children" => 1,
            "data" => 2,
            "any" => 3,
            "persistent" => 4,
            "recursive" => 5,
            number => number.parse().unwrap(),
        }),
        "addwatch" => body.int(match second() {
            "persistent" => 0,
            "recursive" => 1,
            number => number.parse().unwrap(),
        }),
        "setwatches" | "setwatches2" => {
            body.long(ranks.zxid(named("since", "0")));
            let lists: &[&str] = match op {
                "setwatches" => &["data", "exist", "child"],
                _ => &["data", "exist", "child", "persistent", "recursive"],
            };
            for list in lists {
                body.list(named(list, "[]"), |body, path| body.buffer(value(path)));
            }
        }
        "addauth" => {
            body.int(0);
            body.buffer(value(plain[0]));
            body.buffer(value(second()));
        }
        "reconfig" => {
            body.int(-1);
            body.int(-1);
            body.buffer(value(plain[0]));
            body.long(-1);
        }
        _ => {}
    }
    body.0
}

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// A request as its operation and its bytes; `lines` are the parts of a multi.
fn encoded(words: &[String], lines: &[&str], ranks: &Ranks) -> (i32, Vec<u8>) {
    let op = words[0].as_str();
    match op {
        "raw" => {
            let hex = words.get(2).map_or("", String::as_str);
            (words[1].parse().unwrap(), bytes_of(hex))
        }
        "multi" | "multiread" => {
            let mut all = Body::default();
            for line in lines {
                let words = tokens(line);
                let (code, part) = if words[0] == "raw" {
                    (words[1].parse().unwrap(), bytes_of(words.get(2).map_or("", String::as_str)))
                } else {
                    (op_code(&words[0]), body(&words[0], &words[1..], ranks))
                };
                all.int(code);
                all.0.push(0);
                all.int(-1);
                all.0.extend(part);
            }
            all.int(-1);
            all.0.push(1);
            all.int(-1);
            (op_code(op), all.0)
        }
        _ => (op_code(op), body(op, &words[1..], ranks)),
    }
}

// What is shown.

fn quoted(bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else { return "null".to_owned() };
    let mut text = String::from("\"");
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', byte as char]),
            32..127 => text.push(byte as char),
            _ => write!(text, "\\x{byte:02x}").unwrap(),
        }
    }
    text + "\""
}

/// A path as it is, or quoted where it has to be.
fn shown(path: &str) -> String {
    let plain = !matches!(path, "" | "null")
        && path.bytes().all(|byte| (33..127).contains(&byte) && !b"\"\\[],".contains(&byte));
    if plain { path.to_owned() } else { quoted(Some(path.as_bytes())) }
}

fn listed<'p>(paths: impl IntoIterator<Item = &'p str>) -> String {
    let mut paths: Vec<String> = paths.into_iter().map(shown).collect();
    paths.sort();
    format!("[{}]", paths.join(", "))
}

fn shown_perms(bits: i32) -> String {
    match bits {
        0 => "_".to_owned(),
        1..32 => {
            PERMS.char_indices().filter(|(bit, _)| bits & 1 << bit != 0).map(|(_, c)| c).collect()
        }
        _ => bits.to_string(),
    }
}

/// Where `auth` stands for several identities, their order is nobody's promise.
fn shown_acl(list: &[Acl<'_>], sort: bool) -> String {
    let mut entries: Vec<String> = list
        .iter()
        .map(|acl| {
            let scheme = acl.scheme.as_deref().unwrap_or_default();
            let id = acl.id.as_deref().unwrap_or_default();
            format!("{scheme}:{id}:{}", shown_perms(acl.perms))
        })
        .collect();
    if sort {
        entries.sort();
    }
    format!("[{}]", entries.join(", "))
}

/// Names for zxids and sessions.
#[derive(Default)]
struct Ranks {
    /// Requests of a pipeline may or may not share a millisecond.
    without_times: bool,
    sort_acls: bool,
    zxids: Vec<i64>,
    sessions: BTreeMap<i64, String>,
}

impl Ranks {
    fn name(&mut self, zxid: i64) -> String {
        if zxid <= 0 {
            return zxid.to_string();
        }
        let rank = self.zxids.iter().position(|&seen| seen == zxid).unwrap_or_else(|| {
            self.zxids.push(zxid);
            self.zxids.len() - 1
        });
        format!("z{}", rank + 1)
    }

    fn zxid(&self, name: &str) -> i64 {
        match name.strip_prefix('z') {
            Some(rank) => self.zxids[rank.parse::<usize>().unwrap() - 1],
            None => name.parse().unwrap(),
        }
    }

    fn stat(&mut self, stat: &Stat) -> String {
        let times = match (stat.ctime, stat.mtime) {
            _ if self.without_times => "",
            (0, 0) => " times=0",
            (ctime, mtime) if mtime == ctime => " mtime=ctime",
            (ctime, mtime) if mtime > ctime => " mtime>ctime",
            _ => " mtime<ctime",
        };
        let owner = self.sessions.get(&stat.ephemeral_owner).cloned();
        let owner = owner.unwrap_or_else(|| stat.ephemeral_owner.to_string());
        format!(
            "czxid={} mzxid={} pzxid={} version={} cversion={} aversion={} owner={owner} length={} \
             children={}{times}",
            self.name(stat.czxid),
            self.name(stat.mzxid),
            self.name(stat.pzxid),
            stat.version,
            stat.cversion,
            stat.aversion,
            stat.data_length,
            stat.num_children,
        )
    }

    fn result(&mut self, result: &MultiResult<'_>) -> String {
        match result {
            MultiResult::Create(path) => format!("create {}", shown(path)),
            MultiResult::Create2(path, stat) => {
                format!("create2 {} {}", shown(path), self.stat(stat))
            }
            MultiResult::Delete => "delete".to_owned(),
            MultiResult::SetData(stat) => format!("set {}", self.stat(stat)),
            MultiResult::Check => "check".to_owned(),
            MultiResult::GetData(data, stat) => {
                format!("get {} {}", quoted(data.as_deref()), self.stat(stat))
            }
            MultiResult::GetChildren(names) => {
                format!("ls {}", listed(names.iter().map(|name| &**name)))
            }
            MultiResult::Error(0) => "undone".to_owned(),
            MultiResult::Error(code) => {
                format!("failed {:?}", ErrorCode::from_code(*code).unwrap())
            }
        }
    }

    fn response(&mut self, response: &Response<'_>) -> Vec<String> {
        vec![match response {
            Response::Empty | Response::Error(_) => "ok".to_owned(),
            Response::Create(body) => shown(&body.path),
            Response::Create2(body) => format!("{} {}", shown(&body.path), self.stat(&body.stat)),
            Response::Stat(stat) => self.stat(stat),
            Response::GetData(body) => {
                format!("{} {}", quoted(body.data.as_deref()), self.stat(&body.stat))
            }
            Response::GetAcl(body) => {
                format!("{} {}", shown_acl(&body.acl, self.sort_acls), self.stat(&body.stat))
            }
            Response::Children(body) => listed(body.children.iter().map(|name| &**name)),
            Response::Children2(body) => {
                let names = listed(body.children.iter().map(|name| &**name));
                format!("{names} {}", self.stat(&body.stat))
            }
            Response::Sync(body) => body.path.as_deref().map_or_else(|| "null".to_owned(), shown),
            Response::Multi(results) if results.is_empty() => "(empty)".to_owned(),
            Response::Multi(results) => {
                return results.iter().map(|result| self.result(result)).collect();
            }
            Response::Ephemerals(body) => listed(body.ephemerals.iter().map(|path| &**path)),
            Response::AllChildrenNumber(number) => number.to_string(),
            Response::WhoAmI(body) => {
                let mut infos: Vec<String> = body
                    .client_info
                    .iter()
                    .map(|info| format!("{}:{}", info.auth_scheme, info.user))
                    .collect();
                infos.sort();
                format!("[{}]", infos.join(", "))
            }
            Response::Sasl(_) => panic!("sasl is the server's"),
        }]
    }
}

// The engine behind it.

#[derive(Debug, Clone)]
struct Client {
    session: SessionId,
    connection: ConnectionId,
    identities: Arc<Identities>,
}

/// What a request became.
enum Decided {
    Prepared(Prepared),
    /// The server's own: auth, and what cannot be decoded.
    Said(String),
}

struct Runner {
    database: Database,
    sequencer: Sequencer,
    clients: BTreeMap<String, Client>,
    connections: u64,
    ranks: Ranks,
    ms: u64,
}

impl Runner {
    fn new(rules: Rules) -> Self {
        let database = Database::new(7, rules);
        let sequencer = Sequencer::new(&database, 500, 0x100_0000_0000_0000, Monotonic(0));
        let (clients, ranks) = (BTreeMap::new(), Ranks::default());
        Self { database, sequencer, clients, connections: 0, ranks, ms: 0 }
    }

    fn now(&self) -> Now {
        let wall = WallClock(1_700_000_000_000 + i64::try_from(self.ms).unwrap());
        Now { monotonic: Monotonic(self.ms), wall }
    }

    fn connect(&mut self, session: SessionId) -> Client {
        self.connections += 1;
        let ip = Identity { scheme: "ip".to_owned(), id: "127.0.0.1".to_owned() };
        let identities = Arc::new(vec![ip].into());
        Client { session, connection: ConnectionId(self.connections), identities }
    }

    fn origin(&self, client: &Client) -> Origin {
        let Client { session, connection, ref identities } = *client;
        let (identities, received) = (Arc::clone(identities), Monotonic(self.ms));
        Origin { connection, session, xid: 1, identities, received }
    }

    fn open(&mut self, name: &str) {
        let mut client = self.connect(SessionId::NONE);
        let work = Work::Open { timeout_ms: TIMEOUT_MS };
        let now = self.now();
        let origin = self.origin(&client);
        let prepared = self.sequencer.prepare(&self.database, &origin, work, now);
        let Prepared::Open(record, attached) = prepared else { panic!("{prepared:?}") };
        client.session = attached.session;
        self.ranks.sessions.insert(attached.session.0, name.to_owned());
        self.apply(record, None, &mut Vec::new());
        self.clients.insert(name.to_owned(), client);
    }

    fn reattach(&mut self, name: &str) -> Vec<String> {
        let before = self.clients.remove(name).unwrap();
        self.database.watches.get_mut().forget(before.connection);
        let client = self.connect(before.session);
        let work = Work::Attach { timeout_ms: TIMEOUT_MS };
        let now = self.now();
        let origin = self.origin(&client);
        let prepared = self.sequencer.prepare(&self.database, &origin, work, now);
        let Prepared::Attached(attached) = prepared else { panic!("{prepared:?}") };
        assert_eq!(attached.previous, Some(before.connection));
        self.clients.insert(name.to_owned(), client);
        vec!["ok".to_owned()]
    }

    /// Applies a transaction as it comes out of a log.
    fn apply(
        &mut self,
        record: TxnRecord<'static>,
        own: Option<&Client>,
        events: &mut Vec<Event>,
    ) -> Vec<String> {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        let (read, rest) = TxnRecord::decode(&bytes).unwrap();
        assert!(rest.is_empty());
        assert_eq!(read, record);
        let TxnRecord { header, txn, digest } = read;
        let response = self.database.apply(&header, txn, digest, Mode::Strict, events).unwrap();
        self.sequencer.retire(Zxid(header.zxid));
        let sum = self.database.rules.digest.then(|| self.database.tree.compute_digest());
        assert_eq!(self.database.tree.digest(), sum, "digest after {:?}", record.txn);
        // Its own events reach the session before the reply does, and name their zxid first.
        if own.is_some_and(|own| events.iter().any(|event| is_told(own, event))) {
            self.ranks.name(header.zxid);
        }
        self.ranks.response(&response)
    }

    fn decide(&mut self, name: &str, op: i32, bytes: &[u8]) -> Decided {
        let client = self.clients[name].clone();
        let request = match Request::decode(op, bytes) {
            Ok(request) => jute::IntoStatic::into_static(request),
            Err(jute::DecodeError::UnknownOperation(_)) => {
                return Decided::Said("error Unimplemented".to_owned());
            }
            Err(_) => return Decided::Said("error MarshallingError".to_owned()),
        };
        if let Request::Auth(packet) = request {
            self.authenticate(name, &packet);
            return Decided::Said("ok".to_owned());
        }
        let (origin, work) = (self.origin(&client), Work::Request(request));
        let now = self.now();
        Decided::Prepared(self.sequencer.prepare(&self.database, &origin, work, now))
    }

    fn authenticate(&mut self, name: &str, packet: &AuthPacket<'_>) {
        if packet.scheme.as_deref() != Some("digest") {
            return;
        }
        let token = packet.auth.as_deref().unwrap();
        let user = String::from_utf8(token.to_vec()).unwrap();
        let user = user.split(':').next().unwrap_or_default();
        let hash = base64::engine::general_purpose::STANDARD.encode(sha1::Sha1::digest(token));
        let identity = Identity { scheme: "digest".to_owned(), id: format!("{user}:{hash}") };
        let client = self.clients.get_mut(name).unwrap();
        Arc::make_mut(&mut client.identities).add(identity).unwrap();
    }

    /// What the session's connection receives for it. All events of it are added to `told`.
    fn answer(&mut self, name: &str, decided: Decided, told: &mut Vec<Event>) -> Vec<String> {
        let client = self.clients[name].clone();
        let mut events = Vec::new();
        let mut is_closed = false;
        let reply = match decided {
            Decided::Said(text) => {
                is_closed = text == "error Unimplemented";
                vec![text]
            }
            Decided::Prepared(Prepared::Txn(record)) => {
                is_closed = matches!(record.txn, Txn::CloseSession(_));
                self.apply(record, Some(&client), &mut events)
            }
            Decided::Prepared(Prepared::Read(request)) => {
                let caller = Caller {
                    connection: client.connection,
                    session: client.session,
                    identities: &client.identities,
                };
                match read::answer(&self.database, &caller, &request, &mut events) {
                    Ok(response) => self.ranks.response(&response),
                    Err(error) => vec![format!("error {error:?}")],
                }
            }
            Decided::Prepared(Prepared::Refused(error)) => vec![format!("error {error:?}")],
            Decided::Prepared(Prepared::RefusedMulti(results)) => {
                self.ranks.response(&Response::Multi(results))
            }
            Decided::Prepared(prepared) => panic!("{prepared:?}"),
        };
        let mut lines = self.told(&client, &events);
        if is_closed {
            lines.sort();
        }
        lines.extend(reply);
        if is_closed {
            lines.push("closed".to_owned());
            self.disconnect(name);
        }
        told.append(&mut events);
        lines
    }

    fn disconnect(&mut self, name: &str) {
        let client = self.clients.remove(name).unwrap();
        self.database.watches.get_mut().forget(client.connection);
        self.sequencer.session_closed(client.session);
    }

    /// Those of the events that reach a client.
    fn told(&mut self, client: &Client, events: &[Event]) -> Vec<String> {
        let told = events.iter().filter(|event| is_told(client, event));
        told.map(|event| {
            let zxid = self.ranks.name(event.zxid.0);
            format!("event {:?} {} {zxid}", event.event_type, shown(&event.path))
        })
        .collect()
    }

    /// What reaches everyone but `own`. The end of a session deletes in no order.
    fn others(&mut self, own: &str, events: &[Event], sort: bool) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, client) in self.clients.clone() {
            if name != own {
                let mut told = self.told(&client, events);
                if sort {
                    told.sort();
                }
                lines.extend(told.into_iter().map(|told| format!("{name} {told}")));
            }
        }
        lines
    }

    fn expire(&mut self, name: &str) -> Vec<String> {
        let session = self.clients[name].session;
        let (chore, now) = (Chore::Expire(session), self.now());
        let record = self.sequencer.prepare_chore(&self.database, &chore, now).unwrap();
        self.disconnect(name);
        let mut events = Vec::new();
        self.apply(record, None, &mut events);
        self.others(name, &events, true)
    }

    fn run(&mut self, command: &[&str]) -> Vec<String> {
        self.ms += 5;
        let words = tokens(command[0].trim_end_matches(" {"));
        let inner: Vec<&str> = match command {
            [_, inner @ .., _] => inner.iter().map(|line| line.trim()).collect(),
            _ => Vec::new(),
        };
        if words[0] == "expire" {
            return self.expire(&words[1]);
        }
        let (name, words) = (words[0].as_str(), &words[1..]);
        self.ranks.sort_acls = words.iter().any(|word| word == "sorted");
        if !self.clients.contains_key(name) {
            self.open(name);
        }
        match words[0].as_str() {
            "connect" => vec!["ok".to_owned()],
            "reattach" => self.reattach(name),
            "pipelined" => {
                self.ranks.without_times = true;
                let lines = self.pipeline(name, &inner);
                self.ranks.without_times = false;
                lines
            }
            _ => self.pipeline_of(name, &[(words.to_vec(), inner)]),
        }
    }

    fn pipeline(&mut self, name: &str, lines: &[&str]) -> Vec<String> {
        let mut requests = Vec::new();
        let mut lines = lines.iter();
        while let Some(line) = lines.next() {
            let words = tokens(line.trim_end_matches(" {"));
            let parts = if line.ends_with('{') {
                lines.by_ref().take_while(|line| **line != "}").copied().collect()
            } else {
                Vec::new()
            };
            requests.push((words, parts));
        }
        self.pipeline_of(name, &requests)
    }

    fn pipeline_of(&mut self, name: &str, requests: &[(Vec<String>, Vec<&str>)]) -> Vec<String> {
        let mut decided = Vec::new();
        for (words, parts) in requests {
            let (op, bytes) = encoded(words, parts, &self.ranks);
            decided.push(self.decide(name, op, &bytes));
        }
        let (mut lines, mut events) = (Vec::new(), Vec::new());
        for decided in decided {
            if !self.clients.contains_key(name) {
                break;
            }
            lines.extend(self.answer(name, decided, &mut events));
        }
        let is_close = requests.iter().any(|(words, _)| words[0] == "close");
        lines.extend(self.others(name, &events, is_close));
        lines
    }
}

/// Whether an event reaches a client: it watches, and may read.
fn is_told(client: &Client, event: &Event) -> bool {
    let readers = event.readers.as_ref();
    event.receivers.contains(&client.connection)
        && readers.is_none_or(|list| client.identities.may(list, perms::READ))
}

/// The words of the first line switch what they name.
fn rules(text: &str) -> Rules {
    let switches = text.lines().next().unwrap_or_default();
    let switched = switches.starts_with("# server:");
    Rules {
        extended_types: !(switched && switches.contains("extendedTypesEnabled=false")),
        reconfig: switched && switches.contains("reconfigEnabled=true"),
        enforce_quota: switched && switches.contains("enforceQuota=true"),
        skip_acl: switched && switches.contains("skipACL=yes"),
        digest: !(switched && switches.contains(" digest.enabled=false")),
        digest_scheme: !(switched
            && switches.contains("DigestAuthenticationProvider.enabled=false")),
        ..Rules::default()
    }
}

/// Runs a transcript and gives it back with what the engine says.
fn replay(text: &str) -> String {
    let mut runner = Runner::new(rules(text));
    let mut blocks = Vec::new();
    for block in text.trim_matches('\n').split("\n\n") {
        let head = block.split("\n----").next().unwrap_or_default();
        let command: Vec<&str> = head.lines().filter(|line| !line.starts_with('#')).collect();
        if command.is_empty() {
            blocks.push(block.to_owned());
            continue;
        }
        let lines = runner.run(&command);
        blocks.push(
            [&[head, "----"], &*lines.iter().map(String::as_str).collect::<Vec<_>>()]
                .concat()
                .join("\n"),
        );
    }
    blocks.join("\n\n") + "\n"
}

#[test]
fn the_engine_says_what_zookeeper_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine/testdata");
    let mut differences = String::new();
    let mut commands = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let expected = std::fs::read_to_string(&file).unwrap();
        let actual = replay(&expected);
        for (expected, actual) in expected.split("\n\n").zip(actual.split("\n\n")) {
            commands += usize::from(expected.contains("\n----"));
            if expected.trim() != actual.trim() {
                let (_, ours) = actual.split_once("\n----").unwrap_or_default();
                let name = file.display();
                writeln!(differences, "{name}:\n{expected}\nthe engine says{ours}\n").unwrap();
            }
        }
    }
    assert!(commands > 1000, "{commands} commands");
    assert!(differences.is_empty(), "\n{differences}");
}
