//! Making a client's ACL list one that can be stored (`PrepRequestProcessor.fixupACL`).
//!
//! Checking costs the list's bytes. What `auth` in it stands for is measured then, and made only
//! where nothing else refuses the request.

use hashbrown::HashSet;
use jute::{Acl, ErrorCode};

use super::acl_list::{is_anyone, kept_owned, kept_scheme};
use super::identity::{Identities, Identity};
use super::scheme;
use crate::planted;

/// What decides whether a list can be stored.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct Fixup<'a> {
    /// Whom `auth` stands for.
    pub(in crate::engine) identities: &'a Identities,
    /// Whether an entry can name `digest`.
    pub(in crate::engine) digest_scheme: bool,
    /// Bytes that the list may have.
    pub(in crate::engine) bytes_max: usize,
}

/// A list that can be stored, as the client wrote it.
#[derive(Debug)]
pub(in crate::engine) struct Storable<'a> {
    list: Vec<Acl<'static>>,
    is_first: Vec<bool>,
    identities: &'a Identities,
    len: usize,
}

impl Storable<'_> {
    /// Bytes that it has in the log.
    pub(in crate::engine) const fn len(&self) -> usize {
        self.len
    }

    /// The list as it is stored: duplicates go, `auth` becomes the connection's own identities.
    pub(in crate::engine) fn made(self) -> Vec<Acl<'static>> {
        let Self { list, is_first, identities, .. } = self;
        let mut made = Vec::new();
        for (acl, _) in list.into_iter().zip(is_first).filter(|(_, is_first)| *is_first) {
            if is_auth(&acl) && !planted::is("auth-as-it-is") {
                made.extend(shown(identities).map(|one| entry(acl.perms, one)));
            } else {
                made.push(kept_owned(acl));
            }
        }
        made
    }
}

impl<'a> Fixup<'a> {
    /// Whether a list can be stored, and how long it is then.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidAcl`] for an empty list, for an entry that no scheme understands, and
    /// for what would be too long; [`ErrorCode::MarshallingError`] where ZooKeeper stumbles over a
    /// null.
    pub(in crate::engine) fn storable(
        self,
        list: Option<Vec<Acl<'static>>>,
    ) -> Result<Storable<'a>, ErrorCode> {
        let list = list.unwrap_or_default();
        if list.is_empty() {
            return Err(ErrorCode::InvalidAcl);
        }
        let is_first = first_ones(&list)?;
        let shown_len = if list.iter().any(is_auth) {
            shown(self.identities).map(|one| entry_len(&one.scheme, &one.id)).sum()
        } else {
            0
        };
        let mut len = size_of::<i32>();
        for (acl, _) in list.iter().zip(&is_first).filter(|(_, is_first)| **is_first) {
            let is_auth = is_auth(acl);
            if is_auth && shown_len == 0 {
                return Err(ErrorCode::InvalidAcl);
            }
            if !is_auth {
                self.check(acl)?;
            }
            len = len.saturating_add(if is_auth { shown_len } else { len_of(acl) });
            if len > self.bytes_max {
                return Err(ErrorCode::InvalidAcl);
            }
        }
        Ok(Storable { list, is_first, identities: self.identities, len })
    }

    /// Whether an entry can be stored as it is.
    fn check(self, acl: &Acl<'_>) -> Result<(), ErrorCode> {
        match acl.scheme.as_deref() {
            // Switched off, it is a scheme like any that is not there.
            Some("digest") if !self.digest_scheme => Err(ErrorCode::InvalidAcl),
            // ZooKeeper stumbles over the null, and answers as it does to what it cannot read.
            Some("world" | "digest" | "ip") if acl.id.is_none() => Err(ErrorCode::MarshallingError),
            _ if is_anyone(acl) || scheme::is_valid(acl) || planted::is("any-acl") => Ok(()),
            _ => Err(ErrorCode::InvalidAcl),
        }
    }
}

/// Whether an entry stands for the connection's own identities.
fn is_auth(acl: &Acl<'_>) -> bool {
    acl.scheme.as_deref() == Some("auth")
}

/// Those that it stands for.
fn shown(identities: &Identities) -> impl Iterator<Item = &Identity> {
    identities.all().iter().filter(|one| scheme::counts_for_auth(one))
}

/// Which entries are there for the first time.
///
/// ZooKeeper compares each with those before it, first the permissions, then the scheme, then the
/// id, and stumbles over a null where it gets that far.
fn first_ones(list: &[Acl<'_>]) -> Result<Vec<bool>, ErrorCode> {
    if list.len() <= 1 {
        return Ok(vec![true; list.len()]);
    }
    let has_null = list.iter().any(|acl| acl.scheme.is_none() || acl.id.is_none());
    let (mut perms, mut schemes) = (HashSet::new(), HashSet::new());
    let mut entries = HashSet::with_capacity(list.len());
    let mut first = Vec::with_capacity(list.len());
    for acl in list {
        let scheme = acl.scheme.as_deref();
        let stumbles = match (scheme, &acl.id) {
            (None, _) => perms.contains(&acl.perms),
            (Some(_), None) => schemes.contains(&(acl.perms, scheme)),
            _ => false,
        };
        if stumbles {
            return Err(ErrorCode::MarshallingError);
        }
        let is_first = entries.insert(acl);
        if is_first && has_null {
            perms.insert(acl.perms);
            schemes.insert((acl.perms, scheme));
        }
        first.push(is_first);
    }
    Ok(first)
}

fn entry(perms: i32, Identity { scheme, id }: &Identity) -> Acl<'static> {
    Acl { perms, scheme: Some(kept_scheme(scheme)), id: Some(id.clone().into()) }
}

