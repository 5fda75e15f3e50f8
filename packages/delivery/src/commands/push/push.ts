import { type Problem, refusal } from '@sluice/netfilter';
import type { Format } from '@sluice/cli';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { readWholeRelease, type WholeRelease, withoutSignature } from '@sluice/renderer/load/whole-release.ts';
import { readLayoutReference } from '@sluice/transport/content/layout.ts';
import { packRelease } from '@sluice/transport/content/pack.ts';
import { type Pushed, pushRelease } from '@sluice/transport/content/push.ts';
import { RegistryClient } from '@sluice/transport/registry/client.ts';
import { readReference } from '@sluice/transport/registry/reference.ts';
import { orStop, reading, Stopped, writing } from '@sluice/renderer/commands/failure/failure.ts';
import { print, progress, say } from '@sluice/renderer/commands/output/progress.ts';
import { writeLayout } from '@sluice/renderer/emit/layout.ts';
import { atRegistry } from '../failure/at-registry.ts';
import { printDocument, reportProblems } from '@sluice/renderer/commands/output/output.ts';

interface PushOptions {
  readonly output: Format;
  readonly plainHttp?: boolean;
}

/**
 * `sluice push`: sends a release to a registry, or writes it to an image layout, under a tag. Prints the reference by digest, for
 * `sluice pull`.
 */
export async function pushCommand(dir: string, spec: string, { plainHttp, output }: PushOptions): Promise<number> {
  const target = readTarget(spec, plainHttp === true);
  progress(`reading ${dir}`);
  const whole = orStop(reading(dir, () => readWholeRelease(dir)));
  progress(`sending to ${target.place}`);
  const pushed = orStop(await atRegistry(() => target.push(whole)));
  const { serial, cluster } = whole.release;
  reportProblems(withoutSignature(dir, whole.files, 'release', 'push it again: only the signature is sent'));
  const { layers, sent, attachments } = pushed;
  say(
    `${spec}: release ${serial} of ${cluster}, ${layers} layers, ${sent} of them new; ${attachments} signatures and openings\n`,
  );
  const pushedAs = `${target.place}@${pushed.digest}`;
  if (output === 'text') print(`${pushedAs}\n`);
  printDocument(output, 'PushResult', { reference: pushedAs, cluster, serial, layers, sent, attachments });
  return exitCodes.done;
}

interface Target {
  /** The reference without a tag. */
  readonly place: string;
  push(whole: WholeRelease): Promise<Pushed | Problem>;
}

function readTarget(spec: string, plainHttp: boolean): Target {
  const layout = readLayoutReference(spec);
  if (layout !== undefined) {
    const push = async ({ release, files }: WholeRelease): Promise<Pushed | Problem> =>
      writing(layout.dir, () => writeLayout(layout.dir, layout.tag, packRelease(release, files)));
    return { place: `oci:${layout.dir}`, push };
  }
  const reference = readReference(spec);
  const tag = reference?.tag;
  if (reference === undefined || tag === undefined || reference.digest !== undefined) throw new Stopped(noTag(spec));
  const client = new RegistryClient(reference, { plainHttp, env: process.env });
  return {
    place: `${reference.registry}/${reference.repository}`,
    push: ({ release, files }) => pushRelease(client, release, files, tag),
  };
}

const noTag = (spec: string): Problem =>
  refusal(
    'REGISTRY_INVALID',
    `Cannot push to ${JSON.stringify(spec)}: it is not of the form REGISTRY/REPOSITORY:TAG or oci:DIR:TAG`,
    'Write it as registry.example.com/sluice/shop:42, with the registry',
  );
