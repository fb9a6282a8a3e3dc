//! Scripts: what is sent, as values that can be cut down and shown, and their bytes.

use std::fmt;

use bytes::BufMut;
use compat_tests::request;
use serde::{Deserialize, Serialize};

/// Op codes as they stand in the request header.
pub(crate) mod op {
    pub(crate) const CREATE: i32 = 1;
    pub(crate) const DELETE: i32 = 2;
    pub(crate) const EXISTS: i32 = 3;
    pub(crate) const GET_DATA: i32 = 4;
    pub(crate) const SET_DATA: i32 = 5;
    pub(crate) const GET_ACL: i32 = 6;
    pub(crate) const SET_ACL: i32 = 7;
    pub(crate) const GET_CHILDREN: i32 = 8;
    pub(crate) const SYNC: i32 = 9;
    pub(crate) const PING: i32 = 11;
    pub(crate) const GET_CHILDREN2: i32 = 12;
    pub(crate) const CHECK: i32 = 13;
    pub(crate) const MULTI: i32 = 14;
    pub(crate) const CREATE2: i32 = 15;
    pub(crate) const RECONFIG: i32 = 16;
    pub(crate) const CHECK_WATCHES: i32 = 17;
    pub(crate) const REMOVE_WATCHES: i32 = 18;
    pub(crate) const CREATE_CONTAINER: i32 = 19;
    pub(crate) const DELETE_CONTAINER: i32 = 20;
    pub(crate) const CREATE_TTL: i32 = 21;
    pub(crate) const MULTI_READ: i32 = 22;
    pub(crate) const AUTH: i32 = 100;
    pub(crate) const SET_WATCHES: i32 = 101;
    pub(crate) const SASL: i32 = 102;
    pub(crate) const GET_EPHEMERALS: i32 = 103;
    pub(crate) const ALL_CHILDREN_NUMBER: i32 = 104;
    pub(crate) const SET_WATCHES2: i32 = 105;
    pub(crate) const ADD_WATCH: i32 = 106;
    pub(crate) const WHO_AM_I: i32 = 107;
    pub(crate) const CREATE_SESSION: i32 = -10;
    pub(crate) const CLOSE_SESSION: i32 = -11;
}

/// The name of an operation in transcripts and in the report.
pub(crate) fn name(code: i32) -> String {
    let name = match code {
        op::CREATE => "create",
        op::DELETE => "delete",
        op::EXISTS => "exists",
        op::GET_DATA => "getData",
        op::SET_DATA => "setData",
        op::GET_ACL => "getACL",
        op::SET_ACL => "setACL",
        op::GET_CHILDREN => "getChildren",
        op::SYNC => "sync",
        op::PING => "ping",
        op::GET_CHILDREN2 => "getChildren2",
        op::CHECK => "check",
        op::MULTI => "multi",
        op::CREATE2 => "create2",
        op::RECONFIG => "reconfig",
        op::CHECK_WATCHES => "checkWatches",
        op::REMOVE_WATCHES => "removeWatches",
        op::CREATE_CONTAINER => "createContainer",
        op::CREATE_TTL => "createTTL",
        op::MULTI_READ => "multiRead",
        op::AUTH => "addauth",
        op::SET_WATCHES => "setWatches",
        op::SASL => "sasl",
        op::GET_EPHEMERALS => "getEphemerals",
        op::ALL_CHILDREN_NUMBER => "getAllChildrenNumber",
        op::SET_WATCHES2 => "setWatches2",
        op::ADD_WATCH => "addWatch",
        op::WHO_AM_I => "whoAmI",
        op::CLOSE_SESSION => "closeSession",
        other => return format!("op {other}"),
    };
    name.into()
}

/// A path; `$` stands for the top node of the run, None is the null string.
pub(crate) type Path = Option<String>;

/// None is the null buffer.
pub(crate) type Data = Option<Vec<u8>>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AclEntry {
    pub(crate) perms: i32,
    pub(crate) scheme: Option<String>,
    pub(crate) id: Option<String>,
}

