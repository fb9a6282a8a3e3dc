//! The tools as processes, on directories of ZooKeeper and of ferrokeeper: whole, cut anywhere,
//! damaged, and full of something else.

mod change;
mod config;
mod copy;
mod explain;
mod fixture;
mod garbage;
mod migrate;
mod place;
mod refusal;
mod show;
mod way_back;
