//! What goes wrong with the process itself: ports, threads, log lines, defects.

messages! { "Process and log":

FK0701 PANIC
"A part of the server ended because of a bug; the line says where."
"If that part serves a single connection, the connection is closed; if the server cannot do without it, the process ends. What was acknowledged is on disk."
"Report it with the line and those before it. Start again if the process has ended."

FK0702 PORT_NOT_BOUND
"The server cannot listen on an address."
"The server does not start, and no client was served. The data is not affected."
"Find out what uses the port (`ss -ltnp`), or whether this user may bind it: ports below 1024 need a privilege."

FK0703 SYSTEM_REFUSED
"The operating system refused something that the server cannot do without: a thread, signals, random bytes, a place for the audit log; for an audit log, the line names the place and the key."
"The server ends or does not start; acknowledged data is on disk."
"The reason is under the line: thread or memory limits of the container, or a folder that cannot be written."

FK0704 OPEN_FILES_LIMIT
"The soft limit of open files could not be raised to the hard limit."
"The server accepts fewer connections than it could."
"Raise the soft limit in the service file or the shell (LimitNOFILE, `ulimit -n`)."

FK0711 LOG_LEVEL_UNKNOWN
"FERROKEEPER_LOG has a word that is neither a level nor a directive."
"`info` is used."
"Use `error`, `warn`, `info`, `debug` or `trace`, or set it by module: `info,ferrokeeper::storage=debug`."

FK0712 LOG_FORM_UNKNOWN
"FERROKEEPER_LOG_FORMAT is neither `text` nor `json`."
"`text` is used."
"Correct the variable, or unset it."

FK0713 LOG_FILE_NOT_OPENED
"The log file in ZOO_LOG_DIR (or `zookeeper.log.dir`) cannot be opened."
"Log lines go to standard error only."
"Check the owner and mode of the folder, then restart."

FK0714 LOG_LINES_LOST
"Log lines were lost: the disk refused them, or they were not read as fast as they were written."
"The message says how many lines are missing before it. Nothing else is lost: the server never waits for its log."
"Free some space on the disk of the log, or check whatever reads standard error."

FK0715 OLD_VARIABLE
"An environment variable has its name from before this product was called ferrokeeper."
"It has no effect."
"Rename it as the line says."

}
