#!/bin/bash
# A custom plugin of Node Problem Detector: whether the confirmed rules of Services are in the kernel of this node.
#   service-rules-ready.sh [ADDRESS [PORT]]     the status port of sluiced; default: 127.0.0.1 10276
# A plugin tells of problems, so that exit code 1 makes the condition True. Here True is good: 1 ready, 0 not ready or not known.
answer() {
  exec 3<>"/dev/tcp/$1/$2" || return
  printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3
  read -r -t 2 _ status _ <&3 || return
  [ "$status" = 200 ]
}
if answer "${1:-127.0.0.1}" "${2:-10276}" 2>/dev/null; then
  echo 'the confirmed rules of Services are in the kernel'
  exit 1
fi
