import type { Fault } from './faults.ts';
import { connectionFaults } from './faults-connections.ts';
import { networkFaults } from './faults-network.ts';
import { ruleFaults } from './faults-rules.ts';
import { sluicedFaults } from './faults-sluiced.ts';

function named(list: readonly Fault[], name: string): Fault {
  const found = list.find((one) => one.name === name);
  if (!found) throw new Error(`No fault is called ${name}`);
  return found;
}

/** Two faults at once: one of them must be named first, and the other among the further causes. */
export const doubleFaults: readonly (readonly [Fault, Fault])[] = [
  [named(networkFaults, 'forwarding is off'), named(ruleFaults, 'a rule in raw drops packets to the address')],
  [
    named(ruleFaults, 'the policy of OUTPUT is DROP'),
    named(networkFaults, 'the address of the Service is on an interface'),
  ],
  [
    named(ruleFaults, 'a kube-proxy was started again'),
    named(ruleFaults, 'a former kube-proxy in mode nftables left its table'),
  ],
  [
    named(connectionFaults, 'the table of connections is full'),
    named(networkFaults, 'a program listens on the node port'),
  ],
  [
    named(ruleFaults, 'packets to the address are not tracked'),
    named(networkFaults, 'the kernel picks source ports among the node ports'),
  ],
  [
    named(networkFaults, 'forwarding is off'),
    named(connectionFaults, 'established connections are forgotten after ten seconds'),
  ],
  [
    named(ruleFaults, 'the kernel was told to route local addresses no more'),
    named(networkFaults, 'the node has another address than its bundle says'),
  ],
  [
    named(ruleFaults, 'legacy and nft are mixed: the other store has the rules of a kube-proxy'),
    named(connectionFaults, 'the table of connections is full'),
  ],
  [
    named(networkFaults, 'the interface to the other node takes tiny packets only'),
    named(ruleFaults, 'a table of nftables drops what is forwarded'),
  ],
  [named(sluicedFaults, 'the clock is days behind'), named(networkFaults, 'a program listens on the node port')],
];
