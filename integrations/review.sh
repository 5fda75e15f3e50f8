#!/bin/sh
# Reviews a change of rules in a pipeline: whether it is rendered, passes the policy, does what the Services declare and stays within the
# budgets, and how it changes traffic. The results are written to a directory, for comments, code scanning and reviewers.
#
#   SLUICE            the command (default: sluice)
#   SLUICE_MANIFESTS  manifests, for render -f (default: manifests)
#   SLUICE_CONFIG     the SluiceConfig (default: sluice.yaml)
#   SLUICE_RENDERED   the bundle directory (default: rendered)
#   SLUICE_SNAPSHOT   a snapshot of the cluster, for render --base (default: none)
#   SLUICE_BASE       the target of the change, such as origin/main (default: none, without a comparison)
#   SLUICE_STRICT     1: warnings are errors
#   SLUICE_TODAY      the day for the expiry of waivers (default: today)
#   SLUICE_REPORT_URL the URL of the page, for the comment
#   SLUICE_OBSERVED   a directory with files of `sluiced observe`, NODE.json, to compare with (default: none)
#   SLUICE_PARITY     gate: a difference from an observed node is a failure, for changes that should make none; tell: it is told (default)
#   SLUICE_OUT        the output directory (default: sluice-review)
#
# Writes: comment.md report.html diff.json policy.txt policy.sarif policy.junit.xml prove.txt cost.txt check.txt, and of each observed node
# parity-NODE.txt, with SLUICE_PARITY=gate also parity-NODE.sarif parity-NODE.junit.xml
# Exit codes: 0 all checks pass, 1 a check fails, 2 an input cannot be read.
set -u

sluice=${SLUICE:-sluice}
manifests=${SLUICE_MANIFESTS:-manifests}
config=${SLUICE_CONFIG:-sluice.yaml}
rendered=${SLUICE_RENDERED:-rendered}
out=${SLUICE_OUT:-sluice-review}
snapshot=${SLUICE_SNAPSHOT:-}
report_url=${SLUICE_REPORT_URL:-}
observed=${SLUICE_OBSERVED:-}
parity=${SLUICE_PARITY:-tell}
today=${SLUICE_TODAY:+--today $SLUICE_TODAY}
strict=''
[ "${SLUICE_STRICT:-}" = 1 ] && strict=--strict
worst=0
gates=''
gated=''

say() { printf 'sluice: %s\n' "$*" >&2; }

# gate NAME FILE COMMAND...: runs a command, stores its output in FILE, and remembers its verdict and the highest exit code.
gate() {
  name=$1 file=$2
  shift 2
  "$@" >"$out/$file" 2>"$out/.stderr"
  code=$?
  case $code in
    0) verdict=good ;;
    1) verdict=BAD ;;
    *) verdict="ERROR (exit code $code)" ;;
  esac
  say "$name: $verdict"
  gates="$gates${gates:+, }$2 $verdict"
  if [ "$code" -ne 0 ]; then cat "$out/$file" "$out/.stderr" >&2; fi
  if [ "$code" -gt "$worst" ]; then worst=$code; fi
}

# keep FILE COMMAND...: the same findings in another format. Exit code 1 only means that there are some.
keep() {
  file=$1
  shift
  "$@" >"$out/$file" 2>"$out/.stderr"
  code=$?
  [ "$code" -le 1 ] && return 0
  cat "$out/.stderr" >&2
  worst=2
}

# is_plain NAME: whether a name can be written to the output of a workflow, which is read for commands.
is_plain() {
  case $1 in
    *[!A-Za-z0-9._-]*) return 1 ;;
  esac
}

