// @module-tag all
import { afterEach, describe, expect, test } from 'vitest';
import { Clients } from '../../netns/clients.ts';
import { until } from '../../netns/until.ts';
import { AdoptingNode } from '../../parity/adopting-node.ts';
import { needPrograms } from '../../parity/programs.ts';
import { SteadyClient } from '../../parity/steady-client.ts';

/**
 * The real kube-proxy in mode ipvs, which needs a kernel with its modules, moves to Sluice and back under load: observed, compared and adopted
 * by the programs themselves, with nothing accepted. The clients run on the node itself, where an address of a Service is one of the node's own.
 */

const programs = needPrograms();
let adopting: AdoptingNode | undefined;
afterEach(async () => {
  await adopting?.close();
  adopting = undefined;
});

/** What `sluiced adopt -o json` says of the window. */
interface Adoption {
  readonly result: string;
  readonly ipvs: { readonly ended: number; readonly waitedMs: number; readonly removedInMs: number } | null;
}

/** Emulation is slow: so many connections take several seconds. */
const servedMin = 20;

describe.each(['iptables', 'nftables'] as const)('kube-proxy in mode ipvs, Sluice in mode %s', (to) => {
  test('there and back under load, no new connection is lost', { timeout: 1_500_000 }, async () => {
    adopting = await AdoptingNode.start(programs(), 'ipvs', 'nft');
    const { node } = adopting;
    adopting.configure('nft');
    await adopting.render(to);
    const clients = await Clients.start(node);
    const steady = await SteadyClient.start(node);
    const goOn = async (what: string): Promise<void> => {
      const [served, answers] = [clients.served(), steady.answers()];
      await until(what, async () => clients.served() > served + servedMin && steady.answers() > answers + 3, 240_000);
    };
    await goOn('kube-proxy serves');

    const there = await node.sluiced('adopt', '--manifest', node.manifest, '-o', 'json');
    expect(there, `adopt: ${there.stderr}`).toMatchObject({ exitCode: 0 });
    const { result, ipvs } = JSON.parse(there.stdout) as Adoption;
    expect({ result, hasWindow: ipvs !== null }).toEqual({ result: 'adopted', hasWindow: true });
    const left = await node.tool([
      'sh',
      '-c',
      'ipvsadm -Sn; ipset list -n | grep -v ^SLUICE; ip -br link | grep kube-; true',
    ]);
    expect(left.trim()).toBe('');
    await goOn('Sluice alone serves');

    const back = await node.sluiced('adopt', '--undo', '--wait', '300');
    expect(back, `undo: ${back.stderr}`).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('undone: kube-proxy serves'),
    });
    expect(await node.proxies()).toBe(1);
    await goOn('kube-proxy alone serves');

    const { ended = 0, removedInMs = 0 } = ipvs ?? {};
    const window = `${ended} open at the removal, which took ${removedInMs} ms`;
    process.stdout.write(
      `guest: adopt ipvs → ${to} and back: ${clients.lost().join(', ') || 'none'} lost of ${clients.served()}; ${window}; UDP without an answer for ${steady.longestSilenceMs()} ms\n`,
    );
    expect(clients.lost()).toEqual([]);
  });
});
