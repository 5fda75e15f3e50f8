import { examples, findingsOption, outputOption } from '@sluice/cli';
import { type Command, Option } from 'commander';
import { run } from '@sluice/renderer/commands/options/action.ts';
import { collect, notEmpty, upTo } from '@sluice/renderer/commands/options/values.ts';

/** The options and help of the verbs with which operators review a change. */

export function addDiff(program: Command): void {
  examples(
    program.command('diff'),
    [
      'sluice diff main:rendered rendered',
      'sluice diff origin/main:rendered HEAD:rendered -o markdown > comment.md',
      'sluice diff rendered.old rendered --raw',
      'KUBECTL_EXTERNAL_DIFF=integrations/kubectl-diff kubectl diff -f manifests/',
    ],
    'Exit codes: 0 equivalent; 1 different; 2 one of them cannot be read.',
  )
    .summary('show the changes between two bundles and their effect on traffic')
    .description('Compares two bundles by their effect: Services, endpoints, node ports and traffic changes.')
    .argument('<OLD>', 'a bundle directory, a Git revision of one (REV:PATH), or a directory of manifests')
    .argument('<NEW>', 'the same')
    .option('-c, --config <FILE>', 'with manifests: the SluiceConfig to render them with', notEmpty)
    .option('--base <SNAPSHOT>', 'with manifests: the base of both; may be repeated', collect)
    .addOption(outputOption('markdown', 'html'))
    .option('--raw', 'print a unified diff of the files instead')
    .action(run(async (options, old, updated) => (await import('../diff/diff.ts')).diffCommand(old, updated, options)));
}

export function addReport(program: Command): void {
  examples(
    program.command('report'),
    [
      'sluice report origin/main:rendered rendered -o html > report.html',
      'sluice report origin/main:rendered rendered -c sluice.yaml --what-if > report.html',
      'sluice report origin/main:rendered rendered -c sluice.yaml --summary > summary.md',
      'sluice report origin/main:rendered rendered -c sluice.yaml -o markdown --comment > comment.md',
    ],
    'Exit codes: 0 equivalent; 1 different; 2 one of them cannot be read.',
  )
    .summary('write a page or a comment on the changes between two bundles')
    .description(
      'Writes a self-contained page: what changes by severity, a drawing, the cluster by namespaces and zones, flows and rules; or text for a pull request.',
    )
    .argument('<OLD>', 'a bundle directory, or a Git revision of one (REV:PATH)')
    .argument('<NEW>', 'the same')
    .option('-c, --config <FILE>', 'the SluiceConfig; the report includes the results of its `policy`', notEmpty)
    .option('--today <DAY>', 'the date for checking the expiry of waivers, such as 2026-12-31', notEmpty)
    .option(
      '--what-if',
      'with the failures of single zones and nodes of the new bundle, as `sluice what-if` judges them',
    )
    .addOption(new Option('--summary', 'Markdown of at most 60 lines, by severity').conflicts(['comment', 'output']))
    .option('--comment', 'with markdown: at most 60,000 characters, with a count of omitted rows')
    .option('--report-url <URL>', 'with markdown: a link to the full report', notEmpty)
    .addOption(outputOption('html', 'markdown').default('html'))
    .action(
      run(async (options, old, updated) => (await import('../report/report.ts')).reportCommand(old, updated, options)),
    );
}

export function addPolicy(program: Command): void {
  examples(
    program.command('policy'),
    [
      'sluice policy rendered -c sluice.yaml --base origin/main:rendered',
      'sluice policy rendered -c sluice.yaml --base origin/main:rendered -o sarif > policy.sarif',
      'sluice policy rendered -c sluice.yaml -f manifests/ -f nodes.yaml',
      'sluice policy main:rendered --today 2027-01-01     # waivers that will have expired',
    ],
    'Exit codes: 0 passed; 1 an error that is not waived; 2 the bundle or the config cannot be read.',
  )
    .summary('check a bundle against the policy')
    .description(
      'Checks a bundle, or a change to it, for foreign addresses, open source ranges, lost endpoints, ' +
        'overlapping addresses, annotations without effect and ' +
        'single points of failure. `policy` in the config sets levels, limits and waivers; /usr/share/doc/sluice/policy.md lists the rules.',
    )
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option('--base <DIR>', 'the bundle that it replaces, for the rules about changes', notEmpty)
    .option(
      '-f, --filename <FILE|DIR|->',
      'the manifests or the snapshot that was rendered, for the rules about input; may be repeated',
      collect,
    )
    .option('-R, --recursive', 'read directories of -f recursively')
    .option('-c, --config <FILE>', 'the SluiceConfig with `policy`', notEmpty)
    .option('--strict', 'treat warnings as errors')
    .option('--today <DAY>', 'the date for checking the expiry of waivers, such as 2026-12-31', notEmpty)
    .addOption(findingsOption())
    .action(run(async (options, dir) => (await import('../policy/policy.ts')).policyCommand(dir, options)));
}

