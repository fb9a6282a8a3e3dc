//! HTTP connections, a few at a time: a crowd of them must not take the descriptors that the log
//! needs. One that is idle gives way to one more, so that a crowd keeps no probe out either.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::server::descriptors::HTTP_PLACES;

/// An HTTP port.
#[derive(Debug)]
pub(super) struct HttpListener {
    listener: TcpListener,
    crowd: Arc<Crowd>,
    idle_max: Option<Duration>,
}

impl HttpListener {
    /// A connection may be without an answer for `idle_max` before others get its place: between
    /// two requests, while it sends one, and while it takes an answer.
    pub(in crate::server) fn new(listener: TcpListener, idle_max: Option<Duration>) -> Self {
        Self { listener, crowd: Arc::default(), idle_max }
    }
}

impl Listener for HttpListener {
    type Io = HttpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (HttpStream, SocketAddr) {
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        let permit = self.crowd.room_for_one().await;
        let idle = self.idle_max.map(|max| Idle { max, end: Box::pin(tokio::time::sleep(max)) });
        let client = self.crowd.enter(peer, stream.local_addr().ok());
        let lost = Box::pin(client.state.lost.clone().cancelled_owned());
        let place = HttpPlace { client, _permit: permit };
        (HttpStream { stream, idle, lost, place }, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// The connections of a port.
#[derive(Debug)]
struct Crowd {
    places: Arc<Semaphore>,
    open: Mutex<Vec<Arc<HttpState>>>,
    /// Counts what connections do, in place of a clock.
    steps: AtomicU64,
    /// One more of them may be idle.
    answered: Notify,
}

impl Default for Crowd {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(HTTP_PLACES)),
            open: Mutex::default(),
            steps: AtomicU64::new(0),
            answered: Notify::new(),
        }
    }
}

/// How a connection is.
#[derive(Debug)]
struct HttpState {
    /// An answer is being made.
    is_answered: AtomicBool,
    /// It sent a whole request once.
    has_asked: AtomicBool,
    /// The step at which it did something last.
    active: AtomicU64,
    /// It is to give way.
    lost: CancellationToken,
}

impl Crowd {
    fn enter(self: &Arc<Self>, peer: SocketAddr, own: Option<SocketAddr>) -> Client {
        let state = Arc::new(HttpState {
            is_answered: AtomicBool::new(false),
            has_asked: AtomicBool::new(false),
            active: AtomicU64::new(self.step()),
            lost: CancellationToken::new(),
        });
        self.open.lock().push(Arc::clone(&state));
        Client { peer, own, state, crowd: Arc::clone(self) }
    }

    fn step(&self) -> u64 {
        self.steps.fetch_add(1, Ordering::Relaxed)
    }

    /// A place: one that is free, or soon that of whoever is idle.
    async fn room_for_one(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
                return Some(place);
            }
            self.give_up_one();
            tokio::select! {
                // The semaphore is never closed.
                place = Arc::clone(&self.places).acquire_owned() => return place.ok(),
                () = self.answered.notified() => {}
            }
        }
    }

    /// Gives up the connection that has done nothing for longest, those first that never asked for
    /// anything. None whose answer is being made, and none while another one is about to go.
    fn give_up_one(&self) {
        let open = self.open.lock();
        if open.iter().any(|state| state.lost.is_cancelled()) {
            return;
        }
        let idle = open.iter().filter(|state| !state.is_answered.load(Ordering::Relaxed));
        let longest = idle.min_by_key(|state| {
            (state.has_asked.load(Ordering::Relaxed), state.active.load(Ordering::Relaxed))
        });
        if let Some(longest) = longest {
            longest.lost.cancel();
        }
    }
}

/// Whose connection a request came by.
#[derive(Debug, Clone)]
pub(in crate::server) struct Client {
    pub(in crate::server) peer: SocketAddr,
    /// The end of it that is this server's.
    pub(in crate::server) own: Option<SocketAddr>,
    state: Arc<HttpState>,
    crowd: Arc<Crowd>,
}

impl Client {
    /// The connection is not idle as long as this is kept.
    pub(super) fn answering(&self) -> Answering {
        self.state.is_answered.store(true, Ordering::Relaxed);
        self.state.has_asked.store(true, Ordering::Relaxed);
        Answering(self.clone())
    }

    fn is_active(&self) {
        self.state.active.store(self.crowd.step(), Ordering::Relaxed);
    }
}

impl Connected<IncomingStream<'_, HttpListener>> for Client {
    fn connect_info(stream: IncomingStream<'_, HttpListener>) -> Self {
        stream.io().place.client.clone()
    }
}

/// An answer is being made, however long that takes.
#[derive(Debug)]
pub(super) struct Answering(Client);

impl Drop for Answering {
    fn drop(&mut self) {
        let Self(client) = self;
        client.is_active();
        client.state.is_answered.store(false, Ordering::Relaxed);
        client.crowd.answered.notify_one();
    }
}

