//! What the clients must see: a plain model of ZooKeeper that keeps every znode at every zxid. It
//! does the requests of the final transactions again, by their own words and not by what the leader
//! made of them, and so knows each reply.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use jute::protocol::{EventType, MultiOp, MultiResult, Request, Response};
use jute::txn::Txn;
use jute::{CreateMode, ErrorCode, Stat};

use crate::engine::database::Database;
use crate::ensemble::Answer;

/// What a client is told.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reply {
    Done,
    Path(String),
    Made(String, Stat),
    Stat(Stat),
    Data(Vec<u8>, Stat),
    /// In the order of the names.
    Children(Vec<String>, Stat),
    Parts(Vec<Part>),
    Refused(ErrorCode),
}

/// What it is told of a part of a multi.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    Path(String),
    Stat(Stat),
    Done,
    Failed(i32),
}

impl Reply {
    pub(super) fn of(answer: Answer<'_>) -> Self {
        match answer {
            Err(error) => Self::Refused(error),
            Ok(Response::Create(body)) => Self::Path(body.path.into_owned()),
            Ok(Response::Create2(body)) => Self::Made(body.path.into_owned(), body.stat),
            Ok(Response::Stat(stat)) => Self::Stat(stat),
            Ok(Response::GetData(body)) => {
                Self::Data(body.data.unwrap_or_default().into_owned(), body.stat)
            }
            Ok(Response::Children2(body)) => {
                let mut names: Vec<String> =
                    body.children.into_iter().map(std::borrow::Cow::into_owned).collect();
                names.sort_unstable();
                Self::Children(names, body.stat)
            }
            Ok(Response::Multi(results)) => Self::Parts(
                results
                    .into_iter()
                    .map(|result| match result {
                        MultiResult::Create(path) => Part::Path(path.into_owned()),
                        MultiResult::SetData(stat) => Part::Stat(stat),
                        MultiResult::Error(code) => Part::Failed(code),
                        _ => Part::Done,
                    })
                    .collect(),
            ),
            Ok(_) => Self::Done,
        }
    }

    /// Whether nothing came of the request.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Refused(_) => true,
            Self::Parts(parts) => parts.iter().any(|part| matches!(part, Part::Failed(_))),
            _ => false,
        }
    }
}

/// What a watch is left on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Data,
    Children,
}

#[derive(Debug, Clone, Default)]
struct Node {
    data: Vec<u8>,
    owner: i64,
    czxid: i64,
    mzxid: i64,
    pzxid: i64,
    ctime: i64,
    mtime: i64,
    version: i32,
    /// Children ever made, and those that live.
    creates: i32,
    children: i32,
}

impl Node {
    fn stat(&self) -> Stat {
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: 2 * self.creates - self.children,
            aversion: 0,
            ephemeral_owner: self.owner,
            data_length: self.data.len() as i32,
            num_children: self.children,
            pzxid: self.pzxid,
        }
    }
}

type Held = Option<Rc<Node>>;

/// Everything that is final.
#[derive(Debug)]
pub(super) struct History {
    /// Each znode from each of its changes on.
    nodes: BTreeMap<String, Vec<(i64, Held)>>,
    /// The names that each znode ever had below it.
    names: BTreeMap<String, BTreeSet<String>>,
    /// The changes that watches of each kind hear of.
    changes: BTreeMap<(Kind, String), Vec<(i64, EventType)>>,
    zxids: Vec<i64>,
    /// Each session: the zxid that opened it, and the one that closed it.
    sessions: BTreeMap<i64, (i64, Option<i64>)>,
}

fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

impl History {
    pub(super) fn new() -> Self {
        let root = Node { children: 1, ..Node::default() };
        Self {
            nodes: BTreeMap::from([("/".to_owned(), vec![(0, Some(Rc::new(root)))])]),
            names: BTreeMap::from([("/".to_owned(), BTreeSet::from(["zookeeper".to_owned()]))]),
            changes: BTreeMap::new(),
            zxids: vec![0],
            sessions: BTreeMap::new(),
        }
    }

    pub(super) fn last(&self) -> i64 {
        self.zxids.last().copied().unwrap_or(0)
    }

    /// Whether there is a transaction with this zxid, or it is 0.
    pub(super) fn has(&self, zxid: i64) -> bool {
        self.zxids.binary_search(&zxid).is_ok()
    }

