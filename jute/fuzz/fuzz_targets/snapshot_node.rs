//! The records of a snapshot.
#![no_main]

use std::fmt::Debug;

use jute::persist::{FileHeader, SnapshotDigest, SnapshotNode, SnapshotSession};
use jute::{Acl, Record, decode};
use libfuzzer_sys::fuzz_target;

fn check<'a, T: Record<'a> + PartialEq + Debug>(input: &'a [u8], encoded: &'a mut Vec<u8>) {
    let Ok((record, _)) = decode::<T>(input) else { return };
    record.encode(encoded);
    assert_eq!(decode(encoded), Ok((record, &[][..])));
}

fuzz_target!(|input: &[u8]| {
    check::<SnapshotNode<'_>>(input, &mut Vec::new());
    check::<FileHeader>(input, &mut Vec::new());
    check::<Vec<SnapshotSession>>(input, &mut Vec::new());
    check::<Option<Vec<Acl<'_>>>>(input, &mut Vec::new());
    check::<SnapshotDigest>(input, &mut Vec::new());
});
