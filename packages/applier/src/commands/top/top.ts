import { limits } from '../../limits.ts';
import { exitCodes } from '../../ports/outcome.ts';
import type { SluicedConfig } from '../../config.ts';
import type { StatusReport } from '../../observe/status/status.ts';
import { type CommandError, stateError } from '../../command-error.ts';
import { daemonStatus } from '../session/daemon-status.ts';
import { answer, type CommonOptions, loadConfig, pageOf, type Terminal } from '../terminal/terminal.ts';
import { type Choice, chosen, type Counted, printTable } from './table.ts';

interface TopOptions extends CommonOptions, Choice {
  readonly once?: boolean;
}

/**
 * `sluiced top`: the Services with most connections, as the running daemon counts them; again every 2 s where the output is a terminal.
 * Exit code 1 when a named Service has none.
 * @throws CommandError where no daemon answers, or nothing is counted
 */
export async function top(options: TopOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  const { screen } = terminal;
  if (screen && !options.once && options.output !== 'json') {
    do screen.show(pageOf(printTable(await read(config, options)), screen));
    while (await screen.pause(limits.topRefreshMs));
    return exitCodes.done;
  }
  const counted = await read(config, options);
  answer(options, terminal, { kind: 'Connections', fields: counted, text: printTable(counted) });
  const isMissing = options.service !== undefined && counted.services.length === 0;
  if (isMissing)
    terminal.err(
      `${options.service} has no counted connections, or is not among the ${config.countedServices} Services with most (countedServices)\n`,
    );
  return isMissing ? exitCodes.different : exitCodes.done;
}

async function read(config: SluicedConfig, choice: Choice): Promise<Counted> {
  // A daemon of another version may leave fields out.
  const status = (await daemonStatus(config)) as Partial<StatusReport> | null;
  if (status === null) throw notRunning();
  const { node = config.node, services, imbalances, countedSeconds = null, traffic = null } = status;
  if (!services) throw notCounting();
  const shown = chosen(services, choice);
  const names = new Set(shown.map(({ service }) => service));
  const far = (imbalances ?? []).filter(({ service }) => names.has(service));
  return { node, countedSeconds, traffic, services: shown, imbalances: far };
}

const notRunning = (): CommandError =>
  stateError('Cannot show connections: no sluiced answers on this node', 'Start it: `systemctl start sluiced`');

const notCounting = (): CommandError =>
  stateError(
    'Cannot show connections: nothing counts them on this node, or was read yet',
    'In sluiced.yaml set countConnections: true (modes iptables and ipvs) and countTraffic: true, in mode nftables nftables.endpointCounters: true in the profile; the first reading is some seconds after that',
  );
