#!/bin/sh
# comment.sh FILE: writes the comment of a pull request, or writes it anew where there is one already.
# Needs gh with GH_TOKEN, and GITHUB_REPOSITORY and PULL_REQUEST.
set -eu

file=$1
if [ ! -f "$file" ]; then
  echo 'sluice: no comment: nothing was compared' >&2
  exit 0
fi

# Its own comment has the mark first and is of a bot: the comment of a person is never written over, whatever it starts with.
mark='<!-- sluice: report -->'
own=".[] | select(.user.type == \"Bot\" and (.body | startswith(\"$mark\"))) | .id"
comments=repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments
status=0
id=$(gh api --paginate "$comments" --jq "$own") || status=$?
id=$(printf '%s\n' "$id" | head -n 1)

if [ "$status" -eq 0 ]; then
  if [ -n "$id" ]; then
    gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" -F body=@"$file" || status=$?
  else
    gh api --silent --method POST "$comments" -F body=@"$file" || status=$?
  fi
fi
# A pull request from a fork may not comment. That is no finding.
[ "$status" -eq 0 ] || echo '::warning::The comment could not be written; the summary of the job has the same text'
