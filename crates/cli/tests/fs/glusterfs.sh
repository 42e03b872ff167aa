#!/usr/bin/env bash
# Serves a GlusterFS volume on this machine alone: two distributed pairs of replicated bricks, two FUSE clients.
#
#   unshare --net glusterfs.sh DIR
#
# DIR is an absolute path of a new directory. Prints 'ready' once the clients are mounted at DIR/one and DIR/two, and
# serves until its standard input ends or it is killed by SIGTERM or SIGINT. Whatever happens, it then unmounts, ends
# the processes of its network namespace and removes DIR. Exits with 4 if GlusterFS is not available.
#
# The namespace is why nothing listens on, or talks to, an address that anyone else can reach.
set -euo pipefail

dir=${1:?usage: unshare --net glusterfs.sh DIR}
# From the block for documentation (RFC 5737): no machine has them. The clients name the server by one of them each.
address=192.0.2.7
other_address=192.0.2.8
volume=tests

lack() {
  echo "$*" >&2
  exit 4
}

say() { echo "glusterfs.sh: $*" >&2; }

# Tries a command until it works: every daemon says too early that it has started.
await() {
  local attempt
  for attempt in $(seq 300); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.1
  done
  say "waited in vain for: $*"
  return 1
}

client_of_glusterd() {
  gluster --mode=script --glusterd-sock="$dir/glusterd.socket" --log-file="$dir/log/cli.log" "$@"
}

# The processes of this network namespace but for this shell and its own subshells.
others() {
  local own process
  own=$(readlink /proc/self/ns/net)
  for process in /proc/[0-9]*; do
    if [ "$(readlink "$process/ns/net" 2>/dev/null)" = "$own" ] &&
      grep -qa '^gluster' "$process/comm" 2>/dev/null; then
      echo "${process#/proc/}"
    fi
  done
}

end_others() {
  local signal=$1 process attempt
  for process in $(others); do kill "-$signal" "$process" 2>/dev/null || true; done
  for attempt in $(seq 50); do
    if [ -z "$(others)" ]; then return 0; fi
    sleep 0.1
  done
  return 1
}

stop() {
  trap '' TERM INT
  set +e
  local client
  for client in one two; do
    if mountpoint -q "$dir/$client"; then umount "$dir/$client" || umount --lazy "$dir/$client"; fi
  done
  end_others TERM || end_others KILL || say "some processes did not end: $(others | tr '\n' ' ')"
  rm -rf --one-file-system "$dir"
}

check_needs() {
  local program
  [ "$(id -u)" = 0 ] || lack "GlusterFS needs root"
  for program in glusterd gluster glusterfs ip mountpoint; do
    command -v "$program" >/dev/null || lack "$program is not installed"
  done
  [ -e /dev/fuse ] || lack "no /dev/fuse"
  # Nobody may be reachable from here: the namespace must be a new one, with nothing but its own loopback.
  if [ "$(ip -o link show | wc -l)" != 1 ]; then
    [ -z "$(ip -o -4 addr show)" ] || lack "not in a network namespace of its own"
  fi
  ip link set lo up || lack "no network namespace available"
  ip addr add "$other_address/32" dev lo || lack "no address in the network namespace"
  ip addr add "$address/32" dev lo || lack "no address in the network namespace"
}

start_server() {
  mkdir -p "$dir"/{state,run,log,one,two,brick-1,brick-2,brick-3,brick-4}
  cat >"$dir/glusterd.vol" <<VOLUME
volume management
    type mgmt/glusterd
    option working-directory $dir/state
    option run-directory $dir/run
    option glusterd-sockfile $dir/glusterd.socket
    option transport-type socket
    option transport.address-family inet
    option base-port 49152
    option max-port 49200
end-volume
VOLUME
  glusterd --volfile="$dir/glusterd.vol" --pid-file="$dir/glusterd.pid" --log-file="$dir/log/glusterd.log" \
    --log-level=WARNING
  await client_of_glusterd pool list
  client_of_glusterd volume create "$volume" replica 2 "$address:$dir"/brick-{1,2,3,4} force >/dev/null
  # Else a client has attributes and small files of before for a second, whatever its mount was told.
  client_of_glusterd volume set "$volume" performance.stat-prefetch off performance.quick-read off >/dev/null
  # Two clients that make and look up a directory at the same time may give it two layouts, one after the other. By default a client then does not
  # find files that are on another brick than the last layout says.
  client_of_glusterd volume set "$volume" cluster.lookup-optimize off >/dev/null
  # A call that a brick does not answer fails after a minute, not after half an hour: once, two clients that copied to the same directories
  # on a loaded machine waited for each other so long.
  client_of_glusterd volume set "$volume" network.frame-timeout 60 >/dev/null
  client_of_glusterd volume start "$volume" >/dev/null
}

# start_client NAME ADDRESS
start_client() {
  # What one client changes the other sees at once: no attributes or names are kept.
  glusterfs --volfile-server="$2" --volfile-id="$volume" --log-file="$dir/log/$1.log" \
    --attribute-timeout=0 --entry-timeout=0 "$dir/$1"
  await mountpoint -q "$dir/$1"
  # Mounted is not connected: the first look at the root says that the bricks answer.
  await stat "$dir/$1/."
}

main() {
  check_needs
  trap stop EXIT
  trap 'exit 143' TERM
  trap 'exit 130' INT
  start_server
  start_client one "$address"
  start_client two "$other_address"
  echo ready
  # Until the end of standard input; in the background, so that a signal is heard while it waits.
  cat <&0 >/dev/null &
  wait $! || true
}

main
