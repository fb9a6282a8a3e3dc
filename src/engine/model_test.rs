//! The engine against the model, over random scripts: the same replies, events, trees and counts,
//! however many requests are in flight.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jute::persist::SnapshotNode;
use jute::protocol::{
    AddWatchMode, AddWatchRequest, CheckVersionRequest, CreateRequest, CreateTtlRequest,
    DeleteRequest, EphemeralsRequest, MultiOp, MultiResult, PathRequest, ReadOp, Request, Response,
    SetAclRequest, SetDataRequest, SetWatches2Request, SyncRequest, WatchRequest, WatcherType,
    WatcherTypeRequest,
};
use jute::txn::TxnRecord;
use jute::{Acl, StatPersisted, perms};
use proptest::prelude::*;

use super::access::acl::{Identities, Identity};
use super::answer::read;
use super::answer::read::Caller;
use super::apply::Mode;
use super::database::{Database, Rules};
use super::decide::request::{Chore, Origin, Work};
use super::decide::sequencer::{Prepared, Sequencer};
use super::model::{Client, Life, Model, Node, Reply, Told};
use super::owner::Owner;
use super::session::SessionId;
use super::time::{Monotonic, Now, WallClock};
use super::watch::{ConnectionId, Event};
use super::zxid::Zxid;

const CLIENTS: usize = 3;
const TIMEOUT_MS: i32 = 10_000;

const PATHS: [&str; 20] = [
    "/a",
    "/b",
    "/a/x",
    "/a/y",
    "/b/x",
    "/a/x/1",
    "/a/x/2",
    "/a/s-",
    "/b/",
    "/c",
    "/a",
    "/a/x",
    "/",
    "",
    "/zookeeper",
    "/zookeeper/q",
    "/zookeeper/config",
    "a",
    "/a/",
    "/a//x",
];

/// A path: one of a few, or whatever there is.
#[derive(Debug, Clone)]
pub(super) enum Where {
    Fixed(usize),
    Existing(usize),
}

/// A version: any, the right one, or a wrong one.
#[derive(Debug, Clone)]
pub(super) enum Which {
    Any,
    Current,
    Wrong,
}

#[derive(Debug, Clone)]
pub(super) enum Spec {
    Create {
        op: usize,
        path: Where,
        data: usize,
        acl: usize,
        flags: i32,
        ttl: i64,
    },
    Delete(Where, Which),
    Set(Where, usize, Which),
    Check(Where, Which),
    SetAcl(Where, usize, Which),
    Read(usize, Where, bool),
    Multi(Vec<Self>),
    MultiRead(Vec<(bool, Where)>),
    SetWatches {
        ago: i64,
        lists: [Vec<Where>; 5],
    },
    AddWatch(Where, bool),
    Watches(Where, usize, bool),
    Close,
    Expire,
    Reattach,
    Reap(Where),
    /// An ephemeral znode is deleted and made again, by whom it may be, and its first owner goes:
    /// all in one flight.
    Takeover {
        pick: usize,
        flags: i32,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) client: usize,
    pub(super) spec: Spec,
    /// So many of what is in flight are applied before the next one, the oldest first.
    pub(super) apply: usize,
    /// Milliseconds since the one before.
    pub(super) wait: i64,
}

fn place() -> impl Strategy<Value = Where> {
    prop_oneof![
        2 => (0..PATHS.len()).prop_map(Where::Fixed),
        3 => any::<usize>().prop_map(Where::Existing),
    ]
}

fn which() -> impl Strategy<Value = Which> {
    prop_oneof![4 => Just(Which::Any), 3 => Just(Which::Current), 1 => Just(Which::Wrong)]
}

