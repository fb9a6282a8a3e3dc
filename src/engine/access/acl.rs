//! The table of ACL lists.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use jute::Acl;

pub use super::acl_list::AclList;
pub use super::identity::{IDENTITIES_BYTES_MAX, Identities, Identity, TooMany};

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
    /// Of what it says: a long list is hashed once.
    hash: u64,
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
    ids: HashTable<AclId>,
    hasher: DefaultHashBuilder,
    /// While a snapshot is loaded, what the numbers in it are here. ZooKeeper's only rise, with
    /// every list that it ever had.
    stored: HashMap<i64, AclId>,
    /// Whether znodes may come whose list was made while their snapshot was written.
    is_fuzzy: bool,
    /// What such znodes have until the log tells.
    awaited: Option<AclId>,
    /// Long lists that nobody uses any more. To drop one takes its time, and is for whoever changed
    /// the tree.
    gone: Vec<AclList>,
}

impl AclTable {
    /// The number of a list, with one more use.
    pub fn intern(&mut self, list: &[Acl<'_>]) -> AclId {
        let hash = self.hasher.hash_one(list);
        match self.find(hash, list) {
            Some(id) => {
                self.retain(id);
                id
            }
            None => self.add(hash, AclList::new(list)),
        }
    }

    /// The same for a list that is given away: nothing of it that is owned is copied.
    pub fn intern_owned(&mut self, list: Vec<Acl<'_>>) -> AclId {
        let hash = self.hasher.hash_one(&*list);
        match self.find(hash, &list) {
            Some(id) => {
                self.retain(id);
                id
            }
            None => self.add(hash, AclList::of(list)),
        }
    }

    fn find(&self, hash: u64, list: &[Acl<'_>]) -> Option<AclId> {
        let is = |id: &AclId| {
            self.entry(*id).is_some_and(|entry| entry.hash == hash && *entry.list == *list)
        };
        self.ids.find(hash, is).copied()
    }

    fn add(&mut self, hash: u64, list: AclList) -> AclId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        let id = Self::id_of(slot);
        if let Some(entry) = self.entries.get_mut(slot) {
            *entry = Some(Entry { anyone: list.anyone(), list, hash, uses: 1 });
        }
        let Self { ids, entries, .. } = self;
        let hash_of = |id: &AclId| {
            let slot = id.0 as usize - 1;
            entries.get(slot).and_then(Option::as_ref).map_or(0, |entry| entry.hash)
        };
        ids.insert_unique(hash, id, hash_of);
        id
    }

    /// Takes the long lists that nobody uses any more.
    pub fn take_gone(&mut self) -> Vec<AclList> {
        std::mem::take(&mut self.gone)
    }

    /// A list as it is stored, shared with the znodes that have it.
    pub fn share(&self, list: &[Acl<'static>]) -> AclList {
        let known = self.find(self.hasher.hash_one(list), list).and_then(|id| self.list(id));
        known.map_or_else(|| AclList::new(list), AclList::clone)
    }

    /// Takes a list of a snapshot. Its number there is any that ZooKeeper can have given out; here
    /// it has another one, and both belong together until [`Self::finish_load`].
    pub fn load(&mut self, stored: i64, list: &[Acl<'_>]) {
        let id = self.intern(list);
        if let Some(before) = self.stored.insert(stored, id) {
            self.release(before);
        }
    }

    /// Takes znodes of a snapshot that ZooKeeper wrote while lists were made: it writes the lists
    /// first, and then znodes with the lists that they have by now.
    pub const fn expect_fuzzy(&mut self) {
        self.is_fuzzy = true;
    }

    /// The list that a znode of a snapshot names. One that the log is still to bring lets nobody in
    /// until then.
    pub fn of_snapshot(&mut self, stored: i64) -> Option<AclId> {
        if stored == AclId::OPEN.stored() {
            return Some(AclId::OPEN);
        }
        match self.stored.get(&stored) {
            Some(id) => Some(*id),
            None => self.is_fuzzy.then(|| self.awaited()),
        }
    }

    fn awaited(&mut self) -> AclId {
        if let Some(id) = self.awaited {
            return id;
        }
        let list = AclList::new(&[Acl::anyone(0)]);
        let id = Self::id_of(self.entries.len());
        // Not in the index: a client's own list of this content is another one.
        self.entries.push(Some(Entry { anyone: list.anyone(), list, hash: 0, uses: 0 }));
        self.awaited = Some(id);
        id
    }

    /// Znodes whose list the log has not brought.
    #[must_use]
    pub fn still_awaited(&self) -> u64 {
        self.awaited.and_then(|id| self.entry(id)).map_or(0, |entry| entry.uses)
    }

    /// Ends a snapshot: its numbers are forgotten, and the lists that no znode uses.
    pub fn finish_load(&mut self) {
        for id in std::mem::take(&mut self.stored).into_values() {
            self.release(id);
        }
        self.gone.clear();
    }

    fn id_of(slot: usize) -> AclId {
        AclId(u32::try_from(slot + 1).unwrap_or(u32::MAX))
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
        // The awaited one is not in the index.
        let hash = entry.hash;
        if let Ok(known) = self.ids.find_entry(hash, |known| *known == id) {
            known.remove();
        }
        if self.awaited == Some(id) {
            self.awaited = None;
        }
        let slot = id.0 as usize - 1;
        if let Some(entry) = self.entries.get_mut(slot).and_then(Option::take) {
            self.free.push(slot);
            if !entry.list.is_short() {
                self.gone.push(entry.list);
            }
        }
    }

    /// The list; `None` where there is none.
    #[must_use]
    pub fn list(&self, id: AclId) -> Option<&AclList> {
        self.entry(id).map(|entry| &entry.list)
    }

    /// Whether a number has its list.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jute::perms;

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
    fn a_long_list_is_taken_as_it_is_and_dropped_by_whoever_takes_it() {
        let long = |first: usize| -> Vec<Acl<'static>> {
            let id = |number| Some(format!("u{number}:h").into());
            (first..first + 100).map(|number| Acl { id: id(number), ..entry(1, "") }).collect()
        };
        let place_of = |list: &[Acl<'_>]| list[7].id.as_deref().map(str::as_ptr);
        let mut table = AclTable::default();
        let given = long(0);
        let place = place_of(&given);
        let first = table.intern_owned(given);
        assert_eq!(place_of(table.list(first).unwrap()), place);
        assert_eq!((table.intern(&long(0)), table.intern_owned(long(0))), (first, first));
        let second = table.intern_owned(long(1));
        let short = table.intern_owned(vec![entry(1, "a:h")]);
        [first, first, second, short].iter().for_each(|id| table.release(*id));
        let gone = table.take_gone();
        assert_eq!(gone.iter().map(|list| (**list).to_vec()).collect::<Vec<_>>(), [long(1)]);
        table.release(first);
        assert_eq!((table.take_gone().len(), table.take_gone().len()), (1, 0));
        assert_eq!((table.iter().count(), table.ids.len()), (0, 0));
        // What comes again is found again.
        assert_eq!(table.intern(&long(1)), table.intern_owned(long(1)));
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
    fn a_snapshots_numbers_are_any_that_zookeeper_gave_out() {
        // It counts up for every list that it ever had, and keeps what it had then.
        let numbers = [1, 2, (1 << 24) + 1, 1 << 31, (1 << 32) + 1, 1 << 62, i64::MAX, i64::MIN, 0];
        let mut table = AclTable::default();
        let list = |number: i64| [Acl { id: Some(format!("{number}:h").into()), ..entry(1, "") }];
        numbers.iter().for_each(|number| table.load(*number, &list(*number)));
        assert_eq!((table.entries.len(), table.stored.len()), (numbers.len(), numbers.len()));
        let ids = numbers.map(|number| table.of_snapshot(number).unwrap());
        for (id, number) in ids.iter().zip(numbers) {
            assert_eq!(**table.list(*id).unwrap(), list(number), "{number}");
        }
        assert_eq!(table.of_snapshot(-1), Some(AclId::OPEN));
        assert_eq!(table.of_snapshot(3), None);
        // Of the znodes' lists those stay that a znode names, and no number of the snapshot does.
        ids.iter().skip(1).for_each(|id| table.retain(*id));
        table.finish_load();
        assert_eq!((table.of_snapshot(2), table.iter().count()), (None, numbers.len() - 1));
        let more: Vec<AclId> = (3..6).map(|number| table.intern(&list(number))).collect();
        assert_eq!(more, [ids[0], AclId(10), AclId(11)]);
        // What a snapshot of this table says are its own numbers.
        let stored: BTreeSet<i64> = table.iter().map(|(id, _)| id.stored()).collect();
        assert_eq!(stored, (1..=11).collect());
    }

    #[test]
    fn a_number_or_a_list_that_a_snapshot_holds_twice_is_one() {
        let mut table = AclTable::default();
        let (a, b) = ([entry(1, "a:h")], [entry(1, "b:h")]);
        table.load(1, &a);
        table.load(2, &a);
        table.load(3, &a);
        // The last one counts, as in a map of ZooKeeper's.
        table.load(3, &b);
        let ids = [1, 2, 3].map(|number| table.of_snapshot(number).unwrap());
        ids.iter().for_each(|id| table.retain(*id));
        table.finish_load();
        assert_eq!((ids[0], table.intern(&a), table.intern(&b)), (ids[1], ids[0], ids[2]));
        [ids[0], ids[0], ids[1], ids[2]].iter().for_each(|id| table.release(*id));
        assert_eq!(table.iter().count(), 1);
        table.release(ids[2]);
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
