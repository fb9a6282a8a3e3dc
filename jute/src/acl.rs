//! Access control entries.

use std::borrow::Cow;

use bytes::BufMut;

use crate::record::{IntoStatic, Parsed, Record};

/// One entry of an access control list: who may do what. Jute nests scheme and id in a record of
/// their own; the bytes are the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acl<'a> {
    /// The bits of [`perms`]; bits beyond them are kept.
    pub perms: i32,
    /// `world`, `auth`, `digest`, `ip`, ...
    pub scheme: Option<Cow<'a, str>>,
    /// What the scheme makes of it.
    pub id: Option<Cow<'a, str>>,
}

impl<'a> Record<'a> for Acl<'a> {
    fn decode(input: &'a [u8]) -> Parsed<'a, Self> {
        let (input, perms) = i32::decode(input)?;
        let (input, scheme) = Record::decode(input)?;
        let (input, id) = Record::decode(input)?;
        Ok((input, Self { perms, scheme, id }))
    }

    fn encode<B: BufMut>(&self, out: &mut B) {
        self.perms.encode(out);
        self.scheme.encode(out);
        self.id.encode(out);
    }
}

impl IntoStatic for Acl<'_> {
    type Static = Acl<'static>;

    /// Copies nothing for `world:anyone`, which is nearly every list.
    fn into_static(self) -> Self::Static {
        let Self { perms, scheme, id } = self;
        match (scheme.as_deref(), id.as_deref()) {
            (Some("world"), Some("anyone")) => Acl::anyone(perms),
            _ => Acl { perms, scheme: scheme.into_static(), id: id.into_static() },
        }
    }
}

impl Acl<'_> {
    /// `world:anyone` with the given permissions.
    #[must_use]
    pub const fn anyone(perms: i32) -> Acl<'static> {
        Acl { perms, scheme: Some(Cow::Borrowed("world")), id: Some(Cow::Borrowed("anyone")) }
    }
}

/// The permission bits of an ACL entry.
pub mod perms {
    /// Read data, children and existence.
    pub const READ: i32 = 1;
    /// Set data.
    pub const WRITE: i32 = 2;
    /// Create children.
    pub const CREATE: i32 = 4;
    /// Delete children.
    pub const DELETE: i32 = 8;
    /// Set and see the ACL.
    pub const ADMIN: i32 = 16;
    /// All of them.
    pub const ALL: i32 = 31;
}