fn create() -> impl Strategy<Value = Spec> {
    let flags = prop_oneof![12 => 0..4_i32, 3 => 4..7_i32, 1 => Just(7)];
    let ttl = prop_oneof![4 => Just(50_i64), 1 => Just(-1), 1 => Just(0)];
    (0..4_usize, (0..PATHS.len()).prop_map(Where::Fixed), 0..4_usize, acl_pick(), flags, ttl)
        .prop_map(|(op, path, data, acl, flags, ttl)| {
            // Most containers and times to live come with the flags that belong to them.
            let flags = match (op, flags) {
                (3, 0) => 5,
                (3, 2) => 6,
                (2, 0) => 4,
                _ => flags,
            };
            Spec::Create { op, path, data, acl, flags, ttl }
        })
}

fn acl_pick() -> impl Strategy<Value = usize> {
    prop_oneof![5 => Just(0_usize), 4 => 1..ACLS]
}

fn write() -> impl Strategy<Value = Spec> {
    prop_oneof![
        5 => create(),
        3 => (place(), which()).prop_map(|(path, version)| Spec::Delete(path, version)),
        3 => (place(), 0..4_usize, which())
            .prop_map(|(path, data, version)| Spec::Set(path, data, version)),
    ]
}

fn part() -> impl Strategy<Value = Spec> {
    prop_oneof![
        7 => write(),
        2 => (place(), which()).prop_map(|(path, version)| Spec::Check(path, version)),
    ]
}

fn spec() -> impl Strategy<Value = Spec> {
    let places = || prop::collection::vec(place(), 0..3);
    prop_oneof![
        30 => write(),
        4 => (place(), acl_pick(), which())
            .prop_map(|(path, acl, version)| Spec::SetAcl(path, acl, version)),
        18 => (0..8_usize, place(), any::<bool>())
            .prop_map(|(op, path, watch)| Spec::Read(op, path, watch)),
        8 => prop::collection::vec(part(), 0..6).prop_map(Spec::Multi),
        1 => prop::collection::vec((any::<bool>(), place()), 0..4).prop_map(Spec::MultiRead),
        2 => (0..20_i64, [places(), places(), places(), places(), places()])
            .prop_map(|(ago, lists)| Spec::SetWatches { ago, lists }),
        4 => (place(), any::<bool>()).prop_map(|(path, below)| Spec::AddWatch(path, below)),
        3 => (place(), 0..5_usize, any::<bool>())
            .prop_map(|(path, kind, take)| Spec::Watches(path, kind, take)),
        1 => Just(Spec::Close),
        1 => Just(Spec::Expire),
        1 => Just(Spec::Reattach),
        2 => place().prop_map(Spec::Reap),
        1 => (any::<usize>(), 0..2_i32).prop_map(|(pick, flags)| Spec::Takeover { pick, flags }),
    ]
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let apply = prop_oneof![5 => Just(0), 3 => 1..4_usize, 2 => Just(usize::MAX)];
    (0..CLIENTS, spec(), apply, 0..30_i64).prop_map(|(client, spec, apply, wait)| Step {
        client,
        spec,
        apply,
        wait,
    })
}

const ACLS: usize = 10;

fn acl_of(pick: usize) -> Option<Vec<Acl<'static>>> {
    let entry = |perms, scheme: &'static str, id: &'static str| Acl {
        perms,
        scheme: Some(scheme.into()),
        id: Some(id.into()),
    };
    Some(match pick {
        0 => vec![Acl::anyone(31)],
        1 => vec![Acl::anyone(1)],
        2 => vec![entry(31, "auth", "")],
        3 => vec![Acl::anyone(1), entry(31, "auth", "ignored"), Acl::anyone(1)],
        4 => vec![entry(31, "digest", "u:hash-of-u")],
        5 => vec![entry(31, "ip", "127.0.0.0/8")],
        6 => vec![Acl::anyone(16), entry(1, "digest", "u:hash-of-u")],
        7 => vec![Acl::anyone(30)],
        8 => vec![Acl::anyone(31), entry(1, "nosuch", "id")],
        _ => return None,
    })
}

fn data_of(pick: usize) -> Option<std::borrow::Cow<'static, [u8]>> {
    [None, Some(b"".as_slice()), Some(b"data"), Some(&[7; 300])][pick].map(Into::into)
}

