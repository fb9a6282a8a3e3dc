//! Answering reads: against the tree as it is, leaving watches on the way
//! (`FinalRequestProcessor`).

use std::borrow::Cow;

use jute::protocol::{
    Children2Response, ChildrenResponse, ClientInfo, EphemeralsResponse, ErrorResponse,
    GetAclResponse, GetDataResponse, MultiResult, ReadOp, Request, Response, SyncResponse,
    WatchRequest, WhoAmIResponse,
};
use jute::{Acl, ErrorCode, perms};

use super::listing;
use super::watch_again::WatchAgain;
use crate::engine::access::acl::Identities;
use crate::engine::access::scheme;
use crate::engine::database::Database;
use crate::engine::path;
use crate::engine::session::SessionId;
use crate::engine::tree::znode::NodeId;
use crate::engine::watch::{ConnectionId, Event, WatchTable};
use crate::planted;

/// The most that is answered at once.
#[derive(Debug, Clone, Copy)]
pub struct Most {
    /// Children of a listing that is not long.
    pub children: usize,
    /// Paths that are watched again under one hold, if they are short.
    pub watched_again: usize,
    /// Bytes that the parts of one multiRead may give before the others are refused: a request of a
    /// megabyte can name the largest znode fifty thousand times, and no client takes a reply of
    /// this size. Never more than 64 MiB.
    pub multi_read: usize,
}

impl Most {
    /// What holds unless memory is scarce.
    pub const USUAL: Self =
        Self { children: listing::LONG, watched_again: WATCHED_AGAIN, multi_read: MULTI_READ_MAX };
}

const MULTI_READ_MAX: usize = 64 << 20;
/// Some 50 us.
const WATCHED_AGAIN: usize = 128;
/// A listing with more bytes than this is a long one, too.
const LIST_MAX: usize = 1 << 20;
/// So is a listing of ephemerals for which more bytes of paths are written.
const EPHEMERALS_MAX: usize = 128 << 10;
/// Bytes of an answer, or of a part of one, beside its data or names.
const PART: usize = 100;

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'a> {
    /// The connection: watches belong to it.
    pub connection: ConnectionId,
    /// Its session.
    pub session: SessionId,
    /// Who it has shown to be.
    pub identities: &'a Identities,
}

/// Answers a read, or a `sync` at its turn. Events that setWatches catches up on go to `events`;
/// they belong before the answer.
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
            let names = database.tree.children(node).map(Cow::Borrowed).collect();
            read.children(request, body, node, names)
        }
        Request::GetAcl(body) => read.acl(&body.path),
        Request::GetAllChildrenNumber(body) => read.all_children_number(&body.path),
        Request::GetEphemerals(body) => {
            let all = read.ephemerals(&body.path, usize::MAX, usize::MAX);
            Ok(all.unwrap_or(Response::Empty))
        }
        Request::MultiRead(ops) => Ok(Response::Multi(read.multi(ops, MULTI_READ_MAX))),
        Request::WhoAmI => Ok(read.who_am_i()),
        Request::Sync(body) => Ok(Response::Sync(SyncResponse { path: body.path.clone() })),
        Request::SetWatches(_) | Request::SetWatches2(_) => {
            if let Some(mut again) = WatchAgain::of(request) {
                again.advance(database, caller.connection, usize::MAX, events)?;
            }
            Ok(Response::Empty)
        }
        // That of a session of one server only.
        Request::CloseSession => Ok(Response::Empty),
        Request::AddWatch(body) => {
            read.watches().add(&body.path, caller.connection, body.mode)?;
            Ok(Response::Error(ErrorResponse { err: 0 }))
        }
        Request::CheckWatches(body) => {
            let found = read.watches().contains(&body.path, caller.connection, body.watcher_type);
            if found { Ok(Response::Empty) } else { Err(ErrorCode::NoWatcher) }
        }
        Request::RemoveWatches(body) => {
            let found = planted::is("removal-does-nothing")
                || read.watches().remove(&body.path, caller.connection, body.watcher_type);
            if found { Ok(Response::Empty) } else { Err(ErrorCode::NoWatcher) }
        }
        _ => Ok(Response::Empty),
    }
}

