import { modes } from '@sluice/netfilter';
import { stringify } from 'yaml';
import type { SettingName, Settings } from '../load/config/settings.ts';
import type { ReadKubeProxy } from '../load/config/kubeproxy.ts';
import type { Schema } from '../load/schema/schema.ts';
import { printGoDuration } from '../load/schema/duration.ts';
import { sluiceSchema } from '../load/schema/sluice.ts';
import type { Json } from '../render/model/kube.ts';
import { versionByDefault } from '../render/model/version.ts';

/**
 * Prints a sluice.yaml to start from: every field with its description, defaults commented out.
 * @param kubeProxy how kube-proxy runs now; the profile takes over its values, except an unsupported mode
 * @param version of kube-proxy; default: the one that `kubeProxy` names, or the latest known version
 * @returns text that `readConfig` accepts
 */
export function initConfig(
  { settings, facts }: Pick<ReadKubeProxy, 'settings' | 'facts'> = { settings: new Map(), facts: {} },
  version: Json = settings.get('kubeProxyVersion')?.value ?? versionByDefault,
): string {
  const top = sluiceSchema.properties ?? {};
  const profile = top['profiles']?.items ?? { type: 'object' };
  const lines = [...head];
  const cidrs = facts.serviceCIDRs?.text.split(',').map((text) => text.trim());
  lines.push('', ...field(top['clusterName'], 'clusterName', '', top['clusterName']?.default));
  lines.push('', ...field(top['serviceCIDRs'], 'serviceCIDRs', '', cidrs ?? top['serviceCIDRs']?.default));
  lines.push('', ...field(top['nodePortRange'], 'nodePortRange', '', facts.nodePortRange?.text));
  lines.push('', ...field(top['complete'], 'complete', ''));
  lines.push('', ...about(top['nodes'], ''), ...nodesExample);
  lines.push('', ...about(top['profiles'], ''), 'profiles:', '  - name: default');
  lines.push(
    ...about(profile.properties?.['nodeSelector'], '    '),
    '    # nodeSelector: { matchLabels: { pool: edge } }',
  );
  for (const [name, schema] of Object.entries(profile.properties ?? {})) {
    if (name === 'name' || name === 'nodeSelector') continue;
    if (name === 'kubeProxyVersion') lines.push('', ...field(schema, name, '    ', version));
    else lines.push('', ...profileField(schema, name, settings));
  }
  return `${lines.join('\n')}\n`;
}

const head = [
  '# yaml-language-server: $schema=sluiceconfig.schema.json',
  '# With sluiceconfig.schema.json beside this file, editors complete and check it.',
  '# Lines that are commented out show the defaults.',
  'apiVersion: sluice.dev/v1alpha1',
  'kind: SluiceConfig',
];

const nodesExample = [
  '# nodes:',
  '#   - name: node-1',
  '#     labels: { topology.kubernetes.io/zone: a }',
  '#     addresses: [192.0.2.11]',
  '#     podCIDRs: [10.244.1.0/24]',
  '#     cores: 4',
];

/** A field of a profile; a field with subfields is active if one of them is. */
function profileField(schema: Schema, name: string, settings: Settings): string[] {
  const indent = '    ';
  if (!schema.properties) {
    const example = name === 'sysctls' ? { 'net.ipv4.ip_forward': 1 } : undefined;
    return field(schema, name, indent, valueOf(settings, name), example);
  }
  const below = Object.entries(schema.properties).map(([key, child]) => ({
    key,
    child,
    value: valueOf(settings, `${name}.${key}`),
  }));
  const isActive = below.some(({ value }) => value !== undefined);
  return [
    ...about(schema, indent),
    `${indent}${isActive ? '' : '# '}${name}:`,
    ...below.flatMap(({ key, child, value }) => field(child, key, `${indent}  `, value)),
  ];
}

/** The value in kube-proxy's configuration, as written in sluice.yaml; undefined for an unsupported mode. */
function valueOf(settings: Settings, name: string): Json | undefined {
  const value = settings.get(name as SettingName)?.value;
  if (name === 'mode') return isMode(value) ? value : undefined;
  if (name.endsWith('Timeout') && typeof value === 'number') return printGoDuration(Math.floor(value));
  return name === 'clusterCIDR' && Array.isArray(value) ? value.join(',') : value;
}

const isMode = (value: Json | undefined): boolean => modes.some((mode) => mode === value);

/** The description, then `name: value`, or `# name: default` without a value. */
function field(schema: Schema | undefined, name: string, indent: string, value?: Json, example?: Json): string[] {
  const text = stringify(value ?? example ?? schema?.default ?? schema?.examples?.[0] ?? null, {
    lineWidth: 0,
    collectionStyle: 'flow',
  }).trim();
  return [...about(schema, indent), `${indent}${value === undefined ? '# ' : ''}${name}: ${text}`];
}

/** The description as comment lines of at most 100 characters. */
function about(schema: Schema | undefined, indent: string): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of (schema?.description ?? '').split(' ')) {
    if (line !== '' && indent.length + line.length + word.length > 97) {
      lines.push(`${indent}# ${line}`);
      line = '';
    }
    line += `${line === '' ? '' : ' '}${word}`;
  }
  return line === '' ? lines : [...lines, `${indent}# ${line}`];
}
