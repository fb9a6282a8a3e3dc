//! Applying finished transactions. Nothing is decided here: what a transaction says is done, or
//! cannot be.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashSet;
use jute::Acl;
use jute::protocol::{Create2Response, CreateResponse, MultiResult, Response};
use jute::txn::{
    CloseSessionTxn, DIGEST_VERSION, DeleteTxn, SetAclTxn, SetDataTxn, Txn, TxnDigest, TxnHeader,
};

use super::access::acl::AclList;
use super::database::Database;
use super::lineage::Lineage;
use super::owner::Owner;
use super::quota::{self, Growth};
use super::session::SessionId;
use super::tree::znode::NodeId;
use super::tree::{Creation, Impossible};
use super::watch::{Change, Tell};
use super::zxid::Zxid;
use crate::planted;

/// To be raised with every change of what is made of a transaction that an earlier release may have
/// applied as well: the trees of servers with different numbers say nothing about each other. The
/// digests in records have no such number. A member only counts and tells those that differ, but a
/// server alone refuses the first one after its snapshot, which may then be an earlier release's.
pub const APPLY_VERSION: u16 = 1;

/// What to do with a transaction that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It cannot be: stop.
    Strict,
    /// Other servers have it: it is done as ZooKeeper does it, by its own numbers and as far as it
    /// can be, and told of (`DataTree.processTxn`).
    Agreed,
    /// After a snapshot that was written while transactions went on, part of them is done already
    /// (`DataTree.serialize`).
    Tolerant,
}

/// A create of any kind, as its transaction has it.
struct Create<'a> {
    path: &'a str,
    data: Option<&'a [u8]>,
    acl: &'a [Acl<'a>],
    owner: Owner,
    parent_cversion: i32,
    /// Whether a create that was done already still moves the parent's counters: only the plain
    /// create does.
    counts_twice: bool,
}

