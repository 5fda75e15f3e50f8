import { compareText, namesNear, type PlaneName, serviceKeyOf, serviceOfKey, tableNames } from '@sluice/netfilter';
import { type CommandError, commandError, stateError } from '../../command-error.ts';
import type { SluicedConfig } from '../../config.ts';
import { peek } from '../../state/peek.ts';
import { exitCodes } from '../../ports/outcome.ts';
import type { Generation } from '../../ports/journal.ts';
import { holds, isNowhere, type ServiceView, viewService } from './service-view.ts';
import { familiesOf, type NodeState, tableOf } from '../../ports/node-state.ts';
import { nodePlaneOf, observeOtherPlanes, planeNamed } from '../../apply/planes/planes.ts';
import type { ServiceLine } from './side-by-side.ts';
import { readServiceFiles, type ServiceFiles } from './service-files.ts';
import { openSession, type NodeSession } from '../session/session.ts';
import { answer, type CommonOptions, loadConfig, mustBeRoot, type Terminal } from '../terminal/terminal.ts';

/** The document of `sluiced show -o json`. */
interface ServiceDocument extends ServiceView {
  readonly kind: 'NodeService';
  readonly node: string;
  readonly service: string;
  readonly generation: number;
  readonly version: string;
  readonly layout: PlaneName;
  readonly backend: string;
  /** The version of a change in progress: the kernel may hold its rules, too. */
  readonly open: string | null;
  /** Whether the kernel has exactly the generation's rules of the Service. */
  readonly holds: boolean;
  readonly bundle: BundleSide;
}

/** The bundle directory, and whether its files of the Service are those of the generation. */
interface BundleSide {
  readonly directory: string;
  readonly version: string | null;
  readonly isActive: boolean;
  readonly files: ServiceFiles['files'];
  /** Why there are no files. */
  readonly because?: string;
}

/**
 * `sluiced show SERVICE`: the rules of a Service in the kernel, compared with the active generation, and its files. Exit code 0 when the
 * kernel matches, 1 when it differs or the Service does not exist.
 */
export async function show(service: string, options: CommonOptions, terminal: Terminal): Promise<number> {
  if (!/^[a-z0-9-]+\/[a-z0-9-]+$/.test(service))
    throw commandError(
      'INPUT_UNREADABLE',
      `Cannot show ${JSON.stringify(service)}: not of the form namespace/name`,
      'Pass namespace/name, such as shop/web; `sluice explain` finds the Service of a chain',
    );
  const config = loadConfig(options);
  mustBeRoot(
    'Cannot read the rules of the kernel: only root can',
    'Run the command with sudo; to print the rules of a bundle on another machine, run `sluice show --service NS/NAME --node NODE`',
  );
  const files = await readServiceFiles(config, service);
  const document = await documentOf(config, service, files);
  const { kind, ...fields } = document;
  answer(options, terminal, { kind, fields, text: printDocument(document) });
  return document.holds ? exitCodes.done : exitCodes.different;
}

/** Attempts to read the kernel when the daemon changes something meanwhile. */
const attemptsMax = 5;

type FoundFiles = Awaited<ReturnType<typeof readServiceFiles>>;

async function documentOf(config: SluicedConfig, service: string, files: FoundFiles): Promise<ServiceDocument> {
  for (let attempt = 1; ; attempt++) {
    // The journal knows the store, whatever the config has by now.
    using session = await openSession({ ...config, backend: 'auto' }, 'look', () => undefined);
    const document = await look(config, service, files, session);
    const after = peek(config.state)?.current;
    const isSame = after?.manifest === session.journal.record.current?.manifest;
    if (isSame || attempt >= attemptsMax) return document;
  }
}

