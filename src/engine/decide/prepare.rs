//! Deciding one write: every check in ZooKeeper's order, then the transaction
//! (`PrepRequestProcessor`).

use std::borrow::Cow;
use std::cmp::Ordering;

use jute::protocol::{
    CheckVersionRequest, CreateRequest, CreateTtlRequest, DeleteRequest, MultiOp, MultiResult,
    Request, SetAclRequest, SetDataRequest,
};
use jute::txn::{
    CheckVersionTxn, CloseSessionTxn, CreateContainerTxn, CreateTtlTxn, CreateTxn, DeleteTxn,
    SetAclTxn, SetDataTxn, Txn,
};
use jute::{Acl, CreateMode, ErrorCode, OpCode, StatPersisted, perms};

use super::overlay::{Content, Overlay, Pending};
use super::reaper;
use super::sequencer::{Harm, Notice};
use crate::engine::access::acl::Identities;
use crate::engine::access::fixup::{Fixup, Storable};
use crate::engine::database::Database;
use crate::engine::digest::ContentDigest;
use crate::engine::owner::{MAX_TTL_MS, Owner};
use crate::engine::path;
use crate::engine::quota;
use crate::engine::quota::{Growth, QuotaVerdict};
use crate::engine::session::SessionId;
use crate::engine::time::Now;
use crate::engine::zxid::Zxid;
use crate::list::{ServerList, Servers};
use crate::planted;

/// Bytes of the paths that the end of a session lists. ZooKeeper starts on no log with a record
/// above twice `jute.maxbuffer`, 2 MiB by default (ZOOKEEPER-4306).
const CLOSE_PATHS_MAX: usize = 1 << 20;

/// Bytes of a record beside the body of its transaction: header, digest, and what the log of an
/// ensemble adds.
pub(super) const RECORD_LEN: usize = 32 + 12 + 8;
/// Bytes of a multi beside its parts, and of a part beside its body.
const MULTI_LEN: usize = 4;
const PART_LEN: usize = 8;

/// What plain creates carry for a time to live.
const NO_TTL: i64 = -1;
/// A version that is not checked.
const ANY_VERSION: i32 = -1;

/// One transaction in the making.
pub(super) struct Prepare<'a> {
    pub(in crate::engine) database: &'a Database,
    pub(in crate::engine) overlay: &'a mut Overlay,
    pub(in crate::engine) notices: &'a mut Vec<Notice>,
    pub(in crate::engine) identities: &'a Identities,
    /// Grows by the entries of ACLs and the identities that are looked up.
    pub(in crate::engine) looked_up: &'a mut usize,
    pub(in crate::engine) session: SessionId,
    /// Whether the session lives on one server only.
    pub(in crate::engine) is_local: bool,
    pub(in crate::engine) zxid: Zxid,
    pub(in crate::engine) now: Now,
    /// Bytes that are left to the transaction.
    pub(in crate::engine) room: usize,
}

/// Why a multi is refused.
pub(super) enum MultiRefusal {
    /// It cannot be read, which is no matter of one part.
    Whole(ErrorCode),
    /// A part failed; what to say of each.
    Part(Vec<MultiResult<'static>>),
}

type Decided = Result<Txn<'static>, ErrorCode>;

impl<'a> Prepare<'a> {
    /// Decides a write that is a request by itself.
    pub(super) fn single(&mut self, request: Request<'static>) -> Decided {
        let mark = self.overlay.mark();
        let decided = self.write(request).and_then(|txn| {
            self.charge(txn.body_len())?;
            Ok(txn)
        });
        decided.inspect_err(|_| self.overlay.roll_back(mark))
    }

    fn write(&mut self, request: Request<'static>) -> Decided {
        match request {
            Request::Create(create) => self.create(OpCode::Create, create, NO_TTL),
            Request::Create2(create) => self.create(OpCode::Create2, create, NO_TTL),
            Request::CreateContainer(create) => {
                self.create(OpCode::CreateContainer, create, NO_TTL)
            }
            Request::CreateTtl(create) => self.create_ttl(create),
            Request::Delete(delete) => self.delete(delete),
            Request::SetData(set) => self.set_data(set),
            Request::SetAcl(set) => self.set_acl(set),
            Request::Reconfig(_) if self.database.rules.reconfig => Err(ErrorCode::Unimplemented),
            Request::Reconfig(_) => Err(ErrorCode::ReconfigDisabled),
            _ => Err(ErrorCode::Unimplemented),
        }
    }