    /// Whether a session was ever one of all servers.
    pub(super) fn has_session(&self, session: i64) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Whether a session was opened and not closed.
    pub(super) fn lives(&self, session: i64) -> bool {
        self.sessions.get(&session).is_some_and(|(_, closed)| closed.is_none())
    }

    /// Sessions that live.
    pub(super) fn living(&self) -> impl Iterator<Item = i64> {
        self.sessions.keys().copied().filter(|session| self.lives(*session))
    }

    fn node(&self, path: &str, zxid: i64) -> Held {
        let versions = self.nodes.get(path)?;
        let after = versions.partition_point(|(since, _)| *since <= zxid);
        versions[..after].last().and_then(|(_, node)| node.clone())
    }

    /// The version of a znode's data, as it is now.
    pub(super) fn version(&self, path: &str) -> Option<i32> {
        self.node(path, i64::MAX).map(|node| node.version)
    }

    /// The next transaction is one that changes nothing.
    pub(super) fn pass(&mut self, zxid: i64) {
        self.zxids.push(zxid);
    }

    pub(super) fn open_session(&mut self, zxid: i64, session: i64) -> Result<(), String> {
        self.zxids.push(zxid);
        if self.sessions.insert(session, (zxid, None)).is_some() {
            return Err(format!("session {session:#x} is opened twice"));
        }
        Ok(())
    }

    /// A session ends, by its client or by the leader.
    pub(super) fn close_session(&mut self, zxid: i64, session: i64) -> Result<(), String> {
        match self.sessions.get_mut(&session) {
            Some((_, closed @ None)) => *closed = Some(zxid),
            _ => return Err(format!("{zxid:#x} closes session {session:#x}, which is none")),
        }
        let mut draft = Draft::new(self, self.last(), zxid, 0, session);
        for path in draft.ephemerals() {
            draft.take_out(&path);
        }
        let Draft { made, changes, .. } = draft;
        self.keep(zxid, made, changes);
        Ok(())
    }

    /// Does a request at `zxid` and gives its reply. A refused one is a violation: it has no
    /// transaction.
    pub(super) fn apply(
        &mut self,
        zxid: i64,
        time: i64,
        session: i64,
        request: &Request<'_>,
        is_local: bool,
    ) -> Result<Reply, String> {
        if !is_local && !self.lives(session) {
            return Err(format!("{zxid:#x} is of session {session:#x}, which is none"));
        }
        if *request == Request::CloseSession {
            self.close_session(zxid, session)?;
            return Ok(Reply::Done);
        }
        let mut draft = Draft::new(self, self.last(), zxid, time, session);
        let reply = draft.write(request);
        let Draft { made, changes, .. } = draft;
        if reply.is_refusal() {
            return Err(format!("{zxid:#x} is {request:?}, which had to be refused: {reply:?}"));
        }
        self.keep(zxid, made, changes);
        Ok(reply)
    }

    /// Does what a transaction says, whatever was asked, as ZooKeeper does (`DataTree.processTxn`).
    /// `None` where it cannot be done.
    pub(super) fn apply_as_said(
        &mut self,
        zxid: i64,
        time: i64,
        session: i64,
        txn: &Txn<'_>,
    ) -> Result<Option<Reply>, String> {
        let mut draft = Draft::new(self, self.last(), zxid, time, session);
        let reply = match txn {
            Txn::Create(said) => draft.create_as_said(&said.path, said.parent_cversion),
            Txn::SetData(said) => draft.set_as_said(&said.path, said.data.as_deref(), said.version),
            Txn::Delete(said) => draft.delete_as_said(&said.path),
            other => return Err(format!("{zxid:#x} is {other:?}")),
        };
        let Draft { made, changes, .. } = draft;
        self.keep(zxid, made, changes);
        Ok(reply)
    }

    fn keep(
        &mut self,
        zxid: i64,
        made: BTreeMap<String, Held>,
        changes: Vec<(Kind, String, EventType)>,
    ) {
        for (path, node) in made {
            if let (Some(_), Some((_, name))) = (&node, path.rsplit_once('/'))
                && path != "/"
            {
                self.names.entry(parent(&path).to_owned()).or_default().insert(name.to_owned());
            }
            self.nodes.entry(path).or_default().push((zxid, node));
        }
        for (kind, path, event) in changes {
            self.changes.entry((kind, path)).or_default().push((zxid, event));
        }
        self.zxids.push(zxid);
    }

