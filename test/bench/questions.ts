import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { clusterList, daemonSet } from './data.ts';
import { makeHistory } from './history.ts';
import { interleave, report, ratio, runMeasured } from './measure.ts';

const packet = ['--node', 'node-0001', '--from', '10.244.1.7', '--to', 'ns-0/svc-0:http'];
const commits = 1_000;
const planted = 637;

/**
 * Questions about one bundle and about its history: failures of 1,000 nodes; a planted commit among 1,000, and one commit.
 * @param scratch a directory to write bundles and repositories into
 */
export async function questions(sluice: string, scratch: string, rounds: number): Promise<void> {
  for (const services of [1_000, 10_000]) {
    const nodes = services / 10;
    const [input, bundle, repository] = ['json', 'bundle', 'git'].map((name) =>
      join(scratch, `questions-${services}.${name}`),
    );
    const list = clusterList({ services, endpointsPerService: 5, nodes });
    list.items.push(...daemonSet(nodes));
    writeFileSync(input!, JSON.stringify(list));
    execFileSync(sluice, ['render', '-f', input!, '-o', bundle!], { stdio: 'ignore' });
    const failures = await interleave(rounds, {
      ours: () => runMeasured(sluice, ['what-if', bundle!, '--share', '60']),
      again: () => runMeasured(sluice, ['what-if', bundle!, '--share', '60']),
      endpoints: () => runMeasured(sluice, ['what-if', bundle!, '--share', '60', '--endpoints']),
    });
    report(
      `sluice what-if, ${services} Services with ${5 * services + nodes} endpoints, each of ${nodes} nodes and 3 zones`,
      `${failures.ours.seconds.toFixed(2)} s, ${failures.ours.megabytes.toFixed(0)} MB`,
      'under 30 s for 10,000 Services and 1,000 nodes',
      `each endpoint, too: ${failures.endpoints.seconds.toFixed(2)} s, ${failures.endpoints.megabytes.toFixed(0)} MB; A/A control ${ratio(failures.again.seconds, failures.ours.seconds)}`,
    );
    const guilty = makeHistory(bundle!, repository!, { commits, planted, services });
    const dir = join(repository!, 'rendered');
    const found = JSON.parse(
      execFileSync(
        sluice,
        ['bisect', '--from', `${guilty}~${planted}`, '--to', 'main', '-o', 'json', '--', 'trace', dir, ...packet],
        {
          cwd: repository!,
          encoding: 'utf8',
        },
      ),
    ) as { steps: number; after: { commit: { id: string } } };
    if (found.after.commit.id !== guilty) throw new Error(`bisect found ${found.after.commit.id} instead of ${guilty}`);
    const history = await interleave(rounds, {
      at: () => runMeasured(sluice, ['trace', dir, '--at', '2025-10-09T19:00:00Z', ...packet]),
      bisect: () =>
        runMeasured(sluice, [
          'bisect',
          '--from',
          `${guilty}~${planted}`,
          '--to',
          'main',
          '--',
          'trace',
          dir,
          ...packet,
        ]),
      trace: () => runMeasured(sluice, ['trace', bundle!, ...packet]),
    });
    const each = (history.bisect.seconds - history.at.seconds) / (found.steps + 1);
    report(
      `sluice bisect, ${services} Services, ${commits} commits`,
      `${found.steps} steps, ${history.bisect.seconds.toFixed(2)} s in all, ${each.toFixed(2)} s a step`,
      'at most 10 steps, each under 1 s',
      `sluice trace --at ${history.at.seconds.toFixed(2)} s (under 1 s), sluice trace of a directory ${history.trace.seconds.toFixed(2)} s, ratio ${ratio(history.at.seconds, history.trace.seconds)}`,
    );
  }
}
