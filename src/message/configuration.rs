//! What is wrong with a configuration: refusals first, then what is only said.

messages! { "Configuration":

RK0101 CONFIG_UNREADABLE
"The configuration file cannot be opened or read."
"No server starts; nothing was touched. Of a tool: it does nothing."
"Check the path, which is relative to the working directory, and that this user may read the file."

RK0102 CONFIG_IS_DIRECTORY
"A directory was given where a zoo.cfg is expected."
"No server starts; nothing was touched."
"Name the file itself."

RK0103 CONFIG_TOO_LARGE
"The file is larger than 1 MiB, so it is no zoo.cfg."
"No server starts; nothing was touched."
"Look at what was named: a log or a device instead of the configuration."

RK0104 MALFORMED_ESCAPE
"A `\\u` in the file is not followed by four hexadecimal digits."
"No server starts, nor would ZooKeeper: the file is in Java's properties format, where a backslash escapes."
"Write a backslash twice."

RK0105 BAD_VALUE
"A key has a value that it cannot take."
"No server starts; nothing was touched. ZooKeeper refuses most of these too; some it would run with and fail later."
"Correct the value at the place that the line names, or remove the key for its default. `rookeeper explain KEY` says what it sets."

RK0106 KEY_REFUSED
"A key asks for something that this server does not have and that is a matter of safety or of data."
"No server starts: to go on without it would be less safe than what was asked for."
"Remove the key if the server may do without; else this server is not for that configuration yet. `rookeeper explain KEY` says what it sets."

RK0107 KEY_NOT_SET
"A key is missing without which there is nothing to run, or that another key needs."
"No server starts; nothing was touched."
"Add what the second line says."

RK0108 CONTRADICTION
"Two settings exclude each other."
"No server starts; nothing was touched."
"Correct one of the two. The line names the place of the later one."

RK0109 STORE_NOT_PEM
"A key store or trust store for the servers of the ensemble is JKS, PKCS12 or BCFKS, and only PEM is read."
"No server starts; nothing was touched."
"Convert it with the command in the message, and name the new file."

RK0110 NO_MYID
"zoo.cfg lists several servers, and there is no file `myid` that says which of them this is."
"No server starts. It may be a sign of a `dataDir` that is not mounted: the data would be missing as well."
"Check that `dataDir` is the right one and mounted, then write the number of this server's line into `myid`."

RK0111 ENSEMBLE_FORM
"The configuration asks for a kind of ensemble that this version does not run."
"No server starts; nothing was touched."
"List the members as lines `server.N` in zoo.cfg."

RK0121 UNKNOWN_KEY
"A key that neither ZooKeeper nor this server knows."
"It is ignored, as by ZooKeeper. If it was mistyped, what was meant is not in effect."
"Correct the name, or remove the line."

RK0122 KEY_NOT_IN_EFFECT
"A key of ZooKeeper asks for something that is not built here."
"The server runs without it; the line says what that means. No data is in danger by it."
"Check that nobody relies on it, then remove the key."

RK0123 VALUE_IGNORED
"A value is no number of the kind that its key takes, and the default counts."
"The server runs with the default, as ZooKeeper does."
"Correct the value, or remove the key."

RK0124 KEY_OVERRIDDEN
"A key is set twice, with two values."
"The later one of the two that the line names counts."
"Remove the one that is not meant."

RK0125 VALUE_WITHOUT_KEY
"A line has a value and no key."
"It is ignored."
"Remove the line, or write its key in front."

RK0126 UNKNOWN_WORD
"A key that takes one of a few words has another one."
"What the line says counts, as in ZooKeeper. For `forceSync` that is the safe side: the log is synced."
"Write one of the words that the line names."

RK0127 NUMBER_OUT_OF_RANGE
"A number is out of its range, and another one counts."
"The server runs with the one that the line names, or without what the key limits."
"Correct the number, or remove the key for its default."

RK0128 SEVERAL_ADDRESSES
"A line `server.N` has several addresses."
"Only the first is dialled: where that network fails, the other one does not help."
"Put the address first that all servers reach, or use a name that is found under several."

RK0129 SCRIPT_UNREADABLE
"A file that ZooKeeper's start script would read (`java.env`, `zookeeper-env.sh`, Debian's `environment`) cannot be read."
"Properties that it sets with `-D` are not in effect."
"Make it readable for this user, or move those properties to zoo.cfg."

RK0130 SCRIPT_NEEDS_SHELL
"A file of ZooKeeper's start script assigns flags by shell code, which is not executed here."
"Properties in that assignment are not in effect."
"Write them into zoo.cfg, or set SERVER_JVMFLAGS in the environment."

RK0131 RELATIVE_DIRECTORY
"`dataDir` or `dataLogDir` is relative to the working directory."
"Started from elsewhere, the server would find another directory there, an empty one most likely, and serve without the data."
"Write an absolute path, or `./` in front if that is meant."

RK0132 DIRECTORY_IN_LATIN_1
"A path in zoo.cfg has characters beyond ASCII; the file counts as Latin-1, as Java reads it."
"If the file is UTF-8, the directory is another one than was meant."
"Compare the path in the line. Write such characters as `\\uXXXX`, or use a path in ASCII."

RK0133 UNKNOWN_FOUR_LETTER_WORD
"`4lw.commands.whitelist` has a word that is none."
"The other words of the list are answered."
"Correct it or take it out."

RK0134 FORCE_SYNC_OFF
"`forceSync=no`: the log is not synced to the disk."
"ACKNOWLEDGED CHANGES CAN BE LOST when the machine stops or loses power; a process that is killed loses none."
"Remove `forceSync=no` wherever locks, elections or anything else that must not come twice are kept."

RK0135 ACLS_OFF
"`skipACL=yes`: no ACL is checked."
"Whoever reaches the client port may read, change and delete everything."
"Remove it once what it was set for is done."

RK0136 ALONE_IN_LIST
"The list has a single line `server.N`."
"This server runs standalone, as ZooKeeper would: there is no other copy of its data."
"Nothing, if that is meant; else list all servers, on each of them."

RK0137 LINE_OF_ANOTHER
"The only line `server.N` is not this server's by `myid`."
"The server runs standalone; the client port of that line is not used."
"Check `myid` and `dataDir`, or correct the line."

}
