//! `/metrics` beside Apache ZooKeeper's, after the same requests: the same names with the same
//! types and labels, and the same numbers where nothing but requests makes them. ZooKeeper's own
//! provider cannot be had: `clients/metrics` stands in for it, and `docs/metrics.md` says what of
//! the page is whose.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::request::{self, mode, op};
use compat_tests::{
    Ensemble, Java, Kind, MetricsPage, RawClient, Server, classpath, metrics_page, queries,
    repository,
};

const DEADLINE: Duration = Duration::from_secs(20);

/// ZooKeeper's names that are not here.
const ABSENT: [(&str, &str); 3] = [
    ("jvm_pause_time_ms", "there is no JVM"),
    ("learner_handler_qp_time_ms", "what a server is missing does not wait in a queue of packets"),
    ("netty_queued_buffer_capacity", "there is no Netty"),
];

/// What requests alone make: by how much these change is the same.
const COUNTED: [&str; 23] = [
    "bytes_received_count",
    "connection_drop_count",
    "connection_rejected",
    "connection_request_count",
    "connection_revalidate_count",
    "node_changed_watch_count_count",
    "node_changed_watch_count_sum",
    "node_children_watch_count_count",
    "node_children_watch_count_sum",
    "node_created_watch_count_count",
    "node_created_watch_count_sum",
    "node_deleted_watch_count_count",
    "node_deleted_watch_count_sum",
    "packets_received",
    "packets_sent",
    "readlatency_count",
    "response_bytes",
    "stale_sessions_expired",
    "watch_bytes",
    "znode_count",
    "watch_count",
    "ephemerals_count",
    "approximate_data_size",
];

/// The same, by namespace.
const COUNTED_BY_KEY: [&str; 9] = [
    "read_per_namespace_count",
    "read_per_namespace_sum",
    "write_per_namespace_count",
    "write_per_namespace_sum",
    "quota_count_limit_per_namespace",
    "quota_bytes_limit_per_namespace",
    "quota_count_usage_per_namespace",
    "quota_bytes_usage_per_namespace",
    "quota_exceeded_error_per_namespace",
];

/// What is counted otherwise, with how much more ZooKeeper counts of these requests.
const COUNTED_OTHERWISE: [(&str, f64, &str); 2] = [
    ("updatelatency_count", 2.0, "the opening of two sessions is no update"),
    ("propagation_latency_count", 3.0, "what is refused is no transaction"),
];