impl Where {
    fn path(&self, model: &Model) -> std::borrow::Cow<'static, str> {
        match self {
            Self::Fixed(pick) => PATHS[*pick].into(),
            Self::Existing(pick) => {
                let at = pick % model.nodes.len();
                model.nodes.keys().nth(at).unwrap().clone().into()
            }
        }
    }
}

impl Which {
    fn version(&self, path: &str, model: &Model, of: impl Fn(&Node) -> i32) -> i32 {
        let current = model.nodes.get(path).map_or(0, of);
        match self {
            Self::Any => -1,
            Self::Current => current,
            Self::Wrong => current + 3,
        }
    }
}

impl Spec {
    fn part(&self, model: &Model) -> MultiOp<'static> {
        let data_version = |node: &Node| node.version;
        match self {
            Self::Create { op, path, data, acl, flags, ttl } => {
                let (path, data, acl, flags) =
                    (path.path(model), data_of(*data), acl_of(*acl), *flags);
                let create = CreateRequest { path, data, acl, flags };
                match op {
                    0 => MultiOp::Create(create),
                    1 => MultiOp::Create2(create),
                    2 => MultiOp::CreateContainer(create),
                    _ => {
                        let CreateRequest { path, data, acl, flags } = create;
                        MultiOp::CreateTtl(CreateTtlRequest { path, data, acl, flags, ttl: *ttl })
                    }
                }
            }
            Self::Delete(path, which) => {
                let path = path.path(model);
                let version = which.version(&path, model, data_version);
                MultiOp::Delete(DeleteRequest { path, version })
            }
            Self::Set(path, data, which) => {
                let path = path.path(model);
                let version = which.version(&path, model, data_version);
                MultiOp::SetData(SetDataRequest { path, data: data_of(*data), version })
            }
            Self::Check(path, which) => {
                let path = path.path(model);
                let version = which.version(&path, model, data_version);
                MultiOp::Check(CheckVersionRequest { path, version })
            }
            other => panic!("{other:?} is no part"),
        }
    }

    fn request(&self, model: &Model) -> Request<'static> {
        match self {
            Self::Create { .. } | Self::Delete(..) | Self::Set(..) => match self.part(model) {
                MultiOp::Create(body) => Request::Create(body),
                MultiOp::Create2(body) => Request::Create2(body),
                MultiOp::CreateContainer(body) => Request::CreateContainer(body),
                MultiOp::CreateTtl(body) => Request::CreateTtl(body),
                MultiOp::Delete(body) => Request::Delete(body),
                MultiOp::SetData(body) => Request::SetData(body),
                MultiOp::Check(_) => panic!("check stands in a multi"),
            },
            Self::SetAcl(path, acl, which) => {
                let path = path.path(model);
                let version = which.version(&path, model, |node| node.aversion);
                Request::SetAcl(SetAclRequest { path, acl: acl_of(*acl), version })
            }
            Self::Read(op, path, watch) => {
                let path = path.path(model);
                let body = WatchRequest { path: path.clone(), watch: *watch };
                match op {
                    0 => Request::Exists(body),
                    1 => Request::GetData(body),
                    2 => Request::GetChildren(body),
                    3 => Request::GetChildren2(body),
                    4 => Request::GetAcl(PathRequest { path }),
                    5 => Request::GetAllChildrenNumber(PathRequest { path }),
                    6 => Request::GetEphemerals(EphemeralsRequest { path }),
                    _ => Request::Sync(SyncRequest { path: Some(path) }),
                }
            }
            Self::Multi(parts) => {
                Request::Multi(parts.iter().map(|part| part.part(model)).collect())
            }
            Self::MultiRead(parts) => Request::MultiRead(
                parts
                    .iter()
                    .map(|(data, path)| match data {
                        true => ReadOp::GetData(path.path(model)),
                        false => ReadOp::GetChildren(path.path(model)),
                    })
                    .collect(),
            ),
            Self::SetWatches { ago, lists } => {
                let [data_watches, exist_watches, child_watches, persistent, recursive] =
                    lists.each_ref().map(|list| list.iter().map(|path| path.path(model)).collect());
                Request::SetWatches2(SetWatches2Request {
                    relative_zxid: model.zxid - ago,
                    data_watches,
                    exist_watches,
                    child_watches,
                    persistent_watches: persistent,
                    persistent_recursive_watches: recursive,
                })
            }
            Self::AddWatch(path, below) => {
                let mode = match below {
                    true => AddWatchMode::PersistentRecursive,
                    false => AddWatchMode::Persistent,
                };
                Request::AddWatch(AddWatchRequest { path: path.path(model), mode })
            }
            Self::Watches(path, kind, take) => {
                let watcher_type = [
                    WatcherType::Children,
                    WatcherType::Data,
                    WatcherType::Any,
                    WatcherType::Persistent,
                    WatcherType::PersistentRecursive,
                ][*kind];
                let body = WatcherTypeRequest { path: path.path(model), watcher_type };
                if *take { Request::RemoveWatches(body) } else { Request::CheckWatches(body) }
            }
            Self::Check(..)
            | Self::Close
            | Self::Expire
            | Self::Reattach
            | Self::Reap(_)
            | Self::Takeover { .. } => panic!("{self:?} is no request"),
        }
    }
}