    /// Whether a write gives this refusal in some state from `from` to `to`.
    pub(super) fn refuses(
        &self,
        request: &Request<'_>,
        session: i64,
        (from, to): (i64, i64),
        refusal: &Reply,
    ) -> bool {
        let first = self.zxids.partition_point(|zxid| *zxid < from);
        let end = self.zxids.partition_point(|zxid| *zxid <= to);
        // Mostly it is the newest one.
        self.zxids[first.min(end)..end]
            .iter()
            .rev()
            .any(|zxid| Draft::new(self, *zxid, zxid + 1, 0, session).write(request) == *refusal)
    }

    /// The reply to a read in the state at `zxid`.
    pub(super) fn read(&self, request: &Request<'_>, zxid: i64) -> Reply {
        let found = |path: &str| self.node(path, zxid).ok_or(ErrorCode::NoNode);
        let reply = match request {
            Request::GetData(body) => {
                found(&body.path).map(|node| Reply::Data(node.data.clone(), node.stat()))
            }
            Request::Exists(body) => found(&body.path).map(|node| Reply::Stat(node.stat())),
            Request::GetChildren2(body) => found(&body.path).map(|node| {
                let path = &*body.path;
                let slash = if path == "/" { "" } else { path };
                let is_there = |name: &&String| {
                    *name == "zookeeper" || self.node(&format!("{slash}/{name}"), zxid).is_some()
                };
                let names = self.names.get(path).into_iter().flatten();
                Reply::Children(names.filter(is_there).cloned().collect(), node.stat())
            }),
            _ => Ok(Reply::Done),
        };
        reply.unwrap_or_else(Reply::Refused)
    }

    /// The first change after `zxid` that a watch hears of.
    pub(super) fn first_change(
        &self,
        kind: Kind,
        path: &str,
        zxid: i64,
    ) -> Option<(i64, EventType)> {
        let changes = self.changes.get(&(kind, path.to_owned()))?;
        changes.get(changes.partition_point(|(at, _)| *at <= zxid)).copied()
    }

    /// What a watch that stays hears of after `since` and up to `zxid`: zxid, event and path, each
    /// with how often. One that is recursive hears of every znode below, and not that a znode's
    /// children changed.
    pub(super) fn changes_below(
        &self,
        path: &str,
        is_recursive: bool,
        since: i64,
        zxid: i64,
    ) -> BTreeMap<(i64, i32, String), usize> {
        let mut heard = BTreeMap::new();
        let is_below = |of: &str| {
            let below = of.strip_prefix(if path == "/" { "" } else { path });
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let lists = self.changes.iter().filter(|((kind, of), _)| match (kind, is_recursive) {
            (Kind::Data, true) => is_below(of),
            (Kind::Children, true) => false,
            (_, false) => of == path,
        });
        for ((kind, of), changes) in lists {
            let first = changes.partition_point(|(at, _)| *at <= since);
            for (at, event) in changes[first..].iter().take_while(|(at, _)| *at <= zxid) {
                // That it is gone is told once.
                if *kind == Kind::Data || *event == EventType::NodeChildrenChanged {
                    *heard.entry((*at, *event as i32, of.clone())).or_default() += 1;
                }
            }
        }
        heard
    }

    /// What setWatches tells of a znode in the state at `zxid`; `None` where the watch is left.
    pub(super) fn missed(
        &self,
        kind: Kind,
        path: &str,
        since: i64,
        zxid: i64,
    ) -> Option<EventType> {
        match (self.node(path, zxid), kind) {
            (None, _) => Some(EventType::NodeDeleted),
            (Some(node), Kind::Data) if node.mzxid > since => Some(EventType::NodeDataChanged),
            (Some(node), Kind::Children) if node.pzxid > since => {
                Some(EventType::NodeChildrenChanged)
            }
            _ => None,
        }
    }

    /// Whether there is a znode in the state at `zxid`.
    pub(super) fn exists(&self, path: &str, zxid: i64) -> bool {
        self.node(path, zxid).is_some()
    }

    /// A tree equals the state at its last zxid.
    pub(super) fn equals(&self, database: &Database) -> Result<(), String> {
        let zxid = database.last_zxid().0;
        let tree = database.tree();
        // Three below /zookeeper.
        let mut expected = 3;
        for path in self.nodes.keys() {
            let Some(node) = self.node(path, zxid) else { continue };
            expected += 1;
            let found = tree
                .find(path)
                .map(|node| (tree.data(node).unwrap_or_default().to_vec(), tree.stat(node)));
            let its = Some((node.data.clone(), node.stat()));
            if found != its {
                return Err(format!("at {zxid:#x} {path} is {found:?}, not {its:?}"));
            }
        }
        if tree.count() != expected {
            return Err(format!("at {zxid:#x}: {} znodes, not {expected}", tree.count()));
        }
        let sessions: Vec<i64> = database.sessions().keys().map(|session| session.0).collect();
        let lived = |(opened, closed): (i64, Option<i64>)| {
            opened <= zxid && closed.is_none_or(|closed| closed > zxid)
        };
        let its = self.sessions.iter().filter(|(_, span)| lived(**span));
        let its: Vec<i64> = its.map(|(id, _)| *id).collect();
        if sessions == its {
            Ok(())
        } else {
            Err(format!("at {zxid:#x}: sessions {sessions:x?}, not {its:x?}"))
        }
    }
}

/// A request in the making, after the state at `base`.
struct Draft<'a> {
    history: &'a History,
    base: i64,
    zxid: i64,
    time: i64,
    session: i64,
    made: BTreeMap<String, Held>,
    changes: Vec<(Kind, String, EventType)>,
}

