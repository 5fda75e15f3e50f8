import { type MaglevSize, maglevSizes, readMaglevSize, type Scheduler, schedulers } from '@sluice/netfilter';
import { commonSchedulers } from '../model/schedulers.ts';
import type { CommonScheduler, WeightRule } from '../model/model.ts';
import { type FieldProblem, report, type FieldSpot, textIn } from './fields.ts';
import { isDnsSubdomain, isLabelValue, quote } from './text.ts';

/** The scheduler of the Service, in each mode but iptables. */
export const schedulerKey = 'sluice.dev/scheduler';
/** The weights of endpoints, in each mode but iptables. */
export const weightsKey = 'sluice.dev/weights';
/** The size of the table of scheduler `maglev`, in mode nftables. */
export const tableSizeKey = 'sluice.dev/maglev-table-size';
/** The annotations that enable topology hints; the first takes precedence (`newBaseServiceInfo`, `pkg/proxy/service.go` of 1.28). */
export const hintsKeys = ['service.kubernetes.io/topology-aware-hints', 'service.kubernetes.io/topology-mode'] as const;

/** Whether hints are enabled: by any value except `disabled` and the empty one (`canUseTopology`). */
export function asksForHints(annotations: FieldSpot | undefined): boolean {
  const key = annotations && hintsKeys.find((one) => Object.hasOwn(annotations.value, one));
  const value = key === undefined ? '' : annotations?.value[key];
  return value !== '' && value !== 'disabled' && value !== 'Disabled';
}

/**
 * The scheduler of a Service, such as `maglev`, or `lc` of mode ipvs alone.
 * @returns undefined: none, or (with a problem) an unknown one
 */
export function readScheduler(annotations: FieldSpot | undefined): CommonScheduler | Scheduler | undefined {
  const text = annotations && textIn(annotations, schedulerKey);
  if (!annotations || text === undefined) return undefined;
  const found = [...commonSchedulers, ...schedulers].find((scheduler) => scheduler === text);
  if (found === undefined) {
    report(annotations, [schedulerKey], {
      ...wrong(schedulerKey, `${quote(text)} is not a scheduler`),
      hint: `Write one of ${commonSchedulers.join(', ')}; for mode ipvs alone, one of ${schedulers.join(', ')}`,
    });
  }
  return found;
}

/**
 * The size of a Maglev table: `251`, `1009` or `10007`.
 * @returns undefined: none, or (with a problem) another size
 */
export function readTableSize(annotations: FieldSpot | undefined): MaglevSize | undefined {
  const text = annotations && textIn(annotations, tableSizeKey);
  if (!annotations || text === undefined) return undefined;
  const found = readMaglevSize(text);
  if (found === undefined) {
    report(annotations, [tableSizeKey], {
      ...wrong(tableSizeKey, `${quote(text)} is not a size of tables`),
      hint: `Write one of ${maglevSizes.join(', ')}, in quotes`,
    });
  }
  return found;
}

const weightMax = 65_535;
/** More than the zones and kinds of nodes of any cluster. */
const rulesMax = 64;

/**
 * `topology.kubernetes.io/zone=a:3,example.com/big=true:5`: weights by labels of the endpoint's node; the first match counts.
 * @returns the rules in their order; empty: every weight is 1, or (with a problem) the text is not of this form
 */
export function readWeights(annotations: FieldSpot | undefined): readonly WeightRule[] {
  const text = annotations && textIn(annotations, weightsKey);
  if (!annotations || text === undefined) return [];
  const rules: WeightRule[] = [];
  const parts = text.split(',').map((part) => part.trim());
  for (const part of parts.slice(0, rulesMax + 1)) {
    const rule = parts.length > rulesMax ? tooMany : readRule(part);
    if ('weight' in rule) rules.push(rule);
    else {
      report(annotations, [weightsKey], rule);
      return [];
    }
  }
  return rules;
}

function readRule(part: string): WeightRule | FieldProblem {
  const [, label = '', value = '', number = ''] = /^([^=:]+)=([^=:]*):([0-9]{1,9})$/.exec(part) ?? [];
  if (!isLabelKey(label) || !isLabelValue(value)) {
    return { ...wrong(weightsKey, `${quote(part)} is not a valid weight`), hint: form };
  }
  const weight = Number(number);
  if (weight >= 1 && weight <= weightMax) return { label, value, weight };
  if (weight > weightMax)
    return {
      ...wrong(weightsKey, `the weight in ${quote(part)} is too large`),
      hint: `Write a weight from 1 to ${weightMax}`,
    };
  return {
    ...wrong(weightsKey, `with ${quote(part)} these endpoints would get no traffic`),
    hint: `Write a weight from 1 to ${weightMax}; to take pods out, let their readiness probes fail or change the selector`,
  };
}

const form =
  'Write label=value:weight with commas between, such as topology.kubernetes.io/zone=a:3,example.com/big=true:5';
const tooMany: FieldProblem = {
  ...wrong(weightsKey, `it has more than ${rulesMax} entries`),
  hint: 'Add a label for the weight to the nodes, and use that',
};

function isLabelKey(text: string): boolean {
  const slash = text.indexOf('/');
  const [prefix, name] = slash < 0 ? [undefined, text] : [text.slice(0, slash), text.slice(slash + 1)];
  return name !== '' && isLabelValue(name) && (prefix === undefined || isDnsSubdomain(prefix));
}

function wrong(key: string, why: string): { code: 'FIELD_VALUE'; message: string } {
  return { code: 'FIELD_VALUE', message: `Cannot apply annotation ${key}: ${why}` };
}
