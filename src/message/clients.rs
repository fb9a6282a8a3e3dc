//! What is refused to clients.

messages! { "Clients":

RK0501 CLIENT_NOT_ACCEPTED
"The system refused to hand over a connection of a client."
"It waits or is lost; those that are open go on. Accepting is tried again every 50 ms."
"Most often the limit of open files (`ulimit -n`, LimitNOFILE): look at the reason in the line."

RK0502 TOO_MANY_CONNECTIONS
"A connection was closed at once: there are too many, of its address or in all."
"That client tries another server or again; the others are not touched."
"A client that leaks connections is the usual cause: `cons` shows who has how many. Else raise `maxClientCnxns`, `maxCnxns` or the limit of open files."

RK0503 AUTHENTICATION_FAILED
"A client authenticated with a scheme that there is not here, or without a token."
"It got -115 AuthFailed and was disconnected. A wrong password of scheme digest never shows here: it makes another identity."
"There are digest and ip here, no SASL and no X.509. Correct the client."

RK0504 TOO_MANY_IDENTITIES
"A client has shown more than 256 identities on one connection."
"It was disconnected; its session goes on and it may reconnect."
"Look for a client that authenticates again and again."

RK0505 EVENTS_NOT_READ
"A client has left 64 MiB of watch events unread."
"It was disconnected, so that it does not take the server's memory. When it reconnects it learns what it missed."
"Look at that client: it hangs, or it watches more than it can follow."

RK0506 FRAME_TOO_LONG
"A client sent the length of a request that is negative or above `jute.maxbuffer`."
"It was disconnected; nothing of the request was done."
"A client whose writes are too large must make them smaller; raise `jute.maxbuffer` on servers and clients if that cannot be. Anything else than a ZooKeeper client (HTTP, TLS, a scanner) is told so too."

RK0507 LARGE_REQUESTS_TOO_MANY
"A large request came while others that are not answered yet take `largeRequestMaxBytes`."
"The client was disconnected; nothing of the request was done."
"Fewer large requests at a time; or raise `largeRequestMaxBytes`."

RK0508 TOO_MANY_SESSIONS_AT_ONCE
"More sessions are asked for at once than `connection_throttle_tokens` lets through."
"The client was disconnected before it had a session and tries again. Open sessions go on."
"After a failure of many clients this is what it is for. If it stays, raise the tokens or look for a client that reconnects in a loop."

RK0509 CLIENT_AHEAD
"A client has seen a later transaction than this server has."
"It was disconnected, so that it does not see an older tree, and tries another server."
"In an ensemble: nothing, unless it does not stop; this server may be catching up. After a restore of older data, restart those clients."

RK0510 WRONG_PASSWORD
"A client wants to go on with a session and has not its password."
"It is told that the session has expired. The session and its owner are not touched."
"Expected where `session.key` was lost or replaced, and of clients of another server. Else somebody tries session ids: the address is in the line."

}