/// None is the null vector.
pub(crate) type AclList = Option<Vec<AclEntry>>;

/// The last zxid that a client of setWatches claims to have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Since {
    Zero,
    /// The highest of all replies up to and including this step.
    Step(usize),
    /// Above every zxid there is.
    Max,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Op {
    /// create, create2, createContainer, createTTL; only the last one has a TTL on the wire.
    Create {
        code: i32,
        path: Path,
        data: Data,
        acl: AclList,
        flags: i32,
        ttl: i64,
    },
    /// delete, check.
    Versioned {
        code: i32,
        path: Path,
        version: i32,
    },
    SetData {
        path: Path,
        data: Data,
        version: i32,
    },
    SetAcl {
        path: Path,
        acl: AclList,
        version: i32,
    },
    /// exists, getData, getChildren, getChildren2.
    Read {
        code: i32,
        path: Path,
        watch: bool,
    },
    /// A path alone: getACL, sync, getEphemerals, getAllChildrenNumber.
    At {
        code: i32,
        path: Path,
    },
    /// No body: ping, whoAmI, closeSession, codes that nobody knows.
    Bare {
        code: i32,
    },
    /// multi, multiRead.
    Multi {
        code: i32,
        parts: Vec<Self>,
    },
    /// addWatch and its mode, checkWatches and removeWatches and their type.
    Watch {
        code: i32,
        path: Path,
        kind: i32,
    },
    /// setWatches (three lists), setWatches2 (five).
    SetWatches {
        code: i32,
        since: Since,
        lists: Vec<Vec<Path>>,
    },
    Auth {
        scheme: String,
        token: Data,
    },
    Sasl {
        token: Data,
    },
    /// To a list of members, whatever the configuration's version.
    Reconfig {
        members: Path,
    },
    /// A body that lacks its last bytes.
    Cut {
        op: Box<Self>,
        bytes: usize,
    },
}

impl Op {
    pub(crate) fn code(&self) -> i32 {
        match self {
            Self::Create { code, .. }
            | Self::Versioned { code, .. }
            | Self::Read { code, .. }
            | Self::At { code, .. }
            | Self::Bare { code }
            | Self::Multi { code, .. }
            | Self::Watch { code, .. }
            | Self::SetWatches { code, .. } => *code,
            Self::SetData { .. } => op::SET_DATA,
            Self::SetAcl { .. } => op::SET_ACL,
            Self::Auth { .. } => op::AUTH,
            Self::Sasl { .. } => op::SASL,
            Self::Reconfig { .. } => op::RECONFIG,
            Self::Cut { op, .. } => op.code(),
        }
    }

    /// Whether other connections may be told about it.
    pub(crate) fn is_write(&self) -> bool {
        matches!(
            self.code(),
            op::CREATE
                | op::CREATE2
                | op::CREATE_CONTAINER
                | op::CREATE_TTL
                | op::DELETE
                | op::SET_DATA
                | op::SET_ACL
                | op::MULTI
                | op::CLOSE_SESSION
        )
    }

    /// Whether the connection ends with its reply.
    pub(crate) fn is_ender(&self, err: i32) -> bool {
        match self {
            Self::Bare { code } => !matches!(*code, op::PING | op::WHO_AM_I),
            Self::Auth { .. } => err != 0,
            Self::Versioned { code: op::CHECK, .. } => true,
            _ => false,
        }
    }

    /// The xid it travels under when the connection's next one is `next`.
    pub(crate) fn xid(&self, next: i32) -> i32 {
        match self.code() {
            op::PING => -2,
            op::AUTH => -4,
            op::SET_WATCHES | op::SET_WATCHES2 => -8,
            _ => next,
        }
    }

