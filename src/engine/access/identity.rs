//! Who a connection is, and what a list permits it.

use std::fmt;
use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};
use jute::Acl;
use parking_lot::Mutex;

use super::acl_list::{AclList, FEW};
use super::granted::Granted;
use super::scheme;

/// Bytes of the identities that a client may show: each of its requests carries them, and so does
/// each answer to whoAmI.
pub const IDENTITIES_BYTES_MAX: usize = 64 << 10;
/// Every bit of the permissions.
const EVERYTHING: i32 = -1;

/// One identity of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// `ip`, `digest`, `super`, ...
    pub scheme: String,
    /// What the scheme knows the client by.
    pub id: String,
}

impl Identity {
    /// Bytes that it takes where it is told to others: two texts with their lengths.
    const fn told_len(&self) -> usize {
        self.scheme.len() + self.id.len() + 2 * size_of::<u32>()
    }
}

/// The identities of a client would be more than it may show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

/// Everybody that a client has shown to be.
#[derive(Default)]
pub struct Identities {
    /// In the order in which they were shown.
    all: Vec<Identity>,
    bytes: usize,
    /// What it costs to go through them.
    looks: usize,
    is_super: bool,
    /// Those of `digest`, as places in `all`.
    digests: HashTable<usize>,
    /// What finds them there.
    hasher: DefaultHashBuilder,
    /// Where in `all` the last one of another scheme ends: usually that is the address, which is
    /// the first.
    others_end: usize,
    /// What lists grant that were asked for. It follows from the list and from `all`.
    granted: Mutex<Granted>,
}

impl Identities {
    /// Adds one, if it is none of them yet.
    ///
    /// # Errors
    /// [`TooMany`], beyond [`IDENTITIES_BYTES_MAX`]. It is not added.
    pub fn add(&mut self, identity: Identity) -> Result<(), TooMany> {
        if self.contains(&identity) {
            return Ok(());
        }
        if self.bytes.saturating_add(identity.told_len()) > IDENTITIES_BYTES_MAX {
            return Err(TooMany);
        }
        self.push(identity);
        Ok(())
    }

    fn push(&mut self, identity: Identity) {
        *self.granted.get_mut() = Granted::default();
        self.bytes += identity.told_len();
        self.looks += scheme::looks(&identity.id);
        self.is_super |= identity.scheme == "super";
        if identity.scheme == "digest" {
            let Self { all, digests, hasher, .. } = self;
            let hash = |at: &usize| hasher.hash_one(id_at(all, *at));
            digests.insert_unique(hasher.hash_one(identity.id.as_str()), all.len(), hash);
        } else {
            self.others_end = self.all.len() + 1;
        }
        self.all.push(identity);
    }

    fn contains(&self, identity: &Identity) -> bool {
        match identity.scheme.as_str() {
            "digest" => self.has_digest(&identity.id),
            _ => self.others().contains(identity),
        }
    }

    fn has_digest(&self, id: &str) -> bool {
        let Self { all, digests, hasher, .. } = self;
        scheme::hash(id);
        digests.find(hasher.hash_one(id), |at| id_at(all, *at) == id).is_some()
    }

    /// All of other schemes than `digest`, and what stands between them.
    fn others(&self) -> &[Identity] {
        self.all.get(..self.others_end).unwrap_or_default()
    }

    /// All of them, in the order in which they were shown.
    #[must_use]
    pub fn all(&self) -> &[Identity] {
        &self.all
    }

    /// Whether one of them is the super user's, who may do everything.
    #[must_use]
    pub const fn is_super(&self) -> bool {
        self.is_super
    }

    /// Bytes that they take where they are told to others.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether they may do one of the bits of `perm` by a list (`ZooKeeperServer.checkACL`).
    #[must_use]
    pub fn may(&self, list: &AclList, perm: i32) -> bool {
        self.may_at(list, perm, &mut 0)
    }

