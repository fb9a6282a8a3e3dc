//! One change and everybody who watches: from the request to the last event.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use crate::connection::Connection;
use crate::request::{self, LIST};

/// An event that has not come by then is lost.
const LOST: Duration = Duration::from_secs(60);

/// The times of `rounds` changes, each told to `watchers` sessions.
pub(crate) fn times(server: SocketAddr, watchers: u32, rounds: u32) -> io::Result<Vec<Duration>> {
    let mut writer = Connection::open(server, 0)?;
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut connections = Vec::new();
    for number in 0..watchers {
        let mut connection = Connection::open(server, number)?;
        connection.unblock()?;
        let data = epoll::EventData::new_u64(u64::from(number));
        epoll::add(&ready, &connection, data, epoll::EventFlags::IN)?;
        connections.push(connection);
    }
    let mut times = Vec::new();
    for _ in 0..rounds {
        for connection in &mut connections {
            *connection.out() = request::frame(1, &request::get(LIST, true));
            connection.flush()?;
        }
        collect(&ready, &mut connections, false)?;
        let began = Instant::now();
        let head = writer.call(&request::set(LIST, b"changed"))?;
        if head.error != 0 {
            return Err(io::Error::other(format!("the change is answered {}", head.error)));
        }
        collect(&ready, &mut connections, true)?;
        times.push(began.elapsed());
    }
    Ok(times)
}

/// Waits until each connection has one frame: an event, or the answer.
fn collect(
    ready: &impl std::os::fd::AsFd,
    connections: &mut [Connection],
    event: bool,
) -> io::Result<()> {
    let deadline = Instant::now() + LOST;
    let mut missing = connections.len();
    let mut wrong = 0;
    let mut events = Vec::with_capacity(1024);
    while missing > 0 {
        if Instant::now() > deadline {
            return Err(io::Error::other(format!("{missing} watchers have heard nothing")));
        }
        let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
        epoll::wait(ready, rustix::buffer::spare_capacity(&mut events), Some(&timeout))?;
        for found in events.drain(..) {
            let found: epoll::Event = found;
            let connection = &mut connections[found.data.u64() as usize];
            connection.receive(|head| {
                missing = missing.saturating_sub(1);
                wrong += u32::from(head.is_event() != event);
            })?;
            connection.shrink();
        }
    }
    if wrong > 0 {
        return Err(io::Error::other(format!("{wrong} frames are not what is due")));
    }
    Ok(())
}
