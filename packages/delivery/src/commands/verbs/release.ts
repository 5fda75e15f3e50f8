import { examples, outputOption, pathOption, reportOption } from '@sluice/cli';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { run } from '@sluice/renderer/commands/options/action.ts';
import { plainHttpOption } from '@sluice/renderer/commands/options/options.ts';
import { collect, notEmpty, upTo } from '@sluice/renderer/commands/options/values.ts';

/** The options and help of the verbs with which operators make and spread a release. */

export function addRelease(program: Command): void {
  examples(program.command('release'), [
    'sluice release rendered --serial auto --source $(git rev-parse HEAD) -o /srv/release',
    'sluice release rendered --serial auto --source $(git rev-parse HEAD) --wave waves.yaml --nodes nodes.json -o /srv/release',
    'sluice release main:rendered --serial 42 --source $(git rev-parse main) --expires 2027-01-31T00:00:00Z -o release',
  ])
    .summary('make a release of a bundle')
    .description(
      'Writes a bundle with release.yaml, its metadata, and SHA256SUMS, which covers all files and is what gets signed. The same arguments give the same bytes. Prints the serial.',
    )
    .argument('<DIR>', 'a bundle directory, or a Git revision of one (REV:PATH)')
    .option(
      '--serial <N|auto>',
      'greater than the serials of all earlier releases; auto: one more than the release in DIR of -o',
      serial,
    )
    .addOption(
      new Option(
        '--endpoints',
        'make an endpoint update of the release in DIR of -o, with the next revision',
      ).conflicts(['serial', 'wave', 'nodes', 'urgent', 'acceptRemoval']),
    )
    .requiredOption('--source <COMMIT>', 'the commit of the bundle', commit)
    .option('--expires <TIME>', 'when nodes raise an alarm about an old release, such as 2027-01-31T00:00:00Z', instant)
    .option('--urgent', 'nodes apply it at once, also nodes in back-off after three failed releases in a row')
    .option('--accept-removal', 'nodes apply it at once, although it takes away most Services or endpoints')
    .option('--wave <FILE>', 'the waves of nodes that `sluice promote` opens one by one', notEmpty)
    .option('--nodes <FILE>', 'the Nodes, as `kubectl get nodes -o json` prints them, for waves by label', notEmpty)
    .addOption(pathOption('DIR', 'the release directory'))
    .addOption(reportOption())
    .hook('preAction', (command) => {
      const { serial: given, endpoints, nodes, wave } = command.opts<Readonly<Record<string, unknown>>>();
      if (nodes !== undefined && wave === undefined)
        command.error("error: option '--nodes <FILE>' needs '--wave <FILE>'");
      if (given === undefined && endpoints !== true)
        command.error("error: required option '--serial <N|auto>' not specified");
    })
    .action(run(async (options, dir) => (await import('../release/release.ts')).releaseCommand(dir, options)));
}

// Only the form is checked here; the limits of a release are in the bundle package, which commands load when they run.

function serial(text: string): number | 'auto' {
  if (text !== 'auto' && !/^[1-9]\d{0,11}$/.test(text))
    throw new InvalidArgumentError('Write a whole number from 1 to 999999999999, or auto.');
  return text === 'auto' ? text : Number(text);
}

function commit(text: string): string {
  if (!/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(text))
    throw new InvalidArgumentError('Write the full commit ID, as printed by `git rev-parse HEAD`.');
  return text;
}

function instant(text: string): string {
  const time = Date.parse(text);
  if (
    !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(text) ||
    Number.isNaN(time) ||
    new Date(time).toISOString() !== text.replace('Z', '.000Z')
  )
    throw new InvalidArgumentError('Write it in UTC as 2027-01-31T00:00:00Z.');
  return text;
}

