use proptest::prelude::*;

use super::*;
use crate::list::host::Host;

fn versions(lowest: u32, highest: u32) -> Versions {
    Versions { lowest, highest }
}

#[test]
fn two_servers_speak_the_highest_version_that_both_know() {
    // A server of version N speaks N and N-1: any two releases next to each other have one in
    // common.
    assert_eq!(versions(1, 1).common(versions(1, 1)), Some(1));
    assert_eq!(versions(1, 1).common(versions(1, 2)), Some(1));
    assert_eq!(versions(1, 2).common(versions(2, 3)), Some(2));
    assert_eq!(versions(2, 3).common(versions(1, 2)), Some(2));
    assert_eq!(versions(2, 3).common(versions(2, 3)), Some(3));
    assert_eq!(versions(1, 2).common(versions(3, 4)), None);
    assert_eq!(versions(3, 4).common(versions(1, 2)), None);
    // Nonsense.
    assert_eq!(versions(1, 1).common(versions(2, 0)), None);
    assert_eq!(versions(1, 1).common(versions(0, 0)), None);
    assert_eq!(versions(1, 1).common(versions(0, u32::MAX)), Some(1));
}

proptest! {
    /// A stranger can say anything: it is refused or understood, and the room that it gets is
    /// bounded.
    #[test]
    fn no_head_makes_it_panic_or_wait_for_much(
        head in any::<[u8; HEAD_LEN]>(),
        len in any::<u32>(),
    ) {
        prop_assert!(parse_head(head).is_err() || head.starts_with(MAGIC));
        let mut head = [0; HEAD_LEN];
        head[..8].copy_from_slice(MAGIC);
        head[8..].copy_from_slice(&len.to_be_bytes());
        match parse_head(head) {
            Ok(taken) => prop_assert!(taken == len as usize && taken <= 1000),
            Err(_) => prop_assert!(!(62..=1000).contains(&len)),
        }
    }

    #[test]
    fn no_rest_makes_it_panic(rest in prop::collection::vec(any::<u8>(), 0..1100)) {
        prop_assert_eq!(Hello::parse(&rest).is_some(), rest.len() >= REST_LEN);
    }

    /// What a later version adds does not matter to this one.
    #[test]
    fn a_hello_is_read_as_it_was_written(
        numbers in any::<(u32, u32, bool, [u8; NONCE_LEN])>(),
        more in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let (lowest, highest, has_secret, nonce) = numbers;
        let hello = Hello { versions: versions(lowest, highest), has_secret, nonce };
        let bytes = hello.encode();
        let (head, rest) = bytes.split_first_chunk().expect("a head");
        prop_assert_eq!(parse_head(*head), Ok(rest.len()));
        prop_assert_eq!(Hello::parse(&[rest, &more].concat()), Some(hello));
    }

    #[test]
    fn an_introduction_is_read_as_it_was_written(
        numbers in any::<(u32, u8, u64, u64, u64, u64, u64)>(),
        address in prop::option::of(("[a-z]{1,255}", 1..=u16::MAX)),
        version in OWN.lowest..=OWN.highest,
        more in prop::collection::vec(any::<u8>(), 0..100),
        cut in 1..INTRODUCTION_LEN,
    ) {
        let (purpose, to, process, id, ensemble, term, last) = numbers;
        let promised = Promised { term, last };
        let claim = Claim { process: ProcessId(process), id, promised };
        // Version 6 says nothing of it.
        let address = address.filter(|_| version > 6).map(|(host, port)| {
            Address { host: Host::of(&host).expect("a host"), port }
        });
        let introduction = Introduction { purpose, to, claim, ensemble, address };
        let bytes = introduction.encode(version);
        let (len, rest) = bytes.split_first_chunk().expect("a length");
        prop_assert_eq!(u32::from_be_bytes(*len) as usize, rest.len());
        prop_assert!(rest.len() <= REST_MAX);
        prop_assert_eq!(rest.len() == INTRODUCTION_LEN, version == 6);
        prop_assert_eq!(Introduction::parse(&rest[..rest.len() - cut], version), None);
        let more = [rest, &more].concat();
        prop_assert_eq!(Introduction::parse(&more, version), Some(introduction));
    }
}