/// What Grafana's dashboard 10465 looks for, taken from a published copy of it: plain values, ...
const DASHBOARD: [&str; 58] = [
    "add_dead_watcher_stall_time",
    "approximate_data_size",
    "avg_latency",
    "bytes_received_count",
    "connection_drop_count",
    "connection_drop_probability",
    "connection_rejected",
    "connection_request_count",
    "dead_watchers_cleared",
    "dead_watchers_queued",
    "diff_count",
    "digest_mismatches_count",
    "ensemble_auth_fail",
    "ensemble_auth_skip",
    "ensemble_auth_success",
    "ephemerals_count",
    "global_sessions",
    "last_client_response_size",
    "learner_commit_received_count",
    "local_sessions",
    "looking_count",
    "max_client_response_size",
    "max_latency",
    "min_client_response_size",
    "min_latency",
    "num_alive_connections",
    "open_file_descriptor_count",
    "outstanding_changes_queued",
    "outstanding_changes_removed",
    "outstanding_requests",
    "outstanding_tls_handshake",
    "packets_received",
    "packets_sent",
    "prep_processor_request_queued",
    "proposal_count",
    "commit_count",
    "quit_leading_due_to_disloyal_voter",
    "request_commit_queued",
    "response_packet_cache_hits",
    "response_packet_cache_misses",
    "response_packet_get_children_cache_hits",
    "response_packet_get_children_cache_misses",
    "revalidate_count",
    "sessionless_connections_expired",
    "snap_count",
    "stale_sessions_expired",
    "sync_processor_request_queued",
    "tls_handshake_exceeded",
    "unrecoverable_error_count",
    "uptime",
    "watch_count",
    "znode_count",
    // The guide's alert rules have these beside some of the above.
    "max_file_descriptor_count",
    "election_time_count",
    "election_time_sum",
    "fsynctime_count",
    "fsynctime_sum",
    "snapshottime_sum",
];
/// ... values that only a leader has, ...
const OF_A_LEADER: [&str; 8] = [
    "last_proposal_size",
    "leader_uptime",
    "learners",
    "max_proposal_size",
    "min_proposal_size",
    "quorum_size",
    "synced_non_voting_followers",
    "synced_observers",
];
/// ... summaries, of which it looks for the sum and the number, ...
const SUMMARIES: [&str; 50] = [
    "close_session_prep_time",
    "commit_commit_proc_req_queued",
    "commit_process_time",
    "commit_propagation_latency",
    "concurrent_request_processing_in_commit_processor",
    "connection_token_deficit",
    "dbinittime",
    "dead_watchers_cleaner_latency",
    "election_time",
    "follower_sync_time",
    "fsynctime",
    "local_write_committed_time_ms",
    "node_changed_watch_count",
    "node_children_watch_count",
    "node_created_watch_count",
    "node_deleted_watch_count",
    "om_commit_process_time_ms",
    "om_proposal_process_time_ms",
    "pending_session_queue_size",
    "prep_process_time",
    "prep_processor_queue_size",
    "prep_processor_queue_time_ms",
    "propagation_latency",
    "proposal_ack_creation_latency",
    "proposal_latency",
    "quorum_ack_latency",
    "read_commit_proc_issued",
    "read_commit_proc_req_queued",
    "read_commitproc_time_ms",
    "read_final_proc_time_ms",
    "readlatency",
    "reads_after_write_in_session_queue",
    "reads_issued_from_session_queue",
    "requests_in_session_queue",
    "server_write_committed_time_ms",
    "session_queues_drained",
    "snapshottime",
    "startup_snap_load_time",
    "startup_txns_loaded",
    "sync_process_time",
    "sync_processor_batch_size",
    "sync_processor_queue_flush_time_ms",
    "sync_processor_queue_size",
    "time_waiting_empty_pool_in_commit_processor_read_ms",
    "updatelatency",
    "write_batch_time_in_commit_processor",
    "write_commit_proc_issued",
    "write_commit_proc_req_queued",
    "write_commitproc_time_ms",
    "write_final_proc_time_ms",
];
/// ... some of them bare, which is to say by their quantiles, ...
const BARE: [&str; 6] = [
    "dbinittime",
    "election_time",
    "fsynctime",
    "proposal_ack_creation_latency",
    "startup_snap_load_time",
    "startup_txns_loaded",
];
/// ... and summaries by a key, of each server and of a leader only.
const KEYED: [&str; 2] = ["read_per_namespace", "write_per_namespace"];
const KEYED_OF_A_LEADER: [&str; 2] = ["ack_latency", "learner_handler_qp_size"];

