//! ZooKeeper's operations, one call each: paths are checked, put below the chroot and brought back
//! from there.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use jute::protocol::{
    AddWatchMode, AddWatchRequest, Children2Response, CreateRequest, CreateTtlRequest,
    DeleteRequest, EphemeralsRequest, EphemeralsResponse, GetAclResponse, GetDataResponse, MultiOp,
    PathRequest, ReconfigRequest, Request, SetAclRequest, SetDataRequest, SyncRequest,
    WatchRequest, WatcherType, WatcherTypeRequest, WhoAmIResponse,
};
use jute::{Acl, CreateMode, DecodeError, ErrorCode, IntoStatic as _, Stat};

use super::connection::{Connection, OnReply, Reply, Target};
use super::error::{CliError, Refusal};
use super::events::Events;
use super::path::validate;
use super::watches::Leaves;

/// Reads a record and keeps it.
macro_rules! record {
    ($record:ty) => {
        |body: &[u8]| jute::decode::<$record>(body).map(|(record, _)| record.into_static())
    };
}

/// The znode of the ensemble's configuration, which has no chroot.
const CONFIG: &str = "/zookeeper/config";

#[derive(Debug)]
pub(super) struct Client {
    pub(super) connection: Connection,
    created_ephemerals: AtomicBool,
}

/// What [`Client::create`] makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Creation<'a> {
    pub(super) path: &'a str,
    pub(super) data: Option<&'a [u8]>,
    pub(super) acl: &'a [Acl<'static>],
    pub(super) mode: CreateMode,
    /// Milliseconds to live, of the modes that have such.
    pub(super) ttl: i64,
}

/// What [`Client::reconfigure`] changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Reconfiguration {
    pub(super) joining: Option<String>,
    pub(super) leaving: Option<String>,
    pub(super) members: Option<String>,
    /// The version it must have; -1 for any.
    pub(super) version: i64,
}

impl Client {
    /// Begins to connect.
    pub(super) fn connect(target: Target, events: &Arc<Events>) -> io::Result<Self> {
        let events = Arc::clone(events);
        let connection = Connection::start(target, Arc::new(move |event| events.take(event)))?;
        Ok(Self { connection, created_ephemerals: AtomicBool::new(false) })
    }

    /// Another session with the same servers, of the same identities.
    pub(super) fn another(&self, events: &Arc<Events>) -> io::Result<Self> {
        let other = Self::connect(self.connection.target().clone(), events)?;
        for (scheme, token) in self.connection.identities() {
            other.connection.add_identity(&scheme, token);
        }
        Ok(other)
    }

    /// Whether znodes may be there that end with the session.
    pub(super) fn has_created_ephemerals(&self) -> bool {
        self.created_ephemerals.load(Ordering::Relaxed)
    }

