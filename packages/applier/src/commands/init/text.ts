import type { RuleStore } from '../../kernel/tools.ts';
import type { SourceFields } from './source.ts';

/** Where releases come from, or receipts go to. */
export interface InitSource extends SourceFields {
  /** Absolute paths. */
  readonly caFile?: string;
  readonly credentials?: string;
}

/** What `sluiced init` found on a node. */
export interface NodeFindings {
  readonly node: string;
  readonly backend: RuleStore;
  /** The version of iptables; null without it. */
  readonly iptables: string | null;
  readonly tools: readonly string[];
  readonly missing: readonly string[];
  /** What runs as kube-proxy. */
  readonly kubeProxy: readonly string[];
  readonly bundle: string;
  /** The user who owns it; null where it is not there. */
  readonly bundleOwner: number | null;
  /** The path of allowed_signers. */
  readonly signers: string;
  readonly hasSigners: boolean;
}

/** A `sluiced.yaml` with comments. What would grant something to other users is commented out. */
export function configText(found: NodeFindings, source?: InitSource, receipts?: InitSource): string {
  const { node, backend, iptables, tools, missing, kubeProxy, hasSigners } = found;
  const list = (names: readonly string[]): string => names.join(', ') || 'none';
  const signersFile = plain(found.signers);
  const signers = hasSigners || source ? 'is there' : 'is not there yet: no release is accepted until it is';
  const parity =
    kubeProxy.length === 0
      ? '# No kube-proxy runs here.'
      : `# kube-proxy runs here (${list(kubeProxy)}): /usr/share/doc/sluice/adopt.md describes the move. true: only with a parity certificate.`;
  return `# yaml-language-server: $schema=/usr/share/sluice/sluicedconfig.schema.json
# The config of sluiced on this node. /usr/share/sluice/sluiced.yaml has every field with its meaning.
apiVersion: sluice.dev/v1alpha1
kind: SluicedConfig

# The node's name in the bundle: nodes/<node>/node.yaml.
node: ${JSON.stringify(node)}

${source ? sourceText(source) : bundleText(found)}
${receipts ? `${receiptsText(receipts)}\n` : ''}# required: only signed releases. ${signersFile} ${signers}.
# none: any bundle in the directory, as that of \`sluice watch --node\`, which signs nothing.
signatures:
  policy: required
  allowedSigners: ${signersFile}

# The rule store of iptables. auto: what this machine uses, which is ${backend} (iptables ${iptables ?? 'not found'}).
# Other tools: ${list(tools)}. Not found: ${list(missing)}.
backend: auto

${parity}
requireParity: false

# A release that fails these probes is rolled back; without probes only the rules themselves are checked.
# probes:
#   - { name: kubelet, http: "http://127.0.0.1:10248/healthz" }
`;
}

/** A path as a value of YAML, without quotes where it needs none. */
const plain = (path: string): string => (/^[\w./-]+$/.test(path) ? path : JSON.stringify(path));

function bundleText({ bundle, bundleOwner }: NodeFindings): string {
  const owner =
    bundleOwner === null
      ? '# It is not there yet.'
      : bundleOwner === 0
        ? '# It belongs to root.'
        : `# It belongs to user ${bundleOwner}: take the comment sign away if that user may write bundles.\n# bundleOwner: ${bundleOwner}`;
  return `# The bundle directory.
bundle: ${bundle}
${owner}
`;
}

/** Where releases come from, or receipts go to: one of the kinds, and how its server is reached. */
function connectionText({ kind, fields, caFile, credentials }: InitSource, indent: string): string {
  const values = Object.entries(fields).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  const lines = [
    `${kind}: { ${values.join(', ')} }`,
    ...(caFile === undefined ? [] : [`caFile: ${plain(caFile)}`]),
    ...(credentials === undefined ? [] : [`credentials: { file: ${plain(credentials)} }`]),
  ];
  return lines.map((line) => `${indent}${line}\n`).join('');
}

const sourceText = (source: InitSource): string =>
  `# Where releases come from: sluiced-fetch.service fetches them. /usr/share/doc/sluice/fetch.md describes every field.
source:
${connectionText(source, '  ')}`;

const receiptsText = (store: InitSource): string =>
  `# The same service sends the receipts of this node there, for \`sluice fleet --from\`.
receipts:
  push:
${connectionText(store, '    ')}`;
