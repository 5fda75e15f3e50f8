import { type BundleFiles, profileFile, sysctlFile, valueOf } from '@sluice/bundle';
import { modeFacts } from '@sluice/netfilter';
import { nodesOfProfile } from '../bundle/node.ts';
import type { Violation } from './finding.ts';
import { lineOf } from '../facts/service-entries.ts';
import type { ChangeContext, PolicyContext } from './context.ts';

/** SYSCTL_CHANGED: by key, for each profile of both bundles. */
export function sysctlsChanged(context: ChangeContext): readonly Violation[] {
  const { view, base } = context;
  return [...view.profiles.keys()].flatMap((name) => {
    const path = sysctlFile(name);
    if (!base.view.profiles.has(name)) return [];
    const [old, fresh] = [sysctlsIn(base.view.files, path), sysctlsIn(view.files, path)];
    return [...new Set([...old.keys(), ...fresh.keys()])].toSorted().flatMap((key) => {
      const change = changeOf(context, name, old.get(key), fresh.get(key));
      if (change === undefined) return [];
      return [
        {
          code: 'SYSCTL_CHANGED',
          subject: `profile ${name}`,
          message: `Sysctl ${key} will change ${change}; review required`,
          hint: 'A sysctl applies to everything on the nodes of the profile; one that is no longer set keeps its last value',
          path: fresh.has(key) ? path : profileFile(name),
          line: fresh.has(key) ? lineOf(view, path, key) : 1,
        },
      ];
    });
  });
}

const nodeVariable = /^\$\{node\.([A-Za-z]+)\}$/;

/** `from 1 to 2`; undefined for an equal value. A variable may have changed its value on some nodes. */
function changeOf(
  { view, base }: ChangeContext,
  profile: string,
  old: string | undefined,
  fresh: string | undefined,
): string | undefined {
  if (old !== fresh) return `from ${old ?? 'not set'} to ${fresh ?? 'not set'}`;
  const name = nodeVariable.exec(fresh ?? '')?.[1];
  if (name === undefined) return undefined;
  const values = nodesOfProfile(view, profile).flatMap((node) => {
    const [was, is] = [base.view.nodes.get(node), view.nodes.get(node)!];
    const [before, after] = [was, is].map((file) => String(valueOf(file?.values ?? {}, undefined, name) ?? 'not set'));
    return was === undefined || before === after ? [] : [`from ${before} to ${after}`];
  });
  if (values.length === 0) return undefined;
  return `${values[0]}${values.length === 1 ? ' on 1 node' : `, … on ${values.length} nodes`}`;
}

/** ROUTE_LOCALNET */
export function routeLocalnet({ view }: PolicyContext): readonly Violation[] {
  return [...view.profiles].flatMap(([name, { mode }]) => {
    const path = sysctlFile(name);
    return [...sysctlsIn(view.files, path)]
      .filter(([key, value]) => key.endsWith('.route_localnet') && value === '1')
      .map(([key]) => ({
        code: 'ROUTE_LOCALNET',
        subject: `profile ${name}`,
        message: `Cannot keep other hosts from loopback addresses by routing alone: ${key} is 1`,
        hint: `${
          modeFacts[mode].nodePorts.onLoopback
            ? 'Set `iptables.localhostNodePorts: false`'
            : 'Take loopback addresses out of `nodePortAddresses`'
        } if no client uses node ports on 127.0.0.1`,
        path,
        line: lineOf(view, path, key),
      }));
  });
}

/** Values by key with its guard. Values are as written: some are variables that each node fills in. */
function sysctlsIn(files: BundleFiles, path: string): ReadonlyMap<string, string> {
  const lines = (files.get(path) ?? '').matchAll(/^([^#\s].*?) = (.*)$/gm);
  return new Map(Array.from(lines, ([, key = '', value = '']) => [key, value] as const));
}
