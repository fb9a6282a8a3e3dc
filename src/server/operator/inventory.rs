//! What there is a lot of: all watches, sessions, ephemeral znodes or connections, as `wchc` and
//! its kin tell of them.
//!
//! An inventory is taken on a thread of its own, a slice under each hold with a rest after it, and
//! goes out in pieces as it is taken; one of a kind at a time. It is of no single instant: what
//! stays meanwhile is in it, and what comes or goes may be.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::engine::NodeId;
use crate::engine::decide::expiry::ExpiryPlace;
use crate::engine::session::SessionId;
use crate::engine::time::Monotonic;
use crate::engine::watch::{ConnectionId, WatchPair, WatchPlace};
use crate::ensemble::{Inquiry, Scope};
use crate::server::client::connection::Connection;
use crate::server::shared::Server;

/// What is looked at under one hold: some 100 us.
const SLICE: usize = 512;
/// Bytes of paths that are copied under one hold.
const SLICE_BYTES: usize = 256 << 10;
/// Between two slices: whoever waits for the hold has it.
const REST: Duration = Duration::from_micros(50);
/// Bytes that go out together.
const PIECE: usize = 64 << 10;
/// Pieces that wait for whoever asked, beside the one that is being filled and the one that is
/// being sent.
const PIECES_AHEAD: usize = 2;
/// How long taking one and sending it may last.
const TIME_MAX: Duration = Duration::from_secs(60);
/// How long a piece of an asker who does not read keeps another one waiting for the turn.
const PIECE_PATIENCE: Duration = Duration::from_secs(3);
/// Watches whose order is made at once: 64 MiB of pairs. With more of them the table is walked
/// several times.
const PAIRS_MAX: usize = (64 << 20) / size_of::<WatchPair>();
/// How long the orderer is waited for.
const ORDERER_PATIENCE: Duration = Duration::from_secs(5);

/// Of what an inventory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum InventoryKind {
    Connections,
    /// What they own, too.
    Sessions,
    Watches,
}

/// Whose turn it is to have one of each kind.
#[derive(Debug)]
pub(in crate::server) struct Inventories([Arc<Queue>; 3]);

/// Those who ask for one kind.
#[derive(Debug)]
struct Queue {
    turn: Arc<Semaphore>,
    waiting: watch::Sender<usize>,
}

impl Queue {
    fn new() -> Self {
        Self { turn: Arc::new(Semaphore::new(1)), waiting: watch::Sender::new(0) }
    }
}

/// Somebody who waits for the turn.
struct Waiter<'a>(&'a Queue);

impl<'a> Waiter<'a> {
    fn new(queue: &'a Queue) -> Self {
        queue.waiting.send_modify(|waiting| *waiting += 1);
        Self(queue)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|waiting| *waiting -= 1);
    }
}

/// The turn, until it is dropped.
#[derive(Debug)]
pub(in crate::server) struct Turn {
    queue: Arc<Queue>,
    _permit: OwnedSemaphorePermit,
}

impl Turn {
    /// Ends once others have been waiting for the turn so long.
    async fn missed_for(&self, patience: Duration) {
        let mut waiting = self.queue.waiting.subscribe();
        loop {
            let _ = waiting.wait_for(|waiting| *waiting > 0).await;
            let nobody = waiting.wait_for(|waiting| *waiting == 0);
            if timeout(patience, nobody).await.is_err() {
                return;
            }
        }
    }
}

impl Inventories {
    pub(in crate::server) fn new() -> Self {
        Self([(); 3].map(|()| Arc::new(Queue::new())))
    }

    fn of(&self, kind: InventoryKind) -> Arc<Queue> {
        let [connections, sessions, watches] = &self.0;
        Arc::clone(match kind {
            InventoryKind::Connections => connections,
            InventoryKind::Sessions => sessions,
            InventoryKind::Watches => watches,
        })
    }

    /// Waits for the turn, though not for ever.
    pub(in crate::server) async fn turn(&self, kind: InventoryKind) -> Option<Turn> {
        let queue = self.of(kind);
        let permit = {
            let _waiter = Waiter::new(&queue);
            let turn = Arc::clone(&queue.turn).acquire_owned();
            timeout_at(Instant::now() + TIME_MAX, turn).await.ok()?.ok()?
        };
        Some(Turn { queue, _permit: permit })
    }
}

/// Pieces of an inventory, as they come.
#[derive(Debug)]
pub(super) struct Pieces {
    pieces: mpsc::Receiver<Bytes>,
    end: Instant,
    /// Whether the last piece came.
    ended: oneshot::Receiver<()>,
}

