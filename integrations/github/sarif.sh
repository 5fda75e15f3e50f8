#!/bin/sh
# sarif.sh FILE...: uploads findings to code scanning. Needs gh with GH_TOKEN, and GITHUB_REPOSITORY, SARIF_COMMIT and SARIF_REF.
set -eu

for file; do
  if [ ! -s "$file" ]; then
    echo 'sluice: no findings to upload' >&2
    continue
  fi
  gzip -c "$file" | base64 -w 0 >"$file.gz.base64"
  status=0
  gh api --silent --method POST "repos/$GITHUB_REPOSITORY/code-scanning/sarifs" \
    -f commit_sha="$SARIF_COMMIT" -f ref="$SARIF_REF" -F sarif=@"$file.gz.base64" || status=$?
  rm -f "$file.gz.base64"
  # Private repositories without code scanning, and forks, have no right to upload.
  [ "$status" -eq 0 ] || echo "::warning::Cannot upload the findings to code scanning; $(basename "$file") is in the artifact"
done