    /// Decides a multi: all of it, or the refusal that says which part failed.
    pub(in crate::engine) fn multi(
        &mut self,
        ops: Vec<MultiOp<'static>>,
    ) -> Result<Txn<'static>, MultiRefusal> {
        let mark = self.overlay.mark();
        let count = ops.len();
        let mut txns = Vec::with_capacity(count);
        if self.charge(MULTI_LEN).is_err() {
            return Err(MultiRefusal::Whole(ErrorCode::MarshallingError));
        }
        for op in ops {
            let part = self.part(op).and_then(|txn| {
                self.charge(PART_LEN + txn.body_len())?;
                Ok(txn)
            });
            match part {
                Ok(txn) => txns.push(txn),
                Err(error @ ErrorCode::MarshallingError) => {
                    self.overlay.roll_back(mark);
                    return Err(MultiRefusal::Whole(error));
                }
                Err(error) => {
                    self.overlay.roll_back(mark);
                    let failed = txns.len();
                    let results = (0..count).map(|part| {
                        MultiResult::Error(match part.cmp(&failed) {
                            Ordering::Less => 0,
                            Ordering::Equal => error.code(),
                            Ordering::Greater if planted::is("later-parts-fine") => 0,
                            Ordering::Greater => ErrorCode::RuntimeInconsistency.code(),
                        })
                    });
                    return Err(MultiRefusal::Part(results.collect()));
                }
            }
        }
        Ok(Txn::Multi(txns))
    }

    /// Takes bytes of what the transaction may have.
    fn charge(&mut self, len: usize) -> Result<(), ErrorCode> {
        self.room = self.room.checked_sub(len).ok_or(ErrorCode::MarshallingError)?;
        Ok(())
    }

    /// Whether so many bytes can still be taken: what is larger is refused before it is made.
    const fn fits(&self, len: usize) -> Result<(), ErrorCode> {
        if len > self.room { Err(ErrorCode::MarshallingError) } else { Ok(()) }
    }

    fn part(&mut self, op: MultiOp<'static>) -> Decided {
        match op {
            MultiOp::Create(create) => self.create(OpCode::Create, create, NO_TTL),
            MultiOp::Create2(create) => self.create(OpCode::Create2, create, NO_TTL),
            MultiOp::CreateContainer(create) => {
                let op_code = match planted::is("multi-no-containers") {
                    true => OpCode::Create,
                    false => OpCode::CreateContainer,
                };
                self.create(op_code, create, NO_TTL)
            }
            MultiOp::CreateTtl(create) => self.create_ttl(create),
            MultiOp::Delete(delete) => self.delete(delete),
            MultiOp::SetData(set) => self.set_data(set),
            MultiOp::Check(check) => self.check(check),
        }
    }

    fn create_ttl(&mut self, create: CreateTtlRequest<'static>) -> Decided {
        let CreateTtlRequest { path, data, acl, flags, ttl } = create;
        self.create(OpCode::CreateTtl, CreateRequest { path, data, acl, flags }, ttl)
    }

    /// The mode and the owner that a create asks for.
    fn owner(
        &mut self,
        op_code: OpCode,
        flags: i32,
        ttl: i64,
    ) -> Result<(CreateMode, Owner), ErrorCode> {
        let mode = CreateMode::from_flags(flags).ok_or(ErrorCode::BadArguments)?;
        if mode.is_ttl() {
            if !self.database.rules.extended_types && !planted::is("ttl-always") {
                return Err(ErrorCode::Unimplemented);
            }
            if !(1..=MAX_TTL_MS).contains(&ttl) && !planted::is("any-ttl") {
                return Err(ErrorCode::BadArguments);
            }
            return Ok((mode, Owner::Ttl(ttl)));
        }
        let owner = match op_code {
            // ZooKeeper logs a transaction here that kills it (`EphemeralType`).
            OpCode::CreateTtl => return Err(self.refuse(Harm::TtlWithoutMode)),
            OpCode::CreateContainer => Owner::Container,
            _ if mode.is_ephemeral() && self.is_local => {
                return Err(ErrorCode::EphemeralOnLocalSession);
            }
            _ if mode.is_ephemeral() => {
                let owner = Owner::Session(self.session);
                // ZooKeeper logs it all the same, and ends when it applies it, or takes the znode
                // for another kind.
                if Owner::from_stored(self.session.0, self.database.rules.extended_types)
                    != Some(owner)
                {
                    return Err(self.refuse(Harm::SessionOwnsNone));
                }
                owner
            }
            // With the flags of a container too (ZooKeeper's own digest is then that of a
            // container).
            _ => Owner::None,
        };
        Ok((mode, owner))
    }

