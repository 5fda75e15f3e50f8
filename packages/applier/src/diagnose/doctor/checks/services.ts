import {
  cidrContains,
  compareText,
  type Finding,
  namesNear,
  printTarget,
  type ExaminedTarget,
} from '@sluice/netfilter';
import type { DesiredFacts, Facts, Frontend } from '../facts.ts';
import { type FollowedPacket, listenerAt } from '../packets.ts';
import { atLoopback, printFrontendOf } from '../target.ts';

/** What the desired state itself says about the examined frontends: intended, and still the answer to "why is it dead". */
export function* serviceChecks(
  target: ExaminedTarget,
  frontends: readonly Frontend[],
  packets: readonly FollowedPacket[],
  facts: Facts,
): Iterable<Finding> {
  // On a node with many Services some have no endpoints, which is usual.
  const certainty = target.kind === 'all' ? 'note' : 'certain';
  const about = (one: Frontend): string => one.service ?? printFrontendOf(one);
  // Packets of an outside client are dropped on purpose where source ranges leave it out.
  const dropped = packets.filter(
    ({ verdict, frontend, origin }) =>
      verdict === 'drop' && !(origin === 'outside' && (frontend.ranges ?? []).length > 0),
  );
  const local = new Set(dropped.map(({ frontend }) => frontend));
  const without = frontends.filter(
    (one) => one.kind !== 'health-check' && one.endpoints.length === 0 && !local.has(one),
  );
  for (const [name, group] of Map.groupBy(without, about))
    yield {
      code: 'NO_ENDPOINTS',
      certainty,
      about: name,
      evidence: group.map((one) => `${printFrontendOf(one)} has no endpoint in the active generation`),
      fix: endpointsCommand(group[0]),
    };
  for (const [name, group] of Map.groupBy(dropped, ({ frontend }) => about(frontend))) {
    const evidence = group.map(
      ({ frontend, origin }) =>
        `packets from ${origin} to ${printFrontendOf(frontend)} are dropped: no endpoint is on this node`,
    );
    yield {
      code: 'NO_LOCAL_ENDPOINT',
      certainty,
      about: name,
      evidence: [...new Set(evidence)].toSorted(compareText),
      fix: endpointsCommand(group[0]?.frontend),
    };
  }
  yield* unknownTarget(target, frontends, facts);
  yield* sharedAddresses(target, frontends, facts);
}

function endpointsCommand(frontend: Frontend | undefined): string {
  const [namespace = '', name = ''] = frontend?.service?.split(':')[0]?.split('/') ?? [];
  return name === ''
    ? 'kubectl get endpointslices -A'
    : `kubectl -n ${namespace} get endpointslices -l kubernetes.io/service-name=${name}`;
}

function* unknownTarget(target: ExaminedTarget, frontends: readonly Frontend[], facts: Facts): Iterable<Finding> {
  const left = target.kind === 'service' ? facts.sluiced.leftOut.get(target.service) : undefined;
  if (target.kind === 'service' && left) {
    const isShared = left.codes.includes('VIP_CONFLICT');
    yield {
      code: isShared ? 'ADDRESS_SHARED' : 'SERVICE_LEFT_OUT',
      // It may be served by the rules that it had before.
      certainty: frontends.length === 0 ? 'certain' : 'likely',
      about: target.service,
      evidence: [
        `${left.directory}/quarantine.yaml lists Service ${target.service}: ${left.codes.join(', ')}`,
        ...(left.codes.includes('RELEASE_WITHOUT_SERVICE')
          ? ['the cluster has it, and the release of this node does not: it is served once a release has it']
          : []),
        ...(isShared ? ['another Service has had one of its addresses and ports for longer, and keeps it'] : []),
      ],
      fix: 'kubectl get services -A -o wide',
    };
    return;
  }
  // As `LiveInbox` says it: the Services that it names first, each with the reason.
  if (target.kind === 'service' && facts.sluiced.liveNote.includes(` ${target.service}: `))
    yield {
      code: 'SERVICE_LEFT_OUT',
      certainty: 'likely',
      about: target.service,
      evidence: [facts.sluiced.liveNote],
      fix: 'sluiced status',
    };
  if (target.kind === 'all' || frontends.length > 0 || !facts.desired) return;
  const { frontends: known } = facts.desired;
  const similar = known.filter((one) =>
    target.kind === 'address'
      ? one.address === target.address || (one.address === undefined && one.port === target.port)
      : one.service?.split('/')[1]?.split(':')[0] === target.service.split('/')[1],
  );
  const names = [...new Set(known.flatMap(({ service }) => service?.replace(/:.*/, '') ?? []))];
  const near = target.kind === 'service' && similar.length === 0 && names.length > 0;
  const ports = similar.slice(0, 3).map((one) => `${one.service ?? ''} answers on ${printFrontendOf(one)}`);
  yield {
    code: 'SERVICE_UNKNOWN',
    certainty: 'certain',
    about: printTarget(target),
    evidence: [
      `the active generation has ${known.length} frontends, and none is ${printTarget(target)}`,
      ...ports,
      ...(near ? [`it has ${namesNear(target.service, names)}`] : []),
      ...(target.kind === 'address' ? onLoopback(target.address, similar, facts.desired) : []),
      ...(similar.length === 0 ? [`${leftOnPurpose}: sluice doctor ${printTarget(target)} tells`] : []),
    ],
    fix:
      target.kind === 'service'
        ? `kubectl -n ${target.service.split('/')[0] ?? ''} get service ${target.service.split('/')[1] ?? ''}`
        : 'kubectl get services -A -o wide',
  };
}

