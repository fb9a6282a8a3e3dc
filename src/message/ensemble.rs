//! What goes wrong between the servers of an ensemble.

messages! { "Ensemble":

RK0401 UNKNOWN_ENTRY
"An entry of the replicated log is none that this version knows."
"This member ends before it applies it. Nothing is lost; the others go on if they are a majority."
"Run the same version on all members, or two in a row while upgrading."

RK0402 FINAL_ENTRIES_LOST
"The log on this disk ends before an entry that was known to be final."
"ACKNOWLEDGED TRANSACTIONS are missing on this server; the others have them. It does not start."
"Move its data directory away and start it on an empty one, while a majority of the others runs. Never go back to older files of a member."

RK0403 FOREIGN_DIRECTORY
"The data directory is that of another server of the ensemble, by its number."
"It does not start; nothing was changed. Two servers with one identity could break the ensemble."
"Check `myid` and `dataDir`: disks or volumes were swapped, or a directory was copied."

RK0404 NO_ENSEMBLE_YET
"A member was to start on a directory that belongs to no ensemble."
"It ends; nothing was changed. It is a defect."
"Start again, and report it."

RK0405 DIRECTORY_REPLACED
"This server came back to the ensemble with another, empty directory; the one that it runs on now is of its earlier life."
"It ends: its earlier votes count no more. The ensemble goes on without it."
"Move this directory away, and start with the newer one or with an empty one."

RK0406 WRITER_LOST
"The thread that writes the log of a member ended unexpectedly."
"The member ends; nobody was told of what is not on the disk. It is a defect."
"Start again, and report it with the error above (RK0701)."

RK0407 RAFT_BROKEN
"Raft found that something it relies on does not hold."
"The member ends. The others go on if they are a majority. It is a defect."
"Keep the log lines and a copy of the data directory, report it, start again."

RK0408 DATA_OF_NO_ENSEMBLE
"This server has data that belongs to no ensemble, and the others already belong to one."
"It does not start: it would have to give up its data for theirs. Nothing was changed."
"If the ensemble has what is needed, move the directory away and start again on an empty one. Else find out which of the two is right first."

RK0411 SECURITY_FILE_UNREADABLE
"A certificate, key or secret for the ensemble cannot be read."
"The server does not start; nothing was touched."
"Check path, owner and mode of the file."

RK0412 SECURITY_FILE_NOT_PEM
"A certificate or key file for the ensemble is not PEM."
"The server does not start; nothing was touched."
"Convert it: `openssl pkcs12 -in k.p12 -nodes -out k.pem`; a JKS to PKCS12 first, with `keytool -importkeystore`."

RK0413 NO_CERTIFICATE
"There is no certificate in the file."
"The server does not start; nothing was touched."
"The key store needs the certificate, what leads to its issuer, and the key; the trust store the issuers."

RK0414 NO_PRIVATE_KEY
"There is no private key in the key store."
"The server does not start; nothing was touched."
"Append the key to the file with the certificate, and let nobody else read it."

RK0415 KEY_ENCRYPTED
"The private key wants a password, and this version reads keys without one only."
"The server does not start; nothing was touched."
"`openssl pkey -in FILE` prints it without; write that into a file that only the server's user can read."

RK0416 CERTIFICATES_UNFIT
"Certificate, key and issuers do not go together."
"The server does not start; nothing was touched."
"Check that the key is that of the first certificate in the file."

RK0417 NO_CIPHER_LEFT
"`ssl.quorum.ciphersuites` names no cipher that there is for the protocols that are enabled."
"The server does not start; nothing was touched."
"Name one of those in the message, or remove the key."

RK0418 SHORT_SECRET
"The secret of the ensemble is shorter than 32 bytes."
"The server does not start: it could be guessed."
"`openssl rand -base64 48` makes one; it is the same on all servers."

RK0421 NOT_AUTHENTICATED
"The servers of the ensemble do not authenticate each other."
"Whoever reaches the port between the servers can read and change everything."
"Set `sslQuorum` or `quorum.auth.secretFile`; until then let nobody else reach that port."

RK0422 PORT_UNIFICATION
"`portUnification=true`: who comes without TLS or the secret is taken for a server all the same."
"As long as it is set, whoever reaches the port between the servers can read and change everything."
"Take it out once every server has TLS or the secret."

RK0423 SECRET_READABLE
"A file with a secret or a private key is readable for every user of the machine."
"Each of them can pass for a server of the ensemble."
"`chmod o= FILE`. If others had access, make a new one."

RK0424 CERTIFICATES_NOT_TAKEN
"The certificate files have changed, and what they hold now is of no use."
"The old ones stay in use. Connections fail when those expire."
"Correct the files; they are read again when they change. A restart with them as they are would be refused."

RK0425 UNKNOWN_CIPHER
"`ssl.quorum.ciphersuites` names a cipher that there is not here."
"It is left out; the others of the list are used."
"Take it out, or correct its name (Java's names count)."

RK0431 PEER_UNREACHABLE
"This server cannot reach another one of the ensemble. It is tried again all the time; each reason is told once a minute, and that the other does not run from the tenth second on."
"The ensemble goes on as long as a majority reaches each other."
"The reason is in the line. Compare the lines `server.N` and look at the log of the other server, which says why if it refuses."

RK0432 PEER_NOT_ACCEPTED
"The system refused to hand over a connection of another server."
"It is tried again. Until then others may not reach this server."
"Most often the limit of open files: look at the reason in the line."

RK0433 COMPLAINTS_LEFT_OUT
"So many different things are wrong with connections of the ensemble that not all are told, for a minute."
"Somebody most likely knocks at the port between the servers who is none of them."
"Let only the servers reach that port."

RK0434 SNAPSHOT_NOT_SENT
"A leader could not send its snapshot to a follower that needs it."
"The follower has no current data until it is sent; it is tried again from where it broke off. The others go on."
"The reason is in the line; look at the network, and at the follower's log and disk."

RK0441 WAITING_FOR_ENSEMBLE
"This server belongs to no ensemble yet and still waits, for a minute or more."
"It serves nobody. Nothing is in danger. The line shows which others answered and what they hold."
"Start the others: all voters are needed, or a majority for `initLimit`. Where they run, look for RK0431 in their logs."

RK0442 NO_RANDOM_BYTES
"The system gave no random bytes, which founding an ensemble needs."
"It is tried again; until then the servers serve nobody."
"Look at the reason in the line; a container may lack `getrandom`."

RK0443 SESSIONS_END_AT_FOUNDING
"An ensemble is founded on a server whose sessions have passwords of `session.key`, and that key cannot be given to the others."
"These sessions end with their ephemeral znodes, once; their clients open new ones. Znodes stay."
"To avoid it, set up TLS or `quorum.auth.secretFile` before the first start of the ensemble. Where the line says that there are too many of before a seal: let those sessions close first."

RK0444 PEER_NOT_IN_NEW_ENSEMBLE
"A server refused to belong to the ensemble that this one founded."
"The ensemble goes on if a majority belongs to it. The other server keeps its data and does not serve."
"The reason is in the line. If it has newer data, stop all before clients go on, and decide which data is right; else give it an empty directory."

RK0445 NO_SEAT
"A member refused this server a place in the ensemble. It is asked for again."
"This server serves nobody; the ensemble is not harmed."
"The reason is in the line. An ensemble with a session key gives places only to servers that prove who they are (TLS or the secret, without `portUnification`)."

RK0446 FOUNDING_REFUSED
"Another server founded an ensemble, and this one refused to belong to it."
"Its data stays as it is, and it does not serve with the others."
"The reason is in the line. Newer data here than there: stop all and decide which is right. A server of another ensemble: check the lists and the directories."

RK0451 HAND_OVER_ALONE
"A hand-over was asked for (SIGUSR1), and this is a lone server."
"Nothing was done."
"Nothing."

RK0452 HAND_OVER_NOT_LEADING
"A hand-over was asked for (SIGUSR1), and this server does not lead."
"Nothing was done; the line names the leader."
"Ask the leader."

RK0453 HAND_OVER_NOBODY
"A hand-over was asked for (SIGUSR1), and no other voter is there that could lead."
"Nothing was done; this server goes on leading."
"Look why the others are not there before this one is stopped: without them nobody serves."

RK0454 LEADER_LEAVES_DISK
"The leader's disk has done nothing for a second, and it hands over."
"Another server leads within a moment. Clients of this server with a write on its way are disconnected; nothing acknowledged is lost."
"Look at the disk of the log of this server and at the kernel's log."

RK0455 LEADER_LEAVES_SHORT_DISK
"The leader's disk is short of room and another server's is not: it hands over."
"Another server leads within a moment; nothing is lost."
"Make room on the disk of the log of this server."

RK0456 MEMBER_DISK_FULL
"The disk of the log has less than a quarter of the reserve: this member takes no more transactions."
"What it shows falls behind; after `syncLimit` it closes its clients' connections. The others go on if they are a majority. Nothing is lost."
"Make room; it catches up by itself."

RK0461 RAFT_ERROR
"The Raft library says that something is wrong, in its own words."
"It goes on. Where it cannot, the process ends with RK0407 or RK0701."
"Look at the lines around it. Where they do not explain it, report it."

RK0462 RAFT_WARNING
"The Raft library warns, in its own words; most often of a leader that steps down because it hears of no majority."
"Nothing acknowledged is in danger. Without a majority nobody serves."
"If it does not stop, look whether the servers reach each other (RK0431)."

}
