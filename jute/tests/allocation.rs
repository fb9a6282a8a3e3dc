//! Lengths and counts that lie: decoding allocates in proportion to the input, never to what the
//! input claims.
//!
//! The counters are those of the whole process, so this file has one test.

use std::alloc::System;

use jute::persist::{SnapshotNode, SnapshotSession};
use jute::protocol::{
    ChildrenResponse, ConnectRequest, ConnectResponse, GetAclResponse, MultiResult, Request,
};
use jute::txn::TxnRecord;
use jute::{Acl, Record, decode};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes allocated for a byte of input. The densest input is a list of results of nine bytes, each
/// of which becomes a `MultiResult` of about a hundred in a vector that doubles.
const PER_BYTE: usize = 24;
/// A vector begins with room for four elements; the test's own thread may allocate a little as
/// well.
const AT_LEAST: usize = 4096;

fn allocated(run: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    run();
    region.change().bytes_allocated
}

fn check(name: &str, input: &[u8], run: impl FnOnce(&[u8])) {
    let bytes = allocated(|| run(input));
    let limit = input.len() * PER_BYTE + AT_LEAST;
    assert!(bytes <= limit, "{name}: {} bytes of input allocated {bytes}", input.len());
}

fn check_record<'a, T: Record<'a>>(name: &str, input: &'a [u8]) {
    check(name, input, |_| drop(decode::<T>(input)));
}

/// Everything that reads what others wrote.
fn check_all(name: &str, input: &[u8]) {
    for op in -11..=107 {
        check(name, input, |input| drop(Request::decode(op, input)));
        let mut payload = vec![0; 28];
        payload.extend(i32::to_be_bytes(op));
        payload.extend(input);
        check(name, &payload, |payload| drop(TxnRecord::decode(payload)));
    }
    check(name, input, |input| drop(MultiResult::decode_all(input)));
    check_record::<ConnectRequest<'_>>(name, input);
    check_record::<ConnectResponse>(name, input);
    check_record::<SnapshotNode<'_>>(name, input);
    check_record::<Vec<SnapshotSession>>(name, input);
    check_record::<Option<Vec<Acl<'_>>>>(name, input);
    check_record::<ChildrenResponse<'_>>(name, input);
    check_record::<GetAclResponse<'_>>(name, input);
}

#[test]
fn allocation_follows_the_input() {
    let control = allocated(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(100_000))));
    assert!(control >= 100_000, "the counters count: {control}");

    const LIES: [i32; 6] = [i32::MAX, i32::MAX - 1, 0x0100_0000, -1, -2, i32::MIN];
    for lie in LIES {
        let word = lie.to_be_bytes();
        // As the first count or length, and behind a short path, null data, a true and an empty
        // list.
        check_all("alone", &word);
        check_all("repeated", &word.repeat(1000));
        for head in [
            &b"\0\0\0\x02/a"[..],
            b"\0\0\0\x02/a\xff\xff\xff\xff",
            b"\0\0\0\x02/a\xff\xff\xff\xff\0\0\0\x01\0\0\0\x1f",
            b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            b"\0\0\0\x01\0\0\0\x01",
            b"\0\0\0\0\0\0\0\0",
        ] {
            check_all("behind a head", &[head, &word, &[0; 100]].concat());
        }
        check_all("a list of the shortest", &[&word[..], &[0; 100_000]].concat());
    }
    multis();
}

/// Long lists of the shortest parts, most of them cut off before their end.
fn multis() {
    const HEAD: [u8; 9] = [0, 0, 0, 2, 0, 0, 0, 0, 0];
    let results = HEAD.repeat(100_000);
    check("results", &results, |input| drop(MultiResult::decode_all(input)));
    let part = [&HEAD[..], b"\0\0\0\0\0\0\0\0"].concat().repeat(50_000);
    check("deletes", &part, |input| drop(Request::decode(14, input)));
    let part = [&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], b"\0\0\0\0\0"].concat().repeat(50_000);
    check("reads", &part, |input| drop(Request::decode(22, input)));

    // Multis inside a multi: each level holds the next as its only part.
    let mut nested = Vec::new();
    for _ in 0..2000 {
        let len = i32::try_from(nested.len()).expect("a small length");
        let head = [1i32, 14, len].map(i32::to_be_bytes).concat();
        nested.splice(0..0, head);
    }
    let header = [vec![0; 28], 14i32.to_be_bytes().to_vec()].concat();
    let payload = [header.clone(), nested].concat();
    check("nested", &payload, |payload| assert!(TxnRecord::decode(payload).is_err()));
    let empty = [&(-11i32).to_be_bytes()[..], &[0; 4]].concat().repeat(50_000);
    let payload = [&header[..], &i32::MAX.to_be_bytes(), &empty].concat();
    check("txns", &payload, |payload| drop(TxnRecord::decode(payload)));
}