/** A bundle does not say so: objects do, which a node does not have. */
const leftOnPurpose =
  'headless Services, those of type ExternalName or of another proxy, and addresses with ipMode Proxy are left out on purpose';

function onLoopback(address: string, similar: readonly Frontend[], desired: DesiredFacts): readonly string[] {
  const [first] = similar;
  const at = first && atLoopback(address, first.protocol, desired);
  if (at === undefined) return [];
  return [
    `on ${address} the rules ${at === 'refused' ? 'reject node ports' : 'have no node ports'} (nodePortAddresses)`,
  ];
}

/** Mode nftables does not tell the kinds of addresses; its table names the networks of cluster IPs. */
const isInServiceNetwork = (address: string, { desired }: Facts): boolean =>
  (desired?.state.nft?.settings ?? []).some((setting) => {
    const network = setting.startsWith('cidr ') ? setting.slice('cidr '.length) : '';
    return network.includes(':') === address.includes(':') && network !== '' && cidrContains(network, address);
  });

/** The same address and port twice, or a Service on an address of the node itself. */
function* sharedAddresses(target: ExaminedTarget, frontends: readonly Frontend[], facts: Facts): Iterable<Finding> {
  const names = new Set(frontends.map(printFrontendOf));
  const shared = Map.groupBy(
    (facts.desired?.frontends ?? []).filter((one) => names.has(printFrontendOf(one))),
    (one) => `${one.family} ${printFrontendOf(one)}`,
  );
  for (const [frontend, group] of shared) {
    const services = [...new Set(group.map(({ service }) => service?.split(':')[0] ?? ''))].filter((one) => one !== '');
    if (services.length > 1)
      yield {
        code: 'ADDRESS_SHARED',
        certainty: 'certain',
        about: frontend,
        evidence: [`${services.join(' and ')} answer on ${frontend}`],
        fix: 'kubectl get services -A -o wide',
      };
  }
  for (const one of frontends) {
    const { address = '', service, port } = one;
    const name = facts.interfaces?.find(({ addresses }) => addresses.includes(address))?.name;
    // An external address on the node is how some load balancers bring packets here.
    const isOwnNodePort = facts.desired?.nodeAddresses.includes(address) === true;
    if (name === undefined || isOwnNodePort || name === 'kube-ipvs0') continue;
    const isCluster = one.kind === 'cluster' || isInServiceNetwork(address, facts);
    const listener = listenerAt(one, facts);
    const about = service ?? printFrontendOf(one);
    if (listener)
      yield {
        code: 'ADDRESS_ON_INTERFACE',
        certainty: 'note',
        about,
        evidence: [
          `${printFrontendOf(one)} is on interface ${name}, and ${listener.program} listens there: it may answer on this node instead of the Service, as NodeLocal DNSCache does`,
        ],
        fix: `ss -Hlnp sport = :${port}`,
      };
    else
      yield {
        code: 'ADDRESS_ON_INTERFACE',
        certainty: isCluster && target.kind !== 'all' ? 'certain' : isCluster ? 'likely' : 'note',
        about,
        evidence: [
          `${address} of ${service ?? 'a Service'} is on interface ${name}: other ports of it reach this node, and the node answers ARP for it`,
        ],
        fix: `ip address delete ${address}/${address.includes(':') ? 128 : 32} dev ${name}`,
      };
  }
}