export function addProve(program: Command): void {
  examples(
    program.command('prove'),
    [
      'sluice prove rendered',
      'sluice prove main:rendered -o json',
      'sluice prove rendered -o junit > prove.xml',
      'sluice prove rendered --alike',
    ],
    'Exit codes: 0 proved; 1 a difference was found; 2 the bundle cannot be read.',
  )
    .summary('check that rules implement their Services')
    .description(
      'Traces packets from every source class to every address and port of every Service, on every kind of node, and checks ' +
        'that they reach the declared endpoints with the declared shares, or are rejected as the policies require. The base rules for ' +
        'established connections, marks and addresses are compared with those of kube-proxy. What a bundle does not say enough about, ' +
        'such as node ports of a node without an address, is named as not judged.',
    )
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option(
      '--alike',
      'instead, check that modes are equivalent, except for the documented differences, and that layouts flat and tree are',
    )
    .addOption(findingsOption())
    .action(run(async (options, dir) => (await import('../prove/prove.ts')).proveCommand(dir, options)));
}

export function addWhatIf(program: Command): void {
  examples(
    program.command('what-if'),
    [
      'sluice what-if rendered                             # every zone and node, the worst first',
      'sluice what-if rendered --without node=node-a',
      'sluice what-if rendered --without zone=z1 --without node=node-7   # both at once',
      'sluice what-if rendered --without endpoint=10.244.1.5:8080 -o json',
      'sluice what-if main:rendered -c sluice.yaml --share 60 --exit-code',
    ],
    'Exit codes: 0 done; 1 with --exit-code: a failure takes something from clients; 2 the bundle or the config cannot be read.',
  )
    .summary('list what a failed node, zone or endpoint takes from clients')
    .description(
      'Judges failures by what the Services of a bundle declare: which ports lose all endpoints, or those of some nodes (policy Local); ' +
        'which frontends no node answers for clients from outside; which zones lose the endpoints that hints gave them; ' +
        'which endpoint gets too large a share; which rules of the policy are broken then. ' +
        'An endpoint whose node or zone the bundle does not say survives their failures; the output counts them.',
    )
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option(
      '--without <KIND=NAME>',
      'what fails: node=NAME, zone=NAME or endpoint=ADDRESS[:PORT]; repeated: all at once; default: each zone and node in turn',
      collect,
    )
    .option('--endpoints', 'judge each endpoint in turn, too')
    .option('--share <PERCENT>', "the most of a port's connections that one endpoint may get", upTo(100))
    .option('-c, --config <FILE>', 'the SluiceConfig with `policy`: levels, waivers, survives.sharePercent', notEmpty)
    .option('--today <DAY>', 'the date for checking the expiry of waivers, such as 2026-12-31', notEmpty)
    .option('--exit-code', 'exit with 1 when a failure takes something from clients')
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../whatif/what-if.ts')).whatIfCommand(dir, options)));
}

export function addParity(program: Command): void {
  examples(
    program.command('parity'),
    [
      'ssh node-a sluiced observe -o - > node-a.json && sluice parity node-a.json rendered --node node-a',
      'sluice parity node-a.json main:rendered --node node-a -o json > parity.json',
      'sluice parity observed/node-a.json rendered --base main:rendered -o sarif > parity.sarif     # in a pull request',
    ],
    'Exit codes: 0 equivalent; 1 a difference; 2 not everything was compared, or a file cannot be read.',
  )
    .summary('compare the rules that a node runs with a bundle')
    .description(
      'Traces packets of every class of sources to every frontend of either side, through the rules that `sluiced observe` found on a ' +
        'node and through those of a bundle. Prints each difference with an example packet, its cause and what to do. Rules may be those ' +
        'of kube-proxy in any mode, of Sluice, or foreign ones; a rule that cannot be read is named.',
    )
    .argument('<OBSERVED>', 'a file of `sluiced observe`')
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option('--node <NAME>', 'the node in the bundle; default: the node that was observed', notEmpty)
    .option('--base <DIR>', 'leave out differences that this bundle has, too: those of a change remain', notEmpty)
    .addOption(findingsOption())
    .action(
      run(async (options, observed, dir) =>
        (await import('../parity/parity.ts')).parityCommand(observed, dir, options),
      ),
    );
}