/// What the engine decided and the model did, until the engine applies it.
struct Flying {
    client: Client,
    prepared: Prepared,
    reply: Option<Reply>,
    told: Vec<Told>,
    /// A connection that ends here.
    ends: Option<u64>,
    /// A session that ends here.
    closes: Option<i64>,
}

pub(super) struct Pair {
    pub(super) model: Model,
    pub(super) database: Database,
    sequencer: Sequencer,
    /// Every transaction that was applied.
    pub(super) log: Vec<TxnRecord<'static>>,
    connections: u64,
    flying: Vec<Flying>,
    /// Every living connection as the engine has it.
    receivers: BTreeMap<u64, Vec<Identity>>,
}

fn identities(client: usize) -> Vec<Identity> {
    let identity = |scheme: &str, id: &str| Identity { scheme: scheme.into(), id: id.into() };
    let ip = identity("ip", "127.0.0.1");
    match client {
        0 => vec![ip],
        1 => vec![ip, identity("digest", "u:hash-of-u")],
        _ => vec![ip, identity("digest", "v:hash-of-v"), identity("digest", "u:hash-of-u")],
    }
}

impl Pair {
    pub(super) fn new() -> Self {
        let rules = Rules { extended_types: true, ..Rules::default() };
        Self::of(Database::new(3, rules), Self::model())
    }

    /// With quotas from the beginning, one of them below another, and a soft one.
    fn with_quotas() -> Self {
        let mut model = Self::model();
        model.add_quota("/a", Some((5, 700)));
        model.add_quota("/a/x", Some((2, 400)));
        model.add_quota("/b", None);
        let rules = Rules { extended_types: true, enforce_quota: true, ..Rules::default() };
        let mut database = Database::empty(3, rules);
        database.load_acl(1, &[Acl::anyone(1)]);
        for (path, node) in &model.nodes {
            let node = SnapshotNode {
                data: node.data.clone().map(Into::into),
                acl: if node.acl.is_empty() { -1 } else { 1 },
                stat: StatPersisted { aversion: node.aversion, ..StatPersisted::default() },
            };
            database.load_node(path.trim_end_matches('/'), &node).unwrap();
        }
        database.finish_load(Zxid::ZERO);
        Self::of(database, model)
    }

    fn model() -> Model {
        let client = |client| Client { session: 0, connection: 0, identities: identities(client) };
        Model::new((0..CLIENTS).map(client).collect())
    }

