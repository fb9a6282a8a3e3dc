//! The payload of a log entry.
#![no_main]

use jute::txn::TxnRecord;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok((record, _)) = TxnRecord::decode(input) else { return };
    let mut encoded = Vec::new();
    record.encode(&mut encoded);
    assert_eq!(TxnRecord::decode(&encoded), Ok((record, &[][..])));
});
