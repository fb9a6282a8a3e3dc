//! A model of ZooKeeper for tests, written as differently from the engine as can be: a map of full
//! paths, a set of watches, one request at a time, nothing in flight, everything counted anew.

use std::collections::{BTreeMap, BTreeSet};

use jute::protocol::{
    AddWatchMode, Children2Response, ChildrenResponse, Create2Response, CreateResponse,
    EphemeralsResponse, ErrorResponse, EventType, GetAclResponse, GetDataResponse, MultiOp,
    MultiResult, ReadOp, Request, Response, SyncResponse, WatcherType,
};
use jute::{Acl, ErrorCode, Stat, perms};

use super::access::acl::Identity;

/// How a znode lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Persistent,
    Ephemeral(i64),
    Container,
    Ttl(i64),
}

/// A znode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) data: Option<Vec<u8>>,
    /// Empty where there is no list.
    pub(super) acl: Vec<Acl<'static>>,
    pub(super) life: Life,
    pub(super) czxid: i64,
    pub(super) mzxid: i64,
    pub(super) pzxid: i64,
    pub(super) ctime: i64,
    pub(super) mtime: i64,
    pub(super) version: i32,
    pub(super) aversion: i32,
    pub(super) creates: i32,
}

/// One connection of a session.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) session: i64,
    pub(super) connection: u64,
    pub(super) identities: Vec<Identity>,
}