    fn create(&mut self, op_code: OpCode, create: CreateRequest<'static>, ttl: i64) -> Decided {
        let CreateRequest { path, data, acl, flags } = create;
        let (mode, owner) = self.owner(op_code, flags, ttl)?;
        let parent_path = path::parent(&path)?;
        let acl = self.storable(acl)?;
        let parent = self.view(parent_path)?;
        self.permit(&parent, perms::CREATE)?;
        let creates = parent.stat.cversion;
        let path: Cow<'static, str> = if mode.is_sequential() {
            if creates == i32::MAX {
                self.notices.push(Notice::SequenceExhausted { parent: parent_path.to_owned() });
                return Err(ErrorCode::BadArguments);
            }
            let number = match planted::is("sequence-by-living-children") {
                true => parent.num_children,
                false => creates,
            };
            Cow::Owned(format!("{path}{number:010}"))
        } else {
            path
        };
        path::validate(&path)?;
        // ZooKeeper logs a transaction here that ends it, at each start again: what is logged here
        // must stay something that it can take over.
        if quota::are_fatal_limits(&path) {
            return Err(self.refuse(Harm::FatalQuota));
        }
        if self.overlay.exists(self.database, &path) {
            return Err(ErrorCode::NodeExists);
        }
        if parent.owner.is_ephemeral() {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let data_len = data.as_deref().map_or(0, <[u8]>::len);
        self.check_quota(&path, Growth { count: 1, bytes: signed(data_len) })?;
        self.fits(acl.len() + data_len)?;
        let acl = acl.made();
        let parent_cversion = creates.saturating_add(1);
        let mut parent_after = parent.clone();
        parent_after.stat.cversion = parent_cversion;
        parent_after.num_children += 1;
        self.put_parent(&path, &parent, parent_after);
        self.put_created(&path, data.as_deref(), &acl, owner);
        let acl = Some(acl);
        Ok(match owner {
            Owner::Container => {
                Txn::CreateContainer(CreateContainerTxn { path, data, acl, parent_cversion })
            }
            Owner::Ttl(ttl) => {
                Txn::CreateTtl(CreateTtlTxn { path, data, acl, parent_cversion, ttl })
            }
            Owner::None | Owner::Session(_) => {
                let ephemeral = owner.is_ephemeral();
                let txn = CreateTxn { path, data, acl, ephemeral, parent_cversion };
                if op_code == OpCode::Create2 { Txn::Create2(txn) } else { Txn::Create(txn) }
            }
        })
    }

