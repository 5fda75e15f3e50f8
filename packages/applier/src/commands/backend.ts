import { runChildren } from '../kernel/run.ts';
import { pinnedStore } from '../journal/peek.ts';
import {
  type Backend,
  detectTools,
  doubtOf,
  otherBackend,
  type StoreDoubt,
  storeOf,
  type StoreUse,
  useOf,
} from '../kernel/tools.ts';
import { exitCodes } from '../rollout/outcome.ts';
import { familiesOf } from '../rollout/state.ts';
import { moveStore } from '../transaction/move-store.ts';
import { openSession, type Session } from './session.ts';
import { CommandError } from '../command-error.ts';
import { answer, type CommonOptions, loadConfig, type Terminal } from './terminal.ts';

/**
 * `sluiced backend [nft|legacy]`: says which rule store the rules are in and what others have in both, or moves them to the other one.
 * The daemon must be stopped for that. Exit code 1 when something speaks against the store in use.
 */
export async function backend(wanted: string | undefined, options: CommonOptions, terminal: Terminal): Promise<number> {
  if (wanted === undefined) return show(options, terminal);
  if (wanted !== 'nft' && wanted !== 'legacy')
    throw invalid(`Cannot move rules to ${JSON.stringify(wanted)}: there is no such rule store`, 'Name nft or legacy');
  return move(wanted, options, terminal);
}

/** What `backend -o json` prints. */
interface BackendDocument {
  readonly apiVersion: 'sluice.dev/v1alpha1';
  readonly kind: 'RuleStore';
  readonly node: string;
  /** The store that the rules are in, or would go to. */
  readonly backend: Backend;
  readonly stores: Readonly<Record<Backend, StoreUse>>;
  /** What speaks against it; null when nothing does. */
  readonly doubt: StoreDoubt | null;
}

async function show(options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  const run = runChildren();
  const { backend: used } = await detectTools(storeOf(config.backend, pinnedStore(config.state)), run);
  const [here, there] = [await useOf(used, run, true), await useOf(otherBackend(used), run)];
  const document: BackendDocument = {
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'RuleStore',
    node: config.node,
    backend: used,
    stores: used === 'nft' ? { nft: here, legacy: there } : { nft: there, legacy: here },
    doubt: doubtOf(used, here, there) ?? null,
  };
  if (options.output === 'json') terminal.out(`${JSON.stringify(document, undefined, 2)}\n`);
  else for (const line of printStores(document)) terminal.out(`${line}\n`);
  return document.doubt === null ? exitCodes.done : exitCodes.different;
}

function printStores({ backend: used, stores, doubt }: BackendDocument): readonly string[] {
  const lines = [used, otherBackend(used)].map((name) => {
    const { rules, isKubelets } = stores[name];
    const kubelet = isKubelets ? ', with marks of the kubelet' : '';
    return `${name.padEnd(8)}${name === used ? 'in use, ' : ''}${rules} foreign rules${kubelet}`;
  });
  return doubt === null ? lines : [...lines, doubt.message, `    ${doubt.hint}`];
}

async function move(wanted: Backend, options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  const tellMoved = (moved: boolean, text: string): void =>
    answer(options, terminal, { kind: 'RuleStoreMove', fields: { node: config.node, backend: wanted, moved }, text });
  // Whatever the config says by now: the rules are where the journal says.
  const session = await openSession({ ...config, backend: 'auto' }, 'change', () => undefined);
  try {
    const { backend: from, journal } = session;
    if (from === wanted && (await isOnlyIn(wanted, session))) {
      tellMoved(false, `same: the rules are in ${wanted}\n`);
      return exitCodes.done;
    }
    mustBeSettled(session);
    const old = otherBackend(wanted);
    await moveStore(await session.portsOf(old), await session.portsOf(wanted), () => journal.moved(wanted));
    tellMoved(true, `the rules are in ${wanted}, and ${old} has none of them any more\n`);
    if (config.backend !== 'auto' && config.backend !== wanted)
      terminal.err(
        `warning: sluiced.yaml says backend: ${config.backend}; set it to ${wanted} or auto, or sluiced will not start\n`,
      );
    return exitCodes.done;
  } finally {
    session.close();
  }
}

/** Whether a move before this one came to its end. */
async function isOnlyIn(wanted: Backend, session: Session): Promise<boolean> {
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

function mustBeSettled({ journal }: Session): void {
  if (journal.halted === undefined && !journal.open && journal.active) return;
  const why =
    journal.halted !== undefined ? 'the node is held' : journal.open ? 'a change is open' : 'nothing was confirmed yet';
  const hint = journal.active
    ? '`sluiced status` says more; `sluiced apply` or `sluiced rollback` end what is open'
    : 'Set `backend` in sluiced.yaml: the first bundle goes there';
  throw invalid(`Cannot move the rules: ${why}`, hint);
}

function invalid(message: string, hint: string): CommandError {
  return new CommandError([{ code: 'NODE_STATE_INVALID', level: 'error', message, hint }]);
}
