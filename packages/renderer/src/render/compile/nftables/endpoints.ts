import type { Guard } from '@sluice/bundle';
import type { Endpoint } from '../../model/model.ts';
import type { Variant } from '../../select/fleet.ts';
import type { GuardedLine } from '../lines.ts';
import { addingElements } from './elements.ts';
import { type Frontend, frontendsOf, type NftPort, protocolOf } from './port.ts';

/** The places of an endpoint: a frontend, and which of its lists. */
interface Place {
  readonly frontend: Frontend;
  readonly slot: 'slot' | 'localSlot';
}

/**
 * The endpoints of a Service port: one line for each endpoint and list of nodes, with all frontends that it serves there; and a line on its
 * own node, by which packets of the endpoint that are translated to itself are masqueraded.
 */
export function endpointLines(compiled: NftPort): readonly GuardedLine[] {
  const { selection, family, weightOf } = compiled;
  const add = addingElements(family);
  const lines = (variants: readonly Variant[], places: readonly Place[]): readonly GuardedLine[] =>
    variants.flatMap(({ guard, endpoints }) =>
      endpoints.flatMap((endpoint) =>
        add(
          protocolOf(compiled),
          places.map((place) => elementOf(place, endpoint, weightOf(endpoint))),
          guard,
        ),
      ),
    );
  const frontends = frontendsOf(compiled);
  const itself = selection.all.flatMap(({ address, nodeName }) =>
    add('loop', [`${address} . ${address}`], nodeName === undefined ? undefined : onNode(nodeName)),
  );
  return [
    ...lines(selection.cluster, servedBy(frontends, 'cluster')),
    ...lines(selection.local, [
      ...servedBy(frontends, 'local'),
      ...frontends
        .filter(({ outside }) => outside === 'local')
        .map((frontend): Place => ({ frontend, slot: 'localSlot' })),
    ]),
    ...itself,
  ];
}

/** An endpoint's packets to itself start on its own node. Where that is not named, any node may be the one. */
const onNode = (name: string): Guard => ({ kind: 'node', negated: false, values: [name] });

function servedBy(frontends: readonly Frontend[], list: Frontend['list']): readonly Place[] {
  return frontends.filter((frontend) => frontend.list === list).map((frontend) => ({ frontend, slot: 'slot' }));
}

/** `10.96.0.10 . 80 . ${slot} : 10.244.1.5 . 8080`, with weight 3 `${slot:3}`. */
function elementOf({ frontend, slot }: Place, { address, port }: Endpoint, weight: number): string {
  const variable = `\${${slot}${weight === 1 ? '' : `:${weight}`}}`;
  return `${frontend.address} . ${frontend.port} . ${variable} : ${address} . ${port}`;
}