    fn put_created(&mut self, path: &str, data: Option<&[u8]>, acl: &[Acl<'static>], owner: Owner) {
        let zxid = self.zxid.0;
        let time = self.now.wall.0;
        let pending = Pending {
            zxid: self.zxid,
            exists: true,
            stat: StatPersisted {
                czxid: zxid,
                mzxid: zxid,
                pzxid: zxid,
                ctime: time,
                mtime: time,
                ephemeral_owner: owner.stored(),
                ..StatPersisted::default()
            },
            owner,
            num_children: 0,
            acl: Some(self.database.tree.acls().share(acl)),
            data_len: data.map_or(0, <[u8]>::len),
            content: self.content(path, data),
        };
        self.overlay.put(self.database, path, None, pending);
    }

    fn content(&self, path: &str, data: Option<&[u8]>) -> Content {
        if self.database.rules.digest {
            Content::Known(ContentDigest::new(path, data))
        } else {
            Content::Unwanted
        }
    }

    /// Records what a create or delete of `path` leaves on its parent.
    fn put_parent(&mut self, path: &str, before: &Pending, mut after: Pending) {
        after.zxid = self.zxid;
        after.stat.pzxid = if after.stat.cversion > before.stat.cversion {
            self.zxid.0
        } else {
            self.zxid.0.max(before.stat.pzxid)
        };
        if let Ok(parent) = path::parent(path) {
            self.overlay.put(self.database, parent, Some(before), after);
        }
    }

    fn delete(&mut self, delete: DeleteRequest<'static>) -> Decided {
        let DeleteRequest { path, version } = delete;
        let parent_path = path::parent(&path)?;
        if path::is_reserved(&path) {
            return Err(ErrorCode::BadArguments);
        }
        let parent = self.view(parent_path)?;
        self.permit(&parent, perms::DELETE)?;
        let node = self.view(&path)?;
        if !planted::is("delete-any-version") {
            check_version(version, node.stat.version)?;
        }
        if node.num_children > 0 {
            return Err(ErrorCode::NotEmpty);
        }
        // ZooKeeper itself may have made it.
        if quota::are_fatal_limits(&path) {
            return Err(self.refuse(Harm::FatalQuota));
        }
        self.put_deleted(&path, &parent, node);
        Ok(Txn::Delete(DeleteTxn { path }))
    }

    fn put_deleted(&mut self, path: &str, parent: &Pending, node: Pending) {
        self.overlay.shrink(self.database, path, node.data_len);
        let mut parent_after = parent.clone();
        parent_after.num_children -= 1;
        self.put_parent(path, parent, parent_after);
        let gone = Pending { zxid: self.zxid, exists: false, ..node.clone() };
        self.overlay.put(self.database, path, Some(&node), gone);
    }

    fn set_data(&mut self, set: SetDataRequest<'static>) -> Decided {
        let SetDataRequest { path, data, version } = set;
        path::validate(&path)?;
        let node = self.view(&path)?;
        self.permit(&node, perms::WRITE)?;
        let data_len = data.as_deref().map_or(0, <[u8]>::len);
        let bytes = signed(data_len) - signed(node.data_len);
        self.check_quota(&path, Growth { count: 0, bytes })?;
        if !planted::is("set-any-version") {
            check_version(version, node.stat.version)?;
        }
        if quota::are_fatal_stats(&path, data.as_deref()) {
            return Err(self.refuse(Harm::FatalQuota));
        }
        let mut after = node.clone();
        after.zxid = self.zxid;
        after.stat.version = node.stat.version.wrapping_add(1);
        after.stat.mzxid = self.zxid.0;
        after.stat.mtime = self.now.wall.0;
        after.data_len = data_len;
        after.content = self.content(&path, data.as_deref());
        let version = after.stat.version;
        self.overlay.put(self.database, &path, Some(&node), after);
        Ok(Txn::SetData(SetDataTxn { path, data, version }))
    }

    fn set_acl(&mut self, set: SetAclRequest<'static>) -> Decided {
        let SetAclRequest { path, acl, version } = set;
        path::validate(&path)?;
        let acl = self.storable(acl)?;
        let node = self.view(&path)?;
        self.permit(&node, perms::ADMIN)?;
        check_version(version, node.stat.aversion)?;
        self.fits(acl.len())?;
        let acl = acl.made();
        let mut after = node.clone();
        after.zxid = self.zxid;
        after.stat.aversion = node.stat.aversion.wrapping_add(1);
        after.acl = Some(self.database.tree.acls().share(&acl));
        let version = after.stat.aversion;
        self.overlay.put(self.database, &path, Some(&node), after);
        Ok(Txn::SetAcl(SetAclTxn { path, acl: Some(acl), version }))
    }

    fn check(&mut self, check: CheckVersionRequest<'static>) -> Decided {
        let CheckVersionRequest { path, version } = check;
        path::validate(&path)?;
        let node = self.view(&path)?;
        self.permit(&node, perms::READ)?;
        if !planted::is("check-any-version") {
            check_version(version, node.stat.version)?;
        }
        Ok(Txn::Check(CheckVersionTxn { path, version: node.stat.version.wrapping_add(1) }))
    }

    /// The session's ephemeral znodes go with it, those still in flight included.
    pub(in crate::engine) fn close_session(&mut self) -> Txn<'static> {
        let mut paths = Vec::new();
        let (mut len, most) = (size_of::<i32>(), CLOSE_PATHS_MAX.min(self.room));
        // Whoever applies it deletes what is left of the session's as well, ZooKeeper too.
        let mut list = |path_len: usize, path: &dyn Fn() -> String| {
            len = len.saturating_add(path_len + size_of::<i32>());
            if len <= most {
                paths.push(Cow::Owned(path()));
            }
        };
        for path in self.overlay.ephemerals(self.session) {
            let parent = path::parent(&path).and_then(|parent| self.view(parent));
            if let (Ok(parent), Ok(node)) = (parent, self.view(&path)) {
                self.put_deleted(&path, &parent, node);
                list(path.len(), &|| path.to_string());
            }
        }
        self.overlay.close(self.database, self.session, self.zxid, list);
        paths.sort_unstable();
        Txn::CloseSession(CloseSessionTxn { paths_to_delete: paths })
    }

