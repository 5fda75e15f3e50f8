// @module-tag test
import { beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { kinds, web } from './sluiced-node.ts';

/** `sluiced show` on the real kernel. */

withNode();

interface ShowDocument {
  readonly holds: boolean;
  readonly layout: string;
  readonly rules: readonly {
    readonly family: string;
    readonly table: string;
    readonly lines: readonly { readonly text: string; readonly in: string }[];
  }[];
  readonly bundle: { readonly isActive: boolean; readonly files: readonly { readonly path: string }[] };
}

const shown = async (): Promise<ShowDocument> =>
  JSON.parse((await node.sluiced('show', 'shop/web', '-o', 'json')).stdout) as ShowDocument;
/** The lines of a Service that an operator finds: rules with its key, and the chains that they refer to. */
const linesIn = ({ rules }: ShowDocument): readonly string[] =>
  rules.flatMap(({ lines }) => lines.map(({ text }) => text));

describe.each(oneInTurn(kinds, 'show'))('on $backend in layout $layout', ({ backend, layout }) => {
  beforeEach((context) => needBackend(context, backend));
  beforeEach(async () => {
    node.writeConfig(backend, `layout: ${layout}\n`);
    writeBundle(`${node.directory}/rendered`, web(1, 2));
  });

  test('prints the chains and rules in the kernel, and the files of the bundle', async () => {
    expect(await node.sluiced('show', 'shop/web')).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('no active generation'),
    });
    await node.apply();
    const kernel = await node.rules(backend);
    const result = await node.sluiced('show', 'shop/web');
    expect(result).toMatchObject({ exitCode: 0, stderr: '' });
    const printed = result.stdout.split('\n').filter((line) => line.startsWith('  '));
    const ofChains = printed
      .filter((line) => line.startsWith('  :'))
      .map((line) => line.slice(3).split(' ')[0] as string);
    const expected = kernel
      .split('\n')
      .filter((line) => line.includes('"shop/web') || ofChains.some((name) => line.startsWith(`-A ${name} `)));
    expect(
      printed
        .filter((line) => line.startsWith('  -A '))
        .map((line) => line.slice(2))
        .toSorted(),
    ).toEqual(expected.toSorted());
    expect(new Set(ofChains.map((name) => name.slice(0, 8)))).toEqual(
      new Set(layout === 'tree' ? ['SLU-SVC-'] : ['KUBE-SVC', 'KUBE-SEP']),
    );
    expect(result.stdout).toMatch(/^# .*\/services\/shop\/web\.iptables\n\*nat\n:KUBE-SVC-/m);
    expect(result.stdout).toMatch(/^# .*\/services\/shop\/web\.ip6tables\n\*nat\n:KUBE-SVC-/m);
    expect(result.stdout).toContain('--to-destination 10.244.0.3:8080');
    expect(result.stdout).not.toContain('shop/cart');
    expect(result.stdout).toMatch(/\nThe kernel matches generation 1\.$/);
    const document = await shown();
    expect(document).toMatchObject({ holds: true, layout, bundle: { isActive: true, files: [{}, {}] } });
    expect(document.rules.map(({ family, table }) => `${family} ${table}`)).toEqual(['ipv4 nat', 'ipv6 nat']);
    expect(await node.rules(backend), 'show changes nothing').toBe(kernel);
  });

  test('reports differences, and that the bundle has another version', async () => {
    await node.apply();
    const leading =
      linesIn(await shown()).find((line) => line.startsWith('-A ') && line.includes('"shop/web cluster IP"')) ?? '';
    await node.tool(['sh', '-c', `iptables-${backend} -t nat ${leading.replace(/^-A/, '-D')}`]);
    writeBundle(`${node.directory}/rendered`, web(1, 2, 3));
    const said = await node.sluiced('show', 'shop/web');
    expect(said).toMatchObject({ exitCode: 1, stdout: expect.stringContaining('DIFFERS from generation 1') });
    expect(said.stdout.split('\n')).toContain(`- ${leading}`);
    expect(said.stdout).toContain('which is not active');
  });

  test('an unknown Service is refused with the list of known ones', async () => {
    await node.apply();
    expect(await node.sluiced('show', 'shop/none')).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(
        /not found in generation 1 or in the kernel .*\n {4}The generation has shop\/cart, shop\/web;/,
      ),
    });
  });
});
