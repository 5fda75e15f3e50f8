import { readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { programPath } from '@sluice/testing';
import { execaSync } from 'execa';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');
const page = join(root, 'docs', 'layouts.md');
const bundle = join(root, 'examples/01-cluster-ip/out');

function sluice(...args: readonly string[]): string {
  return execaSync(programPath('sluice'), args, { cwd: root }).stdout;
}

const shown = (...more: readonly string[]): string =>
  sluice('show', relative(root, bundle), '--node', 'node-1', '--service', 'shop/web', '--tool', 'iptables', ...more);

const block = (text: string): string => `\`\`\`\n${text}\n\`\`\`\n`;

const flat = shown();
const tree = shown('--layout', 'tree');
/** The name and the rule that the page looks up. */
const chain = /^:(SLU-SVC-\S+)/m.exec(tree)?.[1] ?? '';
const endpoint = tree.split('\n').find((line) => line.includes('-j DNAT')) ?? '';
const leaf = /^-A (SLUICE-T-\S+)/m.exec(tree)?.[1] ?? '';

/** Each command with its output. */
const explained = (asked: string): string => {
  const quoted = asked.startsWith('-') ? `-- '${asked}'` : asked;
  const printed = sluice('explain', '--dir', relative(root, bundle), '--', asked);
  return block(`$ sluice explain ${quoted}\n${printed}`);
};

const text = `# Layouts

A node in mode iptables has the rules of a bundle in one of two layouts: \`layout: tree\`, the default of \`sluiced.yaml\`, or \`layout: flat\`. They are equivalent;
\`sluice prove --alike\` compares them. The files of a bundle, \`diff\`, \`report\`, and \`show\` and \`trace\` without \`--layout\`, use kube-proxy's names. So does the kernel in layout \`flat\`. In layout \`tree\` the kernel has names of Sluice:

| what | bundle, layout \`flat\` | layout \`tree\` |
|---|---|---|
| entry of packets to Services | \`KUBE-SERVICES\`: one rule for each frontend, in a row | \`SLUICE-SERVICES\`, a root \`SLUICE-R-…\`, and a tree of \`SLUICE-T-…\` by address, protocol and port |
| all endpoints of a Service port, those of the node | \`KUBE-SVC-…\`, \`KUBE-SVL-…\` | \`SLU-SVC-….xx\`, \`SLU-SVL-….xx\` |
| external addresses and node ports, source ranges | \`KUBE-EXT-…\`, \`KUBE-FW-…\` | \`SLU-EXT-….xx\`, \`SLU-FW-….xx\` |
| one endpoint | \`KUBE-SEP-…\` | a rule in the Service's chain; \`SLU-SEP-….xx\` with session affinity, and on kernels without \`xt_bpf\` |
| a group of more than 32 endpoints | – | \`SLU-GRP-….xx\` |
| packets of a pod to itself through a Service | the first rule of \`KUBE-SEP-…\` | one rule with \`-m bpf --bytecode\` in \`SLUICE-POSTROUTING\`, and one in \`SLUICE-FORWARD\` |
| marking, masquerading | \`KUBE-MARK-MASQ\`, \`KUBE-POSTROUTING\` | \`SLUICE-MARK-MASQ\`, \`SLUICE-POSTROUTING\`; also under kube-proxy's names where CNI plugins need them |

The 16 characters of a Service's chain are the same in both. The characters behind the dot follow from the content of the chain, so they change with the endpoints; if a kernel has other content under that name, the next one is used. Names of \`SLUICE-T-…\`, \`SLUICE-R-…\` and \`SLU-GRP-…\` follow from the content alone.
The comment of a rule names its Service: every rule that leads to the chains of a Service, or rejects its packets, begins its comment with the Service's key, \`shop/web:http\`. \`iptables-save | grep '"shop/web:'\` finds them in both layouts.

## One Service in both

\`shop/web\` of [\`examples/01-cluster-ip\`](../examples/01-cluster-ip), table nat, on node-1. In layout \`flat\`, and in the bundle:

${block(`$ sluice show --node node-1 --service shop/web --tool iptables\n${flat}`)}
In layout \`tree\`:

${block(`$ sluice show --node node-1 --service shop/web --tool iptables --layout tree\n${tree}`)}
On the node, \`sluiced show shop/web\` prints the rules in its kernel, with their names there, beside the files.

## From a name to its Service

${explained(chain)}
${explained(endpoint)}
${explained(leaf)}
\`sluice explain\` takes Services (\`shop/web\`) and addresses (\`10.96.0.10:80\`), too, and \`sluice trace --to shop/web:80 --layout tree\` follows a packet through the names of layout \`tree\`.
`;

/** UPDATE_DOCS=1 rewrites the page. */
if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, text);

test('docs/layouts.md is up to date', () => {
  expect(readFileSync(page, 'utf8')).toBe(text);
});
