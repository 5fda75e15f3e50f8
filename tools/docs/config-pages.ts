import { sysctlKeys, sysctlRange } from '@sluice/netfilter';
import { type Node, type Pair, parseDocument, type Scalar, type YAMLMap } from 'yaml';
import type { Schema } from '../../packages/renderer/src/load/schema/schema.ts';
import type { Json } from '../../packages/renderer/src/render/model/kube.ts';
import { cell, prose } from './markdown.ts';

/** The page of `sluice.yaml`: a section for each field, with what it holds. @param schema what the renderer checks the file with */
export function sluiceYamlPage(schema: Schema): string {
  const fields = Object.entries(schema.properties ?? {});
  const fixed = fields.flatMap(([name, field]) => (field.const === undefined ? [] : [`${name}: ${field.const}`]));
  return `# sluice.yaml

${prose(schema.description ?? '')} \`sluice init\` writes one, with \`sluiceconfig.schema.json\` beside it, by which editors complete and check it.
A field that is not listed here is an error. The file begins with:

${block(fixed)}

${fields
  .filter(([, field]) => field.const === undefined)
  .map(([name, field]) => fieldSection(name, field))
  .join('\n')}`;
}

/** The page of the sysctls that a profile may set. */
export function sysctlPage(): string {
  const rows = sysctlKeys.map((key) => {
    const { min, max } = sysctlRange(key);
    const isTimeout = key.includes('timeout');
    return `| \`${key}\` | ${min === max ? min : `${min} to ${max}${isTimeout ? ' seconds' : ''}`} |\n`;
  });
  return `# Sysctls

A profile sets these keys with \`sysctls\`, and no others; the renderer and each node check key and value (\`SYSCTL_NOT_ALLOWED\`). A value is a whole number.
Fields of a profile, such as \`conntrack.tcpCloseWaitTimeout\`, set some of them as kube-proxy does; \`sysctls\` takes precedence.

\`\`\`yaml
profiles:
  - name: default
    sysctls:
      net.netfilter.nf_conntrack_tcp_timeout_fin_wait: 30
      net.netfilter.nf_conntrack_tcp_timeout_syn_sent: 20
\`\`\`

A node whose kernel lacks a key, or does not let \`sluiced\` write it, refuses the bundle (\`NODE_SYSCTL_FIXED\`). A key that leaves the profile goes back to the value that the node had before Sluice set it.
Time-outs of connection tracking hold for the connections of the whole node; a new value counts from the next packet of a connection.

| key | value |
|---|---|
${rows.join('')}`;
}

function fieldSection(name: string, field: Schema): string {
  const rows = fieldRows(name, field);
  const value = defaultOf(field) === '' ? '' : ` Default: ${defaultOf(field)}.`;
  const head = `## ${name}\n\n${prose(field.description ?? '')}\n\nType: ${typeOf(field)}.${value}\n`;
  if (rows.length === 0) return head;
  return `${head}\n| field | type | default | is |\n|---|---|---|---|\n${rows.join('')}`;
}