impl Pieces {
    /// Has an inventory taken and written by `write`.
    pub(in crate::server) fn take(
        server: &Arc<Server>,
        turn: Turn,
        write: impl FnOnce(&Arc<Server>, &mut Sink) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let (to, pieces) = mpsc::channel(PIECES_AHEAD);
        let (tell, ended) = oneshot::channel();
        let server = Arc::clone(server);
        let end = Instant::now() + TIME_MAX;
        tokio::task::spawn_blocking(move || {
            let mut sink = Sink { piece: Vec::new(), to, turn, end, runtime: Handle::current() };
            if write(&server, &mut sink).and_then(|()| sink.send()).is_ok() {
                let _ = tell.send(());
            }
        });
        Self { pieces, end, ended }
    }

    /// The next piece; nothing after the last.
    ///
    /// # Errors
    /// When it takes too long, or those before were not taken in time.
    pub(in crate::server) async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let too_long = |_| io::Error::from(io::ErrorKind::TimedOut);
        if let Some(piece) = timeout_at(self.end, self.pieces.recv()).await.map_err(too_long)? {
            return Ok(Some(piece));
        }
        match (&mut self.ended).await {
            Ok(()) => Ok(None),
            Err(_) => Err(io::Error::other("the inventory was not finished")),
        }
    }

    /// Sends all of them on a connection, as fast as its client reads.
    ///
    /// # Errors
    /// When the client is gone or reads too slowly.
    pub(in crate::server) async fn send(mut self, connection: &Connection) -> io::Result<()> {
        loop {
            connection.send_all(PIECE, self.end).await?;
            let Some(piece) = self.next().await? else { return Ok(()) };
            if !connection.outbox().put(|out| out.extend_from_slice(&piece)) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
    }
}

/// Takes what is written, and waits for a while where enough of it is on its way.
#[derive(Debug)]
pub(in crate::server) struct Sink {
    piece: Vec<u8>,
    to: mpsc::Sender<Bytes>,
    turn: Turn,
    end: Instant,
    runtime: Handle,
}

impl Sink {
    fn send(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = Bytes::from(std::mem::take(&mut self.piece));
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                sent = self.to.send(piece) => sent.map_err(|_| io::ErrorKind::BrokenPipe.into()),
                () = self.turn.missed_for(PIECE_PATIENCE) => Err(io::ErrorKind::TimedOut.into()),
                () = sleep_until(self.end) => Err(io::ErrorKind::TimedOut.into()),
            }
        })
    }
}

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Brings more pairs of a head and what stands below it; false when there are none.
type Refill<'a, K, V> = dyn FnMut(&mut VecDeque<(K, V)>) -> bool + 'a;

/// Pairs that come in slices, those of one head after another.
pub(in crate::server) struct Grouped<'a, K, V> {
    ready: VecDeque<(K, V)>,
    refill: Box<Refill<'a, K, V>>,
}

impl<'a, K: Clone + PartialEq, V> Grouped<'a, K, V> {
    fn new(refill: impl FnMut(&mut VecDeque<(K, V)>) -> bool + 'a) -> Self {
        Self { ready: VecDeque::new(), refill: Box::new(refill) }
    }

    fn fill(&mut self) {
        while self.ready.is_empty() && (self.refill)(&mut self.ready) {
            thread::sleep(REST);
        }
    }

    /// The head of what comes next; nothing at the end.
    pub(in crate::server) fn head(&mut self) -> Option<K> {
        self.fill();
        self.ready.front().map(|(head, _)| head.clone())
    }

    /// What comes next, if it has this head.
    pub(super) fn next_of(&mut self, head: &K) -> Option<V> {
        self.fill();
        self.ready.pop_front_if(|(next, _)| *next == *head).map(|(_, value)| value)
    }
}

fn session_of(server: &Server, connection: ConnectionId) -> Option<SessionId> {
    Some(server.connections.get(connection)?.session_id())
}

/// Sessions by the path that they watch, data watches only.
pub(super) fn watches_by_path(server: &Server) -> Grouped<'_, Arc<str>, SessionId> {
    let mut place = Some(server.replica.shared().watches().lock().begin_data_walk());
    let mut last: Option<Arc<str>> = None;
    let mut slice = Vec::new();
    Grouped::new(move |ready| {
        let Some(from) = place.take() else { return false };
        let mut bytes = 0;
        {
            let database = server.replica.shared();
            let watches = database.watches().lock();
            place = watches.walk_data(from, SLICE, |_, path, connection| {
                let path = match &last {
                    Some(last) if **last == *path => Arc::clone(last),
                    _ => {
                        bytes += path.len();
                        Arc::clone(last.insert(path.into()))
                    }
                };
                slice.push((path, connection));
                bytes < SLICE_BYTES
            });
        }
        let known = slice.drain(..);
        ready.extend(known.filter_map(|(path, its)| Some((path, session_of(server, its)?))));
        true
    })
}

