#!/usr/bin/env bash
# Each line of the input is a command line for `ferrokeeper cli`, as those of ZkCliOneShot.java are for zkCli: its standard
# output is printed, then its standard error with each line marked, then its exit code.
# Arguments: the program, HOST:PORT.
set -uf
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
echo ready
while IFS= read -r line && [ "$line" != quit ]; do
    if [ "$line" = fence ]; then
        echo fence
        continue
    fi
    # shellcheck disable=SC2086 # a line is a list of words
    "$1" cli -timeout 600000 -server "$2" $line >"$dir/out" 2>"$dir/err" </dev/null
    code=$?
    cat "$dir/out"
    sed 's/^/stderr: /' "$dir/err"
    echo "exit $code"
done