export function addSign(program: Command): void {
  examples(program.command('sign'), [
    'sluice sign release --key ~/.ssh/id_ed25519',
    'sluice sign release --key ~/.ssh/id_ed25519_sk.pub --as bob',
    'sluice sign release --key /etc/sluice/endpoints --endpoints',
  ])
    .summary('add a signature to a release')
    .description('Adds one signature over SHA256SUMS, made by ssh-keygen, and changes nothing else.')
    .argument('<DIR>', 'a release directory')
    .requiredOption(
      '--key <FILE>',
      'a private key, or a public key whose private key is in an agent or on a token',
      notEmpty,
    )
    .option('--as <NAME>', 'for an additional signer: writes SHA256SUMS.NAME.sig', label)
    .option('--endpoints', 'sign with a key that is restricted to endpoint updates')
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../sign/sign.ts')).signCommand(dir, options)));
}

function label(text: string): string {
  if (!/^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/.test(text))
    throw new InvalidArgumentError('Use lower-case letters, digits and dashes.');
  return text;
}

export function addVerify(program: Command): void {
  examples(program.command('verify'), [
    'sluice verify release --allowed-signers allowed_signers --threshold 2',
    "sluice verify release --allowed-signers allowed_signers -o json | jq '.signers'",
  ])
    .summary('check the signatures and digests of a release')
    .description('Checks a release as a node does: signatures, digests, release.yaml and the version of each node.')
    .argument('<DIR>', 'a release directory')
    .requiredOption(
      '--allowed-signers <FILE>',
      'the keys that may sign, in the format of ssh-keygen, read more strictly',
      notEmpty,
    )
    .option('--threshold <N>', 'the number of different principals that must have signed', upTo(99), 1)
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../verify/verify.ts')).verifyCommand(dir, options)));
}

export function addPack(program: Command): void {
  examples(program.command('pack'), [
    'sluice pack release --node node-a -o node-a.tar.zst',
    'sluice pack release --all -o release.tar.zst',
    'sluice pack release --node node-a --base release.old -o node-a.changes.tar.zst',
  ])
    .summary('pack a release into one file, for one node or all')
    .description(
      'Writes an archive of a release, or of the files that one node needs, for `sluiced import`. The same release gives the same bytes. Prints the digest.',
    )
    .argument('<DIR>', 'a release directory')
    .option('--node <NAME>', 'include only the files that this node needs', notEmpty)
    .addOption(new Option('--all', 'include the files of all nodes').conflicts('node'))
    .option('--base <DIR>', 'include only differences from this release, which the nodes already have', notEmpty)
    .addOption(pathOption('FILE', 'the archive, such as node-a.tar.zst; - for standard output'))
    .addOption(reportOption())
    .action(run(async (options, dir) => (await import('../pack/pack.ts')).packCommand(dir, options)));
}

export function addPush(program: Command): void {
  examples(program.command('push'), [
    'sluice push release registry.example.com/sluice/shop:42',
    'sluice push release oci:/srv/www/sluice:production             # for a web server or an object store',
  ])
    .summary('push a release to a registry, or an image layout')
    .description(
      'Pushes a release and its signatures to a container registry, with the credentials of the docker config, or writes them into an OCI image layout: static files, which hold the newest release of each tag and the one before. Prints the reference by digest.',
    )
    .argument('<DIR>', 'a release directory')
    .argument('<REF>', 'REGISTRY/REPOSITORY:TAG, or oci:DIR:TAG for an image layout')
    .addOption(plainHttpOption())
    .addOption(outputOption())
    .action(run(async (options, dir, ref) => (await import('../push/push.ts')).pushCommand(dir, ref, options)));
}

export function addPull(program: Command): void {
  examples(program.command('pull'), [
    'sluice pull registry.example.com/sluice/shop@"$DIGEST" -o release',
    'sluice pull registry.example.com/sluice/shop@"$DIGEST" --node node-a -o release',
    'sluice pull https://cdn.example.com/sluice@"$DIGEST" --node node-a -o release',
  ])
    .summary('pull a release from a registry or an image layout')
    .description('Pulls a release and its signatures by digest and writes a release directory.')
    .argument(
      '<REF>',
      'REGISTRY/REPOSITORY@sha256:DIGEST or oci:DIR@sha256:DIGEST, as `sluice push` prints it; or https://HOST/PATH@sha256:DIGEST',
    )
    .option('--node <NAME>', 'include only the files that this node needs', notEmpty)
    .addOption(plainHttpOption())
    .addOption(pathOption('DIR', 'the release directory'))
    .addOption(reportOption())
    .action(run(async (options, ref) => (await import('../pull/pull.ts')).pullCommand(ref, options)));
}

