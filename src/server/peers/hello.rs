//! The first words of a connection: who calls whom, what for, and whether it is welcome.
//!
//! ```text
//! hello    "rookeepr", version u32, purpose u32, id of the caller u64, id of the called u64
//! answer   0 for welcome, or the length of a reason u32 and the reason
//! ```

use std::io;

use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Common, server_of};

const MAGIC: &[u8; 8] = b"rookeepr";
const VERSION: u32 = 1;
pub(super) const HELLO_LEN: usize = 8 + 4 + 4 + 8 + 8;
const REASON_MAX: u32 = 1000;
/// What a connection is for.
pub(super) const WORDS: u32 = 1;
pub(super) const SNAPSHOT: u32 = 2;

pub(super) const WELCOME: &[u8] = &[0; 4];

/// Says hello, and hears whether it is welcome.
pub(super) async fn say(
    socket: &mut TcpStream,
    from: u64,
    to: u64,
    purpose: u32,
) -> io::Result<()> {
    socket.write_all(&hello(from, to, purpose)).await?;
    let mut reason = [0; 4];
    socket.read_exact(&mut reason).await?;
    let len = u32::from_be_bytes(reason).min(REASON_MAX);
    if len == 0 {
        return Ok(());
    }
    let mut reason = vec![0; len as usize];
    socket.read_exact(&mut reason).await?;
    Err(refused(&reason))
}

/// The answer to whoever is not welcome.
pub(super) fn refusal(reason: &str) -> BytesMut {
    let mut answer = BytesMut::new();
    answer.put_u32(u32::try_from(reason.len()).unwrap_or(REASON_MAX).min(REASON_MAX));
    answer.put_slice(reason.as_bytes());
    answer
}

fn refused(reason: &[u8]) -> io::Error {
    let reason = String::from_utf8_lossy(reason).into_owned();
    io::Error::new(io::ErrorKind::ConnectionRefused, format!("it refuses: {reason}"))
}

pub(super) fn hello(from: u64, to: u64, purpose: u32) -> BytesMut {
    let mut hello = BytesMut::with_capacity(HELLO_LEN);
    hello.put_slice(MAGIC);
    hello.put_u32(VERSION);
    hello.put_u32(purpose);
    hello.put_u64(from);
    hello.put_u64(to);
    hello
}

impl Common {
    /// Who calls, and what for.
    pub(super) fn caller(&self, hello: &[u8; HELLO_LEN]) -> Result<(u64, u32), String> {
        let Some((magic, mut rest)) = hello.split_at_checked(MAGIC.len()) else {
            return Err("no hello".to_owned());
        };
        if magic != MAGIC {
            return Err(
                "this is rookeeper's port for its ensemble; Java servers cannot join it".to_owned()
            );
        }
        let version = rest.get_u32();
        if version != VERSION {
            return Err(format!("it speaks version {version}, this server {VERSION}"));
        }
        let purpose = rest.get_u32();
        let (from, to) = (rest.get_u64(), rest.get_u64());
        if from == self.own_id {
            return Err(format!("myid {} is in use twice", server_of(from)));
        }
        if to != self.own_id {
            let (to, own) = (server_of(to), server_of(self.own_id));
            return Err(format!("it looks for server {to}, and this is server {own}"));
        }
        if !self.peers.contains_key(&from) {
            return Err(format!("server {} is not in this server's list", server_of(from)));
        }
        match purpose {
            WORDS | SNAPSHOT => Ok((from, purpose)),
            _ => Err(format!("{purpose} is no purpose that it knows")),
        }
    }
}
