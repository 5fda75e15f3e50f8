import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { policyRules, type PolicySubject } from '../packages/review/src/policy/catalogue.ts';

const page = join(import.meta.dirname, '..', 'docs', 'policy.md');

const table = (about: PolicySubject): string =>
  Object.entries(policyRules)
    .filter(([, rule]) => rule.about === about)
    .map(([code, { level, title, reason }]) => `| \`${code}\` | ${level} | ${title} | ${reason} |\n`)
    .join('');

/** The page of all rules of `sluice policy`. */
const text = `# Policy

\`sluice policy rendered -c sluice.yaml --base origin/main:rendered\` checks a bundle against the rules below. It ends with 1 if there is an **error** without a waiver; \`--strict\` treats warnings as errors.
\`-o sarif\` is for code scanning, \`-o junit\` for pipelines with test reports, \`-o markdown\` for a comment.

\`\`\`yaml
# sluice.yaml
policy:
  levels: { SINGLE_NODE: warning, ROUTE_LOCALNET: 'off' }   # error, warning, note or off
  externalIPs: [203.0.113.0/28]          # networks of permitted external IPs
  endpointRanges: [198.51.100.0/24]      # networks of permitted endpoints, besides those of pods
  protected: [192.0.2.1, 192.0.2.53]     # addresses that no Service may have: routers, resolvers
  endpointsChangedPercent: 50
  nodesChangedPercent: 100
  ruleGrowthPercent: 50
  survives:                              # what SURVIVES_NODE and SURVIVES_ZONE require, once \`levels\` turns them on
    services: [shop/*, kube-system/kube-dns]   # without it: every Service
    sharePercent: 60                     # the most of a port's connections that one endpoint may get after a failure
  waivers:
    - rule: NODE_PORT_OPENED
      subject: shop/web                  # as in the finding; without it: every subject
      reason: the old load balancer needs it until it is replaced
      expires: '2026-12-31'              # the last day; afterwards the finding counts again, and the waiver itself is a finding
\`\`\`

A code never changes its meaning and is never reused for another rule.

## Rules about a bundle

| code | level | what is found | why it matters |
|---|---|---|---|
${table('bundle')}
## Rules about a change

Checked if \`--base\` names the previous bundle.

| code | level | what is found | why it matters |
|---|---|---|---|
${table('change')}
## Rules about input

Checked if \`-f\` names the manifests or the snapshot that was rendered: \`sluice policy rendered -c sluice.yaml -f manifests/ -f nodes.yaml\`. What they find changes no rule of a node, so no bundle has it.

| code | level | what is found | why it matters |
|---|---|---|---|
${table('input')}`;

/** UPDATE_DOCS=1 rewrites the page. */
if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, text);

test('docs/policy.md is up to date', () => {
  expect(readFileSync(page, 'utf8')).toBe(text);
});
