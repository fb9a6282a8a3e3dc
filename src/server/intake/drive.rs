//! The task that drives a client's connection: it reads frames, answers or submits them, and sends
//! what the orderer leaves to it. Order is kept by one rule: while anything of the connection is
//! with the orderer, nothing is answered here.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::inbox::{Inbox, Step};
use super::listings;
use super::watch_again;
use crate::engine::decide::tracker::Attached;
use crate::server::client::connection::{Connection, LAST_WORDS, interest, sleep_until};
use crate::server::client::outbox::Sent;
use crate::server::figures::series::Counter;
use crate::server::shared::Server;

/// A client sends something three times in its timeout; where it is not read, it is looked for
/// twice as often.
const LOOKS_A_TIMEOUT: u64 = 6;

/// Waits while a request is first in `inbox` that cannot be answered yet. What the orderer
/// leaves to the task is sent meanwhile, and what the client sends is a sign of life. `None`
/// when the connection is to end.
pub(in crate::server) async fn wait_for<T>(
    connection: &Connection,
    server: &Server,
    inbox: &mut Inbox,
    what: impl Future<Output = T>,
) -> io::Result<Option<T>> {
    let mut what = pin!(what);
    let mut arrivals = None;
    loop {
        let sent = connection.send()?;
        if connection.outbox().is_ended() {
            return Ok(None);
        }
        let reads = inbox.has_place();
        if !reads && arrivals.is_none() {
            arrivals =
                connection.session().map(|session| Arrivals::new(connection.socket(), session));
        }
        tokio::select! {
            got = &mut what => return Ok(Some(got)),
            ready = connection.ready(interest(reads, sent == Sent::Blocked)) => {
                if ready?.is_readable() && reads {
                    if !inbox.read(connection.socket())? {
                        server.stats.series.count(Counter::ConnectionsDropped, 1);
                        connection.outbox().abandon();
                    } else {
                        connection.is_heard();
                    }
                }
            }
            () = connection.kicked() => {}
            () = sleep_until(arrivals.as_ref().map(|its| its.next_look)) => {
                if arrivals.as_mut().is_some_and(|its| its.look(connection.socket())) {
                    connection.is_heard();
                }
            }
        }
    }
}

/// Waits for a round of the ensemble: what is read now would be too old. Who waits in vain is
/// closed after what it was told. Whether it goes on.
pub(in crate::server) async fn wait_for_round(
    connection: &Connection,
    server: &Server,
    inbox: &mut Inbox,
) -> io::Result<bool> {
    server.stats.series.count(Counter::ReadsTooOldWaited, 1);
    let is_young = wait_for(connection, server, inbox, server.round()).await?;
    if is_young == Some(false) {
        server.connections.end_too_old(connection);
    }
    Ok(is_young == Some(true))
}

/// Drives the connection to its end.
pub(in crate::server) async fn run(connection: Arc<Connection>, server: Arc<Server>) {
    let ending = server.ending.clone();
    let place = OpenPlace { connection, server };
    let OpenPlace { connection, server } = &place;
    let mut inbox = Inbox::new(Arc::clone(server));
    tokio::select! {
        result = drive(connection, server, &mut inbox) => {
            if let Err(error) = result {
                tracing::debug!(peer = %connection.peer(), %error, "connection lost");
            }
        }
        () = ending.cancelled() => {}
    }
}

async fn drive(connection: &Connection, server: &Arc<Server>, inbox: &mut Inbox) -> io::Result<()> {
    let handshake_ends = Instant::now() + server.config.sessionless_timeout;
    let mut last_words: Option<Instant> = None;
    loop {
        let step = if connection.is_leaving() || connection.outbox().is_ended() {
            inbox.leave();
            Step::Leave
        } else {
            inbox.process(connection)
        };
        let mut sent = connection.send()?;
        if sent == Sent::List {
            // Boxed, as is the making of a list: else every connection's task had room for it.
            sent = Box::pin(connection.send_of_list(&server.intake.listings.sending)).await?;
        }
        if connection.outbox().is_done() {
            return Ok(());
        }
        let reads = step == Step::NeedsBytes;
        match step {
            Step::HangUp => return Ok(()),
            _ if sent == Sent::List => {
                tokio::task::yield_now().await;
                continue;
            }
            step @ (Step::Word(_)
            | Step::List(_)
            | Step::WatchAgain
            | Step::NeedsUnread(_)
            | Step::NeedsRoom(_)
            | Step::NeedsRound
            | Step::NeedsAuditRoom(_)) => {
                let got = get(connection, server, inbox, step, handshake_ends);
                if !Box::pin(got).await? {
                    return Ok(());
                }
                continue;
            }
            Step::Drain => {
                if connection.is_drained() {
                    continue;
                }
            }
            Step::Full if !connection.outbox().is_full(0) => continue,
            Step::Again => {
                tokio::task::yield_now().await;
                continue;
            }
            Step::NeedsBytes => {
                if inbox.is_idle() {
                    connection.outbox().shrink();
                }
            }
            Step::Full => {}
            Step::Leave => {
                last_words.get_or_insert_with(|| Instant::now() + LAST_WORDS);
            }
        }
        let writes = sent == Sent::Blocked;
        let deadline = match last_words {
            Some(_) => last_words,
            None if connection.session().is_none() => Some(handshake_ends),
            None => None,
        };
        tokio::select! {
            ready = connection.ready(interest(reads, writes)) => {
                if ready?.is_readable() && reads && !inbox.read(connection.socket())? {
                    server.stats.series.count(Counter::ConnectionsDropped, 1);
                    return Ok(());
                }
            }
            () = connection.kicked() => {}
            () = sleep_until(deadline) => {
                if last_words.is_none() {
                    server.stats.series.count(Counter::SessionlessExpired, 1);
                }
                return Ok(());
            }
        }
    }
}