/// What a connection is told: its number, what, where, by which zxid.
pub(super) type Told = (u64, EventType, String, i64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Data,
    Child,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum How {
    Once,
    Always,
    Below,
}

/// The whole of it. Rolling back is going on with a copy.
#[derive(Debug, Clone)]
pub(super) struct Model {
    /// The root is `/`.
    pub(super) nodes: BTreeMap<String, Node>,
    watches: BTreeSet<(Kind, String, u64, How)>,
    pub(super) clients: Vec<Client>,
    pub(super) zxid: i64,
    pub(super) time: i64,
    /// Hard limits of znodes and bytes by path; `None` are soft ones.
    quotas: BTreeMap<String, Option<(i64, i64)>>,
    /// Znodes and bytes of each before the request.
    before: BTreeMap<String, (i64, i64)>,
}

/// What a request gives.
pub(super) type Reply = Result<Response<'static>, ErrorCode>;

fn parent(path: &str) -> Option<&str> {
    let (parent, _) = path.rsplit_once('/')?;
    Some(if parent.is_empty() { "/" } else { parent })
}

fn is_legal(path: &str) -> bool {
    path == "/"
        || path.starts_with('/')
            && !path.ends_with('/')
            && !path.contains("//")
            && !path.contains("/./")
            && !path.contains("/../")
            && !path.ends_with("/.")
            && !path.ends_with("/..")
            && !path.contains(|char: char| char < ' ')
}

impl Model {
    pub(super) fn new(clients: Vec<Client>) -> Self {
        let node = |acl: Vec<Acl<'static>>, aversion| Node {
            data: Some(Vec::new()),
            acl,
            life: Life::Persistent,
            czxid: 0,
            mzxid: 0,
            pzxid: 0,
            ctime: 0,
            mtime: 0,
            version: 0,
            aversion,
            creates: 0,
        };
        let nodes = BTreeMap::from([
            ("/".to_owned(), node(Vec::new(), 0)),
            ("/zookeeper".to_owned(), node(Vec::new(), 0)),
            ("/zookeeper/quota".to_owned(), node(Vec::new(), 0)),
            ("/zookeeper/config".to_owned(), node(vec![Acl::anyone(1)], -1)),
        ]);
        let (watches, quotas, before) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        Self { nodes, watches, clients, zxid: 0, time: 0, quotas, before }
    }

    /// Adds a quota as a snapshot has it, in znodes that no client can change.
    pub(super) fn add_quota(&mut self, limited: &str, hard: Option<(i64, i64)>) {
        let (count, bytes) = hard.unwrap_or((-1, -1));
        let limits = format!("count=1,bytes=1=;byteHardLimit={bytes};countHardLimit={count}");
        self.quotas.insert(limited.to_owned(), hard);
        let folder = format!("/zookeeper/quota{limited}");
        let blank = Node { acl: vec![Acl::anyone(1)], ..self.nodes["/zookeeper/quota"].clone() };
        for (path, data) in [
            (folder.clone(), String::new()),
            (format!("{folder}/zookeeper_limits"), limits),
            (format!("{folder}/zookeeper_stats"), String::new()),
        ] {
            self.nodes.insert(path, Node { data: Some(data.into_bytes()), ..blank.clone() });
        }
        self.count_quotas();
    }

    /// The deepest path with a quota that a znode is below.
    fn quota_of(&self, path: &str) -> Option<&String> {
        let holds =
            |limited: &&String| path == **limited || path.starts_with(&format!("{limited}/"));
        self.quotas.keys().filter(holds).max_by_key(|limited| limited.len())
    }

    /// What belongs to a quota and to none below it: (znodes, bytes).
    fn used(&self, limited: &String) -> (i64, i64) {
        let nodes = self.nodes.iter().filter(|(path, _)| self.quota_of(path) == Some(limited));
        nodes.fold((0, 0), |(count, bytes), (_, node)| {
            (count + 1, bytes + node.data.as_ref().map_or(0, Vec::len) as i64)
        })
    }

    /// Writes the statistics: at the end of a request, so that its parts find what was there
    /// before.
    fn count_quotas(&mut self) {
        for limited in self.quotas.keys().cloned().collect::<Vec<_>>() {
            let (count, bytes) = self.used(&limited);
            let stats = self.nodes.get_mut(&format!("/zookeeper/quota{limited}/zookeeper_stats"));
            stats.unwrap().data = Some(format!("count={count},bytes={bytes}").into_bytes());
            self.before.insert(limited, (count, bytes));
        }
    }

    fn within_quota(&self, path: &str, count: i64, bytes: i64) -> Result<(), ErrorCode> {
        let Some(limited) = self.quota_of(path) else { return Ok(()) };
        let Some((max_count, max_bytes)) = self.quotas[limited] else { return Ok(()) };
        let used = self.before[limited];
        let is_beyond =
            count != 0 && used.0 + count > max_count || bytes != 0 && used.1 + bytes > max_bytes;
        if is_beyond { Err(ErrorCode::QuotaExceeded) } else { Ok(()) }
    }

    fn node(&self, path: &str) -> Result<&Node, ErrorCode> {
        let path = if path.is_empty() { "/" } else { path };
        self.nodes.get(path).ok_or(ErrorCode::NoNode)
    }

    pub(super) fn children(&self, path: &str) -> Vec<String> {
        let path = if path.is_empty() { "/" } else { path };
        self.nodes
            .keys()
            .filter(|key| *key != "/" && parent(key) == Some(path))
            .map(|key| key.rsplit('/').next().unwrap().to_owned())
            .collect()
    }

    pub(super) fn stat(&self, path: &str) -> Stat {
        let node = self.node(path).unwrap();
        let num_children = self.children(path).len() as i32;
        Stat {
            czxid: node.czxid,
            mzxid: node.mzxid,
            ctime: node.ctime,
            mtime: node.mtime,
            version: node.version,
            cversion: 2 * node.creates - num_children,
            aversion: node.aversion,
            ephemeral_owner: match node.life {
                Life::Ephemeral(session) => session,
                _ => 0,
            },
            data_length: node.data.as_ref().map_or(0, Vec::len) as i32,
            num_children,
            pzxid: node.pzxid,
        }
    }

    fn may(&self, list: &[Acl<'_>], perm: i32, client: usize) -> bool {
        let who = &self.clients[client].identities;
        if list.is_empty() || who.iter().any(|identity| identity.scheme == "super") {
            return true;
        }
        for acl in list.iter().filter(|acl| acl.perms & perm > 0) {
            match (acl.scheme.as_deref().unwrap(), acl.id.as_deref().unwrap()) {
                ("world", _) | ("ip", "127.0.0.0/8") => return true,
                (scheme, id) => {
                    if who.iter().any(|identity| identity.scheme == scheme && identity.id == id) {
                        return true;
                    }
                }
            }
        }
        false
    }

    fn need(&self, path: &str, perm: i32, client: usize) -> Result<(), ErrorCode> {
        let node = self.node(path)?;
        if self.may(&node.acl, perm, client) { Ok(()) } else { Err(ErrorCode::NoAuth) }
    }

    // Watches.

    fn watch(&mut self, kind: Kind, path: &str, client: usize, how: How) {
        self.watches.insert((kind, path.to_owned(), self.clients[client].connection, how));
    }

    fn connections(&self, kind: Kind, path: &str) -> BTreeSet<u64> {
        let mut told = BTreeSet::new();
        for (watch_kind, watched, connection, how) in &self.watches {
            // A watch on the other spelling of the root can be left and never fires.
            let below =
                watched == "/" || !watched.is_empty() && path.starts_with(&format!("{watched}/"));
            if *watch_kind == kind && (watched == path || *how == How::Below && below) {
                told.insert(*connection);
            }
        }
        told
    }

    fn spend(&mut self, kind: Kind, path: &str) {
        self.watches.retain(|(watch_kind, watched, _, how)| {
            (*watch_kind, watched.as_str(), *how) != (kind, path, How::Once)
        });
    }

    fn tell(&self, to: &BTreeSet<u64>, what: EventType, path: &str, acl: &[Acl<'_>]) -> Vec<Told> {
        let reads = |connection: u64| {
            let client = self.clients.iter().position(|one| one.connection == connection);
            client.is_some_and(|client| self.may(acl, perms::READ, client))
        };
        to.iter()
            .filter(|connection| reads(**connection))
            .map(|&connection| (connection, what, path.to_owned(), self.zxid))
            .collect()
    }

    fn tell_parent(&mut self, path: &str, events: &mut Vec<Told>) {
        let parent = parent(path).unwrap();
        let to = self.connections(Kind::Child, parent);
        self.spend(Kind::Child, parent);
        let acl = self.nodes[parent].acl.clone();
        events.extend(self.tell(&to, EventType::NodeChildrenChanged, parent, &acl));
    }

    /// Watches of all kinds; several ways of one connection to watch one path count once.
    pub(super) fn watch_count(&self) -> usize {
        let pairs: BTreeSet<_> = self
            .watches
            .iter()
            .map(|(kind, path, connection, _)| (kind, path, connection))
            .collect();
        pairs.len()
    }

    pub(super) fn forget(&mut self, connection: u64) {
        self.watches.retain(|(_, _, watcher, _)| *watcher != connection);
    }

    fn chosen(
        &self,
        path: &str,
        kind: WatcherType,
        client: usize,
    ) -> Vec<(Kind, String, u64, How)> {
        let connection = self.clients[client].connection;
        self.watches
            .iter()
            .filter(|(_, watched, watcher, _)| watched == path && *watcher == connection)
            .filter(|(watch_kind, _, _, how)| match kind {
                WatcherType::Any => true,
                WatcherType::Children => (*watch_kind, *how) == (Kind::Child, How::Once),
                WatcherType::Data => (*watch_kind, *how) == (Kind::Data, How::Once),
                WatcherType::Persistent => *how == How::Always,
                WatcherType::PersistentRecursive => *how == How::Below,
            })
            .cloned()
            .collect()
    }

    // Writes.

    fn fixed(
        &self,
        acl: Option<&[Acl<'_>]>,
        client: usize,
    ) -> Result<Vec<Acl<'static>>, ErrorCode> {
        let mut once: Vec<Acl<'static>> = Vec::new();
        for acl in acl.unwrap_or_default() {
            let acl = jute::IntoStatic::into_static(acl.clone());
            if !once.contains(&acl) {
                once.push(acl);
            }
        }
        let mut fixed = Vec::new();
        for acl in once {
            match acl.scheme.as_deref() {
                Some("world" | "digest" | "ip") => fixed.push(acl),
                Some("auth") => {
                    let proven = self.clients[client].identities.iter();
                    let proven: Vec<_> =
                        proven.filter(|identity| identity.scheme == "digest").collect();
                    if proven.is_empty() {
                        return Err(ErrorCode::InvalidAcl);
                    }
                    fixed.extend(proven.iter().map(|identity| Acl {
                        perms: acl.perms,
                        scheme: Some("digest".into()),
                        id: Some(identity.id.clone().into()),
                    }));
                }
                _ => return Err(ErrorCode::InvalidAcl),
            }
        }
        if fixed.is_empty() { Err(ErrorCode::InvalidAcl) } else { Ok(fixed) }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a request")]
    fn create(
        &mut self,
        op: i32,
        path: &str,
        data: Option<&[u8]>,
        acl: Option<&[Acl<'_>]>,
        flags: i32,
        ttl: i64,
        client: usize,
        events: &mut Vec<Told>,
    ) -> Result<String, ErrorCode> {
        let life = match (op, flags) {
            (21, 5 | 6) if ttl > 0 && ttl <= 1_099_511_627_775 => Life::Ttl(ttl),
            (19, 0..=4) => Life::Container,
            (1 | 15, 0 | 2 | 4) => Life::Persistent,
            (1 | 15, 1 | 3) => Life::Ephemeral(self.clients[client].session),
            _ => return Err(ErrorCode::BadArguments),
        };
        let above = parent(path).ok_or(ErrorCode::BadArguments)?.to_owned();
        let acl = self.fixed(acl, client)?;
        self.need(&above, perms::CREATE, client)?;
        let creates = self.nodes[&above].creates;
        let path = match flags {
            2 | 3 | 6 => format!("{path}{creates:010}"),
            _ => path.to_owned(),
        };
        if !is_legal(&path) {
            return Err(ErrorCode::BadArguments);
        }
        if self.nodes.contains_key(&path) {
            return Err(ErrorCode::NodeExists);
        }
        if matches!(self.nodes[&above].life, Life::Ephemeral(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        self.within_quota(&path, 1, data.map_or(0, <[u8]>::len) as i64)?;
        let (zxid, time) = (self.zxid, self.time);
        let node = Node {
            data: data.map(<[u8]>::to_vec),
            acl: acl.clone(),
            life,
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: time,
            mtime: time,
            version: 0,
            aversion: 0,
            creates: 0,
        };
        self.nodes.insert(path.clone(), node);
        let parent = self.nodes.get_mut(&above).unwrap();
        parent.creates += 1;
        parent.pzxid = zxid;
        let to = self.connections(Kind::Data, &path);
        self.spend(Kind::Data, &path);
        events.extend(self.tell(&to, EventType::NodeCreated, &path, &acl));
        self.tell_parent(&path, events);
        Ok(path)
    }

    fn version(expected: i32, actual: i32) -> Result<(), ErrorCode> {
        if [-1, actual].contains(&expected) { Ok(()) } else { Err(ErrorCode::BadVersion) }
    }

    fn delete(
        &mut self,
        path: &str,
        version: i32,
        client: usize,
        events: &mut Vec<Told>,
    ) -> Result<(), ErrorCode> {
        let above = parent(path).ok_or(ErrorCode::BadArguments)?;
        if ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"].contains(&path) {
            return Err(ErrorCode::BadArguments);
        }
        self.need(above, perms::DELETE, client)?;
        Self::version(version, self.node(path)?.version)?;
        if !self.children(path).is_empty() {
            return Err(ErrorCode::NotEmpty);
        }
        self.take_out(path, events);
        Ok(())
    }

    fn take_out(&mut self, path: &str, events: &mut Vec<Told>) {
        let node = self.nodes.remove(path).unwrap();
        self.nodes.get_mut(parent(path).unwrap()).unwrap().pzxid = self.zxid;
        let mut to = self.connections(Kind::Data, path);
        to.extend(self.connections(Kind::Child, path));
        self.spend(Kind::Data, path);
        self.spend(Kind::Child, path);
        events.extend(self.tell(&to, EventType::NodeDeleted, path, &node.acl));
        self.tell_parent(path, events);
    }

    fn set(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        version: i32,
        client: usize,
        events: &mut Vec<Told>,
    ) -> Result<Stat, ErrorCode> {
        if !is_legal(path) {
            return Err(ErrorCode::BadArguments);
        }
        self.need(path, perms::WRITE, client)?;
        let len = |data: Option<&[u8]>| data.map_or(0, <[u8]>::len) as i64;
        self.within_quota(path, 0, len(data) - len(self.nodes[path].data.as_deref()))?;
        let (zxid, time) = (self.zxid, self.time);
        let node = self.nodes.get_mut(path).unwrap();
        Self::version(version, node.version)?;
        node.data = data.map(<[u8]>::to_vec);
        node.version += 1;
        node.mzxid = zxid;
        node.mtime = time;
        let acl = node.acl.clone();
        let to = self.connections(Kind::Data, path);
        self.spend(Kind::Data, path);
        events.extend(self.tell(&to, EventType::NodeDataChanged, path, &acl));
        Ok(self.stat(path))
    }

    fn part(
        &mut self,
        op: &MultiOp<'_>,
        client: usize,
        events: &mut Vec<Told>,
    ) -> Result<MultiResult<'static>, ErrorCode> {
        match op {
            MultiOp::Create(body) => {
                let (data, acl) = (body.data.as_deref(), body.acl.as_deref());
                self.create(1, &body.path, data, acl, body.flags, -1, client, events)
                    .map(|path| MultiResult::Create(path.into()))
            }
            MultiOp::Create2(body) | MultiOp::CreateContainer(body) => {
                let (data, acl) = (body.data.as_deref(), body.acl.as_deref());
                let code = if matches!(op, MultiOp::Create2(_)) { 15 } else { 19 };
                let path =
                    self.create(code, &body.path, data, acl, body.flags, -1, client, events)?;
                let stat = self.stat(&path);
                Ok(MultiResult::Create2(path.into(), stat))
            }
            MultiOp::CreateTtl(body) => {
                let (data, acl) = (body.data.as_deref(), body.acl.as_deref());
                let path =
                    self.create(21, &body.path, data, acl, body.flags, body.ttl, client, events)?;
                let stat = self.stat(&path);
                Ok(MultiResult::Create2(path.into(), stat))
            }
            MultiOp::Delete(body) => {
                self.delete(&body.path, body.version, client, events).map(|()| MultiResult::Delete)
            }
            MultiOp::SetData(body) => self
                .set(&body.path, body.data.as_deref(), body.version, client, events)
                .map(MultiResult::SetData),
            MultiOp::Check(body) => {
                if !is_legal(&body.path) {
                    return Err(ErrorCode::BadArguments);
                }
                self.need(&body.path, perms::READ, client)?;
                Self::version(body.version, self.node(&body.path)?.version)?;
                Ok(MultiResult::Check)
            }
        }
    }

    fn multi(
        &mut self,
        ops: &[MultiOp<'_>],
        client: usize,
        events: &mut Vec<Told>,
    ) -> (bool, Reply) {
        let mut copy = self.clone();
        let mut results = Vec::new();
        for (at, op) in ops.iter().enumerate() {
            match copy.part(op, client, events) {
                Ok(result) => results.push(result),
                Err(error) => {
                    events.clear();
                    let mut results = vec![MultiResult::Error(0); at];
                    results.push(MultiResult::Error(error.code()));
                    results.resize(ops.len(), MultiResult::Error(-2));
                    return (false, Ok(Response::Multi(results)));
                }
            }
        }
        *self = copy;
        (true, Ok(Response::Multi(results)))
    }

    /// A write. One that is refused leaves no trace, not even in the zxid.
    fn write(
        &mut self,
        request: &Request<'_>,
        client: usize,
        events: &mut Vec<Told>,
    ) -> Option<(bool, Reply)> {
        let reply = match request {
            Request::Multi(ops) => return Some(self.multi(ops, client, events)),
            Request::Create(body) => self.part(&MultiOp::Create(body.clone()), client, events),
            Request::Create2(body) => self.part(&MultiOp::Create2(body.clone()), client, events),
            Request::CreateContainer(body) => {
                self.part(&MultiOp::CreateContainer(body.clone()), client, events)
            }
            Request::CreateTtl(body) => {
                self.part(&MultiOp::CreateTtl(body.clone()), client, events)
            }
            Request::Delete(body) => self.part(&MultiOp::Delete(body.clone()), client, events),
            Request::SetData(body) => self.part(&MultiOp::SetData(body.clone()), client, events),
            Request::SetAcl(body) => self
                .set_acl(&body.path, body.acl.as_deref(), body.version, client)
                .map(MultiResult::SetData),
            _ => return None,
        };
        let reply = reply.map(|result| match result {
            MultiResult::Create(path) => Response::Create(CreateResponse { path }),
            MultiResult::Create2(path, stat) => Response::Create2(Create2Response { path, stat }),
            MultiResult::SetData(stat) => Response::Stat(stat),
            _ => Response::Empty,
        });
        Some((reply.is_ok(), reply))
    }

    fn set_acl(
        &mut self,
        path: &str,
        acl: Option<&[Acl<'_>]>,
        version: i32,
        client: usize,
    ) -> Result<Stat, ErrorCode> {
        if !is_legal(path) {
            return Err(ErrorCode::BadArguments);
        }
        let acl = self.fixed(acl, client)?;
        self.need(path, perms::ADMIN, client)?;
        let node = self.nodes.get_mut(path).unwrap();
        Self::version(version, node.aversion)?;
        node.acl = acl;
        node.aversion += 1;
        Ok(self.stat(path))
    }

    fn read_node(&self, path: &str, client: usize) -> Result<&Node, ErrorCode> {
        self.need(path, perms::READ, client)?;
        self.node(path)
    }

    fn names(&self, path: &str) -> Vec<std::borrow::Cow<'static, str>> {
        self.children(path).into_iter().map(Into::into).collect()
    }

    /// Does a request and says what comes of it, and who is told what.
    pub(super) fn request(&mut self, request: &Request<'_>, client: usize) -> (Reply, Vec<Told>) {
        let mut events = Vec::new();
        self.zxid += 1;
        if let Some((is_done, reply)) = self.write(request, client, &mut events) {
            self.zxid -= i64::from(!is_done);
            self.count_quotas();
            return (reply, events);
        }
        self.zxid -= 1;
        (self.read(request, client, &mut events), events)
    }

    fn read(&mut self, request: &Request<'_>, client: usize, events: &mut Vec<Told>) -> Reply {
        Ok(match request {
            Request::Exists(body) => {
                let found = self.read_node(&body.path, client).map(|_| ());
                if body.watch && found != Err(ErrorCode::NoAuth) {
                    self.watch(Kind::Data, &body.path, client, How::Once);
                }
                found?;
                Response::Stat(self.stat(&body.path))
            }
            Request::GetData(body) => {
                let data = self.read_node(&body.path, client)?.data.clone().map(Into::into);
                if body.watch {
                    self.watch(Kind::Data, &body.path, client, How::Once);
                }
                Response::GetData(GetDataResponse { data, stat: self.stat(&body.path) })
            }
            Request::GetChildren(body) | Request::GetChildren2(body) => {
                self.read_node(&body.path, client)?;
                if body.watch {
                    self.watch(Kind::Child, &body.path, client, How::Once);
                }
                let (children, stat) = (self.names(&body.path), self.stat(&body.path));
                match request {
                    Request::GetChildren(_) => Response::Children(ChildrenResponse { children }),
                    _ => Response::Children2(Children2Response { children, stat }),
                }
            }
            Request::GetAcl(body) => {
                let node = self.node(&body.path)?;
                self.need(&body.path, perms::READ | perms::ADMIN, client)?;
                let mut acl = node.acl.clone();
                if !self.may(&acl, perms::ADMIN, client) {
                    for entry in
                        acl.iter_mut().filter(|acl| acl.scheme.as_deref() == Some("digest"))
                    {
                        let user = entry.id.as_deref().unwrap().split(':').next().unwrap();
                        entry.id = Some(format!("{user}:x").into());
                    }
                }
                if acl.is_empty() {
                    acl.push(Acl::anyone(perms::ALL));
                }
                Response::GetAcl(GetAclResponse { acl, stat: self.stat(&body.path) })
            }
            Request::GetAllChildrenNumber(body) => {
                self.read_node(&body.path, client)?;
                // ZooKeeper's map has the root under two keys, and leaves both out for one
                // spelling.
                let prefix = format!("{}/", body.path);
                let number = match &*body.path {
                    "/" => self.nodes.len() - 1,
                    _ => self.nodes.keys().filter(|path| path.starts_with(&prefix)).count(),
                };
                Response::AllChildrenNumber(number as i32)
            }
            Request::GetEphemerals(body) => {
                let mine = Life::Ephemeral(self.clients[client].session);
                let all = ["", "/"].contains(&&*body.path);
                let paths = self.nodes.iter().filter(|(path, node)| {
                    node.life == mine && (all || path.starts_with(&*body.path))
                });
                let ephemerals = paths.map(|(path, _)| path.clone().into()).collect();
                Response::Ephemerals(EphemeralsResponse { ephemerals })
            }
            Request::MultiRead(ops) => Response::Multi(
                ops.iter()
                    .map(|op| {
                        let (ReadOp::GetData(path) | ReadOp::GetChildren(path)) = op;
                        match (self.read_node(path, client), op) {
                            (Err(error), _) => MultiResult::Error(error.code()),
                            (Ok(node), ReadOp::GetData(_)) => {
                                let data = node.data.clone().map(Into::into);
                                MultiResult::GetData(data, self.stat(path))
                            }
                            (Ok(_), _) => MultiResult::GetChildren(self.names(path)),
                        }
                    })
                    .collect(),
            ),
            Request::Sync(body) => Response::Sync(SyncResponse {
                path: body.path.clone().map(|path| path.into_owned().into()),
            }),
            Request::AddWatch(body) => {
                if body.mode == AddWatchMode::Persistent {
                    self.watch(Kind::Data, &body.path, client, How::Always);
                    self.watch(Kind::Child, &body.path, client, How::Always);
                } else {
                    self.watch(Kind::Data, &body.path, client, How::Below);
                }
                Response::Error(ErrorResponse { err: 0 })
            }
            Request::CheckWatches(body) => {
                if self.chosen(&body.path, body.watcher_type, client).is_empty() {
                    return Err(ErrorCode::NoWatcher);
                }
                Response::Empty
            }
            Request::RemoveWatches(body) => {
                let chosen = self.chosen(&body.path, body.watcher_type, client);
                if chosen.is_empty() {
                    return Err(ErrorCode::NoWatcher);
                }
                for watch in chosen {
                    self.watches.remove(&watch);
                }
                Response::Empty
            }
            Request::SetWatches2(body) => {
                let connection = self.clients[client].connection;
                let since = body.relative_zxid;
                let mut tell = |what, path: &str| {
                    events.push((connection, what, path.to_owned(), -1));
                };
                for path in &body.data_watches {
                    match self.node(path).map(|node| node.mzxid > since) {
                        Err(_) => tell(EventType::NodeDeleted, path),
                        Ok(true) => tell(EventType::NodeDataChanged, path),
                        Ok(false) => self.watch(Kind::Data, path, client, How::Once),
                    }
                }
                for path in &body.exist_watches {
                    match self.node(path) {
                        Ok(_) => tell(EventType::NodeCreated, path),
                        Err(_) => self.watch(Kind::Data, path, client, How::Once),
                    }
                }
                for path in &body.child_watches {
                    match self.node(path).map(|node| node.pzxid > since) {
                        Err(_) => tell(EventType::NodeDeleted, path),
                        Ok(true) => tell(EventType::NodeChildrenChanged, path),
                        Ok(false) => self.watch(Kind::Child, path, client, How::Once),
                    }
                }
                for path in &body.persistent_watches {
                    self.watch(Kind::Data, path, client, How::Always);
                    self.watch(Kind::Child, path, client, How::Always);
                }
                for path in &body.persistent_recursive_watches {
                    self.watch(Kind::Data, path, client, How::Below);
                }
                Response::Empty
            }
            other => panic!("the model does not know {other:?}"),
        })
    }

    /// The end of a session: its znodes go, in the order of their paths.
    pub(super) fn close(&mut self, client: usize) -> Vec<Told> {
        let mine = Life::Ephemeral(self.clients[client].session);
        let paths = self.nodes.iter().filter(|(_, node)| node.life == mine);
        let paths: Vec<String> = paths.map(|(path, _)| path.clone()).collect();
        let mut events = Vec::new();
        self.zxid += 1;
        for path in paths {
            self.take_out(&path, &mut events);
        }
        self.count_quotas();
        events
    }

    /// The reaper's visit; `None` where there is nothing to do.
    pub(super) fn reap(&mut self, path: &str) -> Option<Vec<Told>> {
        let node = self.nodes.get(path)?;
        let is_due = match node.life {
            // Without a limit of its own, a container that never had a child stays.
            Life::Container => node.creates > 0,
            Life::Ttl(ttl) => self.time - node.mtime > ttl,
            _ => false,
        };
        if !is_due || !self.children(path).is_empty() {
            return None;
        }
        self.zxid += 1;
        let mut events = Vec::new();
        self.take_out(path, &mut events);
        self.count_quotas();
        Some(events)
    }
}
