//! Access control: who a connection is, what a list permits, and the table of lists (reference 8).

use std::sync::Arc;

use hashbrown::HashMap;
use jute::{Acl, ErrorCode, perms};

use super::scheme;

/// One identity of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// `ip`, `digest`, `super`, ...
    pub scheme: String,
    /// What the scheme knows the client by.
    pub id: String,
}

/// A list as it is stored and shared.
pub type AclList = Arc<[Acl<'static>]>;

/// The number of a list in the [`AclTable`]; 0 is no list: anyone may do anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct AclId(pub u32);

impl AclId {
    /// No list.
    pub const OPEN: Self = Self(0);

    /// The number in a snapshot: ZooKeeper writes -1 for no list.
    #[must_use]
    pub fn stored(self) -> i64 {
        if self == Self::OPEN { -1 } else { i64::from(self.0) }
    }
}

/// A list with what is asked of it most.
#[derive(Debug)]
struct Entry {
    list: AclList,
    /// What `world:anyone` may do.
    anyone: i32,
    /// Znodes that use it.
    uses: u64,
}

/// Every list once, however many znodes share it.
#[derive(Debug, Default)]
pub struct AclTable {
    entries: Vec<Option<Entry>>,
    /// Slots of `entries` that hold nothing.
    free: Vec<usize>,
    ids: HashMap<AclList, AclId>,
    /// Whether znodes may come whose list was made while their snapshot was written.
    is_fuzzy: bool,
    /// What such znodes have until the log tells.
    awaited: Option<AclId>,
}

impl AclTable {
    /// The number of a list, with one more use.
    pub fn intern(&mut self, list: &[Acl<'_>]) -> AclId {
        if let Some(&id) = self.ids.get(list) {
            self.retain(id);
            return id;
        }
        let list: AclList = list.iter().cloned().map(jute::IntoStatic::into_static).collect();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        let id = Self::id_of(slot);
        self.put(slot, list, id);
        self.retain(id);
        id
    }

    /// A list as it is stored, shared with the znodes that have it.
    pub fn share(&self, list: &[Acl<'static>]) -> AclList {
        self.ids.get_key_value(list).map_or_else(|| list.into(), |(list, _)| Arc::clone(list))
    }

    /// Puts a list where a snapshot had it, unused as yet.
    ///
    /// # Errors
    /// The number itself when it is not one that a table can have.
    pub fn load(&mut self, stored: i64, list: &[Acl<'_>]) -> Result<AclId, i64> {
        /// Beyond what interning can give out; guards the table's size against a damaged snapshot.
        const MAX: i64 = 1 << 24;
        if !(1..=MAX).contains(&stored) {
            return Err(stored);
        }
        let slot = usize::try_from(stored - 1).map_err(|_| stored)?;
        if self.entries.len() <= slot {
            self.entries.resize_with(slot + 1, || None);
        }
        let id = Self::id_of(slot);
        let list = list.iter().cloned().map(jute::IntoStatic::into_static).collect();
        self.put(slot, list, id);
        Ok(id)
    }

    /// Takes znodes of a snapshot that ZooKeeper wrote while lists were made: it writes the lists first, and then
    /// znodes with the lists that they have by now.
    pub const fn expect_fuzzy(&mut self) {
        self.is_fuzzy = true;
    }

    /// The list that a znode of a snapshot names. One that the log is still to bring lets nobody in until then.
    pub fn of_snapshot(&mut self, stored: i64) -> Option<AclId> {
        let id = AclId(u32::try_from(stored).ok().filter(|id| *id > 0)?);
        if self.contains(id) {
            return Some(id);
        }
        self.is_fuzzy.then(|| self.awaited())
    }

    fn awaited(&mut self) -> AclId {
        if let Some(id) = self.awaited {
            return id;
        }
        let list: AclList = [Acl::anyone(0)].into();
        let id = Self::id_of(self.entries.len());
        // Not in the index: a client's own list of this content is another one.
        self.entries.push(Some(Entry { anyone: anyone(&list), list, uses: 0 }));
        self.awaited = Some(id);
        id
    }

    /// Znodes whose list the log has not brought.
    #[must_use]
    pub fn still_awaited(&self) -> u64 {
        self.awaited.and_then(|id| self.entry(id)).map_or(0, |entry| entry.uses)
    }

    /// Forgets the lists that no znode uses.
    pub fn purge_unused(&mut self) {
        self.free.clear();
        for (slot, entry) in self.entries.iter_mut().enumerate() {
            if entry.as_ref().is_none_or(|entry| entry.uses == 0) {
                *entry = None;
                self.free.push(slot);
            }
        }
        let entries = &self.entries;
        self.ids.retain(|_, id| matches!(entries.get(id.0 as usize - 1), Some(Some(_))));
    }

    fn id_of(slot: usize) -> AclId {
        AclId(u32::try_from(slot + 1).unwrap_or(u32::MAX))
    }

    fn put(&mut self, slot: usize, list: AclList, id: AclId) {
        self.ids.insert(Arc::clone(&list), id);
        if let Some(entry) = self.entries.get_mut(slot) {
            *entry = Some(Entry { anyone: anyone(&list), list, uses: 0 });
        }
    }

    fn entry(&self, id: AclId) -> Option<&Entry> {
        self.entries.get((id.0 as usize).checked_sub(1)?)?.as_ref()
    }

    fn entry_mut(&mut self, id: AclId) -> Option<&mut Entry> {
        self.entries.get_mut((id.0 as usize).checked_sub(1)?)?.as_mut()
    }

    /// One more use of a list.
    pub fn retain(&mut self, id: AclId) {
        if let Some(entry) = self.entry_mut(id) {
            entry.uses += 1;
        }
    }

    /// One use less; the last one forgets the list.
    pub fn release(&mut self, id: AclId) {
        let Some(entry) = self.entry_mut(id) else { return };
        entry.uses = entry.uses.saturating_sub(1);
        if entry.uses > 0 {
            return;
        }
        // A damaged table of a snapshot can hold a list twice; only its last number is in the index.
        let list = Arc::clone(&entry.list);
        if self.ids.get(&list) == Some(&id) {
            self.ids.remove(&list);
        }
        if self.awaited == Some(id) {
            self.awaited = None;
        }
        let slot = id.0 as usize - 1;
        if let Some(entry) = self.entries.get_mut(slot) {
            *entry = None;
            self.free.push(slot);
        }
    }

    /// The list; `None` where there is none.
    #[must_use]
    pub fn list(&self, id: AclId) -> Option<&AclList> {
        self.entry(id).map(|entry| &entry.list)
    }

    /// Whether a number of a snapshot has its list.
    #[must_use]
    pub fn contains(&self, id: AclId) -> bool {
        id == AclId::OPEN || self.entry(id).is_some()
    }

    /// Whether anyone may do `perm`, whoever they are.
    #[must_use]
    pub fn permits_anyone(&self, id: AclId, perm: i32) -> bool {
        self.entry(id).is_none_or(|entry| entry.anyone & perm != 0)
    }

    /// Every list with its number, in the order of the numbers.
    pub fn iter(&self) -> impl Iterator<Item = (AclId, &AclList)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(slot, entry)| Some((Self::id_of(slot), &entry.as_ref()?.list)))
    }
}

/// What `world:anyone` may do by this list; everything where it is empty.
fn anyone(list: &[Acl<'_>]) -> i32 {
    if list.is_empty() {
        return perms::ALL;
    }
    list.iter().filter(|acl| is_anyone(acl)).fold(0, |perms, acl| perms | acl.perms)
}

fn is_anyone(acl: &Acl<'_>) -> bool {
    acl.scheme.as_deref() == Some("world") && acl.id.as_deref() == Some("anyone")
}

/// Whether a connection may do one of the bits of `perm` by a list (`ZooKeeperServer.checkACL`).
#[must_use]
pub fn permits(list: &[Acl<'_>], perm: i32, identities: &[Identity]) -> bool {
    list.is_empty()
        || identities.iter().any(|identity| identity.scheme == "super")
        || list.iter().any(|acl| {
            acl.perms & perm != 0
                && (is_anyone(acl)
                    || identities.iter().any(|identity| scheme::matches(acl, identity)))
        })
}

/// Makes a client's list one that can be stored (`PrepRequestProcessor.fixupACL`): duplicates go, `auth` becomes the
/// connection's own identities. Without `digest_scheme` an entry cannot name `digest`.
///
/// # Errors
/// [`ErrorCode::InvalidAcl`] for an empty list, and for an entry that no scheme understands;
/// [`ErrorCode::MarshallingError`] where a scheme's id is null.
pub fn fixup(
    list: Option<&[Acl<'_>]>,
    identities: &[Identity],
    digest_scheme: bool,
) -> Result<Vec<Acl<'static>>, ErrorCode> {
    let mut fixed = Vec::new();
    let list = list.unwrap_or_default();
    for (position, acl) in list.iter().enumerate() {
        let earlier = list.get(..position).unwrap_or_default();
        if earlier.contains(acl) {
            continue;
        }
        match acl.scheme.as_deref() {
            Some("auth") => {
                let before = fixed.len();
                fixed.extend(
                    identities.iter().filter(|identity| scheme::counts_for_auth(identity)).map(
                        |identity| Acl {
                            perms: acl.perms,
                            scheme: Some(identity.scheme.clone().into()),
                            id: Some(identity.id.clone().into()),
                        },
                    ),
                );
                if fixed.len() == before {
                    return Err(ErrorCode::InvalidAcl);
                }
            }
            // Switched off, it is a scheme like any that is not there.
            Some("digest") if !digest_scheme => return Err(ErrorCode::InvalidAcl),
            // ZooKeeper stumbles over the null, and answers as it does to what it cannot read.
            Some("world" | "digest" | "ip") if acl.id.is_none() => {
                return Err(ErrorCode::MarshallingError);
            }
            _ if is_anyone(acl) || scheme::is_valid(acl) => {
                fixed.push(jute::IntoStatic::into_static(acl.clone()));
            }
            _ => return Err(ErrorCode::InvalidAcl),
        }
    }
    if fixed.is_empty() { Err(ErrorCode::InvalidAcl) } else { Ok(fixed) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn entry(perms: i32, id: &'static str) -> Acl<'static> {
        Acl { perms, scheme: Some("digest".into()), id: Some(id.into()) }
    }

    #[test]
    fn a_list_lives_as_long_as_its_uses() {
        let mut table = AclTable::default();
        let (a, b) = ([entry(1, "a:h")], [entry(1, "b:h")]);
        let first = table.intern(&a);
        assert_eq!(table.intern(&a), first);
        let second = table.intern(&b);
        assert_ne!(first, second);
        assert_eq!((first.stored(), second.stored(), AclId::OPEN.stored()), (1, 2, -1));
        table.release(first);
        assert!(table.contains(first));
        table.release(first);
        assert!(!table.contains(first));
        table.release(first);
        assert_eq!(table.iter().count(), 1);
        // Its number is given out again, and means the new list.
        let third = table.intern(&[entry(3, "c:h")]);
        assert_eq!(third, first);
        assert_eq!(table.list(third).unwrap()[0].perms, 3);
        table.release(second);
        table.release(third);
        assert_eq!((table.iter().count(), table.ids.len()), (0, 0));
    }

    #[test]
    fn no_list_is_open_and_never_counted() {
        let mut table = AclTable::default();
        table.retain(AclId::OPEN);
        table.release(AclId::OPEN);
        assert!(table.contains(AclId::OPEN));
        assert!(table.permits_anyone(AclId::OPEN, perms::ALL));
        assert_eq!(table.list(AclId::OPEN), None);
    }

    #[test]
    fn lists_of_a_snapshot_keep_their_numbers() {
        let mut table = AclTable::default();
        let (a, b) = ([entry(1, "a:h")], [entry(1, "b:h")]);
        assert_eq!(table.load(7, &a), Ok(AclId(7)));
        assert_eq!(table.load(3, &b), Ok(AclId(3)));
        for number in [0, -1, i64::MIN, i64::MAX, 1 << 25] {
            assert_eq!(table.load(number, &a), Err(number));
        }
        table.retain(AclId(7));
        table.purge_unused();
        assert!(table.contains(AclId(7)) && !table.contains(AclId(3)));
        assert_eq!(table.intern(&a), AclId(7));
        // The gaps are filled before the table grows.
        let numbers: BTreeSet<u32> = ["b:h", "c:h", "d:h", "e:h", "f:h", "g:h"]
            .map(|id| table.intern(&[entry(1, id)]).0)
            .into();
        assert_eq!(numbers, (1..7).collect());
    }

    #[test]
    fn a_list_that_a_snapshot_holds_twice_goes_twice() {
        let mut table = AclTable::default();
        let list = [entry(1, "a:h")];
        table.load(1, &list).unwrap();
        table.load(2, &list).unwrap();
        table.retain(AclId(1));
        table.retain(AclId(2));
        table.purge_unused();
        table.release(AclId(1));
        assert_eq!(table.intern(&list), AclId(2));
        table.release(AclId(2));
        table.release(AclId(2));
        assert_eq!((table.iter().count(), table.ids.len()), (0, 0));
    }

    #[test]
    fn what_anyone_may_do_is_the_sum_of_the_entries() {
        let mut table = AclTable::default();
        let id = table.intern(&[Acl::anyone(1), entry(31, "a:h"), Acl::anyone(5)]);
        for (perm, permitted) in [(1, true), (2, false), (4, true), (8, false), (16 | 1, true)] {
            assert_eq!(table.permits_anyone(id, perm), permitted, "{perm}");
        }
    }
}
