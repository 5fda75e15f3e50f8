import { RehearsalError } from '../../ports/failure.ts';
import { type BundleFiles, type ResolvedNode, resolveNode } from '@sluice/bundle';
import {
  type Family,
  onKernel,
  parseKernelRelease,
  plural,
  type Problem,
  readSysctlLine,
  tableLine,
} from '@sluice/netfilter';
import type { SluicedConfig } from '../../config.ts';
import { readFacts } from '../../kernel/facts.ts';
import { findSwitch } from '../../kernel/linux/find-switch.ts';
import { knowsBpf } from '../../kernel/knows-bpf.ts';
import { LinuxKernel } from '../../kernel/linux/linux.ts';
import { inScratchNamespace } from '../../kernel/scratch/namespace.ts';
import { placeOf, rehearser } from '../../kernel/scratch/rehearse.ts';
import type { Run } from '../../kernel/command.ts';
import { runChildren } from '../../kernel/run.ts';
import { procTunables } from '../../kernel/sysctl.ts';
import {
  chooseStore,
  detectTools,
  findTool,
  judgeStore,
  otherBackend,
  readStoreUse,
  realTool,
  type Tools,
} from '../../kernel/tools.ts';
import { peek, pinnedStore } from '../../state/peek.ts';
import { admit, AdmitMemory } from '../../apply/admission/admit.ts';
import { countNames, foreignProxyChains, foreignSluiceChains } from '../../apply/plan/ownership.ts';
import type { NodeFacts } from '../../ports/node-facts.ts';
import { findProxy, recoverHint } from '../../apply/admission/start-state.ts';
import { bad, good, note, type PreflightFinding } from './finding.ts';
import { addressClashes } from './address-clashes.ts';
import { probeServiceFindings } from './probe-services.ts';
import { messageOf } from '../../message.ts';
import { familyNames, type NodeState, type Observed } from '../../ports/node-state.ts';
import { nftProblem } from '../../apply/admission/kernel-context.ts';
import { knowsOwnership } from '../../kernel/nft/nft-owner.ts';

/**
 * Checks everything that an apply needs, and changes nothing.
 * @param files the bundle that the node is to run, if any
 * @param problems why the directory is not a bundle
 */
export async function findings(
  config: SluicedConfig,
  files: BundleFiles | undefined,
  problems: readonly Problem[],
): Promise<readonly PreflightFinding[]> {
  const run = runChildren();
  // Only root reads the kernel's rules; for other users every check would look like a missing tool.
  if (process.getuid?.() !== 0) return [...helperFindings(), notRoot, ...(files ? [] : noBundle(config, problems))];
  const pinned = pinnedStore(config.state);
  const tools = await detectTools(chooseStore(config.backend, pinned), run);
  const facts = readFacts(tools, procTunables);
  const resolved = files && resolveNode(files, config.node);
  const node = resolved && 'version' in resolved ? resolved : undefined;
  const isNft = node?.nft !== undefined;
  return [
    ...helperFindings(),
    ...(await opensshFindings(run)),
    ...(isNft
      ? await nftFindings(tools, run, (state) => rehearsalFindings(config, tools, run, state))
      : [
          ...familyFindings(tools),
          ...(await storeFindings(tools, pinned !== undefined, run)),
          ...(await rehearsalFindings(config, tools, run)),
          ...(await extensionFindings(tools, run)),
          ...(await switchFindings(config, tools, run)),
          ...(await bpfFindings(config, tools, run)),
        ]),
    ...(node ? await ipvsFindings(node, tools, run) : []),
    ...(node ? sysctlFindings(node, facts) : []),
    ...(files ? probeServiceFindings(config, files) : []),
    ...(await ownerFindings(config, tools, facts, run, isNft)),
    ...(files ? bundleFindings(config, files, facts) : noBundle(config, problems)),
  ];
}

