//! A request of any operation: the first byte is its number, which covers all that exist.
#![no_main]

use jute::protocol::Request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((op, body)) = input.split_first() else { return };
    let Ok(request) = Request::decode(i32::from(op.cast_signed()), body) else { return };
    let mut encoded = Vec::new();
    request.encode(&mut encoded);
    assert_eq!(Request::decode(request.op_code().code(), &encoded), Ok(request));
});
