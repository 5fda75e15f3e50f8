import { writeFile } from 'node:fs/promises';
import { gzipSync } from 'node:zlib';
import { printTar } from '@sluice/bundle';
import { type FindingsFormat, printFindings, version } from '@sluice/cli';
import { diagnosisFindings, type ExaminedTarget, printDiagnosis, readTarget, refusal } from '@sluice/netfilter';
import { commandError } from '../../command-error.ts';
import type { SluicedConfig } from '../../config.ts';
import { diagnoseNode, unsent } from '../../diagnose/doctor/checks/diagnose-node.ts';
import type { Facts, SluicedFacts } from '../../diagnose/doctor/facts.ts';
import { archiveFiles } from '../../diagnose/doctor/redact.ts';
import { examine } from '../../diagnose/examine/examine.ts';
import { type ArrivedFacts, arrivedFacts, leftOutOf } from '../../diagnose/examine/node.ts';
import { SavedTables } from '../../diagnose/examine/tables.ts';
import type { Arrival } from '../../inbox/inbox.ts';
import type { Run } from '../../kernel/command.ts';
import { runChildren } from '../../kernel/run.ts';
import { messageOf } from '../../message.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { peek } from '../../state/peek.ts';
import type { NodeRecord } from '../../state/record.ts';
import { controlStatus } from '../session/daemon-status.ts';
import { lookAt, liveInboxOf } from '../session/gate.ts';
import { openSession } from '../session/session.ts';
import { answer, type CommonOptions, loadConfig, mustBeRoot, type Terminal, writing } from '../terminal/terminal.ts';

interface DoctorOptions extends CommonOptions {
  readonly output?: FindingsFormat | 'json';
  /** Sends packets of its own. */
  readonly live?: boolean;
  /** Where a redacted archive goes. */
  readonly bundle?: string;
}

/**
 * `sluiced doctor [SERVICE|ADDRESS]`: the most likely cause why a Service does not answer, its evidence and one command. Exit code 1 when
 * a cause is found.
 */
export async function doctor(text: string | undefined, options: DoctorOptions, terminal: Terminal): Promise<number> {
  const target = readTarget(text);
  if (target === undefined)
    throw commandError(
      'USAGE_INVALID',
      `Cannot examine ${JSON.stringify(text ?? '')}: neither namespace/name nor an address`,
      'Pass namespace/name, such as shop/web, or an address, such as 10.96.0.10:80 or [fd00::10]:80',
    );
  const config = loadConfig(options);
  mustBeRoot(
    'Cannot examine this node: only root can read its rules',
    'Run it with sudo; it changes nothing. `sluice doctor -f SNAPSHOT` examines the part that needs no node',
  );
  const facts = await gatherFacts(config, target, options.live === true);
  const diagnosis = diagnoseNode(target, facts);
  const unseen = unsent(target, diagnosis, facts);
  if (options.bundle !== undefined) await writeArchive(options.bundle, archiveFiles(diagnosis, facts));
  const { output = 'text' } = options;
  const unread = [...diagnosis.unread, ...(unseen ? [unseen] : [])];
  answer(options, terminal, {
    kind: 'Diagnosis',
    fields: { node: config.node, ...diagnosis, cause: diagnosis.cause ?? null, unseen },
    text:
      output === 'text' || output === 'json'
        ? printDiagnosis(diagnosis) + (unseen ? `not seen ${unseen.what}: ${unseen.because}\n` : '')
        : printFindings(diagnosisFindings({ name: 'sluiced', version }, { ...diagnosis, unread }), output),
  });
  return diagnosis.cause ? exitCodes.different : exitCodes.done;
}

/** A new file that only root can read: what is redacted still describes a node. */
function writeArchive(path: string, files: ReadonlyMap<string, string>): Promise<void> {
  const bytes = new Map([...files].map(([name, text]) => [name, Buffer.from(text)]));
  return writing(path, () => writeFile(path, gzipSync(printTar(bytes)), { flag: 'wx', mode: 0o600 }));
}

async function gatherFacts(config: SluicedConfig, target: ExaminedTarget, isLive: boolean): Promise<Facts> {
  const saved = new SavedTables();
  const keeping = (run: Run): Run => saved.keeping(run);
  using session = await openSession({ ...config, backend: 'auto' }, 'look', () => undefined, undefined, keeping);
  const { journal, backend, reconciler } = session;
  // Tools read the kernel while this process reads the bundle.
  const differences = reconciler.differences();
  void differences.catch(() => undefined);
  const record = peek(config.state);
  const arrived = arrivedFacts(await bundleOf(config), config, record);
  return await examine(
    {
      config,
      target,
      sluiced: await sluicedFacts(config, record, await withLiveFacts(config, arrived)),
      active: journal.active?.state,
      store: backend,
      isLive,
      nodeAddresses: arrived.nodeAddresses,
      differences: () => differences,
      saved,
      cannotWrite: async () => {
        const lack = await session.nftLack();
        return lack ? `${lack.why}. ${lack.hint}` : '';
      },
    },
    runChildren(),
  );
}

/** An unreadable directory is one that the daemon refuses. */
async function bundleOf(config: SluicedConfig): Promise<Arrival> {
  try {
    return await lookAt(config, false);
  } catch (error) {
    return {
      kind: 'refused',
      problems: [refusal('BUNDLE_INVALID', messageOf(error), 'Check the path and its permissions')],
    };
  }
}

/** Live endpoints leave out Services, too: those that the release lacks. */
async function withLiveFacts(config: SluicedConfig, arrived: ArrivedFacts): Promise<ArrivedFacts> {
  const { live } = config.endpoints;
  if (!live) return arrived;
  const found = await liveInboxOf(config)?.look();
  return { ...arrived, leftOut: new Map([...leftOutOf(found, live.directory), ...arrived.leftOut]) };
}

async function sluicedFacts(
  config: SluicedConfig,
  record: NodeRecord | undefined,
  { bundle, leftOut, releaseWarnings }: ArrivedFacts,
): Promise<SluicedFacts> {
  const running = await controlStatus(config.state);
  return {
    generation: record?.current?.number,
    version: record?.current?.version,
    halted: record?.held ?? undefined,
    open: record?.open?.version,
    quarantinedServices: record?.quarantinedServices ?? [],
    bundle,
    leftOut,
    releaseWarnings,
    isDaemonRunning: running !== undefined,
    alarms: running?.report?.alarms ?? {},
    liveNote: running?.report?.notes?.['LIVE_ENDPOINTS'] ?? '',
  };
}
