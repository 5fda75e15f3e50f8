#!/bin/sh
# comment.sh FILE: creates the comment of a pull request, or updates it.
# Needs gh with GH_TOKEN, and GITHUB_REPOSITORY and PULL_REQUEST.
set -eu

file=$1
if [ ! -f "$file" ]; then
  echo 'sluice: no comment: there was no comparison' >&2
  exit 0
fi

# Its own comment starts with the mark and belongs to a bot: the comment of a user is never overwritten, whatever it starts with.
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
# A pull request from a fork has no right to comment. That is not a finding.
[ "$status" -eq 0 ] || echo '::warning::Cannot write the comment; the summary of the job has the same text'
