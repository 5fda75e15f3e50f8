#!/bin/sh
# comment.sh FILE: creates the note of a merge request, or updates it.
# Needs glab with GITLAB_TOKEN, and CI_PROJECT_ID and CI_MERGE_REQUEST_IID; without them it does nothing.
set -eu

file=$1
if [ ! -f "$file" ] || [ -z "${GITLAB_TOKEN:-}" ] || ! command -v glab >/dev/null 2>&1; then
  echo 'sluice: no note on the merge request: the artifact has the report' >&2
  exit 0
fi

# Its own note starts with the mark and belongs to the account of the token: notes of other accounts are never overwritten.
mark='<!-- sluice: report -->'
notes=projects/$CI_PROJECT_ID/merge_requests/$CI_MERGE_REQUEST_IID/notes
status=0
{
  me=$(glab api user | node -p 'JSON.parse(require("fs").readFileSync(0, "utf8")).id') &&
    id=$(glab api --paginate "$notes?per_page=100" | MARK=$mark ME=$me node -p '
      const text = require("fs").readFileSync(0, "utf8").trim();
      // The output is a sequence of pages, each a list.
      const all = JSON.parse("[" + text.replaceAll(/\]\s*\[/g, "],[") + "]").flat();
      const own = all.find((note) => String(note.author.id) === process.env.ME && note.body.startsWith(process.env.MARK));
      own?.id ?? ""')
} || status=$?
if [ "$status" -eq 0 ]; then
  if [ -n "$id" ]; then
    glab api --silent --method PUT "$notes/$id" -F body=@"$file" || status=$?
  else
    glab api --silent --method POST "$notes" -F body=@"$file" || status=$?
  fi
fi
[ "$status" -eq 0 ] || echo 'sluice: cannot write the note; the artifact has the report' >&2