/// What the dashboard looks for and does not find. It selects by labels that a scraper adds, and by
/// nothing else.
fn missing(page: &MetricsPage, leads: bool) -> Vec<String> {
    let mut missing = Vec::new();
    let mut want = |sample: String, labels: &[&str]| {
        let has = page.samples.contains_key(&sample)
            && page.labels(&sample) == labels.iter().copied().collect();
        if !has {
            missing.push(sample);
        }
    };
    let leader = |names: &[&'static str]| if leads { names.to_vec() } else { Vec::new() };
    for name in DASHBOARD.into_iter().chain(leader(&OF_A_LEADER)) {
        want(name.to_owned(), &[]);
    }
    for name in SUMMARIES {
        want(format!("{name}_sum"), &[]);
        want(format!("{name}_count"), &[]);
    }
    for name in BARE {
        want(name.to_owned(), &["quantile"]);
    }
    for name in KEYED.into_iter().chain(leader(&KEYED_OF_A_LEADER)) {
        want(format!("{name}_sum"), &["key"]);
        want(format!("{name}_count"), &["key"]);
    }
    missing
}

#[test]
fn the_page_says_which_names_are_not_zookeepers() {
    let page = fs::read_to_string(repository().join("docs/metrics.md")).expect("the page");
    let rest =
        page.split_once("are those of Apache ZooKeeper 3.9.5, except for").expect("it says").1;
    let sentence = rest.split_once(". ").expect("its end").0;
    let named: Vec<&str> = sentence.split('`').skip(1).step_by(2).collect();
    assert_eq!(named, [&metrics_page::OWN_STARTS[..], &metrics_page::OWN].concat());
}

fn call(client: &mut RawClient, op: i32, body: &[u8]) {
    client.call(op, body).expect("a reply");
}

/// Something of everything that is counted.
fn requests(server: &Server) {
    let mut client = server.connect(20_000);
    let mut watcher = server.connect(20_000);
    for (path, data) in [("/a", &b"four"[..]), ("/a/one", b"1"), ("/a/two", b"22"), ("/b", b"")] {
        call(&mut client, op::CREATE, &request::create(path, Some(data), mode::PERSISTENT));
    }
    call(&mut client, op::CREATE, &request::create("/b/own", None, mode::EPHEMERAL));
    for path in ["/a", "/a/one", "/b", "/missing"] {
        call(&mut watcher, op::EXISTS, &request::path_watch(path, true));
    }
    for path in ["/a", "/b", "/"] {
        call(&mut watcher, op::GET_CHILDREN, &request::path_watch(path, true));
        call(&mut client, op::GET_DATA, &request::path_watch(path, false));
    }
    call(&mut client, op::GET_CHILDREN2, &request::path_watch("/a", true));
    call(&mut client, op::GET_ACL, &request::path("/a"));
    call(&mut client, op::SET_DATA, &request::set_data("/a", b"other", -1));
    call(&mut client, op::SET_DATA, &request::set_data("/a", b"refused", 77));
    call(&mut client, op::DELETE, &request::path_version("/a/one", -1));
    call(&mut client, op::CREATE, &request::create("/missing", Some(b"x"), mode::PERSISTENT));
    let parts = [
        (op::CREATE, request::create("/b/m", Some(b"mm"), mode::PERSISTENT)),
        (op::SET_DATA, request::set_data("/b", b"bbb", -1)),
    ];
    call(&mut client, op::MULTI, &request::multi(&parts));
    call(&mut client, op::SYNC, &request::path("/"));
    for path in ["/zookeeper/quota/a", "/zookeeper/quota/b", "/zookeeper/quota/missing"] {
        call(&mut client, op::CREATE, &request::create(path, None, mode::PERSISTENT));
    }
    let limits =
        |path: &str, limits: &str| request::create(path, Some(limits.as_bytes()), mode::PERSISTENT);
    for (path, text) in [
        (
            "/zookeeper/quota/a/zookeeper_limits",
            "count=9,bytes=100=;byteHardLimit=200;countHardLimit=3",
        ),
        ("/zookeeper/quota/b/zookeeper_limits", "count=5,bytes=-1"),
        ("/zookeeper/quota/a/zookeeper_stats", "count=0,bytes=0"),
        ("/zookeeper/quota/b/zookeeper_stats", "count=0,bytes=0"),
        // Without limits. The texts are as long as those that take their place: ZooKeeper's data
        // size has not these.
        ("/zookeeper/quota/missing/zookeeper_stats", "count=0,bytes=0"),
        ("/zookeeper/quota/zookeeper_stats", "count=00,bytes=000"),
    ] {
        call(&mut client, op::CREATE, &limits(path, text));
    }
    for name in ["/a/three", "/a/four", "/a/five"] {
        call(&mut client, op::CREATE, &request::create(name, None, mode::PERSISTENT));
    }
    client.close().expect("closed");
    // It has read all its events, and goes without a word.
    call(&mut watcher, op::SYNC, &request::path("/"));
    drop(watcher);
}

/// What a page has of each name: its type, and the labels of its samples with the values that are
/// no keys.
fn shape(page: &MetricsPage) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let labels = |sample: &str| {
        let samples = &page.samples[sample];
        let texts = samples.keys().map(|labels| {
            let one = |(name, value): (&String, &String)| match name.as_str() {
                "key" => "key".to_owned(),
                _ => format!("{name}={value}"),
            };
            labels.iter().map(one).collect::<Vec<_>>().join(",")
        });
        texts.collect()
    };
    let of = |sample: &String| {
        let family = page.family_of(sample).expect("checked when it was taken apart");
        (sample.clone(), (page.types[family].clone(), labels(sample)))
    };
    page.samples.keys().map(of).collect()
}

