import type { Answers, Difference } from './outcomes.ts';

/** What kube-proxy's mode nftables does otherwise than its mode iptables, by name (`kube-proxy-nftables.md`, KEP-3866). */
export interface ModeDifference {
  readonly name: string;
  /** Whether it is the cause of a difference: `theirs` of mode nftables, `ours` of mode iptables. */
  readonly explains: (difference: Difference) => boolean;
}

const only = (answers: Answers, words: string): boolean => [...answers.keys()].every((one) => one === words);
const isTheNode = (answers: Answers): boolean => [...answers.keys()].every((one) => one.startsWith('node '));

export const ofNftables: readonly ModeDifference[] = [
  {
    name: 'node ports answer on the primary address alone',
    explains: ({ question: { frontend }, theirs }) =>
      (frontend === 'node port, second address' || frontend === 'node port, loopback') && isTheNode(theirs),
  },
  {
    name: 'a port that no Service has is refused at a cluster IP',
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