    fn of(database: Database, model: Model) -> Self {
        let sequencer = Sequencer::new(&database, 500, 1000, Monotonic(0));
        let mut pair = Self {
            model,
            database,
            sequencer,
            log: Vec::new(),
            connections: 0,
            flying: Vec::new(),
            receivers: BTreeMap::new(),
        };
        for client in 0..CLIENTS {
            pair.open(client);
        }
        pair.apply();
        pair
    }

    fn now(&self) -> Now {
        let ms = self.model.time;
        Now { monotonic: Monotonic(ms.cast_unsigned()), wall: WallClock(ms) }
    }

    fn prepare(&mut self, client: &Client, work: Work) -> Prepared {
        let origin = Origin {
            connection: ConnectionId(client.connection),
            session: SessionId(client.session),
            xid: 1,
            identities: Arc::new(client.identities.clone().into()),
            received: self.now().monotonic,
        };
        let now = self.now();
        self.sequencer.prepare(&self.database, &origin, work, now)
    }

    fn connection(&mut self, client: usize) -> u64 {
        self.connections += 1;
        self.receivers.insert(self.connections, identities(client));
        self.connections
    }

    fn open(&mut self, client: usize) {
        self.model.clients[client].connection = self.connection(client);
        let who = self.model.clients[client].clone();
        let prepared = self.prepare(&who, Work::Open { timeout_ms: TIMEOUT_MS });
        let Prepared::Open(_, attached) = &prepared else { panic!("{prepared:?}") };
        self.model.clients[client].session = attached.session.0;
        self.model.zxid += 1;
        self.fly(who, prepared, None, Vec::new());
    }

    fn fly(&mut self, client: Client, prepared: Prepared, reply: Option<Reply>, told: Vec<Told>) {
        self.flying.push(Flying { client, prepared, reply, told, ends: None, closes: None });
    }

    pub(super) fn step(&mut self, step: &Step) {
        self.model.time += step.wait;
        let who = self.model.clients[step.client].clone();
        match &step.spec {
            Spec::Close | Spec::Expire => {
                let prepared = if matches!(step.spec, Spec::Close) {
                    self.prepare(&who, Work::Request(Request::CloseSession))
                } else {
                    let chore = Chore::Expire(SessionId(who.session));
                    let now = self.now();
                    let record = self.sequencer.prepare_chore(&self.database, &chore, now);
                    Prepared::Txn(record.expect("the session is there"))
                };
                let again = self.prepare(&who, Work::Request(Request::CloseSession));
                assert!(matches!(again, Prepared::Refused(_)), "a closing session: {again:?}");
                let told = self.model.close(step.client);
                self.model.forget(who.connection);
                self.flying.push(Flying {
                    ends: Some(who.connection),
                    closes: Some(who.session),
                    client: who,
                    prepared,
                    reply: Some(Ok(Response::Empty)),
                    told,
                });
                self.open(step.client);
            }
            Spec::Reattach => {
                let connection = self.connection(step.client);
                let renewed = Client { connection, ..who.clone() };
                let prepared = self.prepare(&renewed, Work::Attach { timeout_ms: TIMEOUT_MS });
                assert!(matches!(prepared, Prepared::Attached(_)), "{prepared:?}");
                let moved = self.prepare(&who, Work::Request(Request::CloseSession));
                assert!(matches!(moved, Prepared::Close), "a moved session: {moved:?}");
                self.model.forget(who.connection);
                self.model.clients[step.client] = renewed.clone();
                self.flying.push(Flying {
                    client: renewed,
                    prepared,
                    reply: None,
                    told: Vec::new(),
                    ends: Some(who.connection),
                    closes: None,
                });
            }
            Spec::Reap(path) => {
                let path = path.path(&self.model);
                let (chore, now) = (Chore::Reap(path.to_string()), self.now());
                let record = self.sequencer.prepare_chore(&self.database, &chore, now);
                let told = self.model.reap(&path);
                assert_eq!(record.is_some(), told.is_some(), "reaping {path}");
                if let Some((record, told)) = record.zip(told) {
                    self.fly(who, Prepared::Txn(record), None, told);
                }
            }
            Spec::Takeover { pick, flags } => self.take_over(step.client, *pick, *flags),
            spec => {
                let request = spec.request(&self.model);
                let (reply, told) = self.model.request(&request, step.client);
                let prepared = self.prepare(&who, Work::Request(request));
                self.fly(who, prepared, Some(reply), told);
            }
        }
        let so_many = step.apply.min(self.flying.len());
        for flying in self.flying.drain(..so_many).collect::<Vec<_>>() {
            self.land(flying);
        }
        if self.flying.is_empty() {
            self.compare_counts();
        }
    }

