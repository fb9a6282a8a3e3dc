//! HTTP connections, a few at a time: a crowd of them must not take the descriptors that the log needs.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// Connections at a time; further ones wait in the backlog.
const PLACES: usize = 16;

/// An HTTP port.
#[derive(Debug)]
pub(super) struct HttpListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
    idle_max: Option<Duration>,
}

impl HttpListener {
    /// A connection may be without an answer for `idle_max` before others get its place: between two requests, while it
    /// sends one, and while it takes an answer.
    pub(super) fn new(listener: TcpListener, idle_max: Option<Duration>) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(PLACES)), idle_max }
    }
}

impl Listener for HttpListener {
    type Io = HttpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (HttpStream, SocketAddr) {
        // The semaphore is never closed.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        let idle = self.idle_max.map(|max| Idle { max, end: Box::pin(tokio::time::sleep(max)) });
        (HttpStream { stream, idle, client: Client::new(peer), _place: place }, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Whose connection a request came by.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) peer: SocketAddr,
    is_answered: Arc<AtomicBool>,
}

impl Client {
    fn new(peer: SocketAddr) -> Self {
        Self { peer, is_answered: Arc::default() }
    }

    /// The connection is not idle as long as this is kept.
    pub(super) fn answering(&self) -> Answering {
        self.is_answered.store(true, Ordering::Relaxed);
        Answering(Arc::clone(&self.is_answered))
    }
}

impl Connected<IncomingStream<'_, HttpListener>> for Client {
    fn connect_info(stream: IncomingStream<'_, HttpListener>) -> Self {
        stream.io().client.clone()
    }
}

/// An answer is being made, however long that takes.
#[derive(Debug)]
pub(super) struct Answering(Arc<AtomicBool>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
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

/// An HTTP connection with its place.
#[derive(Debug)]
pub(super) struct HttpStream {
    stream: TcpStream,
    idle: Option<Idle>,
    client: Client,
    _place: Option<OwnedSemaphorePermit>,
}

impl HttpStream {
    /// Ends the wait for a client that lets itself be waited for too long.
    fn poll_idle<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let Some(idle) = &mut self.idle else { return Poll::Pending };
        loop {
            ready!(idle.end.as_mut().poll(cx));
            if !self.client.is_answered.load(Ordering::Relaxed) {
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
        let answering = stream.client.answering();
        let waits = tokio::time::timeout(4 * IDLE_MAX, stream.read_u8()).await;
        assert!(waits.is_err(), "the connection was given up: {waits:?}");
        drop(answering);
        let error = stream.read_u8().await.expect_err("nobody writes");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
