import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { version } from '../../packages/applier/src/version.ts';
import { user } from '../../tools/package/image-root.ts';
import type { Descriptor } from '../../tools/package/image.ts';
import { artefact, packages, scratch } from './unpack.fixture.ts';

const whyNot = packages.whyNot || (process.getuid?.() === 0 ? '' : 'chroot needs root');

function unpackLayout(): { readonly layout: string; readonly manifest: Manifest } {
  const layout = scratch();
  execaSync('tar', ['-xf', artefact('-image-amd64.tar'), '-C', layout]);
  const index = JSON.parse(readFileSync(join(layout, 'index.json'), 'utf8')) as { manifests: [Descriptor] };
  return { layout, manifest: JSON.parse(blob(layout, index.manifests[0]).toString()) as Manifest };
}

interface Manifest {
  readonly config: Descriptor;
  readonly layers: readonly [Descriptor];
}

/** A blob whose size and digest are what its descriptor says. */
function blob(layout: string, { digest, size }: Descriptor): Buffer {
  const bytes = readFileSync(join(layout, 'blobs', digest.replace(':', '/')));
  expect({ size: bytes.length, digest: `sha256:${createHash('sha256').update(bytes).digest('hex')}` }).toEqual({
    size,
    digest,
  });
  return bytes;
}

test('the image has one layer and runs as a user who owns nothing', (context) => {
  if (whyNot) return context.skip(whyNot);
  const { layout, manifest } = unpackLayout();
  const config = JSON.parse(blob(layout, manifest.config).toString()) as { config: object; rootfs: object };
  expect(manifest.layers).toHaveLength(1);
  expect(config.config).toMatchObject({ User: '65532:65532', Entrypoint: ['/usr/bin/sluice'] });
});

test.for([
  ['sluice starts', ['/usr/bin/sluice', '--version'], version],
  ['git is there, for commits of watch', ['/usr/bin/git', '--version'], 'git version'],
  ['a pipeline finds a shell', ['/bin/sh', '-c', 'sluice --version'], version],
  ['a pipeline may write', ['/bin/sh', '-c', ': > /tmp/x && : > /work/x && echo written'], 'written'],
  ['nobody may write elsewhere', ['/bin/sh', '-c', '(: > /etc/x) 2> /dev/null || echo refused'], 'refused'],
  // Nothing listens there: that it tries to connect means that the helper and all its libraries are there.
  ['git can speak HTTPS', ['/bin/sh', '-c', 'git ls-remote https://127.0.0.1:1/x 2>&1; :'], 'Failed to connect'],
  [
    'what is inside comes with its licences',
    ['/bin/sh', '-c', 'cat /usr/share/doc/*/copyright /usr/share/common-licenses/GPL-2 /usr/share/doc/sluice/THIRD*'],
    'Node.js is licensed for use as follows',
  ],
] as const)('in the unpacked image: %s', ([, argv, expected], context) => {
  if (whyNot) return context.skip(whyNot);
  const root = unpackImage();
  expect(runIn(root, argv)).toContain(expected);
});

test('the pod of deploy/watch.yaml clones its repository with it, goes on with a clone that is there, and begins a broken one anew', (context) => {
  if (whyNot) return context.skip(whyNot);
  const root = unpackImage();
  const [sh, options, script] = cloneCommand();
  const clone = [`/usr/bin/${sh}`, options, script.replace(/https:\S+/, '/work/origin.bundle')];
  const git = (...argv: readonly string[]): string => runIn(root, ['/usr/bin/git', ...argv]);
  git('init', '-q', '/work/origin');
  git('-C', '/work/origin', 'commit', '-q', '--allow-empty', '-m', 'one');
  git('-C', '/work/origin', 'bundle', 'create', '--quiet', '/work/origin.bundle', 'HEAD');
  runIn(root, clone);
  git('-C', '/work/rules', 'commit', '-q', '--allow-empty', '-m', 'ours');
  runIn(root, clone);
  expect(git('-C', '/work/rules', 'log', '--format=%s')).toBe('ours\none');
  runIn(root, ['/bin/sh', '-c', ': > /work/rules/.git/HEAD']);
  runIn(root, clone);
  expect(git('-C', '/work/rules', 'log', '--format=%s')).toBe('one');
});

/** What the first container of the pod runs. */
function cloneCommand(): readonly [string, string, string] {
  const text = readFileSync(join(import.meta.dirname, '../../deploy/watch.yaml'), 'utf8');
  const pods = parseAllDocuments(text).map((document) => document.toJS() as Deployment);
  const [container] = pods.find(({ kind }) => kind === 'Deployment')?.spec.template.spec.initContainers ?? [];
  return container?.command as readonly [string, string, string];
}

interface Deployment {
  readonly kind: string;
  readonly spec: { readonly template: { readonly spec: { readonly initContainers: readonly [Container] } } };
}
interface Container {
  readonly command: readonly string[];
}

/** The files of the image below a folder, with what whoever runs a container brings. */
function unpackImage(): string {
  const { layout, manifest } = unpackLayout();
  const root = join(layout, 'root');
  mkdirSync(root);
  execaSync('tar', ['-xz', '-C', root], { input: blob(layout, manifest.layers[0]) });
  for (const [name, minor] of [
    ['null', '3'],
    ['urandom', '9'],
  ] as const)
    execaSync('mknod', ['-m', '666', join(root, 'dev', name), 'c', '1', minor]);
  return root;
}

/** Runs a program of the image as the image's user, with its environment. Returns what it printed. */
function runIn(root: string, argv: readonly string[]): string {
  const { layout, manifest } = unpackLayout();
  const { config } = JSON.parse(blob(layout, manifest.config).toString()) as { config: { Env: readonly string[] } };
  const environment = Object.fromEntries(config.Env.map((line) => line.split('=', 2) as [string, string]));
  const who = { GIT_AUTHOR_NAME: 'a', GIT_AUTHOR_EMAIL: 'a@x', GIT_COMMITTER_NAME: 'a', GIT_COMMITTER_EMAIL: 'a@x' };
  const { stdout } = execaSync('/usr/sbin/chroot', [`--userspec=${user}:${user}`, root, ...argv], {
    env: { ...environment, ...who },
    extendEnv: false,
  });
  return stdout;
}
