import { failed } from '../failure.ts';
import type { ServerStatistics } from '../../apply/counts/of-servers.ts';
import type { Run } from '../command.ts';

/**
 * Reads the statistics of all real servers. They need no configuration: IPVS always counts.
 * @throws KernelError when ipvsadm fails
 */
export async function readServerStatistics(ipvsadm: string, run: Run): Promise<readonly ServerStatistics[]> {
  const ask = async (args: readonly string[]): Promise<string> => {
    const ran = await run({ file: ipvsadm, args });
    if (ran.exitCode !== 0) throw failed(`${ipvsadm} ${args.join(' ')}`, ran);
    return ran.stdout;
  };
  // Without --exact it prints 12M for twelve million.
  return readStatistics(await ask(['-L', '-n']), await ask(['-L', '-n', '--stats', '--exact']));
}

const virtualForm = /^(TCP|UDP|SCTP) +(\S+) /;
/** `-> 10.244.1.5:8080 Masq 1 3 0`: forwarding, weight, active and inactive connections. */
const realForm = /^ +-> (\S+) +\S+ +\d+ +(\d+) +(\d+)/;
/** `-> 10.244.1.5:8080 5 30 20 2000 3000`: connections, packets in and out, bytes in and out. */
const statisticsForm = /^ +-> (\S+) +(\d+) +\d+ +\d+ +(\d+) +(\d+)/;

/**
 * Joins both listings of `ipvsadm`. A server that one of them has alone was added or removed in between, and is left out.
 * @param listing of `-L -n` @param statistics of `-L -n --stats --exact`
 */
export function readStatistics(listing: string, statistics: string): readonly ServerStatistics[] {
  const live = new Map<string, number>();
  for (const { server, endpoint, numbers } of rowsOf(listing, realForm)) {
    const [active = 0, inactive = 0] = numbers;
    // Connections of UDP never become active.
    live.set(`${server} ${endpoint}`, server.endsWith('/UDP') ? active + inactive : active);
  }
  return rowsOf(statistics, statisticsForm).flatMap(({ server, endpoint, numbers }): ServerStatistics[] => {
    const [connections = 0, bytesIn = 0, bytesOut = 0] = numbers;
    const own = live.get(`${server} ${endpoint}`);
    return own === undefined ? [] : [{ server, endpoint, connections, live: own, bytes: bytesIn + bytesOut }];
  });
}

interface Row {
  readonly server: string;
  readonly endpoint: string;
  readonly numbers: readonly number[];
}

function rowsOf(text: string, form: RegExp): readonly Row[] {
  const rows: Row[] = [];
  let server: string | undefined;
  for (const line of text.split('\n')) {
    const virtual = virtualForm.exec(line);
    const [, endpoint, ...numbers] = form.exec(line) ?? [];
    if (virtual) server = `${virtual[2] ?? ''}/${virtual[1] ?? ''}`;
    else if (line.startsWith('FWM')) server = undefined;
    else if (server !== undefined && endpoint !== undefined)
      rows.push({ server, endpoint, numbers: numbers.map(Number) });
  }
  return rows;
}