async function look(
  config: SluicedConfig,
  service: string,
  files: FoundFiles,
  session: NodeSession,
): Promise<ServiceDocument> {
  const { journal, backend } = session;
  const { active } = journal;
  if (!active)
    throw stateError(
      `Cannot show ${service}: ${journal.halted ?? 'this node has no active generation'}`,
      'See `sluiced status`',
    );
  const { kernel } = await session.portsOf(backend);
  const known = typeof files === 'object' ? files : undefined;
  const unnamed = known ?? { servers: new Set<string>(), rules: new Set<string>() };
  const observed = await kernel.observe(familiesOf(active.state), active.state);
  const otherPlanes = await observeOtherPlanes(active.state, kernel);
  const view = viewService(service, active.state, { observed, ...otherPlanes, draining: journal.draining }, unnamed);
  if (isNowhere(view)) throw noService(service, active, files);
  return {
    kind: 'NodeService',
    node: config.node,
    service,
    generation: active.number,
    version: active.version,
    layout: nodePlaneOf(active.state).name,
    backend,
    open: journal.open?.version ?? null,
    holds: holds(view),
    ...view,
    bundle: {
      directory: config.bundle,
      version: known?.version ?? null,
      isActive: known?.version === active.version,
      files: known?.files ?? [],
      ...(known ? {} : { because: typeof files === 'string' ? files : 'there is no bundle' }),
    },
  };
}

const signs = { both: ' ', kernel: '+', generation: '-', draining: '~' } as const satisfies Record<
  ServiceLine['in'],
  string
>;

function printDocument(document: ServiceDocument): string {
  const { service, node, generation, version, layout, backend, open, rules, virtualServers, frontends, bundle } =
    document;
  const { label, hasOwnTable } = planeNamed(layout);
  const parts = [
    `${service} on ${node}: generation ${generation}, version ${version}, ${label}${hasOwnTable ? '' : `, rule store ${backend}`}\n`,
    open === null ? '' : `a change to version ${open} is in progress: the kernel may hold its rules, too\n`,
    ...bundle.files.map(
      ({ path, text }) => `\n# ${path}${bundle.isActive ? '' : ` (version ${bundle.version})`}\n${text}`,
    ),
    ...rules.map(
      ({ family, table, lines, isReordered }) =>
        `\n# kernel, ${family} ${table}${isReordered ? ': IN ANOTHER ORDER, or more than once' : ''}\n${printLines(lines)}`,
    ),
    virtualServers.length === 0 ? '' : `\n# kernel, virtual servers\n${printLines(virtualServers)}`,
    frontends.length === 0 ? '' : `\n# kernel, frontends of table inet sluice\n${printLines(frontends)}`,
    `\n${verdict(document)}\n`,
  ];
  return parts.join('');
}

const printLines = (lines: readonly ServiceLine[]): string =>
  lines.map((line) => `${signs[line.in]} ${line.text}\n`).join('');

function verdict({ holds: isHeld, generation, bundle }: ServiceDocument): string {
  const kernel = isHeld
    ? `The kernel matches generation ${generation}.`
    : `The kernel DIFFERS from generation ${generation}: lines only in the kernel begin with +, lines only in the generation with -.`;
  if (bundle.because !== undefined) return `${kernel}\nNo files of ${bundle.directory} are shown: ${bundle.because}.`;
  if (bundle.isActive) return kernel;
  return `${kernel}\n${bundle.directory} holds version ${bundle.version}, which is not active.`;
}

function noService(service: string, { number, state }: Generation, files: FoundFiles): CommandError {
  const plane = nodePlaneOf(state);
  const names = servicesOf(state);
  const unread = typeof files === 'string' ? files : 'the bundle directory has no file of it';
  return commandError(
    'INPUT_EMPTY',
    `Cannot show ${service}: not found in generation ${number} or in the kernel`,
    plane.namesServices
      ? `The generation has ${namesNear(service, names) || 'no Service'}; headless and ExternalName Services have no rules`
      : `In mode ${plane.mode} the files of the bundle tell what belongs to a Service, and ${unread}`,
    exitCodes.different,
  );
}

/** The Services whose keys are in the rules of a state. */
function servicesOf(state: NodeState): readonly string[] {
  const keys = familiesOf(state).flatMap((family) =>
    tableNames.flatMap((table) =>
      [...tableOf(state, family, table).chains.values()].flatMap((rules) =>
        rules.flatMap((rule) => serviceKeyOf(rule) ?? []),
      ),
    ),
  );
  return [...new Set(keys.map(serviceOfKey))].toSorted(compareText);
}