fn compare_names(expected: &MetricsPage, actual: &MetricsPage) -> String {
    let mut differences = String::new();
    let (theirs, ours) = (shape(expected), shape(actual));
    let is_absent = |sample: &str| {
        let family = expected.family_of(sample).unwrap_or(sample);
        ABSENT.iter().any(|(name, _)| *name == family)
    };
    for (name, shape) in &theirs {
        match ours.get(name) {
            Some(_) if is_absent(name) => differences.push_str(&format!("{name} is here\n")),
            Some(ours) if ours != shape => {
                differences.push_str(&format!("{name}: {shape:?}, here {ours:?}\n"));
            }
            None if !is_absent(name) => differences.push_str(&format!("{name} is missing\n")),
            _ => {}
        }
    }
    let families = actual.types.keys().filter(|name| !metrics_page::is_own(name));
    for name in families.filter(|name| !expected.types.contains_key(*name)) {
        differences.push_str(&format!("{name} is not ZooKeeper's\n"));
    }
    differences
}

/// By how much each number changed that requests make.
fn changes(before: &MetricsPage, after: &MetricsPage) -> BTreeMap<String, f64> {
    let plain =
        COUNTED.iter().map(|name| ((*name).to_owned(), after.value(name) - before.value(name)));
    let mut changes: BTreeMap<String, f64> = plain.collect();
    for name in COUNTED_BY_KEY {
        for key in ["a", "b", "missing", "zookeeper", "zookeeper_stats"] {
            let of = |page: &MetricsPage| page.of_key(name, key).unwrap_or(0.0);
            changes.insert(format!("{name} of {key}"), of(after) - of(before));
        }
    }
    changes
}

fn run(server: &Server) -> (MetricsPage, BTreeMap<String, f64>) {
    let before = server.metrics();
    requests(server);
    let gone = |page: &MetricsPage| {
        page.value("connection_drop_count") > before.value("connection_drop_count")
    };
    let deadline = Instant::now() + DEADLINE;
    loop {
        let after = server.metrics();
        if gone(&after) {
            let changes = changes(&before, &after);
            return (after, changes);
        }
        assert!(Instant::now() < deadline, "the client that left was not noticed");
    }
}

/// Rows of a table of `docs/metrics.md`: its cells, without quotes.
fn rows(after: &str) -> Vec<Vec<String>> {
    let page = fs::read_to_string(repository().join("docs/metrics.md")).expect("the page");
    let table = page.lines().skip_while(|line| *line != after).skip(2);
    let row = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect()
    };
    table.take_while(|line| line.starts_with('|')).map(row).collect()
}

/// Type and meaning of each name in the docs.
fn documented() -> BTreeMap<String, [String; 2]> {
    let absent: Vec<Vec<String>> = rows("| metric | why |");
    let expected = ABSENT.map(|(name, why)| vec![name.to_owned(), why.to_owned()]);
    assert_eq!(absent, expected, "the docs name others as absent");
    let rows = rows("| metric | type | mntr | JMX attribute | meaning |");
    let of = |row: &Vec<String>| (row[0].clone(), [row[1].clone(), row[4].clone()]);
    rows.iter().map(of).collect()
}

fn differing(documented: &BTreeMap<String, [String; 2]>, page: &MetricsPage) -> Vec<String> {
    let shown: BTreeMap<String, [String; 2]> = page
        .types
        .iter()
        .map(|(name, of)| (name.clone(), [of.clone(), page.help[name].clone()]))
        .collect();
    let names: BTreeSet<&String> = documented.keys().chain(shown.keys()).collect();
    let differs = names.into_iter().filter(|name| documented.get(*name) != shown.get(*name));
    differs
        .map(|name| format!("{name}: {:?} {:?}", documented.get(name), shown.get(name)))
        .collect()
}

