//! An ACL list as it is stored: its entries, and what it grants to whom.
//!
//! A list can have tens of thousands of entries or an id of a megabyte, and a client thousands of
//! identities: neither is held against all of the other, or gone through at each check. A long list
//! finds what it grants to one identity by hash.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::BuildHasher as _;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use jute::{Acl, perms};

use super::identity::Identity;
use super::scheme::{self, IpPrefix};

/// Ids that are looked at one after the other, without more memory than their own; in
/// [looks](scheme::looks).
pub(super) const FEW: usize = 8;

/// A list as it is stored, shared by all that have it.
#[derive(Clone)]
pub struct AclList(Arc<Stored>);

struct Stored {
    mark: ListMark,
    entries: Box<[Acl<'static>]>,
    /// What `world:anyone` may do.
    anyone: i32,
    /// What it costs to go through it.
    looks: usize,
    /// Of a long list, once it is asked for.
    grants: OnceLock<Grants>,
}

impl AclList {
    /// Makes a list that can be stored.
    #[must_use]
    pub fn new(entries: &[Acl<'_>]) -> Self {
        Self::stored(entries.iter().map(kept).collect())
    }

    /// The same of entries that are given away.
    pub(in crate::engine) fn of(entries: Vec<Acl<'_>>) -> Self {
        Self::stored(entries.into_iter().map(kept_owned).collect())
    }

    fn stored(entries: Box<[Acl<'static>]>) -> Self {
        let (mark, grants) = (ListMark::next(), OnceLock::new());
        let looks = entries.iter().map(|acl| scheme::looks(acl.id.as_deref().unwrap_or_default()));
        let (anyone, looks) = (anyone(&entries), looks.sum());
        Self(Arc::new(Stored { mark, anyone, looks, entries, grants }))
    }

    /// What `world:anyone` may do; everything where the list is empty.
    #[must_use]
    pub fn anyone(&self) -> i32 {
        self.0.anyone
    }

    /// Whether it takes no memory or time worth speaking of.
    pub(in crate::engine) fn is_short(&self) -> bool {
        self.looks() <= FEW
    }

    /// What it costs to go through it, in looks at short entries.
    pub(in crate::engine) fn looks(&self) -> usize {
        self.0.looks
    }

    /// What it grants to one identity.
    pub(super) fn granted_to(&self, identity: &Identity) -> i32 {
        let Stored { entries, grants, .. } = &*self.0;
        if self.is_short() {
            let its = entries.iter().filter(|acl| scheme::matches(acl, identity));
            return its.fold(0, |perms, acl| perms | acl.perms);
        }
        grants.get_or_init(|| Grants::of(entries)).to(entries, identity)
    }

    /// What it costs first where it is asked what it grants to an identity: its entries are hashed.
    pub(super) fn to_hash(&self) -> usize {
        if self.is_short() || self.0.grants.get().is_some() { 0 } else { self.looks() }
    }

    /// What knows this list again, and keeps nothing of it.
    pub(in crate::engine) fn mark(&self) -> ListMark {
        self.0.mark
    }
}

/// Knows one list again: each that this process makes has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::engine) struct ListMark(u64);

impl ListMark {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Deref for AclList {
    type Target = [Acl<'static>];

    fn deref(&self) -> &[Acl<'static>] {
        &self.0.entries
    }
}

impl fmt::Debug for AclList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.entries.fmt(f)
    }
}

impl PartialEq for AclList {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.entries == other.0.entries
    }
}

impl Eq for AclList {}

/// An entry as it is kept.
fn kept(acl: &Acl<'_>) -> Acl<'static> {
    if is_anyone(acl) {
        return Acl::anyone(acl.perms);
    }
    let scheme = acl.scheme.as_deref().map(kept_scheme);
    let id = acl.id.as_deref().map(|id| Cow::Owned(id.to_owned()));
    Acl { perms: acl.perms, scheme, id }
}

/// The same of one that is given away.
pub(super) fn kept_owned(acl: Acl<'_>) -> Acl<'static> {
    if is_anyone(&acl) {
        return Acl::anyone(acl.perms);
    }
    let scheme = acl.scheme.as_deref().map(kept_scheme);
    Acl { perms: acl.perms, scheme, id: acl.id.map(|id| Cow::Owned(id.into_owned())) }
}

/// The name of a scheme; that of a usual one takes no memory.
pub(super) fn kept_scheme(scheme: &str) -> Cow<'static, str> {
    match scheme {
        "digest" => Cow::Borrowed("digest"),
        "ip" => Cow::Borrowed("ip"),
        _ => Cow::Owned(scheme.to_owned()),
    }
}

/// Whether an entry speaks of everybody.
pub(super) fn is_anyone(acl: &Acl<'_>) -> bool {
    acl.scheme.as_deref() == Some("world") && acl.id.as_deref() == Some("anyone")
}

fn anyone(list: &[Acl<'_>]) -> i32 {
    if list.is_empty() {
        return perms::ALL;
    }
    list.iter().filter(|acl| is_anyone(acl)).fold(0, |perms, acl| perms | acl.perms)
}

/// What a long list grants, by identity.
struct Grants {
    hasher: DefaultHashBuilder,
    /// For each id of `digest` its first entry, and what all its entries grant.
    digests: HashTable<(usize, i32)>,
    addresses: HashMap<IpPrefix, i32>,
    /// Lengths of the prefixes, with those of IPv4 apart: few, however many prefixes there are.
    lengths: BTreeSet<(bool, u32)>,
}

impl Grants {
    fn of(entries: &[Acl<'_>]) -> Self {
        let mut grants = Self {
            hasher: DefaultHashBuilder::default(),
            digests: HashTable::new(),
            addresses: HashMap::new(),
            lengths: BTreeSet::new(),
        };
        for (at, acl) in entries.iter().enumerate() {
            match (acl.scheme.as_deref(), acl.id.as_deref()) {
                (Some("digest"), Some(id)) => grants.add_digest(entries, at, id, acl.perms),
                (Some("ip"), Some(id)) => grants.add_address(id, acl.perms),
                _ => {}
            }
        }
        grants
    }

    fn add_digest(&mut self, entries: &[Acl<'_>], at: usize, id: &str, perms: i32) {
        let Self { hasher, digests, .. } = self;
        let is_it = |(first, _): &(usize, i32)| id_at(entries, *first) == id;
        let hash = |(first, _): &(usize, i32)| hasher.hash_one(id_at(entries, *first));
        match digests.entry(hasher.hash_one(id), is_it, hash) {
            Entry::Occupied(mut known) => known.get_mut().1 |= perms,
            Entry::Vacant(place) => drop(place.insert((at, perms))),
        }
    }

    fn add_address(&mut self, id: &str, perms: i32) {
        scheme::look_at(id);
        let Some(prefix) = IpPrefix::parse(id) else { return };
        self.lengths.insert(prefix.length());
        *self.addresses.entry(prefix).or_default() |= perms;
    }

    fn to(&self, entries: &[Acl<'_>], identity: &Identity) -> i32 {
        match identity.scheme.as_str() {
            "digest" => {
                scheme::hash(&identity.id);
                let hash = self.hasher.hash_one(identity.id.as_str());
                let found = self.digests.find(hash, |(at, _)| id_at(entries, *at) == identity.id);
                found.map_or(0, |(_, perms)| *perms)
            }
            "ip" => {
                let Some(address) = scheme::parse_address(&identity.id) else { return 0 };
                let of = self.lengths.iter().filter_map(|(is_v4, bits)| {
                    let prefix =
                        (*is_v4 == address.is_ipv4()).then(|| IpPrefix::of(address, *bits))?;
                    self.addresses.get(&prefix)
                });
                of.fold(0, |perms, more| perms | more)
            }
            _ => 0,
        }
    }
}

fn id_at<'a>(entries: &'a [Acl<'_>], at: usize) -> &'a str {
    let id = entries.get(at).and_then(|acl| acl.id.as_deref()).unwrap_or_default();
    scheme::look_at(id);
    id
}