    /// The bytes after the request header.
    pub(crate) fn body(&self, run: &Run<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Create { code, path, data, acl, flags, ttl } => {
                put_path(&mut out, path, run);
                put_buffer(&mut out, data.as_deref());
                put_acl(&mut out, acl);
                out.put_i32(*flags);
                if *code == op::CREATE_TTL {
                    out.put_i64(*ttl);
                }
            }
            Self::Versioned { path, version, .. } => {
                put_path(&mut out, path, run);
                out.put_i32(*version);
            }
            Self::SetData { path, data, version } => {
                put_path(&mut out, path, run);
                put_buffer(&mut out, data.as_deref());
                out.put_i32(*version);
            }
            Self::SetAcl { path, acl, version } => {
                put_path(&mut out, path, run);
                put_acl(&mut out, acl);
                out.put_i32(*version);
            }
            Self::Read { path, watch, .. } => {
                put_path(&mut out, path, run);
                out.put_u8(u8::from(*watch));
            }
            Self::At { path, .. } => put_path(&mut out, path, run),
            Self::Bare { .. } => {}
            Self::Multi { parts, .. } => {
                let parts: Vec<(i32, Vec<u8>)> =
                    parts.iter().map(|part| (part.code(), part.body(run))).collect();
                out = request::multi(&parts);
            }
            Self::Watch { path, kind, .. } => {
                put_path(&mut out, path, run);
                out.put_i32(*kind);
            }
            Self::SetWatches { since, lists, .. } => {
                out.put_i64((run.zxid)(*since));
                for list in lists {
                    put_count(&mut out, list.len());
                    list.iter().for_each(|path| put_path(&mut out, path, run));
                }
            }
            Self::Auth { scheme, token } => {
                out.put_i32(0);
                request::buffer(&mut out, scheme.as_bytes());
                put_buffer(&mut out, token.as_deref());
            }
            Self::Sasl { token } => put_buffer(&mut out, token.as_deref()),
            Self::Reconfig { members } => {
                out.put_i32(-1);
                out.put_i32(-1);
                put_path(&mut out, members, run);
                out.put_i64(-1);
            }
            Self::Cut { op, bytes } => {
                out = op.body(run);
                out.truncate(out.len().saturating_sub(*bytes));
            }
        }
        out
    }
}

/// What a script's names stand for in one run against one server.
pub(crate) struct Run<'a> {
    pub(crate) top: &'a str,
    pub(crate) zxid: &'a dyn Fn(Since) -> i64,
}

fn put_buffer(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => request::buffer(out, bytes),
        None => out.put_i32(-1),
    }
}

fn put_path(out: &mut Vec<u8>, path: &Path, run: &Run<'_>) {
    let path = path.as_ref().map(|path| path.replace('$', run.top));
    put_buffer(out, path.as_deref().map(str::as_bytes));
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.put_i32(i32::try_from(count).expect("scripts are small"));
}

fn put_acl(out: &mut Vec<u8>, acl: &AclList) {
    let Some(entries) = acl else { return out.put_i32(-1) };
    put_count(out, entries.len());
    for entry in entries {
        out.put_i32(entry.perms);
        put_buffer(out, entry.scheme.as_deref().map(str::as_bytes));
        put_buffer(out, entry.id.as_deref().map(str::as_bytes));
    }
}

/// A handshake for a session that exists, and what is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Attempt {
    Password,
    /// A zxid from the future.
    Zxid,
}

/// What happens in a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Action {
    /// Requests in one segment. Who has no connection gets one first: of its session while that
    /// lives, else of a new one.
    Send(Vec<Op>),
    /// The socket is closed without a word; the session gets a new one, perhaps after an attempt
    /// that is refused.
    Reattach(Option<Attempt>),
    /// A session of its own does this, loses its socket and expires.
    Die(Vec<Op>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Grows along the script; stays when steps before it are left out.
    pub(crate) id: usize,
    /// Which of the script's clients acts.
    pub(crate) client: usize,
    pub(crate) action: Action,
}