/** What lies below a field, each with its path. */
function fieldRows(path: string, field: Schema): readonly string[] {
  if (field.items) return fieldRows(`${path}[]`, field.items);
  const inner = Object.entries(field.properties ?? {});
  const alike = new Set(inner.map(([, one]) => JSON.stringify(one))).size === 1;
  if (inner.length > 3 && alike) {
    const [[, first]] = inner as [[string, Schema]];
    return [
      row(
        `${path}.CODE`,
        first,
        `${first.description ?? ''} CODE: ${inner.map(([name]) => `\`${name}\``).join(', ')}.`,
      ),
    ];
  }
  return inner.flatMap(([name, one]) => [
    row(`${path}.${name}`, one, one.description ?? ''),
    ...fieldRows(`${path}.${name}`, one),
  ]);
}

function row(path: string, field: Schema, is: string): string {
  return `| \`${path}\` | ${cell(typeOf(field))} | ${cell(defaultOf(field))} | ${cell(is)} |\n`;
}

function typeOf(field: Schema): string {
  if (field.const !== undefined) return `\`${field.const}\``;
  if (field.enum && field.enum.length > 12) return 'code';
  if (field.enum) return field.enum.map((word) => (word === '' ? 'empty' : `\`${word}\``)).join(' or ');
  if (field.items) return `list of ${typeOf(field.items)}`;
  if (field.additionalProperties) return `map to ${typeOf(field.additionalProperties)}`;
  const name = field.format ?? (typeof field.type === 'string' ? field.type : field.type.join(' or '));
  return `${name}${boundsOf(field)}`;
}

function boundsOf({ minimum, maximum }: Schema): string {
  if (minimum !== undefined && maximum !== undefined) return `, ${minimum} to ${maximum}`;
  return minimum === undefined ? '' : `, at least ${minimum}`;
}

function defaultOf(field: Schema): string {
  return field.default === undefined ? '' : `\`${JSON.stringify(field.default)}\``;
}

/** The page of `sluiced.yaml`: its comments as text, each with the fields below it. @param yaml `docs/sluiced.yaml` */
export function sluicedYamlPage(yaml: string): string {
  const [head = ''] = yaml.split('\n\n', 1);
  const [, about = '', ...fields] = head.split('\n');
  const own = [`# sluiced.yaml`, prose(about.slice(2)), block(fields)];
  const parts = commentsOf(yaml).map((part) => `## ${part.name}\n\n${prose(part.about)}\n\n${block(part.fields)}`);
  return `${[...own, ...parts].join('\n\n')}\n`;
}

interface Commented {
  readonly name: string;
  readonly about: string;
  readonly fields: readonly string[];
}

/** Each run of comments below the head, with the lines that follow it. @param yaml `docs/sluiced.yaml` */
export const commentsOf = (yaml: string): readonly Commented[] =>
  yaml.trimEnd().split('\n\n').slice(1).flatMap(partsOf);

function partsOf(paragraph: string): readonly Commented[] {
  const runs = paragraph.split(/(?<=^[^#\n].*\n)(?=# )/m);
  return runs.map((run) => {
    const lines = run.trimEnd().split('\n');
    const first = lines.findIndex((line) => !line.startsWith('# '));
    // Where all of it is comment, the last line is a field that is not set.
    const from = first < 0 ? lines.length - 1 : first;
    const comments = lines.slice(0, from).map((line) => line.slice(2));
    const fields = lines.slice(from);
    const name = /^(?:# )?(\w+):/.exec(fields[0] ?? '')?.[1];
    if (name === undefined) throw new Error(`docs/sluiced.yaml has a comment without a field: ${lines.at(-1)}`);
    return { name, about: comments.join('\n'), fields };
  });
}

const block = (lines: readonly string[]): string => `\`\`\`yaml\n${lines.join('\n')}\n\`\`\``;

/** The page of the Helm chart: each value with its comment. @param values values.yaml @param schema values.schema.json */
export function chartPage(values: string, schema: Schema): string {
  const commented = withComments(schema, parseDocument(values).contents as YAMLMap);
  return `# The Helm chart

\`sluiced\` as a DaemonSet, with a watch of its own, or beside \`sluice watch\` and signed releases: [which way to choose](../../docs/cluster.md#which-way-to-choose), [what it may do on a node](../../docs/daemonset.md).

\`\`\`
helm install sluice deploy/chart --namespace sluice --create-namespace --set apiServer.host=api.example.com
\`\`\`

## Secrets

\`imagePullSecrets\` names Secrets of type \`kubernetes.io/dockerconfigjson\` for the registry of the images. With \`delivery: git\`, \`watch.credentials\` and \`sluiced.credentials\` each name a Secret for a repository. The chart makes no Secret: what it made would stand in the values of the release. A changed one is read at the next use of git, without a restart.

| key | has |
|---|---|
| \`.git-credentials\` | a line \`https://USER:TOKEN@HOST\` for each host, for a repository with \`https://\` |
| \`ssh-privatekey\` | a key without a passphrase, for a repository with \`ssh://\` |
| \`known_hosts\` | the keys of that server: \`ssh-keyscan\` prints them; compare them with those that it publishes |

\`\`\`
kubectl -n sluice create secret generic rules --from-file=.git-credentials
kubectl -n sluice-nodes create secret generic releases --from-file=ssh-privatekey=id_ed25519 --from-file=known_hosts
helm upgrade sluice deploy/chart --namespace sluice --reset-then-reuse-values --set watch.credentials=rules --set sluiced.credentials=releases
\`\`\`

With \`delivery: fetch\`, \`fetch.credentials\` and \`fetch.receipts.credentials\` each name a Secret, as \`watch.credentials\` does.
Both are in the namespace of the DaemonSet, and are read at each use. Without the Secret \`sluiced\` runs, and \`sluiced status\` says what is missing.

| key | has |
|---|---|
| \`credentials\` | one line \`USER:PASSWORD\`, or a token, for a source or a store of receipts without ssh |
| \`ssh-privatekey\`, \`known_hosts\` | as above, for one with \`ssh://\` |

\`\`\`
helm install sluice deploy/chart --namespace sluice --create-namespace --set delivery=fetch --set watch.enabled=false \\
  --set fetch.source.oci.reference=registry.example.com/sluice/shop:production --set fetch.credentials=registry-password \\
  --set-file sluiced.allowedSigners=allowed_signers
kubectl -n sluice-nodes create secret generic registry-password --from-file=credentials
\`\`\`

## Values

A value that is not listed here is refused.

| value | type | default | is |
|---|---|---|---|
${Object.entries(commented.properties ?? {})
  .map(([name, one]) => row(name, one, one.description ?? '') + fieldRows(name, one).join(''))
  .join('')}`;
}

/** A schema with the comments and the values of a map as descriptions and defaults. */
function withComments(schema: Schema, map: YAMLMap): Schema {
  const pairs = map.items as readonly Pair<Scalar<string>, Node>[];
  const names = new Set(pairs.map(({ key }) => key.value));
  const absent = Object.keys(schema.properties ?? {}).find((name) => name !== 'global' && !names.has(name));
  if (absent !== undefined) throw new Error(`values.yaml lacks ${absent} of its schema`);
  const properties = pairs.map(({ key, value }, index): [string, Schema] => {
    const one = schema.properties?.[key.value];
    // The comment on the first key is that of the map.
    const comment = key.commentBefore ?? (index === 0 ? map.commentBefore : undefined);
    if (!one || !comment) throw new Error(`values.yaml has no comment on ${key.value}, or its schema lacks it`);
    const about = { ...one, description: comment.trim().replaceAll('\n ', ' ') };
    return [
      key.value,
      one.properties ? withComments(about, value as YAMLMap) : { ...about, default: value?.toJSON() as Json },
    ];
  });
  return { ...schema, properties: Object.fromEntries(properties) };
}
