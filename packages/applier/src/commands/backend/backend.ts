import { document } from '@sluice/cli';
import { runChildren } from '../../kernel/run.ts';
import { pinnedStore } from '../../state/peek.ts';
import {
  type RuleStore,
  detectTools,
  judgeStore,
  otherBackend,
  type StoreDoubt,
  chooseStore,
  type StoreUse,
  readStoreUse,
} from '../../kernel/tools.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { familiesOf } from '../../ports/node-state.ts';
import { moveStore } from '../../apply/recovery/move-store.ts';
import { openSession, type NodeSession } from '../session/session.ts';
import { CommandError, commandError } from '../../command-error.ts';
import { answer, type CommonOptions, loadConfig, type Terminal } from '../terminal/terminal.ts';

/**
 * `sluiced backend [nft|legacy]`: shows the rule store in use and the foreign rules in both, or moves our rules to the other store, with
 * the daemon stopped. Exit code 1 when the store in use looks wrong.
 */
export async function backend(wanted: string | undefined, options: CommonOptions, terminal: Terminal): Promise<number> {
  if (wanted === undefined) return show(options, terminal);
  if (wanted !== 'nft' && wanted !== 'legacy')
    throw invalid(`Cannot move rules to ${JSON.stringify(wanted)}: not a rule store`, 'Use nft or legacy');
  return move(wanted, options, terminal);
}

/** Of the document of `backend -o json`. */
interface RuleStores {
  /** The store that holds the rules, or would hold them. */
  readonly backend: RuleStore;
  readonly stores: Readonly<Record<RuleStore, StoreUse>>;
  /** Why the store in use looks wrong; null when it does not. */
  readonly doubt: StoreDoubt | null;
}

async function show(options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  const run = runChildren();
  const { backend: used } = await detectTools(chooseStore(config.backend, pinnedStore(config.state)), run);
  const [here, there] = [await readStoreUse(used, run, true), await readStoreUse(otherBackend(used), run)];
  const found: RuleStores = {
    backend: used,
    stores: used === 'nft' ? { nft: here, legacy: there } : { nft: there, legacy: here },
    doubt: judgeStore(used, here, there) ?? null,
  };
  if (options.output === 'json') terminal.out(document('RuleStore', { node: config.node, ...found }));
  else for (const line of printStores(found)) terminal.out(`${line}\n`);
  return found.doubt === null ? exitCodes.done : exitCodes.different;
}

function printStores({ backend: used, stores, doubt }: RuleStores): readonly string[] {
  const lines = [used, otherBackend(used)].map((name) => {
    const { rules, isKubelets } = stores[name];
    const kubelet = isKubelets ? ', including rules of the kubelet' : '';
    return `${name.padEnd(8)}${name === used ? 'in use, ' : ''}${rules} foreign rules${kubelet}`;
  });
  return doubt === null ? lines : [...lines, doubt.message, `    ${doubt.hint}`];
}

async function move(wanted: RuleStore, options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  const printMoved = (moved: boolean, text: string): void =>
    answer(options, terminal, { kind: 'RuleStoreMove', fields: { node: config.node, backend: wanted, moved }, text });
  // The journal knows the store, whatever the config has by now.
  using session = await openSession({ ...config, backend: 'auto' }, 'change', () => undefined);
  const { backend: from, journal } = session;
  if (from === wanted && (await isOnlyIn(wanted, session))) {
    printMoved(false, `same: the rules are in ${wanted}\n`);
    return exitCodes.done;
  }
  mustBeSettled(session);
  const old = otherBackend(wanted);
  await moveStore(await session.portsOf(old), await session.portsOf(wanted), () => journal.moved(wanted));
  printMoved(true, `the rules are in ${wanted}; ${old} no longer has any\n`);
  if (config.backend !== 'auto' && config.backend !== wanted)
    terminal.err(
      `warning: sluiced.yaml has backend: ${config.backend}; set it to ${wanted} or auto, or sluiced will not start\n`,
    );
  return exitCodes.done;
}

/** Whether an earlier move has finished. */
async function isOnlyIn(wanted: RuleStore, session: NodeSession): Promise<boolean> {
  const { active } = session.journal;
  if (!active) return true;
  const { kernel } = await session.portsOf(otherBackend(wanted));
  const observed = await kernel.observe(familiesOf(active.state));
  return familiesOf(active.state).every((family) =>
    (['nat', 'filter'] as const).every((table) =>
      [...(observed[family]?.[table].chains.keys() ?? [])].every(
        (name) => !active.state.families[family]?.[table].chains.has(name),
      ),
    ),
  );
}

function mustBeSettled({ journal }: NodeSession): void {
  if (journal.halted === undefined && !journal.open && journal.active) return;
  const why =
    journal.halted !== undefined
      ? 'the node is halted'
      : journal.open
        ? 'a change is open'
        : 'no generation is confirmed';
  const hint = journal.active
    ? 'See `sluiced status`; finish the open change with `sluiced apply` or `sluiced rollback`'
    : 'Set `backend` in sluiced.yaml: the first bundle goes there';
  throw invalid(`Cannot move the rules: ${why}`, hint);
}

function invalid(message: string, hint: string): CommandError {
  return commandError('NODE_STATE_INVALID', message, hint);
}
