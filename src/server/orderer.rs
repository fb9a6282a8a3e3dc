//! The threads that order requests, alone or as a member of an ensemble, and what they do beside.

pub(super) mod disk;
pub(super) mod lone;
pub(super) mod member;
mod member_role;
mod read_only;
mod reaper;
pub(super) mod restoring;
pub(super) mod upkeep;