const notRoot = bad(
  'rights',
  'not running as root',
  'run it as root: `sudo sluiced preflight`; only root can read the rules in the kernel',
);

const helpers = { unshare: 'util-linux', mount: 'mount', sh: 'dash', flock: 'util-linux' } as const;

function helperFindings(): PreflightFinding[] {
  const conntrack = findTool('conntrack');
  const flows =
    conntrack === undefined
      ? note('conntrack', 'not found', 'install it: without it, UDP clients keep using removed endpoints')
      : good('conntrack', conntrack);
  const all = Object.entries(helpers).map(([name, from]) => {
    const path = findTool(name);
    return path === undefined ? bad(name, 'not found', `install the package ${from}`) : good(name, path);
  });
  return [...all, flows];
}

/** The first version that accepts times in UTC in `allowed_signers`; we accept no others there. */
const opensshWithTimes = [9, 1] as const;

async function opensshFindings(run: Run): Promise<PreflightFinding[]> {
  // ssh-keygen does not print its version; ssh comes from the same package.
  const file = findTool('ssh');
  const ran = file && (await run({ file, args: ['-V'] }));
  const finding = ran ? opensshFinding(ran.stderr) : undefined;
  return finding ? [finding] : [];
}

/**
 * Whether this OpenSSH understands times in `allowed_signers`.
 * @param output of `ssh -V`: `OpenSSH_8.9p1 Ubuntu-3ubuntu0.10, OpenSSL 3.0.2 15 Mar 2022`
 * @returns undefined when it has no version
 */
export function opensshFinding(output: string): PreflightFinding | undefined {
  const [, major, minor] = /^OpenSSH_(\d+)\.(\d+)/.exec(output) ?? [];
  if (major === undefined || minor === undefined) return undefined;
  const [majorMin, minorMin] = opensshWithTimes;
  const isFine = Number(major) > majorMin || (Number(major) === majorMin && Number(minor) >= minorMin);
  const todo =
    'remove valid-after and valid-before from allowed_signers, or install OpenSSH 9.1: older versions refuse such lines';
  return isFine ? good('OpenSSH', `${major}.${minor}`) : note('OpenSSH', `${major}.${minor}`, todo);
}

function familyFindings(tools: Tools): PreflightFinding[] {
  return familyNames.map((family) => {
    const found = tools.families[family];
    const name = family === 'ipv4' ? 'iptables' : 'ip6tables';
    if (found) return good(name, `${found.version}, ${tools.backend}, ${realTool(found.restore)}`);
    const other = family === 'ipv4' ? 'ipv6' : 'ipv4';
    return note(
      name,
      `no working ${name}-${tools.backend}`,
      `install iptables, or set families: [${other}] in the profile`,
    );
  });
}

async function storeFindings({ backend }: Tools, isPinned: boolean, run: Run): Promise<PreflightFinding[]> {
  const other = otherBackend(backend);
  const there = await readStoreUse(other, run);
  const doubt = judgeStore(backend, await readStoreUse(backend, run, true), there);
  // Before the first apply there is nothing to move.
  const todo = isPinned ? doubt?.hint : `Set backend: ${other} in sluiced.yaml, or remove the rules there`;
  if (doubt) return [bad('rule store', doubt.message, todo ?? doubt.hint)];
  const what = `rules in the ${other} store`;
  if (there.rules === 0) return [good(what, 'none')];
  return [
    note(
      what,
      `${there.rules}`,
      `packets also pass these rules: remove those that are not needed (${other} tools list them)`,
    ),
  ];
}

