import { expect, test } from 'vitest';
import { filesOutsideOfPlanes, inEach } from './source-files.ts';

const files = filesOutsideOfPlanes.map(({ path, text }) => ({ path, text: bare(text) }));

/** Without comments, and without what only hands a part on: `...(ipvs ? { ipvs } : {})`. */
function bare(text: string): string {
  return text
    .replaceAll(/\/\*[\s\S]*?\*\/|(?<![:'"`])\/\/.*$/gm, '')
    .replaceAll(/(?:return |\.\.\.\()[\w.]*(?:nft|ipvs) \? \{[^{}]*\} : \{\}/g, '');
}

const having = (...forms: readonly RegExp[]): readonly string[] =>
  files
    .filter(({ text }) => text.split('\n').some((line) => forms.some((form) => form.test(line))))
    .map(({ path }) => path)
    .toSorted();

/** What compares the name of a mode or of a table of a trace, with the reason. Everything else asks `modeFacts`, or a table by mode. */
const comparing: Readonly<Record<string, string>> = {
  'applier/src/diagnose/doctor/checks/connections.ts':
    'mode ipvs translates without the entries of connection tracking',
  'applier/src/diagnose/doctor/checks/foreign-rules.ts': 'which hooks a packet of each mode passes, in one function',
  'applier/src/diagnose/doctor/checks/kernel-state.ts': 'what a kube-proxy in mode ipvs left',
  'applier/src/diagnose/doctor/checks/trace.ts': 'which rule store has the rules of a node',
  'applier/src/diagnose/preflight/probe-services.ts': 'an option of mode nftables alone',
  'applier/src/state/record.ts': 'the format marks generations that an older sluiced cannot read',
  'bundle/src/documents.ts': 'the format: key ipvs of profile.yaml',
  'review/src/emit/trace.ts': 'how a hit in the table is printed',
  'renderer/src/load/schema/kubeproxy.ts': 'kube-proxy takes no mode for mode iptables',
  'renderer/src/render/normalise/differences.ts': 'mode iptables is what other modes are compared with',
  'renderer/src/render/versions/differences.ts': 'a difference of versions in one mode',
  'review/src/bundle/matches.ts': 'a match of rules of that name',
  'review/src/parity/causes.ts': 'differences between modes are its subject',
  'review/src/parity/sides.ts': 'what modes with rules of iptables accept and a table cannot',
};

/**
 * What looks whether a state, a node or a program has a part of modes ipvs or nftables, with the reason. A further mode that is rules of
 * iptables or another table needs a line in some of these; the shorter the list, the fewer.
 */
const looking: Readonly<Record<string, string>> = {
  ...inEach('reads, plans or prints each part in one function', [
    'applier/src/apply/admission/admit.ts',
    'applier/src/kernel/scratch/load.ts',
    'applier/src/apply/plan/other-planes.ts',
    'applier/src/ports/node-state.ts',
    'applier/src/observe/status/state-sizes.ts',
    'review/src/cost/cost.ts',
  ]),
  ...inEach('the format of stored states: a key for each part', [
    'applier/src/state/delta.ts',
    'applier/src/state/manifest.ts',
  ]),
  ...inEach('what a kube-proxy left, in any mode', [
    'applier/src/apply/admission/start-state.ts',
    'applier/src/commands/adopt/adopt.ts',
    'applier/src/apply/transaction/decide-change.ts',
  ]),
  ...inEach('single Services are rolled back in mode nftables alone', [
    'applier/src/apply/partial/decide.ts',
    'applier/src/apply/partial/services.ts',
    'applier/src/apply/transaction/roll-back-services.ts',
  ]),
  ...inEach('modules, tools or listings that one mode needs', [
    'applier/src/apply/admission/admission.ts',
    'applier/src/apply/admission/kernel-context.ts',
    'applier/src/diagnose/preflight/preflight.ts',
    'applier/src/apply/recovery/recognise.ts',
  ]),
  ...inEach('options of mode ipvs in a profile', [
    'bundle/src/documents.ts',
    'renderer/src/render/compile/documents.ts',
    'renderer/src/render/compile/sysctl.ts',
    'review/src/diff/profile-changes.ts',
  ]),
  'applier/src/apply/admission/endpoint-addresses.ts': 'addresses that virtual servers put on the node',
  'applier/src/commands/session/counting.ts': 'an option of the table: whether endpoints count',
  'applier/src/diagnose/examine/node.ts': 'how the names of a Service spell a frontend',
  'applier/src/apply/transaction/update.ts': 'newer endpoints of a table, whose state is whole',
  'applier/src/apply/transaction/verify.ts': 'mode ipvs is read back beside the tables, by a tool of its own',
  'review/src/commands/show/show.ts': 'a note about sets that other programs share',
  'review/src/prove/prove.ts': 'problems that keep virtual servers from being loaded',
};

test('no file compares the name of a mode, except for a reason', () => {
  const found = having(/(?:===|!==|case) '(?:iptables|ipvs|nftables)'/);
  expect(found).toEqual(Object.keys(comparing).toSorted());
});

test('no file looks which parts a state has, except for a reason', () => {
  const part = String.raw`(?<!kernel|traces|this|args)\??\.(?:nft|ipvs)\b!?`;
  const forms = [
    `${part} (?:\\? |&& |\\|\\| |[!=]== undefined)`,
    `(?:if \\(|&& |\\|\\| )!?[\\w.]*${part}\\)`,
    `!\\w[\\w.]*${part}`,
    // Taken out of the state before.
    `if \\(!?(?:nft|ipvs)\\)`,
    `(?<![.\\w'])(?:nft|ipvs) \\? `,
  ];
  const found = having(...forms.map((form) => new RegExp(form)));
  expect(found).toEqual(Object.keys(looking).toSorted());
});