/// A place among the connections, given back when dropped.
#[derive(Debug)]
struct HttpPlace {
    client: Client,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Drop for HttpPlace {
    fn drop(&mut self) {
        let Client { state, crowd, .. } = &self.client;
        crowd.open.lock().retain(|other| !Arc::ptr_eq(other, state));
    }
}

/// How long nothing has been answered.
#[derive(Debug)]
struct Idle {
    max: Duration,
    end: Pin<Box<Sleep>>,
}

impl Idle {
    fn begin_again(&mut self) {
        self.end.as_mut().reset(Instant::now() + self.max);
    }
}

/// An HTTP connection with its place. The socket is closed before the place is given back.
#[derive(Debug)]
pub(super) struct HttpStream {
    stream: TcpStream,
    idle: Option<Idle>,
    lost: Pin<Box<WaitForCancellationFutureOwned>>,
    place: HttpPlace,
}

impl HttpStream {
    /// Ends the wait for a client that lets itself be waited for too long, or has to give way.
    fn poll_idle<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let state = &self.place.client.state;
        if self.lost.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let Some(idle) = &mut self.idle else { return Poll::Pending };
        loop {
            ready!(idle.end.as_mut().poll(cx));
            if !state.is_answered.load(Ordering::Relaxed) {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            idle.begin_again();
        }
    }
}

impl AsyncRead for HttpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Pending => self.poll_idle(cx),
            read => read,
        }
    }
}

impl AsyncWrite for HttpStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match Pin::new(&mut self.stream).poll_write(cx, bytes) {
            Poll::Pending => self.poll_idle(cx),
            written => {
                self.place.client.is_active();
                if let Some(idle) = &mut self.idle {
                    idle.begin_again();
                }
                written
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const IDLE_MAX: Duration = Duration::from_millis(50);

    async fn pair() -> (HttpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut listener = HttpListener::new(listener, Some(IDLE_MAX));
        let peer = TcpStream::connect(address).await.expect("a connection");
        (listener.accept().await.0, peer)
    }

    #[tokio::test]
    async fn a_peer_that_reads_nothing_is_given_up() {
        let (mut stream, _peer) = pair().await;
        let more_than_sockets_take = vec![0; 64 << 20];
        let error = stream.write_all(&more_than_sockets_take).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn an_answer_may_take_its_time() {
        let (mut stream, _peer) = pair().await;
        let answering = stream.place.client.answering();
        let waits = tokio::time::timeout(4 * IDLE_MAX, stream.read_u8()).await;
        assert!(waits.is_err(), "the connection was given up: {waits:?}");
        drop(answering);
        let error = stream.read_u8().await.expect_err("nobody writes");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    struct Port {
        listener: HttpListener,
        address: SocketAddr,
    }

    impl Port {
        async fn open() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            Self { listener: HttpListener::new(listener, None), address }
        }

        /// Whoever has to give way does.
        async fn take(&mut self, open: &mut Vec<HttpStream>) -> TcpStream {
            let peer = TcpStream::connect(self.address).await.expect("a connection");
            let mut accept = std::pin::pin!(self.listener.accept());
            let accepted = loop {
                tokio::select! {
                    biased;
                    accepted = &mut accept => break accepted.0,
                    () = tokio::task::yield_now() => {
                        open.retain(|stream| !stream.place.client.state.lost.is_cancelled());
                    }
                }
            };
            open.push(accepted);
            peer
        }
    }

    #[tokio::test]
    async fn idle_connections_give_way_to_one_more() {
        let mut port = Port::open().await;
        let (mut open, mut peers) = (Vec::new(), Vec::new());
        for _ in 0..HTTP_PLACES {
            peers.push(port.take(&mut open).await);
        }
        let addresses: Vec<SocketAddr> =
            peers.iter().map(|peer| peer.local_addr().expect("an address")).collect();
        // The first is being answered, and the second has been.
        let answering = open[0].place.client.answering();
        drop(open[1].place.client.answering());
        for _ in 0..3 {
            peers.push(port.take(&mut open).await);
        }
        let there: Vec<SocketAddr> = open.iter().map(|stream| stream.place.client.peer).collect();
        assert_eq!(there.len(), HTTP_PLACES);
        assert_eq!(there[..2], addresses[..2]);
        assert_eq!(there[2..4], addresses[5..7], "the longest idle ones are gone");
        drop(answering);
    }

    #[tokio::test]
    async fn who_has_to_give_way_is_told_while_it_is_waited_for() {
        let mut port = Port::open().await;
        let mut open = Vec::new();
        let _peer = port.take(&mut open).await;
        let mut stream = open.pop().expect("it is open");
        stream.place.client.crowd.give_up_one();
        let error = stream.read_u8().await.expect_err("another one has its place");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
    }

    #[tokio::test]
    async fn while_all_are_answered_one_more_waits_for_the_first_that_is() {
        let mut port = Port::open().await;
        let (mut open, mut peers) = (Vec::new(), Vec::new());
        for _ in 0..HTTP_PLACES {
            peers.push(port.take(&mut open).await);
        }
        let mut answering: Vec<Answering> =
            open.iter().map(|stream| stream.place.client.answering()).collect();
        peers.push(TcpStream::connect(port.address).await.expect("a connection"));
        {
            let mut accept = std::pin::pin!(port.listener.accept());
            tokio::select! {
                biased;
                _ = &mut accept => panic!("nobody is idle"),
                () = tokio::task::yield_now() => {}
            }
            assert!(open.iter().all(|stream| !stream.place.client.state.lost.is_cancelled()));
        }
        // Whoever was being waited with is accepted again in a test; the place is what counts.
        drop(answering.remove(3));
        port.listener.crowd.give_up_one();
        let lost: Vec<bool> =
            open.iter().map(|stream| stream.place.client.state.lost.is_cancelled()).collect();
        assert_eq!(lost.iter().position(|lost| *lost), Some(3));
        assert_eq!(lost.iter().filter(|lost| **lost).count(), 1);
    }
}