impl Step {
    pub(crate) fn ops(&self) -> &[Op] {
        match &self.action {
            Action::Send(ops) | Action::Die(ops) => ops,
            Action::Reattach(_) => &[],
        }
    }

    /// Whether one transaction may delete several ephemeral znodes, in no order.
    pub(crate) fn ends_session(&self) -> bool {
        matches!(self.action, Action::Die(_))
            || self.ops().iter().any(|op| op.code() == op::CLOSE_SESSION)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match &self.action {
            Action::Send(ops) if ops.len() == 1 => "",
            Action::Send(_) => " in one segment",
            Action::Reattach(None) => " loses its socket and comes back",
            Action::Reattach(Some(Attempt::Password)) => {
                " loses its socket and comes back, first with a wrong password"
            }
            Action::Reattach(Some(Attempt::Zxid)) => {
                " loses its socket and comes back, first with a zxid from the future"
            }
            Action::Die(_) => ": another session, which then expires",
        };
        write!(f, "step {}, client {}{how}", self.id, self.client)?;
        self.ops().iter().try_for_each(|op| write!(f, "\n    {op}"))
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", name(self.code()))?;
        match self {
            Self::Create { code, path, data, acl, flags, ttl } => {
                write!(f, " {} {} {} flags={flags}", Text(path), Bytes(data), Acls(acl))?;
                if *code == op::CREATE_TTL { write!(f, " ttl={ttl}") } else { Ok(()) }
            }
            Self::Versioned { path, version, .. } => {
                write!(f, " {} version={version}", Text(path))
            }
            Self::SetData { path, data, version } => {
                write!(f, " {} {} version={version}", Text(path), Bytes(data))
            }
            Self::SetAcl { path, acl, version } => {
                write!(f, " {} {} version={version}", Text(path), Acls(acl))
            }
            Self::Read { path, watch, .. } => {
                write!(f, " {}{}", Text(path), if *watch { " watch" } else { "" })
            }
            Self::At { path, .. } => write!(f, " {}", Text(path)),
            Self::Bare { .. } => Ok(()),
            Self::Multi { parts, .. } => {
                write!(f, " {{")?;
                parts.iter().try_for_each(|part| write!(f, "\n      {part}"))?;
                write!(f, " }}")
            }
            Self::Watch { path, kind, .. } => write!(f, " {} kind={kind}", Text(path)),
            Self::SetWatches { since, lists, .. } => {
                write!(f, " since={since:?}")?;
                let names = ["data", "exist", "child", "persistent", "recursive"];
                for (name, list) in names.iter().zip(lists).filter(|(_, list)| !list.is_empty()) {
                    write!(f, " {name}=[")?;
                    list.iter().try_for_each(|path| write!(f, " {}", Text(path)))?;
                    write!(f, " ]")?;
                }
                Ok(())
            }
            Self::Auth { scheme, token } => write!(f, " {scheme} {}", Bytes(token)),
            Self::Sasl { token } => write!(f, " {}", Bytes(token)),
            Self::Reconfig { members } => write!(f, " members={}", Text(members)),
            Self::Cut { op, bytes } => write!(f, " without its last {bytes} bytes: {op}"),
        }
    }
}

struct Text<'a>(&'a Path);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(text) => write!(f, "{text:?}"),
            None => write!(f, "null"),
        }
    }
}

struct Bytes<'a>(&'a Data);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(bytes) if bytes.len() > 80 => write!(f, "<{} bytes>", bytes.len()),
            Some(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            None => write!(f, "null"),
        }
    }
}

struct Acls<'a>(&'a AclList);

impl fmt::Display for Acls<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(entries) = self.0 else { return write!(f, "null") };
        let text = |part: &Option<String>| part.clone().unwrap_or_else(|| "null".into());
        let entries: Vec<String> = entries
            .iter()
            .map(|entry| format!("{}:{}:{}", text(&entry.scheme), text(&entry.id), entry.perms))
            .collect();
        write!(f, "[{}]", entries.join(", "))
    }
}
