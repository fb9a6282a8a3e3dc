//! Answering reads: against the tree as it is, leaving watches on the way (reference 3.5 to 3.15).

use std::borrow::Cow;

use jute::protocol::{
    Children2Response, ChildrenResponse, ClientInfo, EphemeralsResponse, ErrorResponse, EventType,
    GetAclResponse, GetDataResponse, MultiResult, ReadOp, Request, Response, SetWatches2Request,
    SetWatchesRequest, SyncResponse, WatchRequest, WhoAmIResponse,
};
use jute::{Acl, ErrorCode, perms};

use super::acl::Identity;
use super::database::Database;
use super::listing;
use super::path;
use super::scheme;
use super::session::SessionId;
use super::watch::{CATCH_UP, ConnectionId, Event, WatchTable};
use super::znode::NodeId;
use super::zxid::Zxid;

/// Bytes that the parts of one multiRead may give before the others are refused: a request of a megabyte can name
/// the largest znode fifty thousand times, and no client takes a reply of this size.
const MULTI_READ_MAX: usize = 64 << 20;

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The connection: watches belong to it.
    pub connection: ConnectionId,
    /// Its session.
    pub session: SessionId,
    /// Who it has shown to be.
    pub identities: &'a [Identity],
}

/// Whether an operation reads only: such a request is answered from the tree, others are ordered first.
#[must_use]
pub const fn is_read(request: &Request<'_>) -> bool {
    match request {
        Request::Exists(_)
        | Request::GetData(_)
        | Request::GetAcl(_)
        | Request::GetChildren(_)
        | Request::GetChildren2(_)
        | Request::GetEphemerals(_)
        | Request::GetAllChildrenNumber(_)
        | Request::MultiRead(_)
        | Request::Ping
        | Request::WhoAmI
        | Request::SetWatches(_)
        | Request::SetWatches2(_)
        | Request::AddWatch(_)
        | Request::CheckWatches(_)
        | Request::RemoveWatches(_) => true,
        Request::Create(_)
        | Request::Create2(_)
        | Request::CreateContainer(_)
        | Request::CreateTtl(_)
        | Request::Delete(_)
        | Request::SetData(_)
        | Request::SetAcl(_)
        | Request::Sync(_)
        | Request::Reconfig(_)
        | Request::Auth(_)
        | Request::Sasl(_)
        | Request::Multi(_)
        | Request::CloseSession => false,
    }
}

/// Whether an answer can be far larger than a znode.
#[must_use]
pub const fn is_listing(request: &Request<'_>) -> bool {
    matches!(
        request,
        Request::GetChildren(_)
            | Request::GetChildren2(_)
            | Request::GetEphemerals(_)
            | Request::GetAllChildrenNumber(_)
            | Request::MultiRead(_)
            | Request::SetWatches(_)
            | Request::SetWatches2(_)
    )
}

/// Answers a read, or a `sync` at its turn. Events that setWatches catches up on go to `events`; they belong before
/// the answer.
///
/// # Errors
/// The error code of the reply.
pub fn answer<'t>(
    database: &'t Database,
    caller: &Caller<'_>,
    request: &Request<'t>,
    events: &mut Vec<Event>,
) -> Result<Response<'t>, ErrorCode> {
    let read = Read { database, caller };
    match request {
        Request::Exists(body) => read.exists(body),
        Request::GetData(body) => read.data(body),
        Request::GetChildren(body) | Request::GetChildren2(body) => {
            let node = read.parent(body)?;
            Ok(read.children(request, body, node))
        }
        Request::GetAcl(body) => read.acl(&body.path),
        Request::GetAllChildrenNumber(body) => read.all_children_number(&body.path),
        Request::GetEphemerals(body) => Ok(read.ephemerals(&body.path)),
        Request::MultiRead(ops) => Ok(Response::Multi(read.multi(ops))),
        Request::WhoAmI => Ok(read.who_am_i()),
        Request::Sync(body) => Ok(Response::Sync(SyncResponse { path: body.path.clone() })),
        Request::SetWatches(body) => {
            let SetWatchesRequest { relative_zxid, data_watches, exist_watches, child_watches } =
                body;
            read.set_watches(*relative_zxid, data_watches, exist_watches, child_watches, events);
            Ok(Response::Empty)
        }
        // That of a session of one server only.
        Request::CloseSession => Ok(Response::Empty),
        Request::SetWatches2(body) => {
            read.set_watches2(body, events);
            Ok(Response::Empty)
        }
        Request::AddWatch(body) => {
            read.watches().add(&body.path, caller.connection, body.mode);
            Ok(Response::Error(ErrorResponse { err: 0 }))
        }
        Request::CheckWatches(body) => {
            let found = read.watches().contains(&body.path, caller.connection, body.watcher_type);
            if found { Ok(Response::Empty) } else { Err(ErrorCode::NoWatcher) }
        }
        Request::RemoveWatches(body) => {
            let found = read.watches().remove(&body.path, caller.connection, body.watcher_type);
            if found { Ok(Response::Empty) } else { Err(ErrorCode::NoWatcher) }
        }
        _ => Ok(Response::Empty),
    }
}

