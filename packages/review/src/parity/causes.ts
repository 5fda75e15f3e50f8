import type { ParityCause } from '@sluice/bundle';
import { ownerOf, type RuleHit } from '@sluice/netfilter';
import type { FlowOutcome } from '../flows/flow.ts';
import { isSameOutcome } from '../prove/equivalence.ts';
import { differenceOf, type ModeDifference, verdictOf } from '../prove/mode-differences.ts';
import { isAdmitting } from './foreign.ts';
import type { DifferingCase } from './differing-case.ts';
import { isPassed } from './packets.ts';
import type { ParityAspect, SettingKind } from './settings.ts';
import { versionDifference, type VersionDifference } from './versions.ts';

interface Cause {
  readonly cause: ParityCause;
  readonly aspect: ParityAspect;
  readonly code?: ModeDifference | VersionDifference | 'DIFFERS_NODE_PORTS';
  readonly advice: string;
  /** Of cause `config`: which one. */
  readonly setting?: SettingKind;
}

/**
 * The most likely cause of a difference.
 * @param settingOf the setting of the node that makes it, if one does
 */
export function causeOf(of: DifferingCase, settingOf: (aspect: ParityAspect) => SettingKind | undefined): Cause {
  const aspect = aspectOf(of.observed, of.desired);
  if (of.foreign)
    return {
      cause: 'foreign-rule',
      aspect,
      advice: adviceOfRule(of.foreign),
    };
  const code = modeDifference(of);
  if (code !== undefined)
    return {
      cause: 'mode',
      aspect,
      code,
      advice: `Modes differ so (${code}): accept it, or choose another mode`,
    };
  const version = versionDifference(of);
  if (version) return { cause: 'version', aspect, ...version };
  const config = (setting: SettingKind): Cause => ({ cause: 'config', aspect, setting, advice: adviceOf[setting] });
  if (aspect === 'scheduler') return config(aspect);
  const setting = settingOf(aspect);
  return setting === undefined ? { ...single[aspect], aspect } : config(setting);
}

/** A rule of a known owner is there for a reason, and its owner writes it again. */
export function adviceOfRule(hit: RuleHit): string {
  const owner = ownerOf(hit);
  const { rule } = hit;
  if (isAdmitting(hit))
    return `${owner ? `A rule of ${owner.name}, for ${owner.does},` : 'A foreign rule'} accepts packets before the rules of Services that refuse them, as where a firewall is reloaded after kube-proxy: order it behind these: ${rule}`;
  return owner === undefined
    ? `No known program has such a rule. Find out which one wrote it; if it is to stay, order it behind those of Services: ${rule}`
    : `It is a rule of ${owner.name}, for ${owner.does}, and stays: see \`${owner.inspect}\` why it is there: ${rule}`;
}

/** The first thing that differs, the gravest first. */
export function aspectOf(observed: FlowOutcome, desired: FlowOutcome): ParityAspect {
  if (isSameOutcome(observed, desired)) return 'scheduler';
  const [one, other] = [verdictOf(observed), verdictOf(desired)];
  if (one !== other) return one === 'pass' || other === 'pass' ? 'frontend' : 'verdict';
  const endpoints = ({ branches }: FlowOutcome): string => [...new Set(branches.map(({ to }) => to))].join();
  if (endpoints(observed) !== endpoints(desired)) return 'endpoints';
  if (observed.affinity !== desired.affinity) return 'affinity';
  const masks = ({ branches }: FlowOutcome): string =>
    branches.map(({ to, masquerade }) => `${to ?? ''} ${masquerade}`).join();
  if (masks(observed) !== masks(desired)) return 'masquerade';
  const reasons = ({ branches }: FlowOutcome): string => branches.map(({ reject }) => reject ?? '').join();
  return reasons(observed) === reasons(desired) ? 'shares' : 'reject';
}

function modeDifference(of: DifferingCase): ModeDifference | 'DIFFERS_NODE_PORTS' | undefined {
  const { row, frontend, node, modes, observed, desired } = of;
  if (isOfNodePorts(of)) return 'DIFFERS_NODE_PORTS';
  const isOtherMode = modes.observed.some((mode) => mode !== modes.desired);
  if (isOtherMode && aspectOf(observed, desired) === 'scheduler') return 'DIFFERS_SCHEDULER';
  for (const mode of modes.observed) {
    if (mode === modes.desired) continue;
    const code = differenceOf({ row, frontend, node, outcomes: { [mode]: observed, [modes.desired]: desired } });
    if (code) return code;
  }
  return undefined;
}

