//! Why a tool did not do what it was asked for, where it is none of the above.

messages! { "Tools":

FK0801 TOOL_FILE
"A tool cannot read or write a file."
"The tool stops. It has not changed a data directory."
"The reason is in the line."

FK0802 TOOL_OUTPUT
"Standard output cannot be written."
"The command may have been carried out, but its result cannot be shown."
"Check where the output goes: usually to a disk that is full."

FK0803 NO_DATA_DIRECTORY
"The folder has no `version-2`, so it is not a data directory."
"Nothing was done."
"Give `dataDir` as in zoo.cfg, or zoo.cfg itself; not `version-2`."

FK0804 DIRECTORY_IN_USE
"A process has files of the directory open: Apache ZooKeeper, which takes no lock, or another program."
"Nothing was done: changing files under it would destroy them."
"Stop that process first; its id is in the line."

FK0805 BACKUP_ALTERED
"A file of the backup does not match the manifest."
"Nothing was restored."
"Use another backup. This one was changed or damaged after it was taken."

FK0806 MANIFEST_UNREADABLE
"The backup's manifest, `backup.json`, cannot be understood."
"Nothing was restored."
"Use another backup. Or move the manifest away: the files are then treated as a plain copy, without checksums."

FK0807 FOLDER_NOT_EMPTY
"The target folder is not empty."
"Nothing was written."
"Choose an empty folder; `restore --replace` moves existing files aside."

FK0808 ADMIN_SERVER_UNREACHABLE
"`ferrokeeper top` gets no answer from the AdminServer."
"This says nothing about the server itself: its AdminServer may be off, or on another port."
"Use `--server HOST:PORT`; look for `admin.serverPort` in zoo.cfg and for FK0601 in the log."

FK0809 INEXPLICABLE
"`ferrokeeper explain` does not know the word."
"Nothing."
"Without an argument it lists all codes and messages; `ferrokeeper config keys` lists the keys."

FK0810 CUT_INSIDE_SNAPSHOT
"The only snapshots contain some of what was to be cut off."
"Nothing was cut."
"`--inexact` cuts and keeps what the snapshot contains: a state that never existed, like the one that ZooKeeper produces on a start. Or cut at a later zxid."

FK0811 SNAPSHOT_IS_THERE
"A first snapshot was requested, but a readable snapshot already exists."
"Nothing was done; the server can start from it."
"Nothing."

FK0812 LOGS_DO_NOT_REACH_BACK
"The logs do not begin with the first transaction, so an empty first snapshot would lose what came before them."
"Nothing was done."
"Restore a snapshot from a backup."

FK0813 NOT_SERVED_YET
"A seal was requested, but ferrokeeper has not served the data of this directory yet."
"Nothing was done."
"Start and stop ferrokeeper on it, check that all is well, then seal."

FK0814 NO_RANDOM_BYTES_FOR_KEY
"The system provided no random bytes for a session key."
"Nothing was done."
"Look at the reason in the line; a container may lack `getrandom`."

FK0815 NO_MEMBER
"`data leave` was called on a directory that does not belong to a member of an ensemble."
"Nothing was done, and nothing needs to be: the directory belongs to no ensemble."
"Check that it is the right directory."

FK0816 LOG_SHOWN_IN_PART
"Not every record of the log can be read."
"What can be read was shown. Nothing was changed."
"`ferrokeeper log verify` says where and why; `ferrokeeper data check` says what a start would do."

FK0817 NO_LOG
"The folder contains no log."
"Nothing was done."
"Give `dataLogDir` if it differs from `dataDir`, or a file `log.*`."

FK0818 BACKUP_TOO_OLD
"The backup ends before the requested zxid."
"Nothing was restored."
"Use a newer backup, or omit `--to-zxid`."

FK0819 SNAPSHOT_NO_TREE
"The znodes of a snapshot do not form a tree: one appears before its parent, or twice."
"Neither ferrokeeper nor ZooKeeper writes such a file. Nothing was changed."
"Use another snapshot; find out what wrote this one."

FK0820 MEMBER_NOT_CUT
"`data truncate` was asked to cut the log of a member of an ensemble."
"Nothing was cut: the others rely on what this member acknowledged, and would still count on data that this server no longer has."
"If a start refuses the directory: while a majority of the others is running, run the `mv` in the line, which keeps everything, and start the server: it loads everything from them. Only if you dissolve the ensemble for good, run `ferrokeeper data leave` and then cut."

FK0821 ID_GARBLED
"ZooKeeper stored ids of the digest scheme that contain U+FFFD: their clients used characters that the default charset of ZooKeeper's JVM does not have."
"These ids are kept as they are. ferrokeeper reads the characters that the clients send as UTF-8, so these clients get different ids, and lose the permissions that only the old ids have."
"Before the move, set the ACLs of these znodes again, as a user whose name and password are ASCII; or afterwards, as the super user. `ferrokeeper snapshot show` shows which znodes have them."

FK0823 SNAPSHOT_MISNAMED
"The zxid in the name of a snapshot does not fit what the file holds."
"A start goes by the name: from this file it would leave out transactions, or apply some a second time. Nothing was changed."
"If the file was renamed, rename it to `snapshot.` followed by the zxid that the file itself states, in hexadecimal. Otherwise use another snapshot."

FK0824 LOG_FOLDER_UNCLEAR
"A tool was given only a `dataDir` whose log is in another folder, or a zoo.cfg and `--log-dir` as well."
"Nothing was done: half of the data looks like a directory that is damaged or lacks its last transactions."
"Give the zoo.cfg and nothing else: it names both folders. Without one, give `dataDir` and `--log-dir`; if a snapshot is really all that there is, `--log-dir` may name the same folder. Where a tool has no `--log-dir` for the folder, as for the backup of a `restore`, write a zoo.cfg that names both."

}
