use super::*;

#[test]
fn an_address_is_named_as_a_socket_address() {
    let authorities = [
        ("127.0.0.1:8080", "127.0.0.1:8080"),
        ("zk1.example.org:8080", "zk1.example.org:8080"),
        ("::1:8080", "[::1]:8080"),
        ("[::1]:8080", "[::1]:8080"),
        ("2001:db8::17:8080", "[2001:db8::17]:8080"),
    ];
    for (server, expected) in authorities {
        assert_eq!(authority(server).unwrap(), expected, "{server}");
    }
}

/// None of them may be taken for port 80.
#[test]
fn an_address_without_a_port_is_refused() {
    for server in
        ["zk1.example.org", "127.0.0.1", "[::1]", "", ":8080", "a:b", "a:80808", "::1", "a/b:80"]
    {
        let error = authority(server).unwrap_err();
        assert_eq!(error.to_string(), "not of the form HOST:PORT", "{server}");
    }
    assert!(authority("fe80::1%eth0:8080").is_err());
}