/** By default mode nftables opens node ports on the address of the Node alone. */
function isOfNodePorts({ isOtherAddress, modes, observed, desired }: DifferingCase): boolean {
  const [closed, open] = modes.desired === 'nftables' ? [desired, observed] : [observed, desired];
  const isBetween = modes.observed.includes('nftables') !== (modes.desired === 'nftables');
  return isOtherAddress && isBetween && isPassed(closed) && !isPassed(open);
}

type Usual = Omit<Cause, 'aspect' | 'code'>;

const changed = (what: string): Usual => ({
  cause: 'objects',
  advice: `Render the bundle from what the cluster has now, and observe again: ${what}. If the difference stays, the proxy on the node does not follow the API server`,
});

/** Of a single frontend. */
const single: Readonly<Record<Exclude<ParityAspect, 'scheduler'>, Usual>> = {
  frontend: changed('one side has a Service or port here that the other one does not have'),
  verdict: changed('endpoints, source ranges or traffic policies of this Service differ'),
  endpoints: changed('the endpoints of this Service differ'),
  affinity: changed('sessionAffinity of this Service, or its time-out, differs'),
  shares: {
    cause: 'bug',
    advice:
      'The endpoints are equal and their shares are not: rules or weights were changed by hand, or one side is wrong. Restart kube-proxy, which writes its rules again, and observe again',
  },
  masquerade: {
    cause: 'bug',
    advice:
      'Other frontends are masqueraded as the bundle says: a rule of this one is missing or was changed by hand. Restart kube-proxy, which writes its rules again, and observe again',
  },
  reject: {
    cause: 'bug',
    advice:
      'Packets are refused with another answer: compare the two rules, which `sluice trace` prints for both sides',
  },
};

const adviceOf: Readonly<Record<SettingKind, string>> = {
  frontends:
    'All frontends of this kind differ: compare nodePortAddresses, localhostNodePorts, the gate AllowServiceExternalIPs and the address of the Node with the profile',
  pods: 'Only pods find it different: compare clusterCIDR and detectLocalMode of kube-proxy, which say who is a pod, with the profile',
  masquerade:
    'Most frontends differ so for these sources: compare clusterCIDR, detectLocalMode and masqueradeAll of kube-proxy with the profile',
  scheduler:
    'Clients that come again find another endpoint: compare ipvs.scheduler of kube-proxy with that of the profile, and the annotation of the Service',
};

/** What leads to the same endpoint again: the client, the address that it asks, nothing; or it depends on the load. */
type Choice = 'client' | 'destination' | 'none' | 'load';

/** The schedulers of ip_vs (`ipvsadm(8)`), and those of the bundle; others depend on the load. */
const choices: Readonly<Record<string, Choice>> = {
  rr: 'none',
  wrr: 'none',
  random: 'none',
  sh: 'client',
  mh: 'client',
  maglev: 'client',
  dh: 'destination',
};

/** @param scheduler `sh`, `mh mh-port`; undefined: rules choose at random */
function choiceOf(scheduler: string | undefined): Choice {
  const [name = 'random', ...flags] = scheduler?.split(' ') ?? [];
  // With the port in the hash each connection is another client.
  if (flags.some((flag) => flag.endsWith('-port'))) return 'none';
  return choices[name] ?? 'load';
}

/**
 * Whether clients that come again find another endpoint on one side, although shares are equal. Session affinity that both have decides
 * before a scheduler does.
 * @returns different: they do. load: it depends on the load of endpoints, which no rule tells. same: they do not
 */
export function comparedChoices(one: FlowOutcome, other: FlowOutcome): 'same' | 'different' | 'load' {
  if (one.scheduler === other.scheduler || one.affinity !== undefined || one.branches.length < 2) return 'same';
  const [first, second] = [choiceOf(one.scheduler), choiceOf(other.scheduler)];
  if (first === second) return first === 'load' ? 'load' : 'same';
  const isKept = [first, second].some((choice) => choice === 'client' || choice === 'destination');
  return isKept ? 'different' : 'load';
}