/** One rule per extension that kube-proxy's rules use (pkg/proxy/iptables/proxier.go). */
const extensions: readonly (readonly [name: string, table: string, rule: string])[] = [
  ['comment', 'nat', '-A T -m comment --comment x'],
  ['conntrack', 'filter', '-A T -m conntrack --ctstate NEW -j ACCEPT'],
  ['mark', 'nat', '-A T -m mark --mark 0x4000/0x4000 -j RETURN'],
  ['addrtype', 'nat', '-A T -m addrtype --dst-type LOCAL -j RETURN'],
  ['statistic', 'nat', '-A T -m statistic --mode random --probability 0.5 -j RETURN'],
  ['recent', 'nat', '-A T -m recent --rcheck --seconds 10 --reap --name X --rsource -j RETURN'],
  ['MARK', 'nat', '-A T -j MARK --or-mark 0x4000'],
  ['REJECT', 'filter', '-A T -j REJECT'],
  ['DNAT', 'nat', '-A T -p tcp -j DNAT --to-destination ADDRESS'],
  ['MASQUERADE --random-fully', 'nat', '-A T -j MASQUERADE --random-fully'],
];
const addresses = { ipv4: '192.0.2.1:80', ipv6: '[2001:db8::1]:80' } as const satisfies Record<Family, string>;

async function extensionFindings(tools: Tools, run: Run): Promise<PreflightFinding[]> {
  const none = await withoutNamespace(run);
  if (none) return [none];
  const all: PreflightFinding[] = [];
  for (const family of familyNames) {
    const restore = tools.families[family]?.restore;
    if (restore === undefined) continue;
    const failed: string[] = [];
    for (const [name, table, rule] of extensions) {
      const from = name.startsWith('MASQUERADE') ? '-A POSTROUTING -j T\n' : '';
      const text = `*${table}\n:T - [0:0]\n${rule.replace('ADDRESS', addresses[family])}\n${from}COMMIT\n`;
      try {
        await inScratchNamespace(name, [restore, '--noflush'], text, run);
      } catch (error) {
        failed.push(`${name} (${messageOf(error)})`);
      }
    }
    const what = `${family} extensions`;
    if (failed.length === 0) all.push(good(what, `all ${extensions.length} load`));
    else
      all.push(
        bad(
          what,
          failed.join('; '),
          'load the kernel modules (modprobe xt_NAME), or change the option of the profile that needs them',
        ),
      );
  }
  return all;
}

/** The one cause why no rule can be tested here; undefined when rules can be. */
async function withoutNamespace(run: Run): Promise<PreflightFinding | undefined> {
  const shell = findTool('sh');
  if (shell === undefined) return undefined;
  try {
    await inScratchNamespace('a scratch namespace', [shell, '-c', ':'], '', run);
    return undefined;
  } catch (error) {
    const todo =
      'run it where network namespaces can be created (as root of the machine, not in a container without CAP_SYS_ADMIN); until then the extensions of the kernel are not known';
    return note('extensions', messageOf(error), todo);
  }
}

/** Rehearses a tiny program where the config has rules rehearsed. */
async function rehearsalFindings(
  { rehearse }: SluicedConfig,
  tools: Tools,
  run: Run,
  state = tinyState(tools),
): Promise<PreflightFinding[]> {
  const what = 'rehearsals';
  const place = placeOf(rehearse);
  if (place === 'off')
    return [note(what, 'off', 'set rehearse: auto, so that the kernel checks new rules before they are applied')];
  try {
    await rehearser(place, tools, run)(state);
    return [
      good(what, place === 'unit' ? 'in sluiced-rehearse@.service' : 'in a child process with its own namespace'),
    ];
  } catch (error) {
    const hint =
      error instanceof RehearsalError ? error.hint : 'load the modules of iptables (modprobe ip_tables nf_tables)';
    return [bad(what, messageOf(error), hint)];
  }
}

function tinyState(tools: Tools): NodeState {
  const empty = { chains: new Map([['KUBE-T', []]]), jumps: [] };
  const tiny = { filter: empty, nat: empty };
  const families = Object.fromEntries(familyNames.filter((one) => tools.families[one]).map((one) => [one, tiny]));
  return { families, sysctls: new Map() };
}

