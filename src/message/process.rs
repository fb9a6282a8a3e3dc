//! What goes wrong with the process itself: ports, threads, log lines, defects.

messages! { "Process and log":

RK0701 PANIC
"A part of the server ended by a defect; the line says where."
"Where it belongs to a connection, that is closed; where the server cannot do without, the process ends. What was acknowledged is on the disk."
"Report it with the line and those before it. Start again if the process has ended."

RK0702 PORT_NOT_BOUND
"An address cannot be listened on."
"No server starts, and no client was served. The data is not touched by it."
"Look who has the port (`ss -ltnp`), or whether this user may bind it: ports below 1024 need a right."

RK0703 SYSTEM_REFUSED
"The operating system refused something that the server cannot do without: a thread, signals, random bytes, a place for the audit log."
"The server ends or does not start; acknowledged data is on the disk."
"The reason is below the line: limits of threads or memory of the container, or a folder that cannot be written."

RK0704 OPEN_FILES_LIMIT
"The soft limit of open files could not be raised to the hard one."
"Fewer connections are taken than could be."
"Raise the soft limit in the service file or the shell (LimitNOFILE, `ulimit -n`)."

RK0711 LOG_LEVEL_UNKNOWN
"ROOKEEPER_LOG has a word that is no level or no directive."
"`info` counts."
"`error`, `warn`, `info`, `debug`, `trace`, or by module: `info,rookeeper::storage=debug`."

RK0712 LOG_FORM_UNKNOWN
"ROOKEEPER_LOG_FORMAT is neither `text` nor `json`."
"`text` counts."
"Correct the variable, or unset it."

RK0713 LOG_FILE_NOT_OPENED
"The log file in ZOO_LOG_DIR (or `zookeeper.log.dir`) cannot be opened."
"Log lines go to standard error only."
"Check owner and mode of the folder, then restart."

RK0714 LOG_LINES_LOST
"Log lines were lost: the disk refused them, or nobody took them as fast as they came."
"As many lines as the message says are missing ahead of it. Nothing else is lost: the server never waits for its log."
"Make room on the disk of the log, or look at whoever reads standard error."

}
