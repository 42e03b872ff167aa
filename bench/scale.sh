#!/bin/sh
# How a walk and a copy in memory grow with threads and with ranks, beside the raw limits.
#
# usage: bench/scale.sh PROGRAMS DIRECTORY ROUNDS THREADS... [-- MPIRUN]
#
# PROGRAMS is the directory that has atta, walk-limit and copy-limit (target/release), DIRECTORY an empty one on a
# tmpfs with room for 900,000 inodes and 4 GiB, MPIRUN an Open MPI's mpirun; times on ranks include its start, which is
# also measured alone, by walks of an empty directory. All runs of a round stand beside each other; printed are the medians,
# in seconds. It measures; it checks no result but the exit code, and it leaves its tree in DIRECTORY.
set -eu
programs=$1 place=$2 rounds=$3
shift 3
counts= mpirun=
while [ $# -gt 0 ]; do
    if [ "$1" = -- ]; then mpirun=$2; break; fi
    counts="$counts $1"
    shift
done
times=$place/times
tree=$place/tree
export XDG_STATE_HOME=$place/state
mkdir -p "$times" "$place/empty"
if [ ! -e "$tree.complete" ]; then
    "$programs/atta" generate "$tree" --files 400000 --directories 40000 --size uniform:0..2K >"$place/generated"
    touch "$tree.complete"
fi

# timed NAME COMMAND...: adds the seconds of COMMAND to the times of NAME.
timed() {
    name=$1
    shift
    began=$(date +%s%N)
    if ! "$@" >"$place/printed" 2>&1; then
        echo "failed: $*" >&2
        tail -n 5 "$place/printed" >&2
        return 1
    fi
    ended=$(date +%s%N)
    echo $((ended - began)) >>"$times/$name"
}

# copied NAME COMMAND...: the same for a command that makes DIRECTORY/copy, which is removed.
copied() {
    timed "$@"
    mv "$place/copy" "$place/old"
    rm -rf "$place/old"
}

# median NAME: the median of its times in seconds.
median() {
    sort -n "$times/$1" | awk '{ t[NR] = $1 } END { printf "%.3f", t[int((NR + 1) / 2)] / 1e9 }'
}

rm -f "$times"/*
round=0
while [ "$round" -lt "$rounds" ]; do
    for n in $counts; do
        timed walk-limit-$n "$programs/walk-limit" -t $n "$tree"
        timed walk-threads-$n "$programs/atta" walk --threads $n "$tree"
        [ -z "$mpirun" ] || timed start-ranks-$n "$mpirun" --oversubscribe -n $n "$programs/atta" walk --threads 1 "$place/empty"
        [ -z "$mpirun" ] || timed walk-ranks-$n "$mpirun" --oversubscribe -n $n "$programs/atta" walk --threads 1 "$tree"
        copied copy-limit-$n "$programs/copy-limit" -t $n "$tree" "$place/copy"
        copied copy-threads-$n "$programs/atta" copy --threads $n "$tree" "$place/copy"
        [ -z "$mpirun" ] || copied copy-ranks-$n "$mpirun" --oversubscribe -n $n "$programs/atta" copy --threads 1 "$tree" "$place/copy"
    done
    round=$((round + 1))
done

echo "$(uname -sr), $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $rounds rounds"
for what in walk copy; do
    for n in $counts; do
        printf '%s with %2d: limit %s, threads %s' "$what" "$n" "$(median $what-limit-$n)" "$(median $what-threads-$n)"
        [ -z "$mpirun" ] || printf ', ranks %s (start %s)' "$(median $what-ranks-$n)" "$(median start-ranks-$n)"
        echo
    done
done
