//! Values beyond what makes sense, with which ZooKeeper 3.9.5 starts: it was started with each.

use super::*;

#[test]
fn what_zookeeper_starts_with_is_no_reason_to_refuse() {
    let limit = |lines| config(lines).global_outstanding_limit;
    assert_eq!(limit("globalOutstandingLimit=-1"), 0);
    // `InetAddress.getByName` makes the loopback address of an empty text.
    let address = config("clientPortAddress=").client_listen.address;
    assert_eq!(address, Some(Ipv4Addr::LOCALHOST.into()));
    let threshold = |lines| config(lines).fsync_warning_threshold;
    assert_eq!(threshold("fsync.warningthresholdms=-1"), Duration::ZERO);
    // Nobody waits for so long.
    let most = Duration::from_millis(u32::MAX.into());
    assert_eq!(threshold("fsync.warningthresholdms=9000000000"), most);
    // Containers are removed by it: no day earlier.
    let never_used = |lines| config(lines).containers.max_never_used;
    assert_eq!(never_used("znode.container.maxNeverUsedIntervalMs=-1"), Some(Duration::ZERO));
    let ninety_days = Duration::from_secs(90 * 24 * 3600);
    let found = never_used("znode.container.maxNeverUsedIntervalMs=7776000000");
    assert_eq!(found, Some(ninety_days));
}
