#!/bin/sh
# pre-commit.sh check|write ARGUMENTS: `sluice render` before a commit. `write` renders stale rules and fails the commit once, so that
# its author reviews and adds them; `check` only reports them.
set -u

mode=$1
shift
here=$(dirname "$(readlink -f "$0")")
sluice=${SLUICE:-}
if [ -z "$sluice" ]; then
  if command -v sluice >/dev/null 2>&1; then
    sluice=sluice
  else
    sluice=$here/../bin/sluice
    "$here/../dev" setup || exit 2
  fi
fi

"$sluice" render "$@" --check
code=$?
if [ "$code" -eq 1 ] && [ "$mode" = write ]; then
  "$sluice" render "$@" || exit 2
  echo 'sluice: the rules are rendered: review them, add them and commit again' >&2
fi
exit "$code"