    /// The same; adds to `looked_up` the entries and the identities that are looked up for it.
    pub(in crate::engine) fn may_at(
        &self,
        list: &AclList,
        perm: i32,
        looked_up: &mut usize,
    ) -> bool {
        list.anyone() & perm != 0 || self.granted(list, looked_up) & perm != 0
    }

    /// All that a list grants to them.
    fn granted(&self, list: &AclList, looked_up: &mut usize) -> i32 {
        if self.is_super || list.is_empty() {
            return EVERYTHING;
        }
        if list.looks().min(self.looks) <= FEW {
            return self.look_up(list, looked_up);
        }
        let mut granted = self.granted.lock();
        if let Some(perms) = granted.by(list) {
            return perms;
        }
        let perms = self.look_up(list, looked_up);
        granted.keep(list, perms);
        perms
    }

    fn look_up(&self, list: &AclList, looked_up: &mut usize) -> i32 {
        let is_hashed = self.looks <= list.looks();
        *looked_up += if is_hashed { list.to_hash() + self.looks } else { list.looks() };
        self.look_ups(list).fold(list.anyone(), |perms, more| perms | more)
    }

    /// What each of them, or each entry of the list, adds: whichever costs less.
    fn look_ups(&self, list: &AclList) -> impl Iterator<Item = i32> {
        let (identities, entries) =
            if self.looks <= list.looks() { (&*self.all, None) } else { (&[][..], Some(list)) };
        let entries = entries.into_iter().flat_map(|list| list.iter());
        let of_identities = identities.iter().map(|identity| list.granted_to(identity));
        of_identities.chain(entries.map(|acl| if self.are_in(acl) { acl.perms } else { 0 }))
    }

    /// Whether one of them is one that an entry names.
    fn are_in(&self, acl: &Acl<'_>) -> bool {
        match (acl.scheme.as_deref(), acl.id.as_deref()) {
            (Some("digest"), Some(id)) => self.has_digest(id),
            _ => self.others().iter().any(|identity| scheme::matches(acl, identity)),
        }
    }
}

impl From<Vec<Identity>> for Identities {
    fn from(all: Vec<Identity>) -> Self {
        let mut identities = Self::default();
        all.into_iter().for_each(|identity| identities.push(identity));
        identities
    }
}

impl Clone for Identities {
    fn clone(&self) -> Self {
        let Self { all, bytes, looks, is_super, digests, hasher, others_end, granted: _ } = self;
        Self {
            all: all.clone(),
            bytes: *bytes,
            looks: *looks,
            is_super: *is_super,
            digests: digests.clone(),
            hasher: hasher.clone(),
            others_end: *others_end,
            granted: Mutex::default(),
        }
    }
}

fn id_at(all: &[Identity], at: usize) -> &str {
    let id = all.get(at).map_or("", |identity| &identity.id);
    scheme::look_at(id);
    id
}

impl PartialEq for Identities {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Eq for Identities {}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn identity(scheme: &str, id: &str) -> Identity {
        Identity { scheme: scheme.to_owned(), id: id.to_owned() }
    }

