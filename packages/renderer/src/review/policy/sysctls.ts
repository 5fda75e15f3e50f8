import { type BundleFiles, profileFile, sysctlFile, valueOf } from '@sluice/bundle';
import { nodesOfProfile } from '../flows.ts';
import type { Found } from './finding.ts';
import { lineOf } from './held.ts';
import type { ChangeQuestion, Question } from './question.ts';

/** SYSCTL_CHANGED: by key, for each profile that both bundles have. */
export function sysctlsChanged(question: ChangeQuestion): readonly Found[] {
  const { view, base } = question;
  return [...view.profiles.keys()].flatMap((name) => {
    const path = sysctlFile(name);
    if (!base.view.profiles.has(name)) return [];
    const [old, fresh] = [sysctlsIn(base.view.files, path), sysctlsIn(view.files, path)];
    return [...new Set([...old.keys(), ...fresh.keys()])].toSorted().flatMap((key) => {
      const becomes = changeOf(question, name, old.get(key), fresh.get(key));
      if (becomes === undefined) return [];
      return [
        {
          code: 'SYSCTL_CHANGED',
          subject: `profile ${name}`,
          message: `Cannot change sysctl ${key} without a look: ${becomes}`,
          hint: 'It holds for everything on the nodes of the profile; what is no longer set keeps its last value',
          path: fresh.has(key) ? path : profileFile(name),
          line: fresh.has(key) ? lineOf(view, path, key) : 1,
        },
      ];
    });
  });
}

const nodeVariable = /^\$\{node\.([A-Za-z]+)\}$/;

/** What becomes of a value, in words; undefined where it stays. A variable may stand for another value on some nodes. */
function changeOf(
  { view, base }: ChangeQuestion,
  profile: string,
  old: string | undefined,
  fresh: string | undefined,
): string | undefined {
  if (old !== fresh) return `${old ?? 'not set'} becomes ${fresh ?? 'not set'}`;
  const name = nodeVariable.exec(fresh ?? '')?.[1];
  if (name === undefined) return undefined;
  const values = nodesOfProfile(view, profile).flatMap((node) => {
    const [was, is] = [base.view.nodes.get(node), view.nodes.get(node)!];
    const [before, after] = [was, is].map((file) => String(valueOf(file?.values ?? {}, undefined, name) ?? 'not set'));
    return was === undefined || before === after ? [] : [`${before} becomes ${after}`];
  });
  if (values.length === 0) return undefined;
  return `${values[0]}${values.length === 1 ? ' on 1 node' : `, and so on ${values.length} nodes`}`;
}

/** ROUTE_LOCALNET */
export function routeLocalnet({ view }: Question): readonly Found[] {
  return [...view.profiles.keys()].flatMap((name) => {
    const path = sysctlFile(name);
    return [...sysctlsIn(view.files, path)]
      .filter(([key, value]) => key.endsWith('.route_localnet') && value === '1')
      .map(([key]) => ({
        code: 'ROUTE_LOCALNET',
        subject: `profile ${name}`,
        message: `Cannot keep loopback addresses to the node itself: ${key} is 1`,
        hint: 'Set `iptables.localhostNodePorts: false` where nobody uses node ports on 127.0.0.1',
        path,
        line: lineOf(view, path, key),
      }));
  });
}

/** By key, with its guard: values as written, since some are variables that each node fills in. */
function sysctlsIn(files: BundleFiles, path: string): ReadonlyMap<string, string> {
  const lines = (files.get(path) ?? '').matchAll(/^([^#\s].*?) = (.*)$/gm);
  return new Map(Array.from(lines, ([, key = '', value = '']) => [key, value] as const));
}
