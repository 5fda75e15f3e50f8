import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { runChildren } from '../run.ts';
import { LinuxNft } from './nft-linux.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(`${tmpdir()}/sluiced-nft-`);
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** A tool that does what a shell script says. */
function nftOf(script: string): LinuxNft {
  const file = `${directory}/nft`;
  writeFileSync(file, `#!/bin/sh\ncat > /dev/null\n${script}\n`);
  chmodSync(file, 0o755);
  return new LinuxNft(file, runChildren());
}

const newer = /a newer nft writes in this network namespace; install an nft of at least that version/;

test('an nft that crashes cannot write, and every use of it says why', async () => {
  const nft = nftOf('kill -SEGV $$');
  expect(await nft.lack()).toMatchObject({
    why: expect.stringMatching(newer),
    hint: expect.stringContaining('Install'),
  });
  await expect(nft.load('')).rejects.toThrow(newer);
  await expect(nft.members('trial4')).rejects.toThrow(newer);
  await expect(nft.observe()).rejects.toThrow(newer);
});

test('an nft that wrote before is asked again, and says why it cannot write any more', async () => {
  const nft = nftOf(`[ ! -e ${directory}/crashes ] || kill -SEGV $$`);
  expect(await nft.lack()).toBeUndefined();
  writeFileSync(`${directory}/crashes`, '');
  expect(await nft.lack()).toBeUndefined();
  expect(await nft.lack(true)).toMatchObject({ why: expect.stringMatching(newer) });
});

test('an nft that the kernel refuses cannot write', async () => {
  const nft = nftOf('echo "Error: Operation not supported" >&2; exit 1');
  expect(await nft.lack()).toMatchObject({ why: expect.stringContaining('Operation not supported') });
});

test('a missing table is no error', async () => {
  const nft = nftOf('echo "Error: No such file or directory" >&2; exit 1');
  expect([await nft.observe(), await nft.members('trial4')]).toEqual([undefined, undefined]);
});

test('members of a set are read beside the comments of another program', async () => {
  const elements = '10.0.0.1 comment "a, b } : timeout c", 0.0.0.0/1 timeout 30s expires 20s';
  const nft = nftOf(`cat <<'END'\ntable inet sluice {\n\tset trial4 {\n\t\telements = { ${elements} }\n\t}\n}\nEND`);
  expect(await nft.members('trial4')).toEqual([
    { key: '10.0.0.1', isTimed: false },
    { key: '0.0.0.0/1', isTimed: true },
  ]);
});

test('a table with many clients of session affinity is read set by set from then on, without them', async () => {
  const clients = Array.from({ length: 20_001 }, (_, at) => `10.0.${at >> 8}.${at & 255} . 6 . 80 : 1:2`).join(', ');
  const table = (parts: string): string => `table inet sluice {\n${parts}}\n`;
  const map = (name: string, elements = ''): string =>
    `\tmap ${name} {\n${elements === '' ? '' : `\t\telements = { ${elements} }\n`}\t}\n`;
  const chain = '\tchain n1 {\n\t\tdrop\n\t}\n';
  const listings = {
    whole: table(`${map('aff4', clients)}${map('svc4', '10.96.0.1 . 6 . 80 : goto n1')}${chain}`),
    rules: `table inet other {\n\tchain n9 {\n\t}\n}\n${table(`${map('aff4')}${map('svc4')}${chain}`)}`,
    svc4: table(map('svc4', '10.96.0.2 . 6 . 80 : goto n1')),
  };
  for (const [name, text] of Object.entries(listings)) writeFileSync(`${directory}/${name}`, text);
  const nft = nftOf(`case "$*" in
    '-n list table inet sluice') echo whole >> ${directory}/asked; cat ${directory}/whole;;
    '-n -t list ruleset inet') cat ${directory}/rules;;
    '-n list map inet sluice svc4') cat ${directory}/svc4;;
    *) exit 1;;
  esac`);
  const seen = async (): Promise<unknown> => {
    const observed = await nft.observe();
    return observed && [[...observed.chains.keys()], [...(observed.elements.get('svc4')?.keys() ?? [])]];
  };
  expect(await seen()).toEqual([['n1'], ['10.96.0.1 . 6 . 80']]);
  expect(await seen()).toEqual([['n1'], ['10.96.0.2 . 6 . 80']]);
  expect(readFileSync(`${directory}/asked`, 'utf8')).toBe('whole\n');
});
