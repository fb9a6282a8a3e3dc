//! A client's connection: what it has, what waits for it, and who it is. Nothing here reads what a
//! client sends.

pub(super) mod audit;
pub(super) mod auth;
pub(super) mod connection;
pub(super) mod connections;
pub(super) mod ended;
mod large_answers;
pub(super) mod long_list;
pub(super) mod outbox;
pub(super) mod password;
pub(super) mod unread;
mod unsent;
