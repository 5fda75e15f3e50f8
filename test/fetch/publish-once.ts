// Publishes a bundle once, as `sluice watch --push oci:DIR:TAG` does: in a process of its own, which may be killed.
import { releaseTarget } from '../../packages/renderer/src/commands/watch/release-target.ts';
import { Releases } from '../../packages/renderer/src/commands/watch/releases.ts';
import { oneAfterTheOther } from '../../packages/renderer/src/commands/watch/serials.ts';
import { sampleBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';

const [layout = '', services = ''] = process.argv.slice(2);
const target = releaseTarget(`oci:${layout}:production`, undefined);
const releases = new Releases({ target, serials: oneAfterTheOther, say: (what) => process.stdout.write(`${what}\n`) });
releases.add({ files: sampleBundle({ services: JSON.parse(services) }) });
process.stdout.write(`${JSON.stringify(await releases.push(0))}\n`);