fn len_of(acl: &Acl<'_>) -> usize {
    entry_len(acl.scheme.as_deref().unwrap_or_default(), acl.id.as_deref().unwrap_or_default())
}

/// Bytes of an entry: its permissions, and two texts with their lengths.
const fn entry_len(scheme: &str, id: &str) -> usize {
    3 * size_of::<i32>() + scheme.len() + id.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(perms: i32, scheme: Option<&str>, id: Option<&str>) -> Acl<'static> {
        let text = |text: &str| text.to_owned().into();
        Acl { perms, scheme: scheme.map(text), id: id.map(text) }
    }

    fn digest(perms: i32, id: &str) -> Acl<'static> {
        acl(perms, Some("digest"), Some(id))
    }

    fn users(ids: impl IntoIterator<Item = String>) -> Identities {
        let one = |id| Identity { scheme: "digest".to_owned(), id };
        ids.into_iter().map(one).collect::<Vec<_>>().into()
    }

    fn fix(
        list: Vec<Acl<'static>>,
        identities: &Identities,
        bytes_max: usize,
    ) -> Result<Vec<Acl<'static>>, ErrorCode> {
        let fixup = Fixup { identities, digest_scheme: true, bytes_max };
        let (len, made) = fixup.storable(Some(list)).map(|list| (list.len(), list.made()))?;
        assert_eq!(len, size_of::<i32>() + made.iter().map(len_of).sum::<usize>());
        Ok(made)
    }

    #[test]
    fn nulls_are_answered_as_zookeeper_answers_them() {
        // Asked of 3.9.5, by compat-tests/tests/handshake.
        let (invalid, stumbled) = (Err(ErrorCode::InvalidAcl), Err(ErrorCode::MarshallingError));
        let who = users(["u:h".to_owned()]);
        let auth = |id| acl(31, Some("auth"), id);
        let no_scheme = |perms| acl(perms, None, Some("x"));
        let cases = [
            (vec![auth(None)], Ok(vec![digest(31, "u:h")])),
            (vec![auth(None), auth(None)], stumbled.clone()),
            (vec![auth(Some("x")), auth(None)], stumbled.clone()),
            (vec![auth(None), auth(Some("x"))], Ok(vec![digest(31, "u:h"); 2])),
            (vec![acl(1, Some("auth"), None), auth(None)], {
                Ok(vec![digest(1, "u:h"), digest(31, "u:h")])
            }),
            (vec![no_scheme(1)], invalid.clone()),
            (vec![no_scheme(1), no_scheme(1)], stumbled.clone()),
            (vec![digest(1, "u:h"), no_scheme(1)], stumbled.clone()),
            (vec![digest(2, "u:h"), no_scheme(1)], invalid.clone()),
            (vec![no_scheme(1), digest(1, "u:h")], invalid.clone()),
            (vec![acl(1, Some("nosuch"), Some("x")), acl(1, Some("world"), None)], invalid),
            (vec![acl(1, Some("world"), None)], stumbled),
        ];
        for (list, expected) in cases {
            assert_eq!(fix(list.clone(), &who, 1000), expected, "{list:?}");
        }
    }

    #[test]
    fn a_list_as_long_as_a_request_can_carry_is_compared_with_nothing_twice() {
        // Each entry with each other one would be 80 thousand million pairs, an hour of this test.
        let list: Vec<_> = (0..400_000).map(|user| digest(1, &format!("{user}:h"))).collect();
        let twice = [&list[..], &list[..10]].concat();
        assert_eq!(fix(twice, &Identities::default(), usize::MAX), Ok(list));
    }

    #[test]
    fn what_auth_stands_for_is_measured_before_it_is_made() {
        // 1024 identities of 64 bytes each, as often as a request of a megabyte can name them: 4.6
        // GB.
        let who = users((0..1024).map(|user| format!("{user:049}:h")));
        let list: Vec<_> = (0..70_000).map(|perms| acl(perms, Some("auth"), None)).collect();
        assert_eq!(fix(list.clone(), &who, 2 << 20), Err(ErrorCode::InvalidAcl));
        let entry = 12 + 6 + 51;
        for (times, fits) in [(1, true), (29, true), (30, false)] {
            let fixed = fix(list[..times].to_vec(), &who, 4 + 29 * 1024 * entry);
            assert_eq!(fixed.map(|list| list.len()).ok(), fits.then_some(times * 1024), "{times}");
        }
        // As long a list that says itself whom it means.
        let one = vec![digest(1, &format!("{}:h", "u".repeat(998)))];
        assert!(fix(one.clone(), &who, 4 + 12 + 6 + 1000).is_ok());
        assert_eq!(fix(one, &who, 4 + 12 + 6 + 999), Err(ErrorCode::InvalidAcl));
    }
}
