#!/bin/sh
# Runs a command as two ranks, as people do without torchrun. Words: the port to meet at, the command.
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$1" WORLD_SIZE=2
shift
RANK=1 LOCAL_RANK=1 "$@" &
other=$!
RANK=0 LOCAL_RANK=0 "$@"
code=$?
wait "$other" || code=$?
exit "$code"