/** The sysctls that the profile sets. Those that cannot be written are problems of the bundle, which name them. */
function sysctlFindings({ sysctls }: ResolvedNode, facts: NodeFacts): PreflightFinding[] {
  const settings = sysctls.flatMap((line) => {
    const setting = readSysctlLine(onKernel(line, parseKernelRelease(facts.kernelRelease) ?? [0, 0]) ?? '');
    return typeof setting === 'string' ? [] : [setting];
  });
  const isFine = settings.every(({ key, value }) => facts.sysctlTakes(key, value));
  return isFine ? [good('sysctls', `all ${settings.length} of the profile can be written`)] : [];
}

/** Mode ipvs, where the bundle uses it. Like an apply, the check loads its module, which creates its sysctls. */
async function ipvsFindings(node: ResolvedNode, tools: Tools, run: Run): Promise<PreflightFinding[]> {
  const { ipvs } = new LinuxKernel(tools, run, procTunables);
  // Missing tools are problems of the bundle.
  if (!node.ipvs || !ipvs) return [];
  try {
    const { servers } = await ipvs.observe();
    return [good('mode ipvs', `${plural(servers.size, 'virtual server')} now`)];
  } catch (error) {
    return [bad('mode ipvs', messageOf(error), 'load the module (modprobe ip_vs), or use a profile in mode iptables')];
  }
}

async function ownerFindings(
  config: SluicedConfig,
  tools: Tools,
  facts: NodeFacts,
  run: Run,
  isNft: boolean,
): Promise<readonly PreflightFinding[]> {
  const running = facts.kubeProxies();
  const kernel = new LinuxKernel(tools, run, procTunables);
  const active = peek(config.state)?.current ?? null;
  const takesOver = config.takeOver.includes('kube-proxy');
  // In layout tree all chain names are ours: kube-proxy's rules may stay after ours.
  const mayStay = config.layout === 'tree' && !takesOver;
  const proxy = proxyFinding(running, mayStay);
  if (active !== null) return [proxy, noForeignChains];
  const observed: Observed = await kernel.observe(familyNames.filter((family) => tools.families[family]));
  const ofSluice = countNames(foreignSluiceChains(observed, {}));
  if (isNft && (await kernel.nft?.exists()) === true) return [proxy, lostState('table inet sluice', 'not known here')];
  if (ofSluice > 0 && !takesOver) return [proxy, lostState('chains of Sluice', `${ofSluice}, not known here`)];
  const others = countNames(foreignProxyChains(observed, {}));
  const left = mayStay || others === 0 ? await findProxy(kernel, takesOver, [], []) : {};
  if ('problems' in left) return [proxy, ...left.problems.map(({ message, hint }) => bad('kube-proxy', message, hint))];
  return [proxy, chainFinding(others, running, { takesOver, mayStay })];
}

const lostState = (what: string, seen: string): PreflightFinding => bad(what, seen, recoverHint);

function proxyFinding(running: readonly number[], mayStay: boolean): PreflightFinding {
  if (running.length === 0) return good('kube-proxy', 'not running');
  const seen = `process ${running.join(', ')}`;
  return mayStay
    ? note('kube-proxy', seen, 'do not restart it: its jumps would then precede those of sluiced')
    : bad('kube-proxy', seen, 'stop it before sluiced starts: each would undo the rules of the other');
}

const foreignChains = 'chains of another owner (kube-proxy?)';
const noForeignChains = good(foreignChains, 'none');

function chainFinding(
  count: number,
  running: readonly number[],
  { takesOver, mayStay }: { readonly takesOver: boolean; readonly mayStay: boolean },
): PreflightFinding {
  if (count === 0) return noForeignChains;
  if (takesOver)
    return note(foreignChains, `${count}`, 'sluiced takes them over; a rollback to generation 0 restores them');
  if (mayStay)
    return note(
      foreignChains,
      `${count}`,
      "Sluice's rules take precedence; these chains take over again after cleanup",
    );
  const stop =
    running.length > 0 ? 'stop kube-proxy, then set' : 'if kube-proxy made them, or a Sluice whose state is lost, set';
  return bad(foreignChains, `${count}`, `${stop} takeOver: kube-proxy in sluiced.yaml`);
}

