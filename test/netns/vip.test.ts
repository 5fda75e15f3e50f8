// @module-tag all
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { isInGuest } from '../in-guest.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { layoutPlanes, planesHere, until } from './sluiced-node.ts';
import { renderVip, vipFrontend } from './vip-cluster.ts';

/** A node tells those who announce an address whether it serves it: over HTTP and in a file, within two seconds of what happens. */

withNode();

const path = (): string => `${node.directory}/vip/${vipFrontend}`;

/** Asks four times a second, over HTTP and by the script, and writes what changed and when. */
const asker = (): string => `
  const { get } = require('node:http');
  const { spawnSync } = require('node:child_process');
  const { appendFileSync } = require('node:fs');
  let last = '';
  const note = (http) => {
    const file = spawnSync('sh', ['${script}', '${vipFrontend}'], { env: { ...process.env, SLUICE_VIP_DIRECTORY: '${node.directory}/vip' } }).status;
    const now = http + ' ' + file;
    if (now !== last) appendFileSync('${node.directory}/answers', Date.now() + ' ' + now + '\\n');
    last = now;
  };
  setInterval(() => {
    const one = get({ host: '127.0.0.1', port: 10276, path: '/vip/${vipFrontend}', agent: false, timeout: 1_000 }, (answer) => {
      let body = '';
      answer.on('data', (part) => (body += part));
      answer.on('end', () => note(answer.statusCode + ' ' + body.split(':')[0]));
    });
    one.on('timeout', () => one.destroy());
    one.on('error', () => note('none -'));
  }, 250);
`;

const script = new URL('../../integrations/vip/sluice-vip', import.meta.url).pathname;

/** The changes of the answer since a time, each with the milliseconds until then. */
function answersSince(
  sinceMs: number,
): readonly { readonly ms: number; readonly http: string; readonly code: string; readonly file: string }[] {
  const text = existsSync(`${node.directory}/answers`) ? readFileSync(`${node.directory}/answers`, 'utf8') : '';
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.split(' '))
    .map(([at, http = '', code = '', file = '']) => ({ ms: Number(at) - sinceMs, http, code, file }))
    .filter(({ ms }) => ms >= 0);
}

/** What a trouble makes of the answers: both forms say no. @returns how long that took since it was there */
async function withdrawn(cause: () => Promise<unknown> | void, code: RegExp): Promise<number> {
  const beganMs = Date.now();
  await cause();
  const sinceMs = Date.now();
  const found = await until(`${code.source}: both forms say no`, async () =>
    answersSince(beganMs).find((one) => one.http !== '200' && code.test(one.code) && one.file !== '0'),
  );
  return Math.max(0, beganMs + found.ms - sinceMs);
}

const back = (sinceMs: number): Promise<unknown> =>
  until('both forms say yes', async () => {
    const last = answersSince(sinceMs).at(-1);
    return last?.http === '200' && last.file === '0';
  });

const planes = isInGuest ? planesHere.map((plane) => ({ ...plane, layout: 'tree' })) : layoutPlanes;

for (const plane of planes)
  test(`mode ${plane.mode}, layout ${plane.layout}, store ${plane.backend}: says yes while it serves, and no within 2 s`, {
    timeout: 300_000,
  }, async (context) => {
    needBackend(context, plane.backend);
    const layout = plane.layout === 'flat' ? 'layout: flat\n' : '';
    node.writeConfig(
      plane.backend,
      `${layout}vip: {frontends: ['${vipFrontend}'], directory: ${node.directory}/vip}\n`,
    );
    renderVip(node, plane.mode, ['10.244.1.5']);
    let daemon = node.start();
    writeFileSync(`${node.directory}/asker.cjs`, asker());
    node.startProgram([process.execPath, `${node.directory}/asker.cjs`]);
    await back(0);
    const took: Record<string, number> = {};

    took['last endpoint'] = await withdrawn(() => renderVip(node, plane.mode, []), /^NO_ENDPOINT$/);
    let sinceMs = Date.now();
    renderVip(node, plane.mode, ['10.244.1.5', '10.244.1.6']);
    await back(sinceMs);

    took['drain'] = await withdrawn(() => node.sluiced('drain'), /^NODE_DRAINS$/);
    sinceMs = Date.now();
    await node.sluiced('undrain');
    await back(sinceMs);

    // Events of nf_tables tell at once; other stores are read every few seconds, and repaired right after.
    if (plane.backend === 'nft') {
      const flush = plane.mode === 'nftables' ? 'nft delete table inet sluice' : 'iptables-nft -t nat -F';
      const flusher = node.startProgram(['sh', '-c', `for i in 1 2 3; do ${flush} 2>/dev/null; sleep 0.2; done`]);
      took['flushes'] = await withdrawn(() => undefined, /^(?:RULES_CHANGED|ALARM)$/);
      await until('the flushes end', async () => flusher.exitCode !== null);
      sinceMs = Date.now();
      await until('the rules are back', async () => answersSince(sinceMs - 60_000).at(-1)?.http === '200');
    }

    took['dead daemon'] = await withdrawn(() => node.kill(daemon).then(() => undefined), /^-$/);
    sinceMs = Date.now();
    daemon = node.start();
    await back(sinceMs);

    sinceMs = Date.now();
    await node.kill(daemon, 'SIGTERM');
    await until('the file goes with the daemon', async () => !existsSync(path()));
    process.stdout.write(`until no, ms: ${JSON.stringify(took)}\n`);
    expect(Object.entries(took).filter(([, ms]) => ms > 2_000)).toEqual([]);
  });
