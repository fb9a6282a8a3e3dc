//! What a read is answered with. Nothing here changes the tree.

pub mod listing;
pub mod read;
pub mod watch_again;

#[cfg(test)]
mod listing_test;
#[cfg(test)]
mod read_test;