/// Gets what the request that is first waits for, or gives the answer that takes long. False where
/// the connection ends at once.
async fn get(
    connection: &Connection,
    server: &Arc<Server>,
    inbox: &mut Inbox,
    step: Step,
    handshake_ends: Instant,
) -> io::Result<bool> {
    match step {
        Step::Word(word) => {
            connection.set_half_told(true);
            Box::pin(word.tell(connection, server)).await?;
            connection.outbox().end();
        }
        Step::List(listing) => {
            Box::pin(listings::answer(connection, server, inbox, *listing)).await?;
        }
        Step::WatchAgain => Box::pin(watch_again::answer(connection, server, inbox)).await?,
        Step::NeedsUnread(bytes) => {
            let room = server.connections.room(bytes);
            if let Some(taken) = wait_for(connection, server, inbox, room).await? {
                inbox.grant(taken);
            }
        }
        Step::NeedsRoom(share) => {
            let is_connected = connection.session().is_some();
            let taken = server.intake.rooms.take(share);
            // Others may have much to say: meanwhile this one is alive, is sent what there is, or
            // hangs up.
            let waiting = wait_for(connection, server, inbox, taken);
            let taken = if is_connected {
                waiting.await?
            } else if let Ok(taken) = timeout_at(handshake_ends, waiting).await {
                taken?
            } else {
                server.stats.series.count(Counter::SessionlessExpired, 1);
                return Ok(false);
            };
            if let Some(room) = taken.flatten() {
                inbox.grant_room(room);
            }
        }
        Step::NeedsRound => {
            wait_for_round(connection, server, inbox).await?;
        }
        Step::NeedsAuditRoom(bytes) => {
            if let Some(audit) = &server.audit {
                let room = audit.room(bytes);
                if let Some(held) = wait_for(connection, server, inbox, room).await? {
                    inbox.grant_audit(held);
                }
            }
        }
        // Nothing is to be got.
        Step::NeedsBytes | Step::Drain | Step::Full | Step::Again | Step::Leave | Step::HangUp => {}
    }
    Ok(true)
}

/// What arrives in a socket that is not read, looked at now and then: a client that says something
/// lives.
struct Arrivals {
    /// Bytes that lay there at the last look.
    lying: u64,
    next_look: Instant,
    between: Duration,
}

impl Arrivals {
    fn new(socket: &TcpStream, session: &Attached) -> Self {
        let timeout_ms = u64::try_from(session.timeout_ms).unwrap_or_default();
        let between = Duration::from_millis((timeout_ms / LOOKS_A_TIMEOUT).max(1));
        Self { lying: lying(socket), next_look: Instant::now() + between, between }
    }

    /// Whether something arrived since the last look.
    fn look(&mut self, socket: &TcpStream) -> bool {
        self.next_look = Instant::now() + self.between;
        let before = std::mem::replace(&mut self.lying, lying(socket));
        self.lying > before
    }
}

/// Bytes in a socket that were not read.
fn lying(socket: &TcpStream) -> u64 {
    rustix::io::ioctl_fionread(socket).unwrap_or_default()
}

/// The place of a connection among the others, given back whatever ends its task: a panic, too.
struct OpenPlace {
    connection: Arc<Connection>,
    server: Arc<Server>,
}

impl Drop for OpenPlace {
    fn drop(&mut self) {
        let Self { connection, server } = self;
        if connection.outbox().is_done() {
            connection.set_half_told(false);
        } else if connection.is_half_told() {
            // At once: the process may end before anybody takes the connection out.
            let _ = SockRef::from(connection.socket()).set_linger(Some(Duration::ZERO));
        }
        connection.outbox().abandon();
        server.ended.put(Arc::clone(connection));
    }
}

#[cfg(test)]
#[path = "drive_test.rs"]
mod drive_test;