    fn entry(perms: i32, scheme: &str, id: &str) -> Acl<'static> {
        Acl { perms, scheme: Some(scheme.to_owned().into()), id: Some(id.to_owned().into()) }
    }

    fn digests(count: usize) -> Vec<Acl<'static>> {
        (0..count).map(|user| entry(1 << (user % 5), "digest", &format!("u{user}:h"))).collect()
    }

    /// Each entry against each identity.
    fn permits(list: &[Acl<'_>], perm: i32, identities: &[Identity]) -> bool {
        list.is_empty()
            || identities.iter().any(|identity| identity.scheme == "super")
            || list.iter().any(|acl| {
                let world = Acl::anyone(acl.perms);
                let is_it = |identity| scheme::matches(acl, identity);
                acl.perms & perm != 0 && (*acl == world || identities.iter().any(is_it))
            })
    }

    fn who() -> impl Strategy<Value = (&'static str, String)> {
        prop_oneof![
            (0..12).prop_map(|user| ("digest", format!("u{user}:h"))),
            (0..4, 0..3, 0..3).prop_map(|(a, b, c)| ("ip", format!("10.{a}.{b}.{c}"))),
            (0..4, 0..3).prop_map(|(a, b)| ("ip", format!("fe80::{a}:{b}"))),
        ]
    }

    fn acl() -> impl Strategy<Value = Acl<'static>> {
        let of_who = (0..32, who(), prop_oneof![Just(""), Just("/24"), Just("/8"), Just("/0")])
            .prop_map(|(perms, (scheme, id), bits)| match scheme {
                "ip" => entry(perms, scheme, &format!("{id}{bits}")),
                _ => entry(perms, scheme, &id),
            });
        prop_oneof![20 => of_who, 1 => (0..32).prop_map(Acl::anyone)]
    }

    proptest! {
        #[test]
        fn a_list_permits_what_its_entries_do(
            lists in vec(vec(acl(), 0..30), 1..4),
            shown in prop_oneof![vec(who(), 0..12), vec(who(), 12..60)],
        ) {
            let shown: Vec<_> = shown.iter().map(|(scheme, id)| identity(scheme, id)).collect();
            let identities = Identities::from(shown.clone());
            // Asked again, it is what was kept.
            for entries in lists.iter().chain(&lists) {
                let list = AclList::new(entries);
                for perm in [1, 2, 4, 8, 16, 17] {
                    let expected = permits(entries, perm, &shown);
                    prop_assert_eq!(identities.may(&list, perm), expected);
                    prop_assert_eq!(identities.may(&list, perm), expected);
                }
            }
        }
    }

    #[test]
    fn the_shorter_of_list_and_identities_is_gone_through() {
        let many = |count| {
            let address = identity("ip", "10.1.2.3");
            let users = (0..count).map(|user| identity("digest", &format!("u{user}:h")));
            Identities::from(users.chain([address]).collect::<Vec<_>>())
        };
        for (shown, entries) in [(3000, 8), (3000, 300), (3000, 1), (0, 8), (7, 8), (7, 300)] {
            let identities = many(shown);
            let mut list = digests(entries);
            list[0] = entry(31, "ip", "10.0.0.0/8");
            let (list, same) = (AclList::new(&list), AclList::new(&list));
            let steps = identities.look_ups(&same).count();
            assert!(steps <= entries.min(shown + 1), "{shown} {entries}: {steps}");
            // A list is hashed once.
            let hashed = if shown < entries && entries > FEW { entries } else { 0 };
            for expected in [steps + hashed, steps] {
                let mut looked_up = 0;
                assert_eq!(identities.look_up(&list, &mut looked_up), 31);
                assert_eq!(looked_up, expected, "{shown} {entries}");
            }
        }
    }

    #[test]
    fn a_long_list_and_many_identities_are_not_held_against_each_other() {
        for (shown, entries) in [(1000, 10_000), (10_000, 1000)] {
            let before = scheme::LOOKED_AT.get();
            let address = identity("ip", "10.1.2.3");
            let strangers = (0..shown).map(|user| identity("digest", &format!("s{user}:h")));
            let identities = Identities::from(strangers.chain([address]).collect::<Vec<_>>());
            let list =
                AclList::new(&[digests(entries), vec![entry(1, "ip", "11.0.0.0/8")]].concat());
            assert!(!identities.may(&list, 31));
            // Each once or twice to find its place, and once more when the table grows.
            let looked_at = scheme::LOOKED_AT.get() - before;
            assert!(looked_at < 8 * (shown + entries), "{shown} {entries}: {looked_at}");
        }
    }

    /// An address may begin with any number of zeros.
    #[test]
    fn a_check_costs_nothing_that_a_client_chooses_by_the_length_of_an_id() {
        let address = format!("{}10.1.2.3", "0".repeat(1_000_000));
        let user = format!("{}:h", "u".repeat(1_000_000));
        let me = [identity("ip", "10.1.2.3"), identity("digest", "u:h")];
        let long = [identity("digest", &format!("{}:h", "v".repeat(60_000)))];
        for entry in [entry(1, "ip", &address), entry(1, "digest", &user), entry(1, "ip", "::1")] {
            for shown in [&me[..1], &me[1..], &me, &[me[0].clone(), long[0].clone()]] {
                let (list, identities) =
                    (AclList::new(std::slice::from_ref(&entry)), Identities::from(shown.to_vec()));
                let its = permits(&list, 1, shown);
                let (before, mut looked_up) = (scheme::BYTES_LOOKED_AT.get(), 0);
                for _ in 0..1000 {
                    assert_eq!(identities.may_at(&list, 1, &mut looked_up), its);
                }
                // Another connection finds the list hashed.
                assert_eq!(Identities::from(shown.to_vec()).may_at(&list, 1, &mut looked_up), its);
                let bytes = scheme::BYTES_LOOKED_AT.get() - before;
                let short = 1000 * 3 * 64;
                assert!(bytes < short + 4 * 1_000_000, "{bytes}");
                // It counts, once each way.
                let id = entry.id.as_deref().unwrap_or_default();
                let once = 2 * (scheme::looks(id) + identities.looks);
                assert!(looked_up <= once + 1000 * 3, "{looked_up}");
            }
        }
    }

    #[test]
    fn what_anyone_may_do_is_looked_up_for_nobody() {
        let shown = (0..300).map(|user| identity("digest", &format!("{user}:h")));
        let identities = Identities::from(shown.collect::<Vec<_>>());
        let list = AclList::new(&[digests(300), vec![Acl::anyone(1)]].concat());
        assert!(identities.may(&list, 1) && identities.may(&list, 3));
        assert_eq!(identities.granted.lock().by(&list), None);
        assert_eq!(list.to_hash(), 301);
        assert!(!identities.may(&list, 2 << 10));
        assert_eq!(identities.granted.lock().by(&list), Some(1));
    }

    #[test]
    fn a_list_in_the_place_of_another_is_another() {
        let strangers = (0..FEW).map(|user| identity("digest", &format!("stranger{user}:h")));
        let identities = strangers.chain([identity("digest", "u3:h")]).collect::<Vec<_>>();
        let identities = Identities::from(identities);
        // An allocator gives the same place again where it can.
        for round in 0..1000 {
            let perms = if round % 2 == 0 { 1 } else { 2 };
            let mut entries = digests(20);
            entries[3].perms = perms;
            let list = AclList::new(&entries);
            assert!(identities.may(&list, perms) && !identities.may(&list, 3 - perms), "{round}");
        }
    }

    #[test]
    fn who_is_someone_more_may_more() {
        let mut identities = Identities::default();
        let list = AclList::new(&digests(20));
        assert!(!identities.may(&list, 31));
        identities.add(identity("digest", "u7:h")).unwrap();
        assert!(identities.may(&list, 4) && !identities.may(&list, 27));
        let copy = identities.clone();
        identities.add(identity("super", "")).unwrap();
        assert!(identities.may(&list, 27) && !copy.may(&list, 27));
    }

    #[test]
    fn identities_end_at_their_bytes_and_not_at_a_count() {
        let mut identities = Identities::default();
        let mut shown = 0;
        while identities.add(identity("digest", &format!("{shown:04}"))).is_ok() {
            shown += 1;
        }
        // 6 and 4 bytes, and two lengths.
        assert_eq!(shown, IDENTITIES_BYTES_MAX / 18);
        assert_eq!((identities.all().len(), identities.bytes()), (shown, shown * 18));
        // Who is known is no one more.
        identities.add(identity("digest", "0000")).unwrap();
        let mut one = Identities::default();
        assert_eq!(one.add(identity("digest", &"x".repeat(IDENTITIES_BYTES_MAX))), Err(TooMany));
        assert_eq!((one.all(), one.bytes()), (&[][..], 0));
    }
}