/// Answers a read, but for what takes too long for one hold: `None` for a long listing, also of
/// ephemerals, and for a setWatches of many paths.
pub fn answer_unless_long<'t>(
    database: &'t Database,
    caller: &Caller<'_>,
    request: &Request<'t>,
    most: Most,
    events: &mut Vec<Event>,
) -> Option<Result<Response<'t>, ErrorCode>> {
    let read = Read { database, caller };
    match request {
        Request::GetChildren(body) | Request::GetChildren2(body) => match read.parent(body) {
            Ok(node) if database.tree.num_children(node) > most.children => None,
            Ok(node) => {
                let (names, _) = read.names(node, LIST_MAX)?;
                Some(read.children(request, body, node, names))
            }
            Err(error) => Some(Err(error)),
        },
        Request::GetEphemerals(body) => {
            read.ephemerals(&body.path, most.children, EPHEMERALS_MAX).map(Ok)
        }
        Request::MultiRead(ops) => {
            let results = read.multi(ops, most.multi_read.min(MULTI_READ_MAX));
            Some(Ok(Response::Multi(results)))
        }
        Request::SetWatches(_) | Request::SetWatches2(_)
            if WatchAgain::of(request).is_some_and(|its| its.is_more_than(most.watched_again)) =>
        {
            None
        }
        _ => Some(answer(database, caller, request, events)),
    }
}

/// Bytes of the data that a getData gives, if the caller may see it.
#[must_use]
pub fn data_len(database: &Database, request: &Request<'_>) -> usize {
    let Request::GetData(body) = request else { return 0 };
    let node = database.tree.find(&body.path);
    node.and_then(|node| database.tree.data(node)).map_or(0, <[u8]>::len)
}

/// About how many bytes an answer has, where that can be many.
#[must_use]
#[inline]
pub fn expected_len(response: &Response<'_>) -> usize {
    match response {
        Response::GetData(found) => PART + found.data.as_ref().map_or(0, |data| data.len()),
        other => expected_len_of_list(other),
    }
}