    fn take_over(&mut self, client: usize, pick: usize, flags: i32) {
        let owned: Vec<(usize, usize)> = (self.model.nodes.values().enumerate())
            .filter_map(|(at, node)| {
                let is_owner = |one: &Client| node.life == Life::Ephemeral(one.session);
                Some((at, self.model.clients.iter().position(is_owner)?))
            })
            .collect();
        let Some(&(at, owner)) = owned.get(pick % owned.len().max(1)) else { return };
        let path = Where::Existing(at).path(&self.model);
        self.apply();
        let (data, acl) = (data_of(1), acl_of(0));
        let requests = [
            Request::Delete(DeleteRequest { path: path.clone(), version: -1 }),
            Request::Create(CreateRequest { path, data, acl, flags }),
        ];
        for request in requests {
            let who = self.model.clients[client].clone();
            let (reply, told) = self.model.request(&request, client);
            let prepared = self.prepare(&who, Work::Request(request));
            self.fly(who, prepared, Some(reply), told);
        }
        self.step(&Step { client: owner, spec: Spec::Close, apply: 0, wait: 0 });
    }

    /// Applies what is in flight and compares.
    pub(super) fn apply(&mut self) {
        for flying in std::mem::take(&mut self.flying) {
            self.land(flying);
        }
        self.compare_counts();
    }

    fn land(&mut self, flying: Flying) {
        let Flying { client, prepared, reply, told, ends, closes } = flying;
        let mut events = Vec::new();
        let shown = format!("{prepared:?}");
        let ours: Reply = match prepared {
            Prepared::Txn(record) | Prepared::Open(record, _) => {
                let zxid = Zxid(record.header.zxid);
                self.log.push(record.clone());
                let (header, digest) = (record.header, record.digest);
                let applied =
                    self.database.apply(&header, record.txn, digest, Mode::Strict, &mut events);
                let response = applied.unwrap_or_else(|error| panic!("{error}: {shown}"));
                self.sequencer.retire(zxid);
                Ok(response)
            }
            Prepared::Read(request) => {
                let caller = Caller {
                    connection: ConnectionId(client.connection),
                    session: SessionId(client.session),
                    identities: &client.identities.clone().into(),
                };
                read::answer(&self.database, &caller, &request, &mut events).map(owned)
            }
            Prepared::Refused(error) => Err(error),
            Prepared::RefusedMulti(results) => Ok(Response::Multi(results)),
            Prepared::Attached(_) => Ok(Response::Empty),
            Prepared::NoSession | Prepared::Close => panic!("{shown}"),
        };
        if let Some(theirs) = reply {
            assert_eq!(ours.map(sorted), theirs.map(sorted), "{shown}");
        }
        assert_eq!(by_receiver(self.told(&events)), by_receiver(told), "{shown}");
        if let Some(connection) = ends {
            self.database.watches.get_mut().forget(ConnectionId(connection));
            self.receivers.remove(&connection);
        }
        if let Some(session) = closes {
            let owner = self.sequencer.session_closed(SessionId(session));
            assert_eq!(owner, ends.map(ConnectionId));
        }
    }

    fn told(&self, events: &[Event]) -> Vec<Told> {
        let mut told = Vec::new();
        for event in events {
            for receiver in &event.receivers {
                let identities = Identities::from(self.receivers[&receiver.0].clone());
                let readers = event.readers.as_ref();
                if readers.is_none_or(|list| identities.may(list, perms::READ)) {
                    told.push((receiver.0, event.event_type, event.path.to_string(), event.zxid.0));
                }
            }
        }
        told
    }