impl<'a> Draft<'a> {
    fn new(history: &'a History, base: i64, zxid: i64, time: i64, session: i64) -> Self {
        let (made, changes) = (BTreeMap::new(), Vec::new());
        Self { history, base, zxid, time, session, made, changes }
    }

    fn get(&self, path: &str) -> Result<Rc<Node>, ErrorCode> {
        let held = match self.made.get(path) {
            Some(made) => made.clone(),
            None => self.history.node(path, self.base),
        };
        held.ok_or(ErrorCode::NoNode)
    }

    fn put(&mut self, path: &str, node: Node) {
        self.made.insert(path.to_owned(), Some(Rc::new(node)));
    }

    fn ephemerals(&self) -> Vec<String> {
        let paths = self.history.nodes.keys();
        let is_its = |path: &&String| self.get(path).is_ok_and(|node| node.owner == self.session);
        paths.filter(is_its).cloned().collect()
    }

    fn tell(&mut self, kind: Kind, path: &str, event: EventType) {
        self.changes.push((kind, path.to_owned(), event));
    }

    fn take_out(&mut self, path: &str) {
        self.made.insert(path.to_owned(), None);
        self.tell(Kind::Data, path, EventType::NodeDeleted);
        self.tell(Kind::Children, path, EventType::NodeDeleted);
        self.change_parent(path, 0, -1);
    }

    fn change_parent(&mut self, path: &str, creates: i32, children: i32) {
        let above = parent(path);
        if let Ok(node) = self.get(above) {
            let mut node = (*node).clone();
            node.creates += creates;
            node.children += children;
            node.pzxid = self.zxid;
            self.put(above, node);
            self.tell(Kind::Children, above, EventType::NodeChildrenChanged);
        }
    }

