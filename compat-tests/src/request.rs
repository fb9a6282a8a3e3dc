//! Bodies of requests, written by hand: what stands after the request header.

use bytes::BufMut;

/// Op codes as they stand in the request header.
pub mod op {
    pub const CREATE: i32 = 1;
    pub const DELETE: i32 = 2;
    pub const EXISTS: i32 = 3;
    pub const GET_DATA: i32 = 4;
    pub const SET_DATA: i32 = 5;
    pub const GET_ACL: i32 = 6;
    pub const SET_ACL: i32 = 7;
    pub const GET_CHILDREN: i32 = 8;
    pub const SYNC: i32 = 9;
    pub const PING: i32 = 11;
    pub const GET_CHILDREN2: i32 = 12;
    pub const CHECK: i32 = 13;
    pub const MULTI: i32 = 14;
    pub const CREATE2: i32 = 15;
    pub const RECONFIG: i32 = 16;
    pub const CHECK_WATCHES: i32 = 17;
    pub const REMOVE_WATCHES: i32 = 18;
    pub const CREATE_CONTAINER: i32 = 19;
    pub const DELETE_CONTAINER: i32 = 20;
    pub const CREATE_TTL: i32 = 21;
    pub const MULTI_READ: i32 = 22;
    pub const AUTH: i32 = 100;
    pub const SET_WATCHES: i32 = 101;
    pub const SASL: i32 = 102;
    pub const GET_EPHEMERALS: i32 = 103;
    pub const ALL_CHILDREN_NUMBER: i32 = 104;
    pub const SET_WATCHES2: i32 = 105;
    pub const ADD_WATCH: i32 = 106;
    pub const WHO_AM_I: i32 = 107;
    pub const CREATE_SESSION: i32 = -10;
    pub const CLOSE_SESSION: i32 = -11;
}

/// Create flags.
pub mod mode {
    pub const PERSISTENT: i32 = 0;
    pub const EPHEMERAL: i32 = 1;
    pub const SEQUENTIAL: i32 = 2;
    pub const EPHEMERAL_SEQUENTIAL: i32 = 3;
    pub const CONTAINER: i32 = 4;
    pub const TTL: i32 = 5;
}

/// A string or buffer: length and bytes.
pub fn buffer(out: &mut Vec<u8>, bytes: &[u8]) {
    out.put_i32(i32::try_from(bytes.len()).expect("test data is small"));
    out.put_slice(bytes);
}

/// A path alone: sync, getChildren without its watch flag.
pub fn path(path: &str) -> Vec<u8> {
    let mut out = Vec::new();
    buffer(&mut out, path.as_bytes());
    out
}

/// exists, getData, getChildren, getChildren2.
pub fn path_watch(at: &str, watch: bool) -> Vec<u8> {
    let mut out = path(at);
    out.put_u8(u8::from(watch));
    out
}

/// create, create2 with the open ACL; `None` is null data.
pub fn create(at: &str, data: Option<&[u8]>, mode: i32) -> Vec<u8> {
    let mut out = path(at);
    match data {
        Some(data) => buffer(&mut out, data),
        None => out.put_i32(-1),
    }
    out.put_i32(1);
    out.put_i32(31);
    buffer(&mut out, b"world");
    buffer(&mut out, b"anyone");
    out.put_i32(mode);
    out
}

/// A list of (permissions, scheme, id).
pub fn acl(out: &mut Vec<u8>, entries: &[(i32, &str, &str)]) {
    out.put_i32(i32::try_from(entries.len()).expect("test data is small"));
    for (perms, scheme, id) in entries {
        out.put_i32(*perms);
        buffer(out, scheme.as_bytes());
        buffer(out, id.as_bytes());
    }
}

/// create with an ACL; a persistent znode with data `x`.
pub fn create_for(at: &str, entries: &[(i32, &str, &str)]) -> Vec<u8> {
    let mut out = path(at);
    buffer(&mut out, b"x");
    acl(&mut out, entries);
    out.put_i32(mode::PERSISTENT);
    out
}

/// createTTL.
pub fn create_ttl(at: &str, ttl_ms: i64) -> Vec<u8> {
    let mut out = create(at, None, mode::TTL);
    out.put_i64(ttl_ms);
    out
}

/// setACL.
pub fn set_acl(at: &str, entries: &[(i32, &str, &str)]) -> Vec<u8> {
    let mut out = path(at);
    acl(&mut out, entries);
    out.put_i32(-1);
    out
}

/// auth.
pub fn auth(scheme: &str, token: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_i32(0);
    buffer(&mut out, scheme.as_bytes());
    buffer(&mut out, token);
    out
}

/// addWatch, removeWatches: a path and what kind.
pub fn path_kind(at: &str, kind: i32) -> Vec<u8> {
    path_version(at, kind)
}

/// reconfig to a list of members.
pub fn reconfig(members: &str) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_i32(-1);
    out.put_i32(-1);
    buffer(&mut out, members.as_bytes());
    out.put_i64(-1);
    out
}

/// reconfig by servers that join and leave, of the list of this version; -1 is any.
pub fn reconfig_by(joining: &str, leaving: &str, version: i64) -> Vec<u8> {
    let mut out = Vec::new();
    buffer(&mut out, joining.as_bytes());
    buffer(&mut out, leaving.as_bytes());
    out.put_i32(-1);
    out.put_i64(version);
    out
}

/// delete, check.
pub fn path_version(at: &str, version: i32) -> Vec<u8> {
    let mut out = path(at);
    out.put_i32(version);
    out
}

/// setData.
pub fn set_data(at: &str, data: &[u8], version: i32) -> Vec<u8> {
    let mut out = path(at);
    buffer(&mut out, data);
    out.put_i32(version);
    out
}

/// multi of (op code, body).
pub fn multi(parts: &[(i32, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (op, body) in parts {
        multi_header(&mut out, *op, false);
        out.put_slice(body);
    }
    multi_header(&mut out, -1, true);
    out
}

fn multi_header(out: &mut Vec<u8>, op: i32, done: bool) {
    out.put_i32(op);
    out.put_u8(u8::from(done));
    out.put_i32(-1);
}

/// setWatches.
pub fn set_watches(zxid: i64, data: &[&str], exist: &[&str], child: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_i64(zxid);
    for list in [data, exist, child] {
        out.put_i32(i32::try_from(list.len()).expect("test data is small"));
        for path in list {
            buffer(&mut out, path.as_bytes());
        }
    }
    out
}
