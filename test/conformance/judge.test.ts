// @module-tag quick
import { expect, test } from 'vitest';
import { imageNames } from './images.ts';
import { readReport } from './judge.ts';

test('a report has each test that was chosen, with the first line of its failure', () => {
  const report = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite>
<testcase name="[SynchronizedBeforeSuite]" classname="s" status="passed" time="1"></testcase>
<testcase name="[It] [sig-network] Services should serve &#34;a&#34; &lt;b&gt;" classname="s" status="passed" time="1"></testcase>
<testcase name="[It] [sig-network] Services left out" classname="s" status="skipped" time="0"><skipped message="skipped"></skipped></testcase>
<testcase name="[It] [sig-network] Services of a cloud" classname="s" status="skipped" time="0"><skipped message="skipped - Only supported for providers [gce]"></skipped></testcase>
<testcase name="[It] [sig-network] Services break" classname="s" status="failed" time="9"><failure message="no answer&#xA;from 10.96.0.1" type="failed"></failure></testcase>
<testcase name="[It] [sig-network] Services hang" classname="s" status="timedout" time="9"><error message="took too long"></error></testcase>
</testsuite></testsuites>`;
  const { verdicts, failures } = readReport(report);
  expect(Object.fromEntries(verdicts)).toEqual({
    '[sig-network] Services should serve "a" <b>': 'passed',
    '[sig-network] Services of a cloud': 'skipped',
    '[sig-network] Services break': 'failed',
    '[sig-network] Services hang': 'failed',
  });
  expect(Object.fromEntries(failures)).toEqual({
    '[sig-network] Services break': 'no answer',
    '[sig-network] Services hang': 'took too long',
  });
});

test('the names of images are those that the tests print', () => {
  const listed = [
    'registry.k8s.io/e2e-test-images/agnhost:2.66.1',
    'registry.k8s.io/e2e-test-images/agnhost:2.55',
    'registry.k8s.io/e2e-test-images/agnhost:2.55',
    'registry.k8s.io/pause:3.10.2',
    'registry.k8s.io/build-image/distroless-iptables:v0.9.9',
    'registry.k8s.io/e2e-test-images/regression-issue-74839:1.5',
    'gcr.io/k8s-authenticated-test/agnhost:2.6',
  ];
  expect(imageNames(listed.join('\n'))).toEqual({
    agnhost: ['2.66.1', '2.55'],
    busybox: [],
    nginx: [],
    pause: ['3.10.2'],
    iptables: ['v0.9.9'],
    'regression-issue-74839': ['1.5'],
  });
});
