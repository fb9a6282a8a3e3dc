//! Bodies of requests, written by hand: what stands behind the request header.

use bytes::BufMut;

/// Op codes as they stand in the request header.
pub mod op {
    pub const CREATE: i32 = 1;
    pub const DELETE: i32 = 2;
    pub const EXISTS: i32 = 3;
    pub const GET_DATA: i32 = 4;
    pub const SET_DATA: i32 = 5;
    pub const GET_CHILDREN: i32 = 8;
    pub const SYNC: i32 = 9;
    pub const PING: i32 = 11;
    pub const GET_CHILDREN2: i32 = 12;
    pub const CHECK: i32 = 13;
    pub const MULTI: i32 = 14;
    pub const CREATE2: i32 = 15;
    pub const SET_WATCHES: i32 = 101;
    pub const CLOSE_SESSION: i32 = -11;
}

/// Create flags.
pub mod mode {
    pub const PERSISTENT: i32 = 0;
    pub const EPHEMERAL: i32 = 1;
    pub const SEQUENTIAL: i32 = 2;
    pub const EPHEMERAL_SEQUENTIAL: i32 = 3;
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