    fn compare_counts(&self) {
        let (tree, nodes) = (&self.database.tree, &self.model.nodes);
        assert_eq!(self.database.last_zxid().0, self.model.zxid);
        assert_eq!(tree.count(), nodes.len());
        let bytes: usize = nodes
            .iter()
            .map(|(path, node)| {
                path.trim_end_matches('/').len() + node.data.as_ref().map_or(0, Vec::len)
            })
            .sum();
        assert_eq!(tree.data_size(), bytes as u64);
        let is_ephemeral = |node: &&Node| matches!(node.life, Life::Ephemeral(_));
        assert_eq!(tree.ephemerals_count(), nodes.values().filter(is_ephemeral).count());
        assert_eq!(self.database.watches.lock().count(), self.model.watch_count());
        assert_eq!(tree.digest(), Some(tree.compute_digest()));
    }

    fn compare_trees(&self) {
        let (tree, nodes) = (&self.database.tree, &self.model.nodes);
        let mut lists = BTreeSet::new();
        let mut reapable = BTreeSet::new();
        for (path, node) in nodes {
            let id = tree.find(path).unwrap_or_else(|| panic!("{path} is missing"));
            assert_eq!(tree.path(id), *path);
            assert_eq!(tree.stat(id), self.model.stat(path), "{path}");
            assert_eq!(tree.stat_persisted(id).cversion, node.creates, "{path}");
            assert_eq!(tree.data(id), node.data.as_deref(), "{path}");
            let of_it = format!("{}/", path.trim_end_matches('/'));
            let below = nodes.iter().filter(|(at, _)| *at != path && at.starts_with(&of_it));
            let lens = below.map(|(_, node)| node.data.as_ref().map_or(0, Vec::len) as u64);
            let below = tree.below(id);
            assert_eq!(
                (below.znodes, below.bytes),
                lens.fold((0, 0), |(znodes, bytes), len| (znodes + 1, bytes + len)),
                "{path}"
            );
            let owner = match node.life {
                Life::Persistent => Owner::None,
                Life::Ephemeral(session) => Owner::Session(SessionId(session)),
                Life::Container => Owner::Container,
                Life::Ttl(ttl) => Owner::Ttl(ttl),
            };
            assert_eq!(tree.owner(id), owner, "{path}");
            if matches!(owner, Owner::Container | Owner::Ttl(_)) {
                reapable.insert(id);
            }
            let list = tree.acls().list(tree.acl(id)).map(|list| list.to_vec());
            assert_eq!(list.unwrap_or_default(), node.acl, "{path}");
            if !node.acl.is_empty() {
                lists.insert(format!("{:?}", node.acl));
            }
            let mut names: Vec<&str> = tree.children(id).collect();
            names.sort_unstable();
            assert_eq!(names, self.model.children(path), "{path}");
        }
        assert_eq!(tree.reapable(None).collect::<BTreeSet<_>>(), reapable);
        let kept: Vec<String> =
            tree.acls().iter().map(|(_, list)| format!("{:?}", list.to_vec())).collect();
        assert_eq!(kept.len(), lists.len(), "a list is kept that no znode uses");
        assert_eq!(kept.into_iter().collect::<BTreeSet<_>>(), lists);
        let sessions: BTreeSet<i64> = self.database.sessions().keys().map(|id| id.0).collect();
        let clients: BTreeSet<i64> = self.model.clients.iter().map(|one| one.session).collect();
        assert_eq!(sessions, clients);
        assert_eq!(self.sequencer.sessions_count(), CLIENTS);
    }