/// Paths by the session that watches them, data watches only.
pub(super) fn watches_by_session(server: &Server) -> Grouped<'_, SessionId, String> {
    by_session_at_once(server, PAIRS_MAX)
}

/// The same with so many pairs in memory at once. A walk meets the watches by their paths: those of
/// some connections are gathered, put in order, and looked up again.
fn by_session_at_once(server: &Server, pairs_max: usize) -> Grouped<'_, SessionId, String> {
    let count = server.replica.shared().watches().lock().data_summary().2;
    let rounds = u32::try_from(count.div_ceil(pairs_max).max(1)).unwrap_or(u32::MAX);
    let mut round = 0;
    let mut place = None;
    let mut pairs: VecDeque<WatchPair> = VecDeque::new();
    let mut slice = Vec::new();
    Grouped::new(move |ready| {
        if pairs.is_empty() {
            let Some(from) = place.take().or_else(|| {
                (round < rounds).then(|| {
                    round += 1;
                    server.replica.shared().watches().lock().begin_data_walk()
                })
            }) else {
                return false;
            };
            let mut gathered = Vec::new();
            place = gather(
                server,
                from,
                pairs_max,
                |pair| pair.connection() % rounds == round - 1,
                &mut gathered,
            );
            gathered.sort_unstable();
            pairs = gathered.into();
            return true;
        }
        {
            let database = server.replica.shared();
            let watches = database.watches().lock();
            let mut bytes = 0;
            for _ in 0..SLICE {
                if bytes >= SLICE_BYTES {
                    break;
                }
                let Some(pair) = pairs.pop_front() else { break };
                if let Some((connection, path)) = watches.data_watch(pair) {
                    bytes += path.len();
                    slice.push((connection, path.to_owned()));
                }
            }
        }
        let known = slice.drain(..);
        ready.extend(known.filter_map(|(its, path)| Some((session_of(server, its)?, path))));
        true
    })
}

/// Walks on until all watches were met or so many pairs are gathered, and tells where to go on
/// then.
fn gather(
    server: &Server,
    from: WatchPlace,
    pairs_max: usize,
    is_wanted: impl Fn(&WatchPair) -> bool,
    gathered: &mut Vec<WatchPair>,
) -> Option<WatchPlace> {
    let mut place = Some(from);
    while let Some(from) = place
        && gathered.len() < pairs_max
    {
        place = server.replica.shared().watches().lock().walk_data(from, SLICE, |pair, _, _| {
            if is_wanted(&pair) {
                gathered.push(pair);
            }
            gathered.len() < pairs_max
        });
        thread::sleep(REST);
    }
    place
}

/// Paths of ephemeral znodes by their sessions.
pub(in crate::server) fn ephemerals(server: &Server) -> Grouped<'_, SessionId, String> {
    let mut last: Option<(SessionId, NodeId)> = None;
    let mut is_over = false;
    Grouped::new(move |ready| {
        if is_over {
            return false;
        }
        let (mut bytes, mut count) = (0, 0);
        let database = server.replica.shared();
        let tree = database.tree();
        is_over = tree.ephemerals_after(last, |session, node| {
            let path = tree.path(node);
            bytes += path.len();
            count += 1;
            ready.push_back((session, path));
            last = Some((session, node));
            count < SLICE && bytes < SLICE_BYTES
        });
        true
    })
}

/// Sessions by the time at which they expire, soonest first: 16 bytes of each. None where this
/// server does not know.
pub(in crate::server) fn expiries(
    server: &Server,
    scope: Scope,
) -> Option<Vec<(Monotonic, SessionId)>> {
    let mut all = Vec::new();
    let mut place = Some(ExpiryPlace::default());
    while let Some(from) = place {
        let (to, answer) = sync_channel(1);
        server.intake.queue.ask(Inquiry::Expiry(scope, from, to));
        let (some, next) = answer.recv_timeout(ORDERER_PATIENCE).ok().flatten()?;
        all.extend(some);
        place = next;
    }
    // A session whose bucket came while others were told of stands after them.
    all.sort_unstable();
    all.dedup();
    Some(all)
}

/// The sessions that there are with their timeouts, in slices.
pub(super) fn each_session(
    server: &Server,
    mut each: impl FnMut(SessionId, i32) -> io::Result<()>,
) -> io::Result<()> {
    let mut last = None;
    loop {
        let some = server.replica.shared().sessions_after(last, SLICE);
        let Some(&(session, _)) = some.last() else { return Ok(()) };
        last = Some(session);
        some.into_iter().try_for_each(|(session, timeout_ms)| each(session, timeout_ms))?;
        thread::sleep(REST);
    }
}
