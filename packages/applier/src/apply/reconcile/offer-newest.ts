import { overlayEndpoints } from '../endpoints/overlay-endpoints.ts';
import { messageOf } from '../../message.ts';
import { flowChange } from '../plan/flows.ts';
import type { EndpointUpdate, Generation, VersionedState } from '../../ports/journal.ts';
import { chainNames, familiesOf, familyNames, isTree, type NodeState } from '../../ports/node-state.ts';
import type { Ports } from '../../ports/ports.ts';
import { awaits, waitingFor } from '../transaction/roll-back.ts';
import { tableNames } from '@sluice/netfilter';

/**
 * Takes newer endpoints into a rollback that the kernel refused: written down first, so that the next process knows the names of their chains;
 * each further attempt then leads to the old generation with these endpoints, and where the kernel refuses them, to it without them.
 * They are not rehearsed: what the kernel refuses of one family would be refused there, too, and keep out those of the other.
 * Nothing is taken for a committed change, whose rules have no generation beside them, and nothing for generation 0, the rules before Sluice.
 *
 * Reports: `endpoints-not-taken` with the reason.
 * @param offered the bundle that arrived; only its endpoints are taken
 * @returns whether there was something to take
 * @throws KernelError when the kernel cannot be read
 */
export async function offerNewest(offered: VersionedState, ports: Ports): Promise<boolean> {
  const { journal, report, declined } = ports;
  const { open } = journal;
  const waiting = waitingFor(journal);
  if (open?.phase !== 'open' || open.from.number === 0 || !waiting) return false;
  const from = await journal.generation(open.from.number, open.from.revision);
  const to = await journal.generation(open.to.number, open.to.revision);
  if (!from || !to) return false;
  const { generation, flows: earlier } = waiting.newest ?? { generation: from, flows: [] };
  const state = overlayEndpoints(generation.state, offered.state, { declined: declined.read() });
  if (state === generation.state) return false;
  const gone = [...earlier, ...flowChange(generation.state, state).old];
  try {
    const recorded = await namesRest(state, from, to, ports);
    if (!recorded) throw new Error('the kernel still holds chains of the endpoints before them');
    const flows = await journal.openFlows();
    const { version, partial } = to;
    const update: EndpointUpdate = {
      from: state,
      to: recorded,
      version,
      partial,
      flows: { ...flows, fresh: [...flows.fresh, ...gone] },
    };
    await journal.offer(update);
  } catch (error) {
    report('endpoints-not-taken', { because: messageOf(error) });
    return false;
  }
  const id = journal.open?.update?.from;
  const newest = id && (await journal.generation(id.number, id.revision));
  if (newest) awaits({ generation: newest, flows: gone }, journal);
  return newest !== undefined;
}

/**
 * The state to write down beside the newest endpoints: the release, or earlier endpoints whose chains the kernel holds and nothing else would
 * name. In layout `tree` the form of names tells whose chains they are.
 * @param newest endpoints, which replace those that the journal has
 * @returns undefined where the chains of no single one are enough
 */
async function namesRest(
  newest: NodeState,
  from: Generation,
  to: Generation,
  { journal, kernel }: Ports,
): Promise<NodeState | undefined> {
  const update = journal.open?.update;
  if (!update || isTree(from.state)) return to.state;
  const observed = await kernel.observe(familiesOf(from.state));
  const earlier: NodeState[] = [];
  for (const { number, revision } of [update.from, update.to]) {
    const one = await journal.generation(number, revision);
    if (one) earlier.push(one.state);
  }
  const held = (state: NodeState): readonly string[] =>
    familyNames.flatMap((family) =>
      tableNames.flatMap((table) =>
        (chainNames(state)[family]?.[table] ?? []).flatMap((name) =>
          observed[family]?.[table].chains.has(name) === true ? [`${family} ${table} ${name}`] : [],
        ),
      ),
    );
  const named = new Set([from.state, to.state, newest].flatMap(held));
  const rest = earlier.flatMap(held).filter((name) => !named.has(name));
  return [to.state, ...earlier].find((state) => {
    const names = new Set(held(state));
    return rest.every((name) => names.has(name));
  });
}
