//! The results of a multi.
#![no_main]

use jute::protocol::{MultiResult, Response};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(results) = MultiResult::decode_all(input) else { return };
    let mut encoded = Vec::new();
    Response::Multi(results.clone()).encode(&mut encoded);
    assert_eq!(MultiResult::decode_all(&encoded), Ok(results));
});
