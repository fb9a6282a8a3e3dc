//! Who makes the promises: a server, or three that are an ensemble, with clients on each of them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::Ensemble;
use compat_tests::request::{self, op};
use compat_tests::{ConnectRequest, Kind, RawClient, Reply, Server, Session};

use crate::{SESSION_MS, ask, ask_together, get};

/// So long a server of an ensemble may lag behind what a client has seen.
const DEADLINE: Duration = Duration::from_secs(20);
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) enum Subject {
    One(Server),
    Three { ensemble: Ensemble, next: AtomicUsize },
}

impl Subject {
    pub(crate) fn one(config: &[&str]) -> Self {
        Self::One(Server::start(Kind::subject(), config))
    }

    pub(crate) fn three(config: &[&str]) -> Self {
        Self::Three {
            ensemble: Ensemble::start(Kind::subject(), config),
            next: AtomicUsize::new(0),
        }
    }

    /// Of crashes so many, where each takes an ensemble an election.
    pub(crate) fn crashes(&self, of_one: usize) -> usize {
        match self {
            Self::One(_) => of_one,
            Self::Three { .. } => of_one.div_ceil(2),
        }
    }

    /// Each time another server's.
    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Self::One(server) => server.address(),
            Self::Three { ensemble, next } => {
                let all = ensemble.servers();
                all[next.fetch_add(1, Ordering::Relaxed) % all.len()].address()
            }
        }
    }

    /// A client with a new session, which sees what was acknowledged before.
    pub(crate) fn connect(&self) -> RawClient {
        let (mut client, _) =
            RawClient::open(self.address(), &ConnectRequest::new(SESSION_MS)).expect("a session");
        if let Self::Three { .. } = self {
            ask(&mut client, op::SYNC, &request::path("/"));
        }
        client
    }

    /// The session on a new connection. A server that is older than what the client has seen
    /// refuses it; in an ensemble another does not.
    pub(crate) fn again(&self, session: &Session, last: i64) -> RawClient {
        let request = ConnectRequest { last_zxid_seen: last, ..ConnectRequest::again(session) };
        let deadline = Instant::now() + DEADLINE;
        loop {
            match (RawClient::open(self.address(), &request), self) {
                (Ok((client, attached)), _) => {
                    assert_eq!(attached.id, session.id, "the session is kept");
                    return client;
                }
                (Err(_), Self::Three { .. }) if Instant::now() < deadline => {
                    thread::sleep(BETWEEN_TRIES);
                }
                (Err(error), _) => panic!("nobody takes a session that saw {last:x}: {error}"),
            }
        }
    }

    /// What is there when it is asked for: in an ensemble after a sync, in one segment.
    pub(crate) fn read(&self, client: &mut RawClient, path: &str) -> Reply {
        let Self::Three { .. } = self else { return get(client, path, false) };
        let requests =
            [(op::SYNC, request::path(path)), (op::GET_DATA, request::path_watch(path, false))];
        let mut replies = ask_together(client, &requests).expect("replies");
        assert_eq!(replies.iter().map(|reply| reply.err).collect::<Vec<_>>(), [0, 0], "{path}");
        replies.remove(1)
    }

    /// All of it by SIGKILL.
    pub(crate) fn kill(&mut self) {
        match self {
            Self::One(server) => server.kill(),
            Self::Three { ensemble, .. } => ensemble.kill(),
        }
    }

    pub(crate) fn restart(&mut self) {
        match self {
            Self::One(server) => server.restart(),
            Self::Three { ensemble, .. } => ensemble.start_again(),
        }
    }
}
