//! New sessions: a handshake, a closeSession, and the next one.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jute::protocol::Request;

use crate::connection::Connection;

/// Sessions opened and closed one after the other on each of `connections` threads; returns how
/// many a second.
pub(crate) fn per_second(
    server: SocketAddr,
    connections: u32,
    warm_up: Duration,
    measured: Duration,
) -> io::Result<f64> {
    let start = Instant::now() + warm_up;
    let end = start + measured;
    let numbers = AtomicU32::new(0);
    let counts: io::Result<Vec<u64>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|_| {
                scope.spawn(|| {
                    let mut count = 0;
                    while Instant::now() < end {
                        let number = numbers.fetch_add(1, Ordering::Relaxed);
                        Connection::open(server, number)?.call(&Request::CloseSession)?;
                        count += u64::from(Instant::now() >= start);
                    }
                    Ok(count)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    Ok(counts?.iter().sum::<u64>() as f64 / measured.as_secs_f64())
}