fn expected_len_of_list(response: &Response<'_>) -> usize {
    let names = |names: &[Cow<'_, str>]| names.iter().map(|name| text_len(name)).sum();
    match response {
        Response::Multi(results) => {
            let part = |result: &MultiResult<'_>| {
                PART + match result {
                    MultiResult::GetData(data, _) => data.as_ref().map_or(0, |data| data.len()),
                    MultiResult::GetChildren(children) => names(children),
                    _ => 0,
                }
            };
            results.iter().map(part).sum()
        }
        Response::Ephemerals(found) => names(&found.ephemerals),
        Response::GetAcl(found) => PART + found.acl.iter().map(entry_len).sum::<usize>(),
        Response::WhoAmI(found) => {
            let one = |shown: &ClientInfo<'_>| text_len(&shown.auth_scheme) + text_len(&shown.user);
            found.client_info.iter().map(one).sum()
        }
        _ => 0,
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
///
/// # Errors
/// The error code of the reply.
pub fn watch_children(
    database: &Database,
    caller: &Caller<'_>,
    body: &WatchRequest<'_>,
) -> Result<(), ErrorCode> {
    Read { database, caller }.watch_children(body)
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
        if let Ok(node) = node
            && !planted::is("exists-for-all")
        {
            self.readable(node)?;
        }
        if body.watch {
            self.watches().watch_data(&body.path, self.caller.connection)?;
        }
        node.map(|node| Response::Stat(self.database.tree.stat(node)))
    }

    fn data(&self, body: &WatchRequest<'_>) -> Result<Response<'t>, ErrorCode> {
        let node = self.find(&body.path)?;
        self.readable(node)?;
        if body.watch {
            self.watches().watch_data(&body.path, self.caller.connection)?;
        }
        let tree = &self.database.tree;
        let data = tree.data(node).or_else(|| planted::is("null-is-empty").then_some(&[][..]));
        let data = data.map(Cow::Borrowed);
        Ok(Response::GetData(GetDataResponse { data, stat: tree.stat(node) }))
    }

    /// The znode whose children are to be listed.
    fn parent(&self, body: &WatchRequest<'_>) -> Result<NodeId, ErrorCode> {
        let node = self.find(&body.path)?;
        self.readable(node)?;
        Ok(node)
    }

    fn watch_children(&self, body: &WatchRequest<'_>) -> Result<(), ErrorCode> {
        if body.watch {
            self.watches().watch_children(&body.path, self.caller.connection)?;
        }
        Ok(())
    }

    fn children(
        &self,
        request: &Request<'_>,
        body: &WatchRequest<'_>,
        node: NodeId,
        children: Vec<Cow<'t, str>>,
    ) -> Result<Response<'t>, ErrorCode> {
        self.watch_children(body)?;
        if matches!(request, Request::GetChildren(_)) {
            Ok(Response::Children(ChildrenResponse { children }))
        } else {
            let stat = self.database.tree.stat(node);
            Ok(Response::Children2(Children2Response { children, stat }))
        }
    }

    /// The names of a znode's children, and how many bytes they come to; `None` if that is more
    /// than `most`.
    fn names(&self, node: NodeId, most: usize) -> Option<(Vec<Cow<'t, str>>, usize)> {
        let tree = &self.database.tree;
        let mut len = 0;
        let mut names = Vec::with_capacity(tree.num_children(node).min(listing::LONG));
        for name in tree.children(node) {
            len += size_of::<Cow<'_, str>>() + name.len();
            if len > most {
                return None;
            }
            names.push(Cow::Borrowed(name));
        }
        Some((names, len))
    }

    fn acl(&self, path: &str) -> Result<Response<'t>, ErrorCode> {
        let node = self.find(path)?;
        self.database.check(node, perms::READ | perms::ADMIN, self.caller.identities)?;
        let tree = &self.database.tree;
        let is_admin = self.database.check(node, perms::ADMIN, self.caller.identities).is_ok();
        let acl = match tree.acls().list(tree.acl(node)) {
            None => vec![Acl::anyone(perms::ALL)],
            Some(list) if is_admin || planted::is("hashes-shown") => {
                list.iter().map(as_it_is).collect()
            }
            Some(list) => list.iter().map(masked).collect(),
        };
        Ok(Response::GetAcl(GetAclResponse { acl, stat: tree.stat(node) }))
    }

    /// ZooKeeper counts the keys of its map that begin with the path and a slash; its map holds the
    /// root twice.
    fn all_children_number(&self, path: &str) -> Result<Response<'t>, ErrorCode> {
        let node = self.find(path)?;
        self.readable(node)?;
        let tree = &self.database.tree;
        let number = match path {
            path::ROOT => tree.count() - 1,
            "" => tree.count(),
            _ => tree.below(node).znodes,
        };
        Ok(Response::AllChildrenNumber(i32::try_from(number).unwrap_or(i32::MAX)))
    }

    /// `None` if more would be looked at, or more bytes of paths.
    fn ephemerals(&self, prefix: &str, most: usize, bytes: usize) -> Option<Response<'t>> {
        let session = self.caller.session;
        let found = listing::few_ephemerals(self.database, session, prefix, most, bytes)?;
        let ephemerals = found.into_iter().map(Cow::Owned).collect();
        Some(Response::Ephemerals(EphemeralsResponse { ephemerals }))
    }

    /// Each part by itself: one that fails leaves the others alone. So does one that the answer has
    /// no room for.
    fn multi(&self, ops: &[ReadOp<'_>], most: usize) -> Vec<MultiResult<'t>> {
        let mut size = 0;
        let mut one = |op: &ReadOp<'_>| {
            if size > most {
                return Err(ErrorCode::BadArguments);
            }
            let (ReadOp::GetData(path) | ReadOp::GetChildren(path)) = op;
            let node = self.find(path)?;
            if !planted::is("multiread-reads-all") {
                self.readable(node)?;
            }
            let tree = &self.database.tree;
            Ok(match op {
                ReadOp::GetData(_) => {
                    let data = tree.data(node);
                    size += data.map_or(0, <[u8]>::len);
                    MultiResult::GetData(data.map(Cow::Borrowed), tree.stat(node))
                }
                ReadOp::GetChildren(_) => {
                    let (names, len) = self.names(node, usize::MAX).unwrap_or_default();
                    size += len;
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
            .all()
            .iter()
            .map(|identity| ClientInfo {
                auth_scheme: identity.scheme.clone().into(),
                user: scheme::user_name(identity).to_owned().into(),
            })
            .collect();
        Response::WhoAmI(WhoAmIResponse { client_info })
    }
}

/// An entry, without a copy of what it says.
fn as_it_is<'t>(acl: &'t Acl<'static>) -> Acl<'t> {
    let [scheme, id] = [&acl.scheme, &acl.id].map(|text| text.as_deref().map(Cow::Borrowed));
    Acl { perms: acl.perms, scheme, id }
}

/// Hides the hash of a digest id from those who may not administer the znode (CVE-2019-0201).
fn masked<'t>(acl: &'t Acl<'static>) -> Acl<'t> {
    match (acl.scheme.as_deref(), acl.id.as_deref().and_then(|id| id.split_once(':'))) {
        (Some("digest"), Some((user, _))) => {
            Acl { id: Some(format!("{user}:x").into()), ..as_it_is(acl) }
        }
        _ => as_it_is(acl),
    }
}

/// Bytes of a text in an answer.
const fn text_len(text: &str) -> usize {
    size_of::<i32>() + text.len()
}

/// Bytes of an entry in an answer.
fn entry_len(acl: &Acl<'_>) -> usize {
    let text = |text: &Option<Cow<'_, str>>| text_len(text.as_deref().unwrap_or_default());
    size_of::<i32>() + text(&acl.scheme) + text(&acl.id)
}
