//! What is wrong with a configuration: refusals first, then what is only said.

messages! { "Configuration":

FK0101 CONFIG_UNREADABLE
"The configuration file cannot be opened or read."
"The server does not start; nothing was touched. A tool does nothing."
"Check the path (it is relative to the working directory) and that this user may read the file."

FK0102 CONFIG_IS_DIRECTORY
"A directory was given where a zoo.cfg is expected."
"The server does not start; nothing was touched."
"Give the path of the file itself."

FK0103 CONFIG_TOO_LARGE
"The file is larger than 1 MiB, so it cannot be a zoo.cfg."
"The server does not start; nothing was touched."
"Check the path: it may be a log or a device instead of the configuration."

FK0104 MALFORMED_ESCAPE
"A `\\u` in the file is not followed by four hexadecimal digits."
"The server does not start. ZooKeeper would not either: the file is in Java's properties format, where a backslash is an escape character."
"Write the backslash twice."

FK0105 BAD_VALUE
"A key has a value that is not valid for it."
"The server does not start; nothing was touched. ZooKeeper refuses most of these too; with some it would start and fail later."
"Correct the value at the place named in the line, or remove the key to get its default. `ferrokeeper explain KEY` says what the key sets."

FK0106 KEY_REFUSED
"A key asks for something that this server does not have and that affects safety or data."
"The server does not start: running without it would be less safe than what was asked for."
"Remove the key if you can do without it; otherwise this server does not support that configuration yet. `ferrokeeper explain KEY` says what the key sets."

FK0107 KEY_NOT_SET
"A required key is missing: either the server cannot run without it, or another key needs it."
"The server does not start; nothing was touched."
"Add the key that the second line of the message names."

FK0108 CONTRADICTION
"Two settings contradict each other."
"The server does not start; nothing was touched."
"Correct one of the two. The line gives the place of the later one."

FK0109 STORE_NOT_PEM
"A key store or trust store for the servers of the ensemble is JKS, PKCS12 or BCFKS; only PEM can be read."
"The server does not start; nothing was touched."
"Convert it with the command in the message, and configure the new file."

FK0110 NO_MYID
"The configuration lists the servers of an ensemble, and there is no `myid` file that says which of them this is."
"The server does not start. It may be a sign that `dataDir` is not mounted, in which case the data would be missing too."
"Check that `dataDir` is the right one and is mounted, then write the N of this server's `server.N` line into `myid`."

FK0112 NO_LIST_IN_FILE
"The file that `dynamicConfigFile` names is no list of servers."
"The server does not start; nothing was touched. ZooKeeper would not start either, except with groups and weights, or with a file without servers: with that, each server would run on its own."
"Correct the file: it has `server.N` lines only, and the number behind the last dot of its name is the version of the list. If it is empty or cut off, copy it from another server of the ensemble."

FK0113 LIST_PROPOSED
"Beside zoo.cfg there is a file `zoo.cfg.dynamic.next`: ZooKeeper has begun a change of the servers and has not finished it."
"The server does not start: the change may have been committed, and the list in the files may be the old one."
"Finish the change in ZooKeeper: start its ensemble, wait until it has a leader, and stop it; then the file is gone. Only if you are sure that the change was never committed, move that file away on all servers."

FK0121 UNKNOWN_KEY
"Neither ZooKeeper nor this server knows a key."
"It is ignored, as in ZooKeeper. If it is a typo, the intended setting is not in effect."
"Correct the name, or remove the line."

FK0122 KEY_NOT_IN_EFFECT
"A ZooKeeper key asks for something that is not implemented here."
"The server runs without it; the line says what that means. No data is in danger because of it."
"Check that nothing relies on it, then remove the key."

FK0123 VALUE_IGNORED
"A value is not a number of the kind that its key takes, so the default is used."
"The server runs with the default, as ZooKeeper does."
"Correct the value, or remove the key."

FK0124 KEY_OVERRIDDEN
"A key is set twice, with different values."
"The value that was set later is used; the message names both places."
"Remove the one that is not intended."

FK0125 VALUE_WITHOUT_KEY
"A line has a value but no key."
"It is ignored."
"Remove the line, or write the key in front of it."

FK0126 UNKNOWN_WORD
"A key that takes one of a few words has a value that is none of them."
"The line says what is used instead, as in ZooKeeper. For `forceSync` that is the safe side: the log is synced."
"Use one of the words named in the line."

FK0127 NUMBER_OUT_OF_RANGE
"A number is out of range, so another one is used."
"The server runs with the number named in the line, or without the limit that the key sets."
"Correct the number, or remove the key to get its default."

FK0128 SEVERAL_ADDRESSES
"A `server.N` line has several addresses."
"Only the first is dialled: if that network fails, the others do not help."
"Put the address that all servers can reach first, or use a name that resolves to several addresses."

FK0129 SCRIPT_UNREADABLE
"A file that ZooKeeper's start script would read (`java.env`, `zookeeper-env.sh`, Debian's `environment`) cannot be read."
"Properties that it sets with `-D` are not in effect."
"Make it readable for this user, or move those properties to zoo.cfg."

FK0130 SCRIPT_NEEDS_SHELL
"A file of ZooKeeper's start script assigns flags with shell code, which is not executed here."
"Properties in that assignment are not in effect."
"Put them into zoo.cfg, or set SERVER_JVMFLAGS in the environment."

FK0131 RELATIVE_DIRECTORY
"`dataDir` or `dataLogDir` is relative to the working directory."
"If the server is started from elsewhere, it finds another directory there, most likely an empty one, and serves without the data."
"Write an absolute path, or put `./` in front if a relative one is intended."

FK0132 DIRECTORY_IN_LATIN_1
"A path in zoo.cfg has non-ASCII characters; the file is read as Latin-1, as Java reads it."
"If the file is UTF-8, this is not the directory that was intended."
"Check the path in the line. Write such characters as `\\uXXXX`, or use an ASCII path."

FK0133 UNKNOWN_FOUR_LETTER_WORD
"`4lw.commands.whitelist` has a word that is not a command."
"The other words in the list are answered."
"Correct it or remove it."

FK0134 FORCE_SYNC_OFF
"`forceSync=no`: the log is not synced to the disk."
"ACKNOWLEDGED CHANGES CAN BE LOST when the machine crashes or loses power; if only the process is killed, none are lost."
"Remove `forceSync=no` if the data includes locks, elections or anything else that must not happen twice."

FK0135 ACLS_OFF
"`skipACL=yes`: ACLs are not checked."
"Anyone who can reach the client port may read, change and delete everything."
"Remove it as soon as it has served its purpose."

FK0136 ALONE_IN_LIST
"The server list has a single `server.N` line."
"This server runs standalone, as ZooKeeper would: there is no other copy of its data."
"Nothing, if that is intended; otherwise list all servers, on each of them."

FK0137 LINE_OF_ANOTHER
"According to `myid`, the only `server.N` line is not this server's."
"The server runs standalone; the client port of that line is not used."
"Check `myid` and `dataDir`, or correct the line."

FK0138 LIST_NOT_WRITTEN
"The list of servers has changed, and zoo.cfg or the file that it names could not be written."
"The server goes on with the new list, which is in its log; that list is used at the next start too. The files say the old one."
"Make the folder of zoo.cfg writable for this user. The files are written again with the next change."

}