/** How packets reach new rules: without ipset there is no switch, and the kernel does not roll back by itself. */
async function switchFindings(
  { layout, rehearse }: SluicedConfig,
  tools: Tools,
  run: Run,
): Promise<PreflightFinding[]> {
  if (layout === 'flat') return [];
  const what = 'the switch between two programs';
  try {
    if (await findSwitch(tools, run, placeOf(rehearse) === 'namespace')) return [good(what, 'works')];
  } catch (error) {
    return [bad(what, messageOf(error), 'sluiced cannot start before this is known: run preflight again')];
  }
  return [note(what, 'not possible', 'install ipset and load xt_set: without them there is no dead-man switch')];
}

/** A kernel without `-m bpf` is served too, with more chains. */
async function bpfFindings({ layout }: SluicedConfig, tools: Tools, run: Run): Promise<PreflightFinding[]> {
  if (layout === 'flat') return [];
  const what = 'rules that compare addresses';
  if (await knowsBpf(tools, run)) return [good(what, 'work')];
  return [
    note(what, 'not possible', 'load xt_bpf: without it each endpoint needs a chain, and changes take twice as long'),
  ];
}

/** A missing directory may still be created; an existing one that is not a bundle would be refused. */
function noBundle(config: SluicedConfig, problems: readonly Problem[]): PreflightFinding[] {
  if (problems.length > 0) return problems.map(({ message, hint }) => bad('bundle', message, hint));
  return [note('bundle', `${config.bundle} does not exist yet`, 'render one, then run preflight again')];
}

function bundleFindings(config: SluicedConfig, files: BundleFiles, facts: NodeFacts): PreflightFinding[] {
  const bundle = admit(files, config, facts, new AdmitMemory());
  if ('problems' in bundle) return bundle.problems.map(({ message, hint }) => bad('bundle', message, hint));
  const clash = addressClashes(bundle.state, facts).map(({ address, cluster }) => {
    const [what, seen] = [`address ${address}`, 'is a Service address and on an interface of this node'];
    if (cluster) return bad(what, seen, 'remove it from the interface, or give the Service another cluster IP');
    return note(what, seen, "correct for an external IP that is the node's own; else remove it from the interface");
  });
  return clash.length === 0 ? [good('bundle', 'this node can run it')] : clash;
}

/**
 * Mode nftables needs no other tool, and its switch is part of the table.
 * @param rehearse loads a state where no packet meets it
 */
async function nftFindings(
  tools: Tools,
  run: Run,
  rehearse: (state: NodeState) => Promise<readonly PreflightFinding[]>,
): Promise<readonly PreflightFinding[]> {
  const what = 'mode nftables';
  const problem = await nftProblem(new LinuxKernel(tools, run, procTunables));
  if (problem) return [bad(what, problem.message, problem.hint)];
  const { stdout } = await run({ file: findTool('nft') ?? 'nft', args: ['--version'] });
  const settings = [tableLine({ detector: 'address', masqueradeAll: false })];
  const empty: NodeState = { families: {}, sysctls: new Map(), nft: { settings, frontends: new Map() } };
  return [good(what, stdout.trim()), await protectionFinding(run), ...(await rehearse(empty))];
}

/** Without the flags of the table `sluiced` repairs what other programs change, and cannot prevent it. */
async function protectionFinding(run: Run): Promise<PreflightFinding> {
  const what = "protection of mode nftables' table";
  if (await knowsOwnership(findTool('nft') ?? 'nft', run)) return good(what, 'only sluiced can change it');
  return note(what, 'none: repaired after changes', 'install nft 1.1.0 and Linux 6.9 or newer, to prevent them');
}