    /// The path of the created znode.
    pub(super) fn create(&self, creation: Creation<'_>) -> Result<String, CliError> {
        let Creation { path, data, acl, mode, ttl } = creation;
        // What a sequential create appends makes a path that ends with a slash a good one.
        let whole = if mode.is_sequential() { format!("{path}1") } else { path.to_owned() };
        validate(&whole).map_err(CliError::Malformed)?;
        let acl = accepted(acl)?;
        let on_server = self.on_server(path).into();
        let (data, acl, flags) = (data.map(Into::into), Some(acl), mode.flags());
        let request = match mode.op_code() {
            jute::OpCode::CreateTtl => {
                Request::CreateTtl(CreateTtlRequest { path: on_server, data, acl, flags, ttl })
            }
            jute::OpCode::CreateContainer => {
                Request::CreateContainer(CreateRequest { path: on_server, data, acl, flags })
            }
            _ => Request::Create(CreateRequest { path: on_server, data, acl, flags }),
        };
        if mode.is_ephemeral() {
            self.created_ephemerals.store(true, Ordering::Relaxed);
        }
        // The longer answers begin with the path, too.
        let created = self.ask(&request, OnReply::Nothing, path, record!(Cow<'_, str>))?;
        Ok(self.connection.target().servers.shown(&created))
    }

    pub(super) fn delete(&self, path: &str, version: i32) -> Result<(), CliError> {
        validate(path).map_err(CliError::Malformed)?;
        let on_server = if path == "/" { path.to_owned() } else { self.on_server(path) };
        let request = Request::Delete(DeleteRequest { path: on_server.into(), version });
        self.tell(&request, OnReply::Nothing, path)
    }

    /// Deletes all of them or none, in this order; nobody waits yet.
    pub(super) fn delete_together(&self, paths: &[String]) -> Receiver<Reply> {
        let delete = |path: &String| {
            MultiOp::Delete(DeleteRequest { path: self.on_server(path).into(), version: -1 })
        };
        let request = Request::Multi(paths.iter().map(delete).collect());
        self.connection.send(&request, OnReply::Nothing)
    }

    /// None if there is no such znode.
    pub(super) fn exists(&self, path: &str, watch: bool) -> Result<Option<Stat>, CliError> {
        let request = Request::Exists(self.watching(path, watch)?);
        let leaves = self.leaves(path, watch, Leaves::Exists);
        match self.ask(&request, leaves, path, record!(Stat)) {
            Ok(stat) => Ok(Some(stat)),
            Err(error) if error.is(ErrorCode::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn data(
        &self,
        path: &str,
        watch: bool,
    ) -> Result<GetDataResponse<'static>, CliError> {
        let request = Request::GetData(self.watching(path, watch)?);
        let leaves = self.leaves(path, watch, Leaves::Data);
        self.ask(&request, leaves, path, record!(GetDataResponse<'_>))
    }

    pub(super) fn config(&self, watch: bool) -> Result<GetDataResponse<'static>, CliError> {
        let request = Request::GetData(WatchRequest { path: CONFIG.into(), watch });
        let leaves = self.leaves(CONFIG, watch, Leaves::Data);
        self.ask(&request, leaves, CONFIG, record!(GetDataResponse<'_>))
    }

    /// Names in Java's order, and the parent's stat.
    pub(super) fn children(
        &self,
        path: &str,
        watch: bool,
    ) -> Result<(Vec<String>, Stat), CliError> {
        let request = Request::GetChildren2(self.watching(path, watch)?);
        let leaves = self.leaves(path, watch, Leaves::Children);
        let answer = self.ask(&request, leaves, path, record!(Children2Response<'_>))?;
        let mut names: Vec<String> = answer.children.into_iter().map(Cow::into_owned).collect();
        names.sort();
        Ok((names, answer.stat))
    }

    /// Calls `visit` with the path and all below it, a znode's children before their own; with a
    /// `watch` it leaves one on the data of the first and on the children of all.
    pub(super) fn walk(
        &self,
        path: &str,
        watch: bool,
        visit: &mut dyn FnMut(&str) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        self.data(path, watch)?;
        visit(path)?;
        // Reversed, so that the first is taken first.
        let mut parents = vec![path.to_owned()];
        while let Some(parent) = parents.pop() {
            let names = match self.children(&parent, watch) {
                Ok((names, _)) => names,
                // Gone since it was listed.
                Err(error) if error.is(ErrorCode::NoNode) => continue,
                Err(error) => return Err(error),
            };
            let paths: Vec<String> =
                names.iter().map(|name| super::path::child(&parent, name)).collect();
            for path in &paths {
                visit(path)?;
            }
            parents.extend(paths.into_iter().rev());
        }
        Ok(())
    }

    pub(super) fn set_data(&self, path: &str, data: &[u8], version: i32) -> Result<Stat, CliError> {
        validate(path).map_err(CliError::Malformed)?;
        let on_server = self.on_server(path).into();
        let request =
            Request::SetData(SetDataRequest { path: on_server, data: Some(data.into()), version });
        self.ask(&request, OnReply::Nothing, path, record!(Stat))
    }

    pub(super) fn acl(&self, path: &str) -> Result<GetAclResponse<'static>, CliError> {
        let request = Request::GetAcl(self.path(path)?);
        self.ask(&request, OnReply::Nothing, path, record!(GetAclResponse<'_>))
    }

    pub(super) fn set_acl(
        &self,
        path: &str,
        acl: &[Acl<'static>],
        version: i32,
    ) -> Result<Stat, CliError> {
        validate(path).map_err(CliError::Malformed)?;
        let acl = Some(accepted(acl)?);
        let request =
            Request::SetAcl(SetAclRequest { path: self.on_server(path).into(), acl, version });
        self.ask(&request, OnReply::Nothing, path, record!(Stat))
    }

    pub(super) fn all_children_number(&self, path: &str) -> Result<i32, CliError> {
        let request = Request::GetAllChildrenNumber(self.path(path)?);
        self.ask(&request, OnReply::Nothing, path, record!(i32))
    }

    /// Of this session; the prefix has no chroot, as in ZooKeeper's client.
    pub(super) fn ephemerals(&self, prefix: &str) -> Result<Vec<String>, CliError> {
        validate(prefix).map_err(CliError::Malformed)?;
        let request = Request::GetEphemerals(EphemeralsRequest { path: prefix.into() });
        let read = record!(EphemeralsResponse<'_>);
        let answer = self.ask_about(&request, OnReply::Nothing, None, read)?;
        Ok(answer.ephemerals.into_iter().map(Cow::into_owned).collect())
    }

    /// The error code of the server, if it has one.
    pub(super) fn sync(&self, path: &str) -> Result<Result<(), i32>, CliError> {
        validate(path).map_err(CliError::Malformed)?;
        let request = Request::Sync(SyncRequest { path: Some(self.on_server(path).into()) });
        Ok(self.connection.call(&request, OnReply::Nothing).map(drop))
    }

    pub(super) fn add_watch(&self, path: &str, mode: AddWatchMode) -> Result<(), CliError> {
        let PathRequest { path: on_server } = self.path(path)?;
        let leaves = match mode {
            AddWatchMode::Persistent => Leaves::Persistent,
            AddWatchMode::PersistentRecursive => Leaves::PersistentRecursive,
        };
        let request = Request::AddWatch(AddWatchRequest { path: on_server, mode });
        self.tell(&request, self.leaves(path, true, leaves), path)
    }

    pub(super) fn remove_watches(
        &self,
        path: &str,
        which: WatcherType,
        locally: bool,
    ) -> Result<(), CliError> {
        let PathRequest { path: on_server } = self.path(path)?;
        let request =
            Request::RemoveWatches(WatcherTypeRequest { path: on_server, watcher_type: which });
        self.tell(&request, OnReply::Unwatch { path: path.to_owned(), which, locally }, path)
    }

    pub(super) fn who_am_i(&self) -> Result<WhoAmIResponse<'static>, CliError> {
        self.ask_about(&Request::WhoAmI, OnReply::Nothing, None, record!(WhoAmIResponse<'_>))
    }

    pub(super) fn reconfigure(
        &self,
        change: Reconfiguration,
    ) -> Result<GetDataResponse<'static>, CliError> {
        let request = Request::Reconfig(ReconfigRequest {
            joining_servers: change.joining.map(Into::into),
            leaving_servers: change.leaving.map(Into::into),
            new_members: change.members.map(Into::into),
            cur_config_id: change.version,
        });
        self.ask_about(&request, OnReply::Nothing, Some(""), record!(GetDataResponse<'_>))
    }

    fn on_server(&self, path: &str) -> String {
        self.connection.target().servers.on_server(path)
    }

    fn path(&self, path: &str) -> Result<PathRequest<'static>, CliError> {
        validate(path).map_err(CliError::Malformed)?;
        Ok(PathRequest { path: self.on_server(path).into() })
    }

    fn watching(&self, path: &str, watch: bool) -> Result<WatchRequest<'static>, CliError> {
        let PathRequest { path } = self.path(path)?;
        Ok(WatchRequest { path, watch })
    }

    fn leaves(&self, path: &str, watch: bool, leaves: Leaves) -> OnReply {
        if watch { OnReply::Watch { path: path.to_owned(), leaves } } else { OnReply::Nothing }
    }

    /// Sends a request about a path and reads the answer.
    fn ask<T>(
        &self,
        request: &Request<'_>,
        on_reply: OnReply,
        path: &str,
        read: impl FnOnce(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<T, CliError> {
        self.ask_about(request, on_reply, Some(path), read)
    }

    /// As [`Self::ask`], where a refusal is about `path` or nothing.
    fn ask_about<T>(
        &self,
        request: &Request<'_>,
        on_reply: OnReply,
        path: Option<&str>,
        read: impl FnOnce(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<T, CliError> {
        let path = path.map(str::to_owned);
        match self.connection.call(request, on_reply) {
            Ok(body) => read(&body).map_err(CliError::Answer),
            Err(code) => Err(CliError::Refused(Refusal { code, path })),
        }
    }

    /// Sends a request whose answer has nothing to read.
    fn tell(&self, request: &Request<'_>, on_reply: OnReply, path: &str) -> Result<(), CliError> {
        self.ask(request, on_reply, path, |_| Ok(()))
    }
}

/// A list without an entry is refused before it is sent.
fn accepted(acl: &[Acl<'static>]) -> Result<Vec<Acl<'static>>, CliError> {
    if acl.is_empty() {
        let code = ErrorCode::InvalidAcl.code();
        return Err(CliError::Refused(Refusal { code, path: None }));
    }
    Ok(acl.to_vec())
}
