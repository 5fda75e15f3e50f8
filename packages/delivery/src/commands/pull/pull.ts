import { join } from 'node:path';
import {
  fileDigest,
  filesOfNode,
  isOpeningFile,
  isSignatureFile,
  readPath,
  readRelease,
  releaseFile,
  sumsFile,
  sumsMisfit,
  wavesFile,
} from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import type { Format } from '@sluice/cli';
import { replaceFile } from '@sluice/renderer/emit/file.ts';
import { writeRelease } from '../../emit/release.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { WebClient } from '@sluice/transport/http/web.ts';
import { RegistryClient } from '@sluice/transport/registry/client.ts';
import type { Content } from '@sluice/transport/content/content.ts';
import { directoryReader, layoutContent, webReader } from '@sluice/transport/content/layout.ts';
import { registryContent } from '@sluice/transport/content/registry.ts';
import { pullRelease } from '@sluice/transport/content/pull.ts';
import { isDigest, readReference } from '@sluice/transport/registry/reference.ts';
import { atRegistry } from '../failure/at-registry.ts';
import { orStop, Stopped, writing } from '@sluice/renderer/commands/failure/failure.ts';
import { progress, say } from '@sluice/renderer/commands/output/progress.ts';
import { printDocument } from '@sluice/renderer/commands/output/output.ts';

interface PullOptions {
  readonly output: string;
  readonly report: Format;
  readonly node?: string;
  readonly plainHttp?: boolean;
}

type PulledFiles = ReadonlyMap<string, string>;

/** `sluice pull`: fetches a release from a registry or an image layout by its digest and writes it to a directory. */
export async function pullCommand(spec: string, { output, report, node, plainHttp }: PullOptions): Promise<number> {
  const { content, digest } = await atRegistry(async () => contentOf(spec, plainHttp === true));
  progress(`fetching ${spec}`);
  const part =
    node === undefined ? undefined : { node, profileOf: (shared: PulledFiles) => profileIn(spec, shared, node) };
  const { files: pulled, passedOver } = await atRegistry(() => pullRelease(content, digest, part));
  const files = node === undefined ? pulled : filesOfNode(pulled, node, profileIn(spec, pulled, node));
  const sums = files.get(sumsFile) ?? '';
  const misfit = sumsMisfit(sums, new Map([...files].map(([path, text]) => [path, fileDigest(text)])));
  if (misfit !== undefined) throw new Stopped(invalid(spec, `SHA256SUMS does not match the files: ${misfit}`));
  progress(`writing ${output}`);
  const done = orStop(writing(output, () => write(output, files)));
  for (const why of passedOver) say(`ignored: ${why.slice(0, 500).replaceAll(/[^\x20-\x7e]/g, '?')}\n`);
  const signatures = [...files.keys()].filter(isSignatureFile).length;
  say(
    `${output}: ${files.size} files, ${signatures} signatures${done === 'same' ? ', unchanged' : ''}; verify them with \`sluice verify\`\n`,
  );
  printDocument(report, 'PullResult', { output, digest, files: files.size, signatures, same: done === 'same' });
  return exitCodes.done;
}

function write(output: string, files: PulledFiles): 'same' | 'written' | Problem {
  const rules = new Map([...files].filter(([path]) => readPath(path) !== undefined));
  const [release = '', sums = ''] = [files.get(releaseFile), files.get(sumsFile)];
  const done = writeRelease(output, rules, { release, sums, waves: files.get(wavesFile) });
  if (typeof done !== 'string') return done;
  for (const [name, text] of files)
    if (isSignatureFile(name) || isOpeningFile(name)) replaceFile(join(output, name), Buffer.from(text, 'latin1'));
  return done;
}

function profileIn(spec: string, files: PulledFiles, node: string): string {
  const release = orStop(readRelease(files.get(releaseFile) ?? ''));
  const found = Object.hasOwn(release.nodes, node) ? release.nodes[node]?.profile : undefined;
  if (found !== undefined) return found;
  throw new Stopped({
    code: 'BUNDLE_UNKNOWN_NODE',
    level: 'error',
    message: `Cannot fetch ${spec} for ${node}: the release does not contain this node`,
    hint: '`nodes:` in release.yaml lists the nodes of the release',
  });
}

/** @throws Stopped, RegistryFailure */
function contentOf(spec: string, plainHttp: boolean): { readonly content: Content; readonly digest: string } {
  const [, place = '', digest] = /^(.*)@([^@]*)$/s.exec(spec) ?? [];
  const reference = readReference(spec);
  if (!isDigest(digest)) throw new Stopped(noDigest(spec));
  const [, dir] = /^oci:(.+)$/.exec(place) ?? [];
  if (dir !== undefined) return { content: layoutContent(place, directoryReader(dir)), digest };
  if (/^https?:\/\//.test(place)) {
    const client = new WebClient(place, { plainHttp });
    return { content: layoutContent(place, webReader(client)), digest };
  }
  if (reference === undefined) throw new Stopped(noDigest(spec));
  return { content: registryContent(new RegistryClient(reference, { plainHttp, env: process.env })), digest };
}

const noDigest = (spec: string): Problem =>
  refusal(
    'REGISTRY_INVALID',
    `Cannot pull ${JSON.stringify(spec)}: it is not of the form REGISTRY/REPOSITORY@sha256:DIGEST, oci:DIR@… or https://…@…`,
    'A tag can be moved; `sluice push` prints the reference by digest',
  );

const invalid = (spec: string, why: string): Problem =>
  refusal('RELEASE_INVALID', `Cannot use ${spec}: ${why}`, 'Push the release again and compare the digests');
