//! The server as a process, from the outside: hostile and slow clients, sessions that move and
//! expire, signals, full disks. Raw sockets only, so that every byte and every end of a connection
//! is seen.

mod admin;
mod audit;
mod certificates;
mod client;
mod copies;
mod ensemble;
mod ensemble_sessions;
mod founding;
mod hostile;
mod large_answers;
mod lifecycle;
mod listings;
mod lists;
mod logs;
mod member_snapshots;
mod members;
mod no_seat;
mod old_name;
mod process;
mod quorum;
mod read_only;
mod reads_in_time;
mod ready;
mod refusal;
mod restart;
mod session_passwords;
mod sessions;
mod short_memory;
mod signals;
mod skipped;
mod small_disk;
mod there_and_back;
mod unread;
mod watching_again;
mod wrong_tree;
