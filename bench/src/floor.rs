//! The floors: what answering, telling many, and syncing cost without a coordination service.
//!
//! The bare server answers each request with the bytes that its kind of request always gets. It
//! keeps nothing but who asked for a watch.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use hdrhistogram::Histogram;
use jute::protocol::{EventType, put_event, put_frame};
use jute::{OpCode, Record as _};
use rustix::event::epoll;

/// Bytes of the answer to a get: 100 of data and a stat.
const GET_BODY: usize = 4 + 100 + 68;
/// Bytes of the answer to a set or an exists: a stat.
const STAT_BODY: usize = 68;
const READ_CHUNK: usize = 256 << 10;
/// What a group of 32 transactions of 100 bytes takes in the log.
const SYNCED_BYTES: usize = 32 * 256;
/// Synced ahead, as the logs of both servers are.
const SYNCED_FILE: usize = 64 << 20;

struct Socket {
    stream: TcpStream,
    input: Vec<u8>,
    filled: usize,
    out: Vec<u8>,
}

/// Serves on `port` until the process is killed.
pub(crate) fn serve(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&ready, &listener, epoll::EventData::new_u64(u64::MAX), epoll::EventFlags::IN)?;
    let mut sockets: Vec<Option<Socket>> = Vec::new();
    let mut watchers: Vec<usize> = Vec::new();
    let mut events = Vec::with_capacity(1024);
    loop {
        epoll::wait(&ready, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            let event: epoll::Event = event;
            if event.data.u64() == u64::MAX {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    let number = epoll::EventData::new_u64(sockets.len() as u64);
                    epoll::add(&ready, &stream, number, epoll::EventFlags::IN)?;
                    let (input, out) = (Vec::new(), Vec::new());
                    sockets.push(Some(Socket { stream, input, filled: 0, out }));
                }
                continue;
            }
            let number = event.data.u64() as usize;
            let Some(socket) = sockets[number].as_mut() else { continue };
            match socket.turn() {
                Ok(Heard { watch, change }) => {
                    if watch {
                        watchers.push(number);
                    }
                    if change {
                        tell(&mut sockets, &mut watchers);
                    }
                }
                Err(_) => sockets[number] = None,
            }
        }
    }
}

/// One event to each watcher.
fn tell(sockets: &mut [Option<Socket>], watchers: &mut Vec<usize>) {
    let mut event = BytesMut::new();
    put_event(&mut event, -1, EventType::NodeDataChanged, crate::request::LIST);
    for watcher in watchers.drain(..) {
        if let Some(socket) = sockets[watcher].as_mut() {
            let _ = socket.stream.write_all(&event);
        }
    }
}

/// What a turn of a socket brought beside answers.
#[derive(Default)]
struct Heard {
    watch: bool,
    change: bool,
}

impl Socket {
    fn turn(&mut self) -> io::Result<Heard> {
        let mut heard = Heard::default();
        if self.input.len() - self.filled < READ_CHUNK {
            self.input.resize(self.filled + READ_CHUNK, 0);
        }
        match self.stream.read(&mut self.input[self.filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => self.filled += read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(heard),
            Err(error) => return Err(error),
        }
        let mut taken = 0;
        while let Some((length, rest)) = self.input[taken..self.filled].split_first_chunk() {
            if length == b"srvr" {
                self.stream.write_all(b"Mode: bare\n")?;
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let Some(body) = rest.get(..u32::from_be_bytes(*length) as usize) else { break };
            answer(body, &mut self.out, &mut heard);
            taken += 4 + body.len();
        }
        self.input.copy_within(taken..self.filled, 0);
        self.filled -= taken;
        // The load reads what it asked for: what does not fit now fits soon.
        self.stream.set_nonblocking(false)?;
        let sent = self.stream.write_all(&self.out);
        self.stream.set_nonblocking(true)?;
        self.out.clear();
        self.input.truncate(self.filled.max(READ_CHUNK));
        sent.map(|()| heard)
    }
}

fn answer(body: &[u8], out: &mut Vec<u8>, heard: &mut Heard) {
    let word = |at: usize| {
        let bytes = body.get(at..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |bytes| i32::from_be_bytes(*bytes))
    };
    let mut frame = BytesMut::new();
    let op = word(4);
    // A handshake has its timeout where a request has its path.
    if word(0) == 0 && body.len() > 40 && word(24) == 16 {
        put_frame(&mut frame, |out| {
            let answer = jute::protocol::ConnectResponse {
                timeout_ms: 30_000,
                session_id: 1,
                password: [0; 16],
                read_only: Some(false),
            };
            answer.encode(out);
        });
        out.extend_from_slice(&frame);
        return;
    }
    let len = match op {
        op if op == OpCode::GetData.code() => {
            heard.watch |= body.last() == Some(&1);
            GET_BODY
        }
        op if op == OpCode::SetData.code() => {
            heard.change = true;
            STAT_BODY
        }
        op if op == OpCode::Exists.code() => STAT_BODY,
        _ => 0,
    };
    out.extend_from_slice(&(16 + len as u32).to_be_bytes());
    out.extend_from_slice(&body[..4]);
    out.extend_from_slice(&[0; 12]);
    out.resize(out.len() + len, 0);
}

/// The latency of `fdatasync` after a small write into a file that is on disk already, in
/// nanoseconds.
pub(crate) fn sync_latency(folder: &Path, span: Duration) -> io::Result<Histogram<u64>> {
    let mut latency = Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("valid bounds");
    let path = folder.join("fdatasync");
    let mut file = File::create(&path)?;
    file.write_all(&vec![0; SYNCED_FILE])?;
    file.sync_all()?;
    let piece = [b'v'; SYNCED_BYTES];
    let end = Instant::now() + span;
    let mut offset = 0;
    while Instant::now() < end {
        use std::os::unix::fs::FileExt as _;
        let began = Instant::now();
        file.write_all_at(&piece, offset)?;
        file.sync_data()?;
        latency.saturating_record(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        offset = (offset + SYNCED_BYTES as u64) % (SYNCED_FILE - SYNCED_BYTES) as u64;
    }
    std::fs::remove_file(path)?;
    Ok(latency)
}
