#!/bin/sh
# What a pipeline asks of a change of rules: is it rendered, does the policy let it through, do the rules do what the Services declare, are
# they within the budgets, and what changes for traffic. Everything it finds is written into a directory, for comments, code scanning and people.
#
#   SLUICE            the command (default: sluice)
#   SLUICE_MANIFESTS  manifests, for render -f (default: manifests)
#   SLUICE_CONFIG     the SluiceConfig (default: sluice.yaml)
#   SLUICE_RENDERED   the bundle directory (default: rendered)
#   SLUICE_SNAPSHOT   what the cluster has now, for render --base (default: none)
#   SLUICE_BASE       the revision that the change goes into, such as origin/main (default: none, nothing is compared)
#   SLUICE_STRICT     1: warnings fail too
#   SLUICE_TODAY      the day on which waivers are looked at (default: today)
#   SLUICE_REPORT_URL where the page will be, for the comment
#   SLUICE_OUT        where to write (default: sluice-review)
#
# Writes: comment.md report.html diff.json policy.txt policy.sarif policy.junit.xml prove.txt cost.txt check.txt
# Exit codes: 0 everything is good, 1 something is not, 2 something could not be read.
set -u

sluice=${SLUICE:-sluice}
manifests=${SLUICE_MANIFESTS:-manifests}
config=${SLUICE_CONFIG:-sluice.yaml}
rendered=${SLUICE_RENDERED:-rendered}
out=${SLUICE_OUT:-sluice-review}
snapshot=${SLUICE_SNAPSHOT:-}
report_url=${SLUICE_REPORT_URL:-}
today=${SLUICE_TODAY:+--today $SLUICE_TODAY}
strict=''
[ "${SLUICE_STRICT:-}" = 1 ] && strict=--strict
worst=0

say() { printf 'sluice: %s\n' "$*" >&2; }

# gate NAME FILE COMMAND...: runs a command, keeps what it prints in FILE, remembers the worst ending.
gate() {
  name=$1 file=$2
  shift 2
  "$@" >"$out/$file" 2>"$out/.stderr"
  code=$?
  case $code in
    0) say "$name: good" ;;
    1) say "$name: BAD" ;;
    *) say "$name: could not be done ($code)" ;;
  esac
  if [ "$code" -ne 0 ]; then cat "$out/$file" "$out/.stderr" >&2; fi
  if [ "$code" -gt "$worst" ]; then worst=$code; fi
}

# keep FILE COMMAND...: the same finding in another form. 1 only says that there is something.
keep() {
  file=$1
  shift
  "$@" >"$out/$file" 2>"$out/.stderr"
  code=$?
  [ "$code" -le 1 ] && return 0
  cat "$out/.stderr" >&2
  worst=2
}

# The commit that the change started from: what others did since is not part of it.
find_base() {
  base=''
  [ -n "${SLUICE_BASE:-}" ] || { say 'nothing is compared: SLUICE_BASE is not set'; return; }
  if ! start=$(git merge-base "$SLUICE_BASE" HEAD 2>/dev/null); then
    say "no commit is common to $SLUICE_BASE and this one: fetch the whole history (fetch-depth: 0, GIT_DEPTH: 0)"
    worst=2
  elif git cat-file -e "$start:./$rendered/cluster.yaml" 2>/dev/null; then
    base=$start:$rendered
  else
    say "nothing is compared: $SLUICE_BASE has no $rendered yet"
  fi
}

mkdir -p "$out" || exit 2
set -- -f "$manifests" -R -c "$config" -o "$rendered" $strict
[ -z "$snapshot" ] || set -- "$@" --base "$snapshot"
gate 'rules are rendered' check.txt "$sluice" render "$@" --check

find_base
# shellcheck disable=SC2086 # two words, or none
set -- "$rendered" -c "$config" $strict $today
[ -z "$base" ] || set -- "$@" --base "$base"
gate policy policy.txt "$sluice" policy "$@"
keep policy.sarif "$sluice" policy "$@" -o sarif
keep policy.junit.xml "$sluice" policy "$@" -o junit
gate 'rules do what Services declare' prove.txt "$sluice" prove "$rendered"
gate 'rules are within the budgets' cost.txt "$sluice" cost "$rendered" -c "$config"

if [ -n "$base" ]; then
  keep diff.json "$sluice" diff "$base" "$rendered" -o json
  keep report.html "$sluice" report "$base" "$rendered" -c "$config" $today -o html
  set -- -o markdown --comment
  [ -z "$report_url" ] || set -- "$@" --report-url "$report_url"
  keep comment.md "$sluice" report "$base" "$rendered" -c "$config" $today "$@"
fi
rm -f "$out/.stderr"
exit "$worst"