impl Database {
    /// Applies a transaction and gives its answer; the events for watchers go to `events` as they
    /// come about.
    ///
    /// # Errors
    /// [`Impossible`] in [`Mode::Strict`], when the transaction does not fit, and when the tree is
    /// full. A multi may then be half done: the caller must stop.
    pub fn apply<'t>(
        &mut self,
        header: &TxnHeader,
        txn: Txn<'t>,
        digest: Option<TxnDigest>,
        mode: Mode,
        events: &mut dyn Tell,
    ) -> Result<Response<'t>, Impossible> {
        // Whoever wants to do it elsewhere has taken it.
        drop(self.take_gone());
        self.misfits.begin();
        let response = match txn {
            Txn::Multi(txns) => {
                if txns.iter().any(|txn| matches!(txn, Txn::Error(_))) {
                    Response::Empty
                } else {
                    let results = txns
                        .into_iter()
                        .map(|txn| self.apply_part(header, txn, mode, events))
                        .collect::<Result<_, _>>()?;
                    Response::Multi(results)
                }
            }
            Txn::CreateSession(txn) => {
                self.sessions.insert(SessionId(header.client_id), txn.timeout_ms);
                Response::Empty
            }
            Txn::CloseSession(txn) => {
                self.close_session(header, &txn, mode, events)?;
                self.misfits.nothing_undone();
                Response::Empty
            }
            Txn::Error(_) => Response::Empty,
            txn => match self.apply_part(header, txn, mode, events)? {
                MultiResult::Create(path) => Response::Create(CreateResponse { path }),
                MultiResult::Create2(path, stat) => {
                    Response::Create2(Create2Response { path, stat })
                }
                MultiResult::SetData(stat) => Response::Stat(stat),
                _ => Response::Empty,
            },
        };
        self.write_statistics();
        // ZooKeeper only complains of a zxid that falls, in logs that overlap, and goes on from the
        // highest.
        self.last_zxid = match mode {
            Mode::Strict | Mode::Agreed => Zxid(header.zxid),
            Mode::Tolerant => self.last_zxid.max(Zxid(header.zxid)),
        };
        let said = digest.filter(|digest| digest.version == DIGEST_VERSION);
        self.end_misfits(self.last_zxid, said.map(|said| said.tree_digest));
        self.log_digest();
        Ok(response)
    }

    /// Applies one part of a multi, or a transaction by itself.
    fn apply_part<'t>(
        &mut self,
        header: &TxnHeader,
        txn: Txn<'t>,
        mode: Mode,
        events: &mut dyn Tell,
    ) -> Result<MultiResult<'t>, Impossible> {
        let is_create2 = matches!(txn, Txn::Create2(_));
        match txn {
            Txn::Create(txn) | Txn::Create2(txn) => {
                let owner = match txn.ephemeral {
                    true => self.ephemeral_owner(header.client_id, &txn.path),
                    false => Ok(Owner::None),
                };
                let owner = match owner {
                    Err(error) if mode == Mode::Agreed => {
                        self.misfits.add_undone(error);
                        return Ok(MultiResult::Create(txn.path));
                    }
                    owner => owner?,
                };
                let create = Create {
                    path: &txn.path,
                    data: txn.data.as_deref(),
                    acl: txn.acl.as_deref().unwrap_or_default(),
                    owner,
                    parent_cversion: txn.parent_cversion,
                    counts_twice: !is_create2,
                };
                let made = self.create(header, &create, mode, events)?;
                Ok(if is_create2 {
                    MultiResult::Create2(txn.path, self.stat_of_new(made, txn.data.as_deref()))
                } else {
                    MultiResult::Create(txn.path)
                })
            }
            Txn::CreateContainer(txn) => {
                let create = Create {
                    path: &txn.path,
                    data: txn.data.as_deref(),
                    acl: txn.acl.as_deref().unwrap_or_default(),
                    owner: Owner::Container,
                    parent_cversion: txn.parent_cversion,
                    counts_twice: false,
                };
                let made = self.create(header, &create, mode, events)?;
                Ok(MultiResult::Create2(txn.path, self.stat_of_new(made, txn.data.as_deref())))
            }
            Txn::CreateTtl(txn) => {
                let create = Create {
                    path: &txn.path,
                    data: txn.data.as_deref(),
                    acl: txn.acl.as_deref().unwrap_or_default(),
                    owner: Owner::of_ttl(txn.ttl, self.rules.extended_types),
                    parent_cversion: txn.parent_cversion,
                    counts_twice: false,
                };
                let made = self.create(header, &create, mode, events)?;
                Ok(MultiResult::Create2(txn.path, self.stat_of_new(made, txn.data.as_deref())))
            }
            Txn::Delete(DeleteTxn { path }) | Txn::DeleteContainer(DeleteTxn { path }) => {
                self.delete(header, &path, mode, events)?;
                Ok(MultiResult::Delete)
            }
            Txn::SetData(txn) | Txn::Reconfig(txn) => {
                let node = self.set_data(header, &txn, mode, events)?;
                Ok(MultiResult::SetData(self.stat_of(node)))
            }
            Txn::SetAcl(txn) => {
                let node = self.set_acl(txn, mode)?;
                Ok(MultiResult::SetData(self.stat_of(node)))
            }
            Txn::Check(_) => Ok(checked()),
            // A multi holds none of these; by themselves they are taken care of before.
            Txn::Error(_) | Txn::Multi(_) | Txn::CreateSession(_) | Txn::CloseSession(_) => {
                Ok(MultiResult::Error(0))
            }
        }
    }

    /// Who owns an ephemeral znode: as with ZooKeeper what a snapshot's reader will take the
    /// session's id for.
    fn ephemeral_owner(&self, session: i64, path: &str) -> Result<Owner, Impossible> {
        Owner::from_stored(session, self.rules.extended_types)
            .ok_or_else(|| Impossible::UnknownOwner { path: path.into(), owner: session })
    }

    /// Who may be told of a change; without ACLs, anyone.
    fn asked<'a>(&self, readers: Option<&'a AclList>) -> Option<&'a AclList> {
        readers.filter(|_| !self.rules.skip_acl)
    }

    fn stat_of(&self, node: Option<NodeId>) -> jute::Stat {
        node.map(|node| self.tree.stat(node)).unwrap_or_default()
    }

    /// As the client made it: a zookeeper_stats gets the server's own text only after that
    /// (`DataTree.createNode`).
    fn stat_of_new(&self, node: Option<NodeId>, data: Option<&[u8]>) -> jute::Stat {
        let data_length = i32::try_from(len(data)).unwrap_or(i32::MAX);
        node.map(|node| jute::Stat { data_length, ..self.tree.stat(node) }).unwrap_or_default()
    }

    fn create(
        &mut self,
        header: &TxnHeader,
        create: &Create<'_>,
        mode: Mode,
        events: &mut dyn Tell,
    ) -> Result<Option<NodeId>, Impossible> {
        let zxid = Zxid(header.zxid);
        let Create { path, acl, .. } = *create;
        let Some(parent) = self.tree.parent_of(path) else {
            return self.pass_over(mode, Impossible::NoNode(path.into()));
        };
        let before = self.tree.stat_persisted(parent).cversion;
        let next = before.saturating_add(1);
        let creates = if create.parent_cversion == -1 { next } else { create.parent_cversion };
        if creates != next && mode != Mode::Tolerant {
            let path = self.tree.path(parent);
            self.believe(mode, Impossible::Version { path, ours: next, theirs: creates })?;
        }
        let (data, owner, time) = (create.data, create.owner, header.time);
        let made = self.tree.create(parent, &Creation { path, data, acl, owner, zxid, time });
        let (node, changed) = match made {
            Ok(made) => made,
            Err(error @ Impossible::NodeExists(_)) if mode != Mode::Strict => {
                if let Some(node) = self.tree.find(path) {
                    let aversion = self.tree.stat_persisted(node).aversion;
                    self.tree.set_acl(node, path, acl.to_vec(), aversion);
                }
                if create.counts_twice && creates > before {
                    self.tree.set_counters(parent, above(path), creates, zxid);
                }
                return self.pass_over(mode, error);
            }
            Err(error) => return Err(error),
        };
        if creates > before {
            self.tree.set_counters(parent, above(path), creates, zxid);
        } else if creates == next {
            // The counter at its end stays there, and what was made shows all the same.
            self.tree.raise_pzxid(parent, above(path), zxid);
        }
        self.add_quota(node, path);
        let count = i64::from(!planted::is("creates-uncounted"));
        self.grow_quota(path, Growth { count, bytes: len(create.data) });
        let change = Change {
            path,
            zxid,
            readers: self.asked(changed.node_acl.as_ref()),
            parent_readers: self.asked(changed.parent_acl.as_ref()),
        };
        self.watches.get_mut().created(&change, events);
        Ok(Some(node))
    }

    fn delete(
        &mut self,
        header: &TxnHeader,
        path: &str,
        mode: Mode,
        events: &mut dyn Tell,
    ) -> Result<(), Impossible> {
        let zxid = Zxid(header.zxid);
        let node = self.tree.find(path);
        if let Some(node) = node
            && mode != Mode::Strict
            && node != NodeId::ROOT
            && self.tree.num_children(node) > 0
        {
            self.delete_below(header, node, path, mode, events)?;
        }
        let parent = match node {
            Some(node) => Some(self.tree.parent(node)),
            None => self.tree.parent_of(path),
        };
        let data_len = node.map_or(0, |node| signed(self.replaced_len(node, path)));
        let deleted = match node {
            Some(node) => self.tree.delete(node, path),
            None => Err(Impossible::NoNode(path.into())),
        };
        if let Some(parent) = parent
            && (deleted.is_ok() || mode != Mode::Strict)
        {
            self.tree.raise_pzxid(parent, above(path), zxid);
        }
        let changed = match deleted {
            Ok(changed) => changed,
            Err(error) => return self.pass_over(mode, error).map(|_| ()),
        };
        if let Some(parent) = parent {
            self.remove_quota(parent, path);
        }
        self.grow_quota(path, Growth { count: -1, bytes: -data_len });
        let change = Change {
            path,
            zxid,
            readers: self.asked(changed.node_acl.as_ref()),
            parent_readers: self.asked(changed.parent_acl.as_ref()),
        };
        self.watches.get_mut().deleted(&change, events);
        Ok(())
    }

    /// A znode that goes has no children. Those that a fuzzy snapshot shows belong to one of the
    /// same name that was made later, and come again with it. Those that another server's tree did
    /// not have go as well. (ZooKeeper leaves them without a parent, up to the next start.)
    fn delete_below(
        &mut self,
        header: &TxnHeader,
        node: NodeId,
        path: &str,
        mode: Mode,
        events: &mut dyn Tell,
    ) -> Result<(), Impossible> {
        if mode == Mode::Agreed {
            self.misfits.add(Impossible::NotEmpty(path.into()));
        }
        let mut below = Vec::new();
        self.tree.for_each_below(node, |id, _| below.push(self.tree.path(id)));
        // Numbers of znodes are not the same everywhere, and names are.
        below.sort_unstable();
        below.iter().rev().try_for_each(|path| self.delete(header, path, Mode::Tolerant, events))
    }

    fn set_data(
        &mut self,
        header: &TxnHeader,
        txn: &SetDataTxn<'_>,
        mode: Mode,
        events: &mut dyn Tell,
    ) -> Result<Option<NodeId>, Impossible> {
        let zxid = Zxid(header.zxid);
        let Some(node) = self.tree.find(&txn.path) else {
            return self.pass_over(mode, Impossible::NoNode(txn.path.to_string()));
        };
        let ours = self.tree.stat_persisted(node).version.wrapping_add(1);
        // Reconfig leaves the config znode at version -1 (`PrepRequestProcessor`).
        if mode != Mode::Tolerant && ours != txn.version && txn.version != -1 {
            let path = txn.path.to_string();
            self.believe(mode, Impossible::Version { path, ours, theirs: txn.version })?;
        }
        let data = txn.data.as_deref();
        let bytes = len(data) - signed(self.replaced_len(node, &txn.path));
        self.tree.set_data(node, &txn.path, data, txn.version, zxid, header.time);
        self.read_quota(node, &txn.path);
        self.grow_quota(&txn.path, Growth { count: 0, bytes });
        let readers = self.tree.readers(node);
        let change = Change {
            path: super::path::canonical(&txn.path),
            zxid,
            readers: self.asked(readers.as_ref()),
            parent_readers: None,
        };
        self.watches.get_mut().data_changed(&change, events);
        Ok(Some(node))
    }

    fn set_acl(&mut self, txn: SetAclTxn<'_>, mode: Mode) -> Result<Option<NodeId>, Impossible> {
        let Some(node) = self.tree.find(&txn.path) else {
            return self.pass_over(mode, Impossible::NoNode(txn.path.to_string()));
        };
        let ours = self.tree.stat_persisted(node).aversion.wrapping_add(1);
        if mode != Mode::Tolerant && ours != txn.version {
            let path = txn.path.to_string();
            self.believe(mode, Impossible::Version { path, ours, theirs: txn.version })?;
        }
        let acl = txn.acl.unwrap_or_default();
        self.tree.set_acl(node, &txn.path, acl, txn.version);
        Ok(Some(node))
    }

    /// Deletes what the transaction lists, then what is left of the session's: logs before
    /// ZooKeeper 3.6 list nothing.
    fn close_session(
        &mut self,
        header: &TxnHeader,
        txn: &CloseSessionTxn<'_>,
        mode: Mode,
        events: &mut dyn Tell,
    ) -> Result<(), Impossible> {
        let session = SessionId(header.client_id);
        for path in &txn.paths_to_delete {
            self.delete(header, path, mode, events)?;
        }
        let left: Vec<NodeId> = self.tree.ephemerals(session).collect();
        let has_children = |node: &NodeId| self.tree.num_children(*node) > 0;
        match mode {
            Mode::Strict => self.delete_left(header, left, events)?,
            Mode::Agreed if !left.iter().any(has_children) => {
                self.delete_left(header, left, events)?;
            }
            Mode::Agreed | Mode::Tolerant => {
                // In an order that is the same everywhere; the parts of a quota go last.
                let is_of_quota =
                    |node| matches!(self.tree.name(node), quota::LIMITS | quota::STATS);
                let told = |node: NodeId| (is_of_quota(node), self.tree.path(node));
                let left: BTreeSet<(bool, String)> = left.into_iter().map(told).collect();
                for (_, path) in left {
                    let owner = self.tree.find(&path).map(|node| self.tree.owner(node));
                    // One may have gone with another.
                    if owner == Some(Owner::Session(session)) {
                        self.delete(header, &path, mode, events)?;
                    }
                }
            }
        }
        self.sessions.remove(&session);
        Ok(())
    }

    /// Deletes ephemeral znodes as [`Self::delete`] does each. They can be very many below very
    /// long names: what is above them is looked at once, and their paths are written only where
    /// somebody is told of them.
    fn delete_left(
        &mut self,
        header: &TxnHeader,
        left: Vec<NodeId>,
        events: &mut dyn Tell,
    ) -> Result<(), Impossible> {
        let zxid = Zxid(header.zxid);
        // The parts of a quota go last: what belongs to it is counted by them.
        let (of_quotas, left): (Vec<_>, Vec<_>) = left
            .into_iter()
            .partition(|node| matches!(self.tree.name(*node), quota::LIMITS | quota::STATS));
        let hasher = self.watches.get_mut().hasher();
        let mut lineage = Lineage::new(hasher, self);
        let mut grown: BTreeMap<NodeId, Growth> = BTreeMap::new();
        let mut counted = HashSet::new();
        for node in left {
            let watches = self.watches.lock();
            let parent = self.tree.parent(node);
            let above = lineage.of(self, Some(&watches), parent);
            let name = self.tree.name(node);
            let at = above.child(self, node, name);
            let is_told = watches.count() > 0
                && (above.is_watched_below
                    || watches.may_tell(at.key(name), above.key(self.tree.name(parent))));
            drop(watches);
            let path = is_told.then(|| self.tree.path(node));
            let growth = Growth { count: -1, bytes: -len(self.tree.data(node)) };
            if at.limited == Some(node) {
                let path = self.tree.path(node);
                self.grow_quota(&path, growth);
            } else if let Some(limited) = at.limited {
                grown.entry(limited).or_default().add(growth);
            }
            let changed = self.tree.delete_at(node, at.len, &at.digest)?;
            if counted.insert(parent) {
                self.tree.raise_pzxid_at(parent, &above.digest, zxid);
            }
            if let Some(path) = path {
                let change = Change {
                    path: &path,
                    zxid,
                    readers: self.asked(changed.node_acl.as_ref()),
                    parent_readers: self.asked(changed.parent_acl.as_ref()),
                };
                self.watches.get_mut().deleted(&change, events);
            }
        }
        for (limited, growth) in grown {
            let path = self.tree.path(limited);
            self.grow_quota(&path, growth);
        }
        for node in of_quotas {
            let path = self.tree.path(node);
            self.delete(header, &path, Mode::Strict, events)?;
        }
        Ok(())
    }

    /// Passes over what cannot be done, where that is no reason to stop.
    fn pass_over(&mut self, mode: Mode, reason: Impossible) -> Result<Option<NodeId>, Impossible> {
        match mode {
            Mode::Strict => return Err(reason),
            Mode::Agreed => self.misfits.add_undone(reason),
            Mode::Tolerant => {}
        }
        Ok(None)
    }

    /// Takes a transaction's number instead of the tree's, where that is no reason to stop.
    fn believe(&mut self, mode: Mode, reason: Impossible) -> Result<(), Impossible> {
        if mode == Mode::Strict {
            return Err(reason);
        }
        self.misfits.add(reason);
        Ok(())
    }
}

/// What is said of a check that held.
fn checked<'t>() -> MultiResult<'t> {
    if planted::is("check-as-delete") { MultiResult::Delete } else { MultiResult::Check }
}

/// The parent's path; the root's is empty.
fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Bytes of data; null has none.
fn len(data: Option<&[u8]>) -> i64 {
    signed(data.map_or(0, <[u8]>::len))
}

/// A length as a difference of lengths.
fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}