export function addPromote(program: Command): void {
  examples(program.command('promote'), [
    'sluice promote release --key ~/.ssh/waves                     # the first wave',
    'sluice promote release --receipts receipts --allowed-receipts allowed_receipts --key ~/.ssh/waves',
    'sluice promote release --from oci://registry.example.com/sluice/shop --allowed-receipts allowed_receipts --key ~/.ssh/waves',
    'sluice promote release --auto --after 15m --receipts receipts --allowed-receipts allowed_receipts --key ~/.ssh/waves -o json',
    'sluice promote release --close --key ~/.ssh/waves',
  ])
    .summary('open the next wave of a release, or close one')
    .description(
      'Opens the next wave once all nodes of the open waves have reported that they run the release and no node of a later wave has rejected it in a rehearsal. Otherwise prints the nodes and exits with 1. With a key, it first completes a promotion that was interrupted or unsigned. With --auto it exits with 1 only where an operator must look: a node that has failed, or waves that were closed. With --close nodes that have not begun do not begin; others keep the release.',
    )
    .argument('<DIR>', 'a release directory')
    .option('--receipts <DIR>', 'a folder of receipts; the first wave needs none', notEmpty)
    .addOption(fromOption().conflicts('receipts'))
    .addOption(plainHttpOption())
    .option('--allowed-receipts <FILE>', 'the key of each node: lines printed by `sluiced keygen`', notEmpty)
    .option(
      '--quorum <PERCENT>',
      'how many nodes of the open waves must report success; a single failure always stops',
      upTo(100),
      100,
    )
    .option('--accept-failing', 'go on although nodes were confirmed with probes that failed before the release, too')
    .option('--key <FILE>', 'the key to sign with, in namespace sluice-wave', notEmpty)
    .addOption(
      new Option('--close [WAVE]', 'close this wave again, and those after it; default: the last open one').conflicts([
        'receipts',
        'allowedReceipts',
        'acceptFailing',
        'auto',
        'after',
      ]),
    )
    .option('--auto', 'for a pipeline that runs now and then: what is not ready yet ends with 0')
    .addOption(
      new Option('--after <TIME>', 'how long after the youngest confirmation the wave opens, such as 15m or 24h')
        .argParser(seconds)
        .implies({ auto: true }),
    )
    .option('--dry-run', 'only report whether the wave can be opened or closed')
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../promote/promote.ts')).promoteCommand(dir, options)));
}

const secondsIn = { s: 1, m: 60, h: 3600 } as const;

function seconds(text: string): number {
  const [, digits, unit] = /^(\d{1,7})([smh])$/.exec(text) ?? [];
  const found = Number(digits ?? 0) * secondsIn[unit as keyof typeof secondsIn];
  if (!(found >= 1 && found <= 2_592_000))
    throw new InvalidArgumentError('Write a time from 1s to 720h, such as 90s, 15m or 24h.');
  return found;
}

/** Where nodes push their receipts: `receipts.push` of sluiced.yaml. */
const fromOption = (): Option =>
  new Option(
    '--from <STORE>',
    'the store that nodes push receipts to: oci://REGISTRY/REPOSITORY, https://HOST/PATH, git+https://HOST/PATH, git+ssh://HOST/PATH or a directory; asked for each node of the release',
  ).argParser(notEmpty);

