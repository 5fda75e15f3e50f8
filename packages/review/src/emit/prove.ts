import {
  document,
  type Examined,
  type Finding,
  type Findings,
  type FindingsFormat,
  printFindings,
  version,
} from '@sluice/cli';
import { plural } from '@sluice/netfilter';
import { profileNames } from './settings.ts';
import { outcomeText, destinationText, nodesText, packetText, sourceText } from '../report/words.ts';
import type { HeaderSpace } from '../prove/header-space.ts';
import { type CounterExample, isProved, type ProfileFault, type Proof, type Unjudged } from '../prove/prove.ts';

export type ProofFormat = FindingsFormat | 'json';

/** The first file of a Service (`shop/web`) or of a profile (`default`), relative to the current directory. */
type FileOf = (name: string) => string | undefined;

/** The maximum number of counter-examples in the text; it counts the rest, and JSON has all. */
const shownMax = 100;

/** Prints a proof; the last line is the verdict. */
export function printProof(proof: Proof, format: ProofFormat, fileOf: FileOf = () => undefined): string {
  if (format === 'json') return document('Proof', { proved: isProved(proof), ...proof });
  const findings = findingsOf(proof, fileOf);
  return printFindings(format === 'text' ? shortened(findings) : findings, format);
}

function shortened({ findings, closing, ...rest }: Findings): Findings {
  const flows = findings.filter(({ rule }) => rule === flowRule.id);
  const more = flows.length - shownMax;
  return {
    ...rest,
    findings: [...findings.filter(({ rule }) => rule !== flowRule.id), ...flows.slice(0, shownMax)],
    closing: [...(more > 0 ? [`… and ${more} more; -o json has all`] : []), ...closing],
  };
}

const flowRule = { id: 'flow', title: 'a flow does not end as its Service declares' } as const;
const baseRule = { id: 'base-rules', title: "base rules differ from kube-proxy's" } as const;

function findingsOf(proof: Proof, fileOf: FileOf): Findings {
  const { faults, counterExamples, profiles, unjudged } = proof;
  const verdict = lastLine(proof);
  return {
    command: 'sluice prove',
    version,
    rules: [flowRule, baseRule],
    findings: [...faults.map((one) => faultOf(one, fileOf)), ...counterExamples.map((one) => exampleOf(one, fileOf))],
    examined: [
      ...profiles.map((one) => examined(one, 'flows traced', printExtent(one), true)),
      ...unjudged.map((one) => examined(one, `not judged: ${one.what}`, printUnjudged(one), false)),
    ],
    closing: [...profiles.map(printExtent), ...unjudged.map(printUnjudged), verdict],
    verdict,
  };
}

type OfProfile = Pick<ProfileFault, 'profile' | 'family'>;

const examined = ({ profile, family }: OfProfile, what: string, text: string, isJudged: boolean): Examined => ({
  group: profile,
  name: `${family}: ${what}`,
  text,
  isJudged,
});

function faultOf({ profile, family, what, expected, found }: ProfileFault, fileOf: FileOf): Finding {
  const message = `${profileNames[what]} ${found}, expected ${expected}`;
  const file = fileOf(profile);
  return {
    rule: baseRule.id,
    level: 'error',
    group: profile,
    about: `${family}: ${what}`,
    message,
    head: `profile ${profile}, ${family}: ${message}`,
    details: [],
    ...(file !== undefined && { place: { file, line: 1 } }),
    identity: `${profile} ${family} ${what}`,
  };
}

function exampleOf(example: CounterExample, fileOf: FileOf): Finding {
  const { destination, source, nodes, found } = example;
  const group = destination.services.join(', ') || 'other traffic';
  const about = `${destinationText(destination)} from ${sourceText(source)}, on ${nodesText(nodes)}`;
  const file = destination.services.flatMap((service) => fileOf(service) ?? [])[0];
  return {
    rule: flowRule.id,
    level: 'error',
    group,
    about,
    message: `declared ${expectedText(example)}, rules ${outcomeText(found)}`,
    head: `${group} ${about}`,
    details: [
      `declared: ${expectedText(example)}`,
      `rules:    ${outcomeText(found)}`,
      `packet: ${packetText(example)}`,
    ],
    ...(file !== undefined && { place: { file, line: 1 } }),
    identity: `${group} ${about}`,
  };
}

const printExtent = ({ profile, family, services, flows, headerSpace }: Proof['profiles'][number]): string =>
  `profile ${profile}, ${family}: ${plural(services, 'Service')}, ${plural(flows, 'flow')} traced${spaceText(headerSpace)}`;

/** Of the keys and intervals that were not judged the text names as many. */
const unjudgedMax = 3;

function spaceText(space: HeaderSpace | undefined): string {
  if (!space) return '';
  const { keys, intervals, unjudged } = space;
  const some = unjudged.slice(0, unjudgedMax).join(', ');
  const rest = unjudged.length > unjudgedMax ? ', …' : '';
  const judged = unjudged.length === 0 ? 'all judged' : `${unjudged.length} not judged: ${some}${rest}`;
  return `; ${plural(keys, 'key')} and ${plural(intervals, 'interval')} divide all packets, ${judged}`;
}

const unjudgedNames = {
  'node-ports': 'node ports',
  'packets-of-the-node': 'packets of the node itself',
} as const;

function printUnjudged({ profile, family, what, nodes }: Unjudged): string {
  const where = `profile ${profile}, ${family}: not judged:`;
  if (what === 'all') return `${where} all of it: no node has the profile`;
  return `${where} ${unjudgedNames[what]} on ${nodesText({ profile, nodes })}: node.yaml has no address of the family`;
}

function lastLine(proof: Proof): string {
  if (isProved(proof))
    return `The rules implement all Services as declared${isWhole(proof) ? '' : ', except for what was not judged'}`;
  const { length } = proof.counterExamples;
  const flows = length > 0 ? [`${plural(length, 'flow')} ${length === 1 ? 'is' : 'are'} not as declared`] : [];
  const profiles = new Set(proof.faults.map(({ profile }) => profile)).size;
  const rules = profiles > 0 ? [`the base rules of ${plural(profiles, 'profile')} differ from kube-proxy's`] : [];
  return [...flows, ...rules].join(', ');
}

const isWhole = ({ profiles, unjudged }: Proof): boolean =>
  unjudged.length === 0 && profiles.every(({ headerSpace }) => (headerSpace?.unjudged ?? []).length === 0);

const words = {
  accept: 'accepted',
  pass: 'no Service matches',
  reject: 'REJECT',
  drop: 'DROP',
  unclaimed: 'no Service declares this address and port',
} as const;

function expectedText({ expected }: CounterExample): string {
  if (expected.kind === 'endpoints') return outcomeText(expected);
  const isMasked = 'masquerade' in expected && expected.masquerade;
  return `${words[expected.kind]}${isMasked ? ', masqueraded' : ''}`;
}
