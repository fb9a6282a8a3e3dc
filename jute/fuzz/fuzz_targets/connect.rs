//! The handshake, as the server reads it and as a client reads the answer.
#![no_main]

use jute::protocol::{ConnectRequest, ConnectResponse};
use jute::{Record, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let Ok((request, _)) = decode::<ConnectRequest<'_>>(input) {
        let mut encoded = Vec::new();
        request.encode(&mut encoded);
        assert_eq!(decode(&encoded), Ok((request, &[][..])));
    }
    if let Ok((response, _)) = decode::<ConnectResponse>(input) {
        let mut encoded = Vec::new();
        response.encode(&mut encoded);
        assert_eq!(decode(&encoded), Ok((response, &[][..])));
    }
});
