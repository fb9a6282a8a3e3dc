//! What is done to a directory as a whole: copied, backed up, cut, purged, put aside, taken over.

pub(super) mod aside;
pub(super) mod backup;
pub(super) mod copy;
pub(super) mod cut;
pub(super) mod handover;
pub(super) mod purge;
pub(super) mod upload;
