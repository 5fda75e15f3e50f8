import { execaSync } from 'execa';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { rehearsalSocket } from '../packages/applier/src/kernel/scratch/unit.ts';
import { limits } from '../packages/applier/src/limits.ts';

const folder = join(import.meta.dirname, '../packages/applier/systemd');
const daemons = ['sluiced.service', 'sluiced-boot.service'];
const rehearsal = 'sluiced-rehearse@.service';
const socket = 'sluiced-rehearse.socket';
const fetching = 'sluiced-fetch.service';
const units = [...daemons, rehearsal, fetching];
const textOf = (unit: string): string => readFileSync(join(folder, unit), 'utf8');
const analyze = '/usr/bin/systemd-analyze';
const whyNot = existsSync(analyze) ? '' : `${analyze} is missing: apt-get install systemd`;

describe.each(units)('%s', (unit) => {
  test('is exposed at most 2.1 as root with both rule stores', (context) => {
    if (whyNot !== '') return context.skip(whyNot);
    const run = execaSync(analyze, ['security', '--offline=true', '--no-pager', '--threshold=21', join(folder, unit)], {
      reject: false,
    });
    expect(run.stdout).toContain('Overall exposure level');
    expect(run.exitCode).toBe(0);
  });

  test('is valid for systemd', (context) => {
    if (whyNot !== '') return context.skip(whyNot);
    const directory = mkdtempSync(join(tmpdir(), 'sluice-unit-'));
    try {
      // The program is not installed on the build machine. Units name each other.
      for (const name of [...units, socket])
        writeFileSync(join(directory, name), textOf(name).replaceAll(/^ExecStart=\S+/gm, 'ExecStart=/bin/true'));
      const { exitCode, stderr } = execaSync(analyze, ['verify', '--man=no', join(directory, unit)], { reject: false });
      const ours = stderr.split('\n').filter((line) => line.includes(unit));
      expect({ exitCode, ours }).toEqual({ exitCode: 0, ours: [] });
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });

  test.each([
    ['tools end with the unit', /^KillMode=(control-group|mixed)$/m],
    ['it loads no modules', /^ProtectKernelModules=yes$/m],
    ['it creates no namespaces', /^RestrictNamespaces=yes$/m],
    ['Node starts although it asks for pkey_alloc', /^SystemCallErrorNumber=EPERM$/m],
  ])('%s', (_title, line) => {
    expect(textOf(unit)).toMatch(line);
  });
});

test.each(
  daemons.flatMap((unit) =>
    (
      [
        ['network sysctls can be written by %s', /^ReadWritePaths=.*-\/proc\/sys\/net/m],
        ['the kubelet comes after %s', /^Before=.*\bkubelet\.service\b/m],
      ] as const
    ).map(([title, line]) => [title.replace('%s', unit), unit, line] as const),
  ),
)('%s', (_title, unit, line) => {
  expect(textOf(unit)).toMatch(line);
});

test.each([
  ['it has no capability', /^CapabilityBoundingSet=$/m],
  ['it has a user of its own', /^User=sluice-fetch$/m],
  ['it cannot read the state', /^TemporaryFileSystem=\/var\/lib\/sluice:ro$/m],
  [
    'of the state it sees the receipts alone',
    /^(?![^]*^Bind[^]*^Bind)[^]*^BindReadOnlyPaths=\/var\/lib\/sluice\/receipts$/m,
  ],
  ['it cannot reach the kernel', /^RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6$/m],
  ['it writes into its own directory alone', /^ProtectSystem=strict$/m],
  ['what it starts ends with it', /^KillMode=control-group$/m],
  ['its memory is bounded', /^MemoryMax=1G$/m],
])('the fetch process: %s', (_title, line) => {
  expect(textOf(fetching)).toMatch(line);
  expect(textOf(fetching)).not.toMatch(/^(ReadWritePaths|BindPaths|AmbientCapabilities=.)/m);
});

test('systemd never gives up starting the daemon', () => {
  expect(textOf('sluiced.service')).toMatch(/^StartLimitIntervalSec=0$/m);
  expect(textOf('sluiced.service')).toMatch(/^Restart=always$/m);
});

describe('a rehearsal', () => {
  const seconds = Number(/^RuntimeMaxSec=(\d+)$/m.exec(textOf(rehearsal))?.[1]);

  test('is required by the daemon', () => {
    expect(textOf('sluiced.service')).not.toContain('--no-rehearse');
    expect(textOf('sluiced.service')).toMatch(/^Wants=sluiced-rehearse\.socket$/m);
  });

  test("keeps its socket in the daemon's runtime directory when the daemon ends", () => {
    expect(textOf(socket)).toContain(`\nListenStream=${rehearsalSocket}\n`);
    expect(textOf('sluiced.service')).toMatch(/^RuntimeDirectoryPreserve=yes$/m);
  });

  test("has the daemon's time-out", () => {
    expect(seconds * 1000).toBe(limits.rehearsalMs);
  });

  test.each([
    ['only root can request one', socket, /^SocketMode=0600$/m],
    ['each has a process of its own', socket, /^Accept=yes$/m],
    ['at most four run at a time', socket, /^MaxConnections=[1-4]$/m],
    ['no packet meets its rules', rehearsal, /^PrivateNetwork=yes$/m],
    ["it does not share the node's lock", rehearsal, /^TemporaryFileSystem=\/run:/m],
    ['it can read neither state nor keys', rehearsal, /^InaccessiblePaths=-\/var\/lib\/sluice -\/etc\/sluice$/m],
    ['it cannot write elsewhere', rehearsal, /^ProtectSystem=strict$/m],
    ['it has two capabilities', rehearsal, /^CapabilityBoundingSet=CAP_NET_ADMIN CAP_NET_RAW$/m],
    ['its memory is bounded', rehearsal, /^MemoryMax=1G$/m],
    ['its processes are bounded', rehearsal, /^TasksMax=\d+$/m],
    ['it reads only the request', rehearsal, /^StandardInput=socket$/m],
  ])('%s', (_title, unit, line) => {
    expect(textOf(unit)).toMatch(line);
    // Root of a user namespace cannot load large tables: test/nft/user-namespace.test.ts.
    expect(textOf(rehearsal)).not.toMatch(/^(ReadWritePaths|StateDirectory|BindPaths|PrivateUsers)=/m);
  });
});

test.each(['netfilter-persistent', 'iptables', 'nftables', 'ufw', 'firewalld'])(
  'rules are loaded at boot after %s, which flushes tables',
  (name) => {
    expect(readFileSync(join(folder, 'sluiced-boot.service'), 'utf8')).toMatch(
      new RegExp(`^After=.*\\b${name}\\.service`, 'm'),
    );
  },
);