/// Names of samples in the expressions of a page.
fn names_used(page: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(repository().join("docs").join(page)).expect("the page");
    let expressions: Vec<String> = match page.ends_with(".json") {
        true => queries::panels(&text),
        false => queries::rules(&text).into_iter().map(|rule| rule.expression).collect(),
    };
    let named = expressions.iter().flat_map(|expression| queries::metrics(expression));
    named.map(|named| named.metric).collect()
}

fn classes() -> Java {
    Java::compile(&["metrics"], classpath())
}

#[test]
fn of_a_lone_server() {
    let java = classes();
    let lines = metrics_page::config(java.classes());
    let mut config: Vec<&str> = lines.iter().map(String::as_str).collect();
    config.push("enforceQuota=true");
    let (theirs, expected) = run(&Server::start(Kind::Reference, &config));
    let (ours, actual) = run(&Server::start(Kind::subject(), &config));
    let mut differences = compare_names(&theirs, &ours);
    for (name, value) in &expected {
        if actual[name] != *value {
            differences.push_str(&format!("{name}: {value}, here {}\n", actual[name]));
        }
    }
    for (name, by, why) in COUNTED_OTHERWISE {
        assert_eq!(theirs.value(name) - ours.value(name), by, "{name}: {why}");
    }
    assert!(differences.is_empty(), "{differences}");
    assert_eq!(missing(&ours, false), [""; 0]);
}

/// Pages of a leader and of a follower, after the same requests to both.
fn pages(kind: Kind, config: &[&str]) -> [MetricsPage; 2] {
    let ensemble = Ensemble::start(kind, config);
    let leads = |server: &&Server| server.metrics().samples.contains_key("leader_uptime");
    let leader = ensemble.servers().iter().find(leads).expect("one leads");
    let follower = ensemble.servers().iter().find(|server| !leads(server)).expect("two follow");
    requests(leader);
    for number in 0..3 {
        let mut client = follower.connect(20_000);
        let path = format!("/of-a-follower-{number}");
        call(&mut client, op::CREATE, &request::create(&path, None, mode::PERSISTENT));
        call(&mut client, op::GET_DATA, &request::path_watch(&path, false));
        client.close().expect("closed");
    }
    // A leader looks from time to time how far the others are.
    let deadline = Instant::now() + DEADLINE;
    while missing(&leader.metrics(), true).iter().any(|name| name.starts_with("learner_handler")) {
        assert!(Instant::now() < deadline, "nothing is known of the followers");
        thread::sleep(Duration::from_millis(50));
    }
    [leader.metrics(), follower.metrics()]
}

#[test]
fn of_a_leader_and_of_a_follower() {
    let java = classes();
    let lines = metrics_page::config(java.classes());
    let mut config: Vec<&str> = lines.iter().map(String::as_str).collect();
    config.push("enforceQuota=true");
    let [their_leader, their_follower] = pages(Kind::Reference, &config);
    let [leader, follower] = pages(Kind::subject(), &config);
    let differences = compare_names(&their_leader, &leader);
    assert!(differences.is_empty(), "a leader: {differences}");
    let differences = compare_names(&their_follower, &follower);
    assert!(differences.is_empty(), "a follower: {differences}");
    assert_eq!(missing(&leader, true), [""; 0]);
    assert_eq!(missing(&follower, false), [""; 0]);
    for name in ["proposal_count", "commit_count", "quorum_ack_latency_count", "learners"] {
        assert!(leader.value(name) > 0.0 && their_leader.value(name) > 0.0, "{name}");
    }
    // What a leader has after these requests is everything that there is.
    assert_eq!(differing(&documented(), &leader), [""; 0]);
    for page in ["grafana.json", "alerts.yml"] {
        let names = names_used(page);
        let is_there = |name: &String| leader.samples.contains_key(name) || name == "up";
        assert!(names.len() > 8, "{page} has hardly a name: {names:?}");
        let lost: Vec<&String> = names.iter().filter(|name| !is_there(name)).collect();
        assert!(lost.is_empty(), "{page}: {lost:?}");
    }
    for name in ["learner_proposal_received_count", "learner_commit_received_count"] {
        assert!(follower.value(name) > 0.0 && their_follower.value(name) > 0.0, "{name}");
    }
}