    fn create(&mut self, path: &str, data: Option<&[u8]>, flags: i32) -> Result<String, ErrorCode> {
        let above = self.get(parent(path))?;
        let is = |mode: CreateMode| mode.flags() == flags;
        let path = if is(CreateMode::PersistentSequential) || is(CreateMode::EphemeralSequential) {
            format!("{path}{:010}", above.creates)
        } else {
            path.to_owned()
        };
        if self.get(&path).is_ok() {
            return Err(ErrorCode::NodeExists);
        }
        if above.owner != 0 {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let is_ephemeral = is(CreateMode::Ephemeral) || is(CreateMode::EphemeralSequential);
        let (zxid, time) = (self.zxid, self.time);
        self.put(
            &path,
            Node {
                data: data.unwrap_or_default().to_vec(),
                owner: if is_ephemeral { self.session } else { 0 },
                czxid: zxid,
                mzxid: zxid,
                pzxid: zxid,
                ctime: time,
                mtime: time,
                ..Node::default()
            },
        );
        self.tell(Kind::Data, &path, EventType::NodeCreated);
        self.change_parent(&path, 1, 1);
        Ok(path)
    }

    fn set(&mut self, path: &str, data: Option<&[u8]>, version: i32) -> Result<Stat, ErrorCode> {
        let mut node = (*self.checked(path, version)?).clone();
        node.data = data.unwrap_or_default().to_vec();
        node.version += 1;
        (node.mzxid, node.mtime) = (self.zxid, self.time);
        let stat = node.stat();
        self.put(path, node);
        self.tell(Kind::Data, path, EventType::NodeDataChanged);
        Ok(stat)
    }

    fn delete(&mut self, path: &str, version: i32) -> Result<(), ErrorCode> {
        self.get(parent(path))?;
        if self.checked(path, version)?.children > 0 {
            return Err(ErrorCode::NotEmpty);
        }
        self.take_out(path);
        Ok(())
    }

    fn checked(&self, path: &str, version: i32) -> Result<Rc<Node>, ErrorCode> {
        let node = self.get(path)?;
        if [-1, node.version].contains(&version) { Ok(node) } else { Err(ErrorCode::BadVersion) }
    }

    /// The parent's counter only rises, and its pzxid with it.
    fn raise_parent(&mut self, path: &str, creates: i32) {
        let above = parent(path);
        let Ok(node) = self.get(above) else { return };
        if creates > node.creates {
            self.put(above, Node { creates, pzxid: self.zxid, ..(*node).clone() });
        }
    }

    fn create_as_said(&mut self, path: &str, creates: i32) -> Option<Reply> {
        let above = self.get(parent(path)).ok()?;
        let made = self.create(path, None, CreateMode::Persistent.flags());
        if made.is_ok() {
            let children = above.children + 1;
            self.put(parent(path), Node { children, ..(*above).clone() });
        }
        self.raise_parent(path, creates);
        made.ok().map(Reply::Path)
    }

    fn set_as_said(&mut self, path: &str, data: Option<&[u8]>, version: i32) -> Option<Reply> {
        self.set(path, data, -1).ok()?;
        let node = Node { version, ..(*self.get(path).ok()?).clone() };
        let stat = node.stat();
        self.put(path, node);
        Some(Reply::Stat(stat))
    }

    fn delete_as_said(&mut self, path: &str) -> Option<Reply> {
        let is_there = self.get(path).is_ok();
        match is_there {
            true => self.take_out(path),
            // The parent's pzxid rises all the same.
            false => self.change_parent(path, 0, 0),
        }
        is_there.then_some(Reply::Done)
    }

    fn part(&mut self, op: &MultiOp<'_>) -> Result<Part, ErrorCode> {
        match op {
            MultiOp::Create(body) => {
                self.create(&body.path, body.data.as_deref(), body.flags).map(Part::Path)
            }
            MultiOp::SetData(body) => {
                self.set(&body.path, body.data.as_deref(), body.version).map(Part::Stat)
            }
            MultiOp::Delete(body) => self.delete(&body.path, body.version).map(|()| Part::Done),
            MultiOp::Check(body) => self.checked(&body.path, body.version).map(|_| Part::Done),
            other => panic!("no client sends {other:?}"),
        }
    }

    fn write(&mut self, request: &Request<'_>) -> Reply {
        let reply = match request {
            Request::Create(body) => {
                self.create(&body.path, body.data.as_deref(), body.flags).map(Reply::Path)
            }
            Request::Create2(body) => {
                self.create(&body.path, body.data.as_deref(), body.flags).and_then(|path| {
                    let stat = self.get(&path)?.stat();
                    Ok(Reply::Made(path, stat))
                })
            }
            Request::SetData(body) => {
                self.set(&body.path, body.data.as_deref(), body.version).map(Reply::Stat)
            }
            Request::Delete(body) => self.delete(&body.path, body.version).map(|()| Reply::Done),
            Request::Multi(ops) => {
                let mut parts = Vec::new();
                for op in ops {
                    match self.part(op) {
                        Ok(part) => parts.push(part),
                        Err(error) => {
                            // Those before it are not done, those after it not tried.
                            parts.fill(Part::Failed(0));
                            parts.push(Part::Failed(error.code()));
                            parts.resize(ops.len(), Part::Failed(-2));
                            break;
                        }
                    }
                }
                Ok(Reply::Parts(parts))
            }
            other => panic!("no client sends {other:?}"),
        };
        reply.unwrap_or_else(Reply::Refused)
    }
}