export function addFleet(program: Command): void {
  examples(program.command('fleet'), [
    'sluice fleet receipts --allowed-receipts allowed_receipts --release release',
    'sluice fleet --from oci://registry.example.com/sluice/shop --allowed-receipts allowed_receipts --release release',
    'sluice fleet receipts --allowed-receipts allowed_receipts --parity parity/*.json',
    'sluice fleet receipts --allowed-receipts allowed_receipts -o html --out receipts/fleet.html',
  ])
    .summary('show the rollout state of every node')
    .description(
      'Reads receipts from a folder or a store, verifies the signatures of the nodes and compares the receipts with a release. Nodes are sorted by state, the worst first, then by name. The page (html) links each node to its receipt, relative to the folder of the page. Exits with 1 if a node is not in the desired state.',
    )
    .argument('[DIR]', 'a folder of receipts')
    .addOption(fromOption())
    .addOption(plainHttpOption())
    .requiredOption('--allowed-receipts <FILE>', 'the key of each node: lines printed by `sluiced keygen`', notEmpty)
    .option(
      '--parity <FILES...>',
      'results of `sluice parity -o json`, which say what nodes ran before they had a receipt; after DIR',
      collect,
    )
    .option('--release <DIR>', 'the release to compare with; default: the newest release in the receipts', notEmpty)
    .option(
      '--out <FILE>',
      'write to this file instead of standard output; without it, links in the page are relative to the current directory',
      notEmpty,
    )
    .addOption(outputOption('html'))
    .hook('preAction', (command) => {
      if ((command.args[0] === undefined) === (command.opts<{ from?: string }>().from === undefined))
        command.error('error: pass either a folder of receipts or --from');
    })
    .action(run(async (options, dir) => (await import('../fleet/fleet.ts')).fleetCommand(dir, options)));
}

export function addCertify(program: Command): void {
  examples(program.command('certify'), [
    'sluice parity node-a.observed release --node node-a -o json > node-a.json; sluice certify node-a.json --key ~/.ssh/parity',
    'sluice certify node-a.json --key ~/.ssh/parity --accept 3f2a91c04bd7e815 --by alice@example.com --hours 2',
  ])
    .summary('sign the result of `sluice parity`')
    .description(
      'Makes a parity certificate of the result of `sluice parity -o json` and signs it in namespace sluice-parity: NODE.parity.json and its signature NODE.parity.json.sig. A node with `requireParity: true` takes over from kube-proxy with a valid one alone. An incomplete result, or a difference that is not accepted, is not certified. Exit code 1 then.',
    )
    .argument('<FILE>', 'the result of `sluice parity -o json`; - for standard input')
    .requiredOption('--key <FILE>', 'the key to sign with', notEmpty)
    .option('--accept <ID>', 'the id of a difference that is accepted; may be repeated', collect)
    .option('--by <NAME>', 'who accepts the differences; required with --accept', notEmpty)
    .option('--hours <HOURS>', 'how long the certificate is valid, at most 24', upTo(24), 24)
    .option('--out <DIR>', 'the directory to write to', notEmpty, '.')
    .addOption(outputOption())
    .action(run(async (options, file) => (await import('../certify/certify.ts')).certifyCommand(file, options)));
}

export function addAdoptPlan(program: Command): void {
  examples(program.command('adopt-plan'), [
    'sluice adopt-plan parity/*.json',
    'kubectl get nodes -o json > nodes.json; sluice adopt-plan parity/*.json --nodes nodes.json --most 50 --waves waves.yaml',
    'sluice adopt-plan parity/*.json --nodes nodes.json --by topology.kubernetes.io/zone --by pool -o json',
  ])
    .summary('order the nodes of a fleet for the move from kube-proxy')
    .description(
      'Orders nodes into waves by what `sluice parity -o json` said of each: a canary of each group, then nodes without a difference, then those with documented differences of modes alone. Nodes that differ otherwise, or were not wholly compared, are in no wave and listed with the reason. Exit code 1 when there are any.',
    )
    .argument('<FILES...>', 'results of `sluice parity -o json`, one for each node')
    .option('--nodes <FILE>', 'the Nodes of the cluster, as `kubectl get nodes -o json` prints them', notEmpty)
    .option('--by <LABEL>', 'a label of Nodes that makes groups; may be repeated', collect)
    .option('--most <COUNT>', 'how many nodes a wave may have; larger ones are in parts', upTo(999_999))
    .option('--waves <FILE>', 'write the waves for `sluice release --wave` to this file', notEmpty)
    .addOption(outputOption())
    .action(
      run(async (options, files) => (await import('../adopt-plan/adopt-plan.ts')).adoptPlanCommand(files, options)),
    );
}