    /// Deletes a container or a znode with a time to live, if it is still time.
    pub(in crate::engine) fn reap(&mut self, path: &str) -> Option<Txn<'static>> {
        let node = self.view(path).ok().filter(|node| node.num_children == 0)?;
        let is_due = reaper::is_due(
            node.owner,
            node.stat.cversion,
            node.stat.mtime,
            self.database.rules.max_never_used_ms,
            self.now.wall,
        );
        let parent = path::parent(path).and_then(|parent| self.view(parent)).ok()?;
        if !is_due || path::is_reserved(path) || quota::are_fatal_limits(path) {
            return None;
        }
        self.put_deleted(path, &parent, node);
        Some(Txn::DeleteContainer(DeleteTxn { path: Cow::Owned(path.to_owned()) }))
    }

    /// Makes another list of servers that of the ensemble, as of this transaction. `None` where
    /// there is no znode for it, as in what ZooKeeper 3.4 left.
    pub(in crate::engine) fn set_list(&mut self, servers: &Servers) -> Option<Txn<'static>> {
        let node = self.view(path::CONFIG).ok()?;
        let list = ServerList { servers: servers.clone(), version: self.zxid.0 };
        let data = list.text().into_bytes();
        let mut after = node.clone();
        after.zxid = self.zxid;
        // As ZooKeeper has it (`PrepRequestProcessor`).
        after.stat.version = ANY_VERSION;
        after.stat.mzxid = self.zxid.0;
        after.stat.mtime = self.now.wall.0;
        after.data_len = data.len();
        after.content = self.content(path::CONFIG, Some(&data));
        self.overlay.put(self.database, path::CONFIG, Some(&node), after);
        let (path, version) = (Cow::Borrowed(path::CONFIG), ANY_VERSION);
        Some(Txn::Reconfig(SetDataTxn { path, data: Some(data.into()), version }))
    }

    /// Whether a change stays within the quota it falls under, counting what is applied and what
    /// earlier requests have in flight, and if so remembers it.
    fn check_quota(&mut self, path: &str, growth: Growth) -> Result<(), ErrorCode> {
        if !self.database.rules.enforce_quota || planted::is("hard-quota-off") {
            return Ok(());
        }
        let quotas = &self.database.quotas;
        let Some((folder, limited)) = self.database.deepest_quota(path) else { return Ok(()) };
        let Some(limits) = quotas.limits(folder) else { return Ok(()) };
        // What cannot be read limits nothing and refuses everything, as in ZooKeeper. Statistics
        // are asked for last.
        let limits = limits.or(Err(ErrorCode::MarshallingError))?;
        if limits.concern(growth) {
            let Some(used) = quotas.used(folder) else { return Ok(()) };
            let used = used.or(Err(ErrorCode::MarshallingError))?;
            match quota::judge(&limits, used.plus(self.overlay.growth(limited)), growth) {
                QuotaVerdict::Exceeded => {
                    self.notices.push(Notice::QuotaRefused { limited: limited.to_owned() });
                    return Err(ErrorCode::QuotaExceeded);
                }
                QuotaVerdict::Warned => self.notices.push(Notice::QuotaExceeded {
                    limited: limited.to_owned(),
                    path: path.to_owned(),
                }),
                QuotaVerdict::Within => {}
            }
        }
        self.overlay.grow(limited, growth);
        Ok(())
    }

    fn refuse(&mut self, harm: Harm) -> ErrorCode {
        self.notices.push(Notice::RefusedOnPurpose { session: self.session, harm });
        ErrorCode::BadArguments
    }

    fn view(&self, path: &str) -> Result<Pending, ErrorCode> {
        self.overlay.view(self.database, path).ok_or(ErrorCode::NoNode)
    }

    fn storable(&self, list: Option<Vec<Acl<'static>>>) -> Result<Storable<'a>, ErrorCode> {
        let Self { identities, database: Database { rules, .. }, .. } = *self;
        let fixup =
            Fixup { identities, digest_scheme: rules.digest_scheme, bytes_max: rules.record_max };
        fixup.storable(list)
    }

    fn permit(&mut self, node: &Pending, perm: i32) -> Result<(), ErrorCode> {
        let Self { identities, database: Database { rules, .. }, looked_up, .. } = self;
        match &node.acl {
            Some(list) if !rules.skip_acl && !identities.may_at(list, perm, looked_up) => {
                Err(ErrorCode::NoAuth)
            }
            _ => Ok(()),
        }
    }
}

/// A length as a difference of lengths.
fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

fn check_version(expected: i32, current: i32) -> Result<(), ErrorCode> {
    if expected == ANY_VERSION || expected == current { Ok(()) } else { Err(ErrorCode::BadVersion) }
}
