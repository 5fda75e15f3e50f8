#!/bin/sh
# Beside the API server of the rig: releases of what the cluster has, signed and in waves, one after the other, as a pipeline makes them.
# releases.sh DIR NODE SLUICE RENDER…: DIR has waves.yaml, keys, allowed_receipts, and the folders store and origin, where nodes fetch;
# NODE SLUICE is the program, and RENDER its command line that reads the cluster.
set -u
cd "$1" || exit 1
node=$2 program=$3
shift 3
sluice() { "$node" "$program" "$@" >>steps.txt 2>&1; }
place() { rm -rf origin/next && cp -r release origin/next && rm -rf origin/release && mv origin/next origin/release; }
failed() { echo "$(date +%T) $1: $(tail -n 6 steps.txt)"; }

most=40 tries=0
while sleep 0.5; do
  began=$(date +%s)
  # Tests take most Services of a small cluster away at once, and mean it: without --accept-removal a run is refused (REMOVAL_HELD).
  "$@" --accept-removal -o rendered >steps.txt 2>&1 &&
    sluice release rendered --serial auto --source 0123456789abcdef0123456789abcdef01234567 --accept-removal --wave waves.yaml -o release ||
    { failed 'no release'; continue; }
  if cmp -s release/SHA256SUMS origin/release/SHA256SUMS; then
    [ "$tries" = "$most" ] || continue
  else
    sluice sign release --key release-key && sluice promote release --key wave-key || { failed 'not signed'; continue; }
    place
  fi
  tries=0
  until sluice promote release --from store --allowed-receipts allowed_receipts --key wave-key || [ "$tries" = "$most" ]; do
    tries=$((tries + 1))
    sleep 0.3
  done
  [ "$tries" != "$most" ] || { failed 'the canary did not confirm'; continue; }
  place
  echo "$(date +%T) release $(sed -n 's/^serial: //p' release/release.yaml): open after $(($(date +%s) - began)) s, $tries tries"
  # Time for the others to fetch it: the next one begins with the canary again.
  sleep 2
done
