//! Why a tool did not do what it was asked for, where it is none of the above.

messages! { "Tools":

RK0801 TOOL_FILE
"A tool cannot read or write a file."
"It ends there. A data directory is not changed by it."
"The reason is in the line."

RK0802 TOOL_OUTPUT
"Standard output cannot be written."
"What was asked for may be done, and is not told."
"Look at where the output goes: a disk that is full, most often."

RK0803 NO_DATA_DIRECTORY
"The folder has no `version-2`, so it is no data directory."
"Nothing was done."
"Name `dataDir` as zoo.cfg has it, or zoo.cfg itself; not `version-2`."

RK0804 DIRECTORY_IN_USE
"A process has files of the directory open: Apache ZooKeeper, which takes no lock, or another program."
"Nothing was done: to change files beneath it would destroy them."
"Stop that process first; its id is in the line."

RK0805 BACKUP_ALTERED
"A file of the backup is not what its manifest says."
"Nothing was restored."
"Take another backup. This one was changed or damaged since."

RK0806 MANIFEST_UNREADABLE
"The backup's manifest, `backup.json`, cannot be understood."
"Nothing was restored."
"Take another backup. Or move the manifest away: the files are then taken as a plain copy, without their checksums."

RK0807 FOLDER_NOT_EMPTY
"The folder that is to be written has files in it."
"Nothing was written."
"Choose an empty folder; `restore --replace` moves aside what is there."

RK0808 ADMIN_SERVER_UNREACHABLE
"`rookeeper top` gets no answer from the AdminServer."
"Nothing is said about the server: its AdminServer may be off, or on another port."
"`--server HOST:PORT`; look for `admin.serverPort` in zoo.cfg and for RK0601 in the log."

RK0809 INEXPLICABLE
"`rookeeper explain` does not know the word."
"Nothing."
"Without a word it lists all codes and messages; `rookeeper config keys` lists the keys."

RK0810 CUT_INSIDE_SNAPSHOT
"The only snapshots hold some of what is to be cut off."
"Nothing was cut."
"`--inexact` cuts and keeps what the snapshot shows: a state that never was, as a start of ZooKeeper makes it. Or cut later."

RK0811 SNAPSHOT_IS_THERE
"A first snapshot was to be made, and there is a snapshot that can be read."
"Nothing was done; a start works with it."
"Nothing."

RK0812 LOGS_DO_NOT_REACH_BACK
"The logs do not begin with the first transaction, so an empty first snapshot would lose what was before."
"Nothing was done."
"Restore a snapshot from a backup."

RK0813 NOT_SERVED_YET
"The directory is to be sealed, and rookeeper has not served its state yet."
"Nothing was done."
"Start and stop rookeeper on it, see that all is well, then seal."

RK0814 NO_RANDOM_BYTES_FOR_KEY
"The system gave no random bytes for a session key."
"Nothing was done."
"Look at the reason in the line; a container may lack `getrandom`."

RK0815 NO_MEMBER
"`data leave` was asked for a directory that is no member's of an ensemble."
"Nothing was done, and nothing need be: it belongs to no ensemble."
"Check that it is the right directory."

RK0816 LOG_SHOWN_IN_PART
"Not every record of the log can be read."
"What can be read was shown. Nothing was changed."
"`rookeeper log verify` says where and why; `rookeeper data check`, what a start makes of it."

RK0817 NO_LOG
"The folder holds no log."
"Nothing was done."
"Name `dataLogDir`, where that differs from `dataDir`, or a file `log.*`."

RK0818 BACKUP_TOO_OLD
"The backup ends before the zxid that is to be restored."
"Nothing was restored."
"Take a newer backup, or leave out `--to-zxid`."

RK0819 SNAPSHOT_NO_TREE
"The znodes of a snapshot make no tree: one stands before its parent, or twice."
"Neither rookeeper nor ZooKeeper writes such a file. Nothing was changed."
"Use another snapshot; find out what wrote this one."

}
