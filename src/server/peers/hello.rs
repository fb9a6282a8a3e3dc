//! The first words of a connection: who calls whom, what for, and whether it is welcome.
//!
//! ```text
//! hello    "rookeepr", version u32, purpose u32, id of the caller u64, its ensemble u64, number of the called server u8
//! answer   0 u32 for welcome and the id of the called u64, or the length of a reason u32 and the reason
//! ```
//!
//! The id of a server that belongs to no ensemble yet is that of its life 0, and its ensemble is 0.

use std::io;

use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Common, Own, server_of};

const MAGIC: &[u8; 8] = b"rookeepr";
const VERSION: u32 = 1;
pub(super) const HELLO_LEN: usize = 8 + 4 + 4 + 8 + 8 + 1;
const REASON_MAX: u32 = 1000;
/// What a connection is for.
pub(super) const WORDS: u32 = 1;
pub(super) const SNAPSHOT: u32 = 2;
pub(super) const QUESTION: u32 = 3;

/// The answer to whoever is welcome.
pub(super) fn welcome(own: u64) -> BytesMut {
    let mut answer = BytesMut::new();
    answer.put_u32(0);
    answer.put_u64(own);
    answer
}

/// Says hello. Gives the id of the called, if it welcomes the caller.
pub(super) async fn say(socket: &mut TcpStream, own: Own, to: u8, purpose: u32) -> io::Result<u64> {
    socket.write_all(&hello(own, to, purpose)).await?;
    let len = socket.read_u32().await?.min(REASON_MAX);
    if len == 0 {
        return socket.read_u64().await;
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

pub(super) fn hello(own: Own, to: u8, purpose: u32) -> BytesMut {
    let mut hello = BytesMut::with_capacity(HELLO_LEN);
    hello.put_slice(MAGIC);
    hello.put_u32(VERSION);
    hello.put_u32(purpose);
    hello.put_u64(own.id);
    hello.put_u64(own.ensemble);
    hello.put_u8(to);
    hello
}

impl Common {
    /// A server that came back with an empty disk is another member, and what it was before is not heard any more.
    fn may_speak(&self, from: u64) -> Result<(), String> {
        let known = self.known.lock();
        let later =
            known.iter().find(|known| server_of(**known) == server_of(from) && **known > from);
        match later {
            None => Ok(()),
            Some(later) => Err(format!(
                "server {} has come back to the ensemble with another data directory: it is member {later:#x} now, and \
                 this is {from:#x}",
                server_of(from)
            )),
        }
    }

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
        let (from, ensemble, to) = (rest.get_u64(), rest.get_u64(), rest.get_u8());
        let own = self.own();
        let server = server_of(from);
        if server == self.server {
            return Err(format!("myid {server} is in use twice"));
        }
        if to != self.server {
            return Err(format!("it looks for server {to}, and this is server {}", self.server));
        }
        if !self.peers.contains_key(&server) {
            return Err(format!("server {server} is not in this server's list"));
        }
        if ensemble != 0 && own.ensemble != 0 && ensemble != own.ensemble {
            let own = own.ensemble;
            return Err(format!(
                "it belongs to ensemble {ensemble:016x}, and this server to {own:016x}: their data has nothing in \
                 common. Whichever should not be there needs an empty data directory"
            ));
        }
        match purpose {
            QUESTION => Ok((from, purpose)),
            WORDS | SNAPSHOT if own.ensemble == 0 || ensemble == 0 => {
                Err("one of the two belongs to no ensemble yet".to_owned())
            }
            WORDS | SNAPSHOT => self.may_speak(from).map(|()| (from, purpose)),
            _ => Err(format!("{purpose} is no purpose that it knows")),
        }
    }
}