# compare FILE: how packets of an observed node would be treated. With a base, differences that it has, too, are left out.
compare() {
  file=$1
  name=$(basename "$file" .json)
  set -- "$file" "$rendered"
  [ -z "$base" ] || set -- "$@" --base "$base"
  "$sluice" parity "$@" >"$out/parity-$name.txt" 2>"$out/.stderr"
  code=$?
  # Also with a result it may say something, such as that the base does not have the node yet.
  cat "$out/.stderr" >&2
  told=$(grep -E '^[-a-z0-9.]+: (equivalent|different|incomplete)' "$out/parity-$name.txt" | tail -n 1)
  # Exit code 2 with a result: not everything could be compared, which the file lists.
  if [ -z "$told" ]; then
    say "$file: ERROR (exit code $code)"
    worst=2 gated=ERROR
    return
  fi
  results="$results- $told
"
  if [ "$parity" != gate ]; then
    say "observed: $told"
    return
  fi
  for format in sarif junit; do
    "$sluice" parity "$@" -o $format >"$out/parity-$name.$format" 2>/dev/null
  done
  mv "$out/parity-$name.junit" "$out/parity-$name.junit.xml"
  if [ "$code" -ne 1 ]; then
    say "observed: $told: good"
    gated=${gated:-good}
    return
  fi
  say "observed: $told: BAD"
  [ "$gated" = ERROR ] || gated=BAD
  cat "$out/parity-$name.txt" >&2
  [ "$worst" -gt 1 ] || worst=1
}

# alike: the results of observed nodes, those with the same one in a line, differences first. parity-NODE.txt are of all.
alike() {
  for how in different incomplete equivalent; do printf '%s' "$results" | grep -E "^- [-a-z0-9.]+: $how"; done | awk '
    {
      node = substr($2, 1, length($2) - 1)
      result = substr($0, length($1 $2) + 3)
      if (!(result in count)) order[++kinds] = result
      count[result]++
      if (count[result] <= 5) names[result] = names[result] (count[result] > 1 ? ", " : "") node
    }
    END {
      for (at = 1; at <= kinds && at <= 3; at++) {
        more = count[order[at]] - 5
        print "- " substr(order[at], 1, 200) " – " names[order[at]] (more > 0 ? " and " more " more" : "")
      }
      if (kinds > 3) print "- and " kinds - 3 " other results"
    }'
}

# The commit that the change started from: later commits on the target are not part of it.
find_base() {
  base=''
  [ -n "${SLUICE_BASE:-}" ] || { say 'no comparison: SLUICE_BASE is not set'; return; }
  if ! start=$(git merge-base "$SLUICE_BASE" HEAD 2>/dev/null); then
    say "$SLUICE_BASE and HEAD have no common commit: fetch the whole history (fetch-depth: 0, GIT_DEPTH: 0)"
    worst=2
  elif git cat-file -e "$start:./$rendered/cluster.yaml" 2>/dev/null; then
    base=$start:$rendered
  else
    say "no comparison: $SLUICE_BASE has no $rendered yet"
  fi
}

case $parity in
  tell | gate) ;;
  *)
    say "SLUICE_PARITY is neither tell nor gate: $parity"
    exit 2
    ;;
esac
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
  set -- --summary
  [ -z "$report_url" ] || set -- "$@" --report-url "$report_url"
  keep comment.md "$sluice" report "$base" "$rendered" -c "$config" $today "$@"
fi
results=''
if [ -n "$observed" ]; then
  for file in "$observed"/*.json; do
    if [ ! -f "$file" ]; then
      say "$observed has no NODE.json"
      worst=2 gated=ERROR
    elif is_plain "${file##*/}"; then
      compare "$file"
    else
      say "$observed has a file that is not named NODE.json: $(printf %s "${file##*/}" | tr -c 'A-Za-z0-9._-' '?')"
      worst=2 gated=ERROR
    fi
  done
fi

# What the comment says of all gates, in a line below its headline, and of observed nodes, folded at its end.
if [ -f "$out/comment.md" ]; then
  told=''
  for how in different incomplete equivalent; do
    count=$(printf '%s' "$results" | grep -cE "^- [-a-z0-9.]+: $how")
    [ "$count" -eq 0 ] || told="$told${told:+, }$count $how"
  done
  if [ -n "$told" ]; then
    {
      printf '\n<details><summary>Observed nodes, against the rules of this change: %s</summary>\n\n' "$told"
      alike
      printf '\n</details>\n'
    } >>"$out/comment.md"
  fi
  compared=$gated${gated:+${told:+: }}$told
  awk -v gates="Gates: $gates, parity ${compared:-not run}" 'NR == 2 { $0 = $0 "\n\n" gates } 1' "$out/comment.md" >"$out/.stderr" &&
    cat "$out/.stderr" >"$out/comment.md"
fi
rm -f "$out/.stderr"
exit "$worst"