/// Answers a read, but for a listing that is too long for one hold: `None` then.
pub fn answer_unless_long<'t>(
    database: &'t Database,
    caller: &Caller<'_>,
    request: &Request<'t>,
    events: &mut Vec<Event>,
) -> Option<Result<Response<'t>, ErrorCode>> {
    let read = Read { database, caller };
    match request {
        Request::GetChildren(body) | Request::GetChildren2(body) => match read.parent(body) {
            Ok(node) if database.tree.num_children(node) > listing::LONG => None,
            parent => Some(parent.map(|node| read.children(request, body, node))),
        },
        _ => Some(answer(database, caller, request, events)),
    }
}

/// The znode whose children are to be listed.
///
/// # Errors
/// The error code of the reply.
pub fn parent(
    database: &Database,
    caller: &Caller<'_>,
    body: &WatchRequest<'_>,
) -> Result<NodeId, ErrorCode> {
    Read { database, caller }.parent(body)
}

/// Leaves the watch that a listing asks for.
pub fn watch_children(database: &Database, caller: &Caller<'_>, body: &WatchRequest<'_>) {
    Read { database, caller }.watch_children(body);
}

/// One read.
struct Read<'t, 'c> {
    database: &'t Database,
    caller: &'c Caller<'c>,
}

impl<'t> Read<'t, '_> {
    fn watches(&self) -> parking_lot::MutexGuard<'t, WatchTable> {
        self.database.watches.lock()
    }

    fn find(&self, path: &str) -> Result<NodeId, ErrorCode> {
        self.database.tree.find(path).ok_or(ErrorCode::NoNode)
    }

    fn readable(&self, node: NodeId) -> Result<(), ErrorCode> {
        self.database.check(node, perms::READ, self.caller.identities)
    }

    /// The watch stays also where the znode is missing: it fires when the znode comes.
    fn exists(&self, body: &WatchRequest<'_>) -> Result<Response<'t>, ErrorCode> {
        if body.path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        let node = self.find(&body.path);
        if let Ok(node) = node {
            self.readable(node)?;
        }
        if body.watch {
            self.watches().watch_data(&body.path, self.caller.connection);
        }
        node.map(|node| Response::Stat(self.database.tree.stat(node)))
    }

    fn data(&self, body: &WatchRequest<'_>) -> Result<Response<'t>, ErrorCode> {
        let node = self.find(&body.path)?;
        self.readable(node)?;
        if body.watch {
            self.watches().watch_data(&body.path, self.caller.connection);
        }
        let tree = &self.database.tree;
        let data = tree.data(node).map(Cow::Borrowed);
        Ok(Response::GetData(GetDataResponse { data, stat: tree.stat(node) }))
    }

    /// The znode whose children are to be listed.
    fn parent(&self, body: &WatchRequest<'_>) -> Result<NodeId, ErrorCode> {
        let node = self.find(&body.path)?;
        self.readable(node)?;
        Ok(node)
    }

    fn watch_children(&self, body: &WatchRequest<'_>) {
        if body.watch {
            self.watches().watch_children(&body.path, self.caller.connection);
        }
    }

    fn children(
        &self,
        request: &Request<'_>,
        body: &WatchRequest<'_>,
        node: NodeId,
    ) -> Response<'t> {
        self.watch_children(body);
        let children = self.names(node);
        if matches!(request, Request::GetChildren(_)) {
            Response::Children(ChildrenResponse { children })
        } else {
            let stat = self.database.tree.stat(node);
            Response::Children2(Children2Response { children, stat })
        }
    }

    fn names(&self, node: NodeId) -> Vec<Cow<'t, str>> {
        self.database.tree.children(node).map(Cow::Borrowed).collect()
    }

    fn acl(&self, path: &str) -> Result<Response<'t>, ErrorCode> {
        let node = self.find(path)?;
        self.database.check(node, perms::READ | perms::ADMIN, self.caller.identities)?;
        let tree = &self.database.tree;
        let is_admin = self.database.check(node, perms::ADMIN, self.caller.identities).is_ok();
        let acl = match tree.acls().list(tree.acl(node)) {
            None => vec![Acl::anyone(perms::ALL)],
            Some(list) if is_admin => list.to_vec(),
            Some(list) => list.iter().map(masked).collect(),
        };
        Ok(Response::GetAcl(GetAclResponse { acl, stat: tree.stat(node) }))
    }

    /// ZooKeeper counts the keys of its map that begin with the path and a slash; its map holds the root twice.
    fn all_children_number(&self, path: &str) -> Result<Response<'t>, ErrorCode> {
        let node = self.find(path)?;
        self.readable(node)?;
        let tree = &self.database.tree;
        let number = match path {
            path::ROOT => tree.count() - 1,
            "" => tree.count(),
            _ => tree.descendants(node),
        };
        Ok(Response::AllChildrenNumber(i32::try_from(number).unwrap_or(i32::MAX)))
    }

    fn ephemerals(&self, prefix: &str) -> Response<'t> {
        let tree = &self.database.tree;
        let all = prefix.trim().is_empty() || prefix == path::ROOT;
        let ephemerals = tree
            .ephemerals(self.caller.session)
            .map(|node| tree.path(node))
            .filter(|path| all || path.starts_with(prefix))
            .map(Cow::Owned)
            .collect();
        Response::Ephemerals(EphemeralsResponse { ephemerals })
    }

    /// Each part by itself: one that fails leaves the others alone. So does one that the answer has no room for.
    fn multi(&self, ops: &[ReadOp<'_>]) -> Vec<MultiResult<'t>> {
        let mut size = 0;
        let mut one = |op: &ReadOp<'_>| {
            if size > MULTI_READ_MAX {
                return Err(ErrorCode::BadArguments);
            }
            let (ReadOp::GetData(path) | ReadOp::GetChildren(path)) = op;
            let node = self.find(path)?;
            self.readable(node)?;
            let tree = &self.database.tree;
            Ok(match op {
                ReadOp::GetData(_) => {
                    let data = tree.data(node);
                    size += data.map_or(0, <[u8]>::len);
                    MultiResult::GetData(data.map(Cow::Borrowed), tree.stat(node))
                }
                ReadOp::GetChildren(_) => {
                    let names = self.names(node);
                    size += names.iter().map(|name| size_of_val(name) + name.len()).sum::<usize>();
                    MultiResult::GetChildren(names)
                }
            })
        };
        ops.iter()
            .map(|op| one(op).unwrap_or_else(|error: ErrorCode| MultiResult::Error(error.code())))
            .collect()
    }

    fn who_am_i(&self) -> Response<'t> {
        let client_info = self
            .caller
            .identities
            .iter()
            .map(|identity| ClientInfo {
                auth_scheme: identity.scheme.clone().into(),
                user: scheme::user_name(identity).to_owned().into(),
            })
            .collect();
        Response::WhoAmI(WhoAmIResponse { client_info })
    }

    fn set_watches2(&self, body: &SetWatches2Request<'_>, events: &mut Vec<Event>) {
        self.set_watches(
            body.relative_zxid,
            &body.data_watches,
            &body.exist_watches,
            &body.child_watches,
            events,
        );
        let mut watches = self.watches();
        for path in &body.persistent_watches {
            watches.add(path, self.caller.connection, jute::protocol::AddWatchMode::Persistent);
        }
        for path in &body.persistent_recursive_watches {
            let mode = jute::protocol::AddWatchMode::PersistentRecursive;
            watches.add(path, self.caller.connection, mode);
        }
    }

    /// What changed while the client was away is told, everything else is watched again (`DataTree.setWatches`).
    fn set_watches(
        &self,
        relative_zxid: i64,
        data: &[Cow<'_, str>],
        exist: &[Cow<'_, str>],
        child: &[Cow<'_, str>],
        events: &mut Vec<Event>,
    ) {
        let tree = &self.database.tree;
        let connection = self.caller.connection;
        let mut watches = self.watches();
        let mut tell = |event_type, path: &str| {
            events.push(Event {
                receivers: vec![connection],
                event_type,
                path: path.into(),
                zxid: CATCH_UP,
                readers: None,
            });
        };
        let since = Zxid(relative_zxid);
        for path in data {
            match tree.find(path).map(|node| tree.stat(node)) {
                None => tell(EventType::NodeDeleted, path),
                Some(stat) if Zxid(stat.mzxid) > since => tell(EventType::NodeDataChanged, path),
                Some(_) => watches.watch_data(path, connection),
            }
        }
        for path in exist {
            match tree.find(path) {
                Some(_) => tell(EventType::NodeCreated, path),
                None => watches.watch_data(path, connection),
            }
        }
        for path in child {
            match tree.find(path).map(|node| tree.stat(node)) {
                None => tell(EventType::NodeDeleted, path),
                Some(stat) if Zxid(stat.pzxid) > since => {
                    tell(EventType::NodeChildrenChanged, path);
                }
                Some(_) => watches.watch_children(path, connection),
            }
        }
    }
}

/// Hides the hash of a digest id from those who may not administer the znode (CVE-2019-0201).
fn masked(acl: &Acl<'static>) -> Acl<'static> {
    match (acl.scheme.as_deref(), acl.id.as_deref().and_then(|id| id.split_once(':'))) {
        (Some("digest"), Some((user, _))) => {
            Acl { id: Some(format!("{user}:x").into()), ..acl.clone() }
        }
        _ => acl.clone(),
    }
}
