import type { BundleFiles } from '@sluice/bundle';
import { compareText } from '@sluice/netfilter';
import { Memory } from '../bundle/memory.ts';
import { type BundleView, viewOf } from '../bundle/view.ts';
import { type BundleDiff, diffViews } from '../diff/diff.ts';
import { serviceEntries } from '../facts/service-entries.ts';
import { checkViews, type PolicyResult } from '../policy/policy.ts';
import type { PolicySettings } from '../policy/settings.ts';
import type { Effect } from './effect.ts';
import { effectsOf, severityByService } from './effects.ts';
import { type ChangeStatus, type ReportService, servicesOf } from './services.ts';

/** The content of a report on a change: all that its page, its Markdown and its JSON show. */
export interface ChangeReport {
  /** What the change does, worst first. */
  readonly effects: readonly Effect[];
  readonly diff: BundleDiff;
  /** Of both bundles, by name. */
  readonly services: readonly ReportService[];
  /** By zone, then name. */
  readonly nodes: readonly ReportNode[];
  /** Absent if the policy was not checked. */
  readonly policy?: PolicyResult;
  /** Absent if no failures were computed. */
  readonly whatIf?: WhatIf;
}

/** The failures of single nodes, zones and endpoints that a report shows, worst first. Computed elsewhere. */
export type WhatIf = readonly Failure[];

export interface Failure {
  readonly kind: 'node' | 'zone' | 'endpoint';
  readonly name: string;
  /** The ports that lose all endpoints, `shop/web:http 80/TCP`. */
  readonly lost: readonly string[];
  /** Shares that pass a limit, one text each. */
  readonly over: readonly string[];
  /** The rules of the policy that would break. */
  readonly rules: readonly string[];
}

interface ReportNode {
  readonly name: string;
  readonly zone?: string;
  readonly fate: Exclude<ChangeStatus, 'changed'>;
}

/** The input of a report. */
interface ReportInput {
  readonly old: BundleFiles;
  readonly updated: BundleFiles;
  /** Present: check the policy too. */
  readonly policy?: { readonly settings: PolicySettings; readonly today: string };
  /** Single failures of the new bundle, computed elsewhere. */
  readonly whatIf?: WhatIf;
}

/** Compares two bundles for a report. @throws Stopped with the problems for which nodes would refuse a bundle */
export function reportOn({ old, updated, policy, whatIf }: ReportInput): ChangeReport {
  const memory = new Memory();
  const [before, after] = [viewOf(old, memory), viewOf(updated, memory)];
  const diff = diffViews(before, after);
  const checked = policy && checkViews({ view: after, base: before, ...policy });
  const changed = new Set(diff.services.map(({ service }) => service));
  const services = servicesOf(serviceEntries(before), serviceEntries(after), changed);
  const effects = effectsOf(diff, services);
  const worst = severityByService(effects);
  return {
    effects,
    diff,
    services: services.map((one) => {
      const severity = worst.get(one.service);
      return severity === undefined ? one : { ...one, severity };
    }),
    nodes: nodesOf(before.nodes, after.nodes),
    ...(checked === undefined ? {} : { policy: checked }),
    ...(whatIf === undefined ? {} : { whatIf }),
  };
}

function nodesOf(before: BundleView['nodes'], after: BundleView['nodes']): readonly ReportNode[] {
  const names = [...new Set([...before.keys(), ...after.keys()])];
  return names
    .map((name): ReportNode => {
      const zone = (after.get(name) ?? before.get(name))?.zone;
      const fate = !before.has(name) ? 'added' : after.has(name) ? 'same' : 'removed';
      return { name, fate, ...(zone === undefined ? {} : { zone }) };
    })
    .toSorted((a, b) => compareText(a.zone ?? '', b.zone ?? '') || compareText(a.name, b.name));
}