    /// Ends every session and empties the tree: nothing may be left of anything.
    fn empty(&mut self) {
        for client in 0..CLIENTS {
            let spec = Spec::Close;
            self.step(&Step { client, spec, apply: 0, wait: 0 });
        }
        self.apply();
        let paths: Vec<String> = self.model.nodes.keys().rev().cloned().collect();
        let root = Identity { scheme: "super".into(), id: String::new() };
        for path in paths {
            let who = Client { identities: vec![root.clone()], ..self.model.clients[0].clone() };
            self.model.clients[0].identities.clone_from(&who.identities);
            let request = Request::Delete(DeleteRequest { path: path.into(), version: -1 });
            let (reply, told) = self.model.request(&request, 0);
            let prepared = self.prepare(&who, Work::Request(request));
            self.fly(who, prepared, Some(reply), told);
        }
        self.apply();
        assert_eq!(self.model.nodes.len(), 4);
        self.compare_trees();
    }
}

/// A response that does not borrow from the tree.
fn owned(response: Response<'_>) -> Response<'static> {
    match response {
        Response::Empty => Response::Empty,
        Response::Stat(stat) => Response::Stat(stat),
        Response::Error(body) => Response::Error(body),
        Response::AllChildrenNumber(number) => Response::AllChildrenNumber(number),
        Response::Create(body) => Response::Create(jute::IntoStatic::into_static(body)),
        Response::Create2(body) => Response::Create2(jute::IntoStatic::into_static(body)),
        Response::GetData(body) => Response::GetData(jute::IntoStatic::into_static(body)),
        Response::GetAcl(body) => Response::GetAcl(jute::IntoStatic::into_static(body)),
        Response::Children(body) => Response::Children(jute::IntoStatic::into_static(body)),
        Response::Children2(body) => Response::Children2(jute::IntoStatic::into_static(body)),
        Response::Sync(body) => Response::Sync(jute::IntoStatic::into_static(body)),
        Response::Ephemerals(body) => Response::Ephemerals(jute::IntoStatic::into_static(body)),
        Response::WhoAmI(body) => Response::WhoAmI(jute::IntoStatic::into_static(body)),
        Response::Sasl(body) => Response::Sasl(jute::IntoStatic::into_static(body)),
        Response::Multi(results) => Response::Multi(
            results
                .into_iter()
                .map(|result| match result {
                    MultiResult::GetData(data, stat) => {
                        MultiResult::GetData(jute::IntoStatic::into_static(data), stat)
                    }
                    MultiResult::GetChildren(names) => {
                        MultiResult::GetChildren(jute::IntoStatic::into_static(names))
                    }
                    MultiResult::Error(code) => MultiResult::Error(code),
                    other => panic!("{other:?} in a multiRead"),
                })
                .collect(),
        ),
    }
}

/// Names in one order.
fn sorted(mut response: Response<'_>) -> Response<'_> {
    match &mut response {
        Response::Children(body) => body.children.sort(),
        Response::Children2(body) => body.children.sort(),
        Response::Ephemerals(body) => body.ephemerals.sort(),
        Response::Multi(results) => {
            for result in results {
                if let MultiResult::GetChildren(names) = result {
                    names.sort();
                }
            }
        }
        _ => {}
    }
    response
}

/// The order between connections is nobody's promise; within one it is.
fn by_receiver(told: Vec<Told>) -> BTreeMap<u64, Vec<Told>> {
    let mut by_receiver: BTreeMap<u64, Vec<Told>> = BTreeMap::new();
    for told in told {
        by_receiver.entry(told.0).or_default().push(told);
    }
    by_receiver
}

const SCRIPTS: u32 = 2000;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: SCRIPTS,
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_engine_does_what_the_model_does(steps in prop::collection::vec(step(), 50..200)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.step(step);
        }
        pair.apply();
        pair.compare_trees();
        pair.empty();
    }

    #[test]
    fn quotas_hold_what_the_models_hold(steps in prop::collection::vec(step(), 50..200)) {
        let mut pair = Pair::with_quotas();
        for step in &steps {
            pair.step(step);
        }
        pair.apply();
        pair.compare_trees();
    }
}
