import { isDeepStrictEqual } from 'node:util';
import { type Minor, newest } from './binaries.ts';
import { type AnswerCounts, type AnswerDifference, endpointOf } from './outcomes.ts';

/** The differences of kube-proxy's mode nftables from its mode iptables, by name (`kube-proxy-nftables.md`, KEP-3866). */
export interface ModeDifference {
  readonly name: string;
  /** Whether it explains a difference: `theirs` of mode nftables, `ours` of mode iptables. */
  readonly explains: (difference: AnswerDifference) => boolean;
}

const only = (answers: AnswerCounts, words: string): boolean => [...answers.keys()].every((one) => one === words);
const isTheNode = (answers: AnswerCounts): boolean => [...answers.keys()].every((one) => one.startsWith('node '));
const isByTable = (answers: AnswerCounts): boolean =>
  [...answers.keys()].every((one) => one !== 'reject' && one !== 'drop' && !one.startsWith('node 127.'));

const ofNftables: readonly ModeDifference[] = [
  {
    name: 'node ports answer on the primary address only',
    explains: ({ question: { frontend }, theirs }) =>
      (frontend === 'node port, second address' || frontend === 'node port, loopback') && isTheNode(theirs),
  },
  {
    name: 'unused ports of a cluster IP are refused',
    explains: ({ question: { frontend }, theirs }) => frontend === 'unassigned port' && only(theirs, 'reject'),
  },
  {
    name: 'no rule drops packets that conntrack calls invalid',
    explains: ({ question: { frontend }, ours }) => frontend === 'invalid packet' && only(ours, 'drop'),
  },
  {
    name: 'source ranges come before the refusal of a Service without endpoints',
    explains: ({ question: { frontend }, theirs }) => frontend === 'load balancer' && only(theirs, 'drop'),
  },
  {
    name: 'the node itself is refused at outer addresses of a Service without endpoints',
    explains: ({ question: { frontend, from, target }, theirs, ours }) =>
      (frontend === 'external IP' || frontend === 'load balancer') &&
      from === 'node' &&
      only(theirs, 'reject') &&
      [...ours.keys()].every((words) => words.startsWith(`eth0 ${target} `)),
  },
];

const localhostRejects: ModeDifference = {
  name: 'node ports on localhost are rejected (`VERSION_LOCALHOST_REJECTS`)',
  explains: ({ question: { frontend }, theirs }) => frontend === 'node port, loopback' && only(theirs, 'reject'),
};

/** Those of a version, all of which a comparison of modes meets. */
export const betweenModes = (minor: Minor): readonly ModeDifference[] => [
  ...ofNftables,
  ...(minor < '1.38' ? [] : [localhostRejects]),
];

/**
 * kube-proxy's set `hairpin-connections` has the endpoints of this node by address, protocol and port, so that a pod whose slices name its node
 * at one port alone is not masqueraded at the others, and no answer comes back to it. Sluice's set has addresses.
 */
const hairpinByPort: ModeDifference = {
  name: 'a pod that reaches itself is masqueraded at each of its ports, also where a slice names no node',
  explains: ({ question: { from, sources }, theirs, ours }) => {
    const itself = ` ${sources[0]} `;
    const isMasqueraded = (words: string): boolean => !words.includes(itself) || words.includes(' as ');
    const targets = (answers: AnswerCounts): ReadonlySet<string> => new Set([...answers.keys()].map(endpointOf));
    return (
      from === 'endpoint itself' &&
      isDeepStrictEqual(targets(theirs), targets(ours)) &&
      [...ours.keys()].every(isMasqueraded) &&
      ![...theirs.keys()].every(isMasqueraded)
    );
  },
};

/** Differences of a version of kube-proxy from Sluice in mode nftables, by name. `theirs` are kube-proxy's. */
const ofVersions: readonly (ModeDifference & { readonly since: Minor })[] = [
  { ...hairpinByPort, since: newest },
  {
    // Without an endpoint there is no listener, and the kernel refuses the port, as it does on ::1 here, where no daemon runs.
    name: 'kube-proxy leaves TCP on localhost to a listener (`VERSION_LOCALHOST_LISTENER`)',
    since: '1.38',
    explains: ({ question: { frontend, protocol, family }, theirs, ours }) =>
      frontend === 'node port, loopback' &&
      protocol === 'tcp' &&
      isTheNode(theirs) &&
      (family === 'IPv6' || isByTable(ours) || only(ours, 'reject')),
  },
  {
    name: 'UDP and SCTP are served on 127.0.0.1, where kube-proxy rejects them',
    since: '1.38',
    explains: ({ question: { frontend, protocol, family }, theirs, ours }) =>
      frontend === 'node port, loopback' &&
      protocol !== 'tcp' &&
      family === 'IPv4' &&
      only(theirs, 'reject') &&
      isByTable(ours),
  },
  {
    ...localhostRejects,
    since: '1.38',
    explains: (difference) => localhostRejects.explains(difference) && isTheNode(difference.ours),
  },
];

export const ofVersion = (minor: Minor, mode: string): readonly ModeDifference[] =>
  mode === 'nftables' ? ofVersions.filter(({ since }) => since <= minor) : [];

/** Whether a version's difference has a name. */
export const isOfVersion =
  (minor: Minor, mode: string) =>
  (difference: AnswerDifference): boolean =>
    ofVersion(minor, mode).some(({ explains }) => explains(difference));
