//! Who may do what: ACLs, the identities of clients, and the schemes that both are of.

pub mod acl;
mod acl_list;
pub(super) mod fixup;
mod granted;
mod identity;
pub(super) mod scheme;
