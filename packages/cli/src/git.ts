/** The arguments and environment of a call of git. Callers start it by its absolute path, without a shell. */
export interface GitCall {
  readonly args: readonly string[];
  /** Its whole environment if `extendEnv` is false. */
  readonly env: Readonly<Record<string, string>>;
  readonly extendEnv: boolean;
}

/** Settings that take precedence over the repository's config. */
const quiet = ['core.fsmonitor=false', 'safe.bareRepository=explicit'];

/**
 * A call that reads objects of an untrusted repository, so it must not start programs that the repository's config names.
 * `rev-parse`, `ls-tree`, `cat-file` and `blame` of a revision run no hook, no filter, no fsmonitor and no pager. But an object that a
 * partial clone lacks is fetched, with the remote's `uploadpack` or `core.sshCommand`. git 2.44 has GIT_NO_LAZY_FETCH; in older
 * versions, forbidding every protocol stops the fetch before a program is started.
 *
 * No config of the machine or a user is read, so no `safe.directory` in these opens a repository of another user (git-config(1),
 * `safe.directory`).
 * @param safeDirectories repositories of other users that the user's own config trusts
 */
export function readingGit(
  directory: string,
  args: readonly string[],
  safeDirectories: readonly string[] = [],
): GitCall {
  const settings = [...quiet, 'core.hooksPath=/dev/null', ...safeDirectories.map((one) => `safe.directory=${one}`)];
  return {
    args: ['--no-pager', ...settings.flatMap((one) => ['-c', one]), '-C', directory, ...args],
    env: {
      LC_ALL: 'C',
      PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
      TZ: 'UTC',
      HOME: '/nonexistent',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: '/dev/null',
      GIT_NO_REPLACE_OBJECTS: '1',
      GIT_NO_LAZY_FETCH: '1',
      GIT_ALLOW_PROTOCOL: 'none',
      GIT_OPTIONAL_LOCKS: '0',
      GIT_TERMINAL_PROMPT: '0',
    },
    extendEnv: false,
  };
}

/** How a call reaches the remote. All paths are absolute; those of ssh have letters, digits and `/._-` only. */
export interface RemoteAccess {
  /** A file with certificates of authorities; default: those of the system. */
  readonly caFile?: string | undefined;
  readonly proxy?: string | undefined;
  /** A header with credentials, for one URL and what is below it. */
  readonly header?: { readonly url: string; readonly line: string } | undefined;
  /** Of a private key and of the keys of hosts. */
  readonly ssh?: { readonly file: string; readonly key?: string | undefined; readonly knownHosts: string } | undefined;
  /** `http` for a server of this machine. */
  readonly protocol: 'http' | 'https' | 'ssh';
}

/**
 * A call that exchanges objects with a remote which may be hostile, in a repository that no other user writes. No config of the machine or
 * a user is read, no hook, helper or prompt is started, redirects are not followed, other transports are disabled, and each object is
 * checked before it is kept. The header is in the environment: other users can read arguments.
 */
export function remoteGit(directory: string, args: readonly string[], access: RemoteAccess): GitCall {
  const { caFile, proxy, header, ssh, protocol } = access;
  const reading = readingGit(directory, args);
  const settings = [
    'core.fsmonitor=false',
    'core.hooksPath=/dev/null',
    'fetch.fsckObjects=true',
    'fetch.unpackLimit=1',
    'gc.auto=0',
    'maintenance.auto=false',
    'http.followRedirects=false',
    // Bytes per second, for so many seconds: a stalled transfer ends.
    'http.lowSpeedLimit=1024',
    'http.lowSpeedTime=30',
    'credential.helper=',
    ...(caFile === undefined ? [] : [`http.sslCAInfo=${caFile}`]),
    ...(proxy === undefined ? [] : [`http.proxy=${proxy}`]),
    ...(ssh === undefined ? [] : [`core.sshCommand=${sshCommand(ssh)}`]),
  ];
  return {
    ...reading,
    args: ['--no-pager', ...settings.flatMap((one) => ['-c', one]), '-C', directory, ...args],
    env: {
      ...reading.env,
      GIT_ALLOW_PROTOCOL: protocol,
      GIT_SSH_VARIANT: 'ssh',
      ...(header === undefined
        ? {}
        : {
            GIT_CONFIG_COUNT: '1',
            GIT_CONFIG_KEY_0: `http.${header.url}.extraHeader`,
            GIT_CONFIG_VALUE_0: header.line,
          }),
    },
  };
}

/** git gives it to a shell, so it consists of these words and paths alone. */
function sshCommand({ file, key, knownHosts }: NonNullable<RemoteAccess['ssh']>): string {
  const options = [
    'BatchMode=yes',
    'StrictHostKeyChecking=yes',
    `UserKnownHostsFile=${knownHosts}`,
    'IdentitiesOnly=yes',
  ];
  const identity = key === undefined ? 'IdentityFile=none' : `IdentityFile=${key}`;
  const words = [file, '-F', '/dev/null', ...[...options, identity].flatMap((one) => ['-o', one])];
  const unsafe = words.find((word) => !/^[a-zA-Z0-9/._=-]+$/.test(word));
  if (unsafe !== undefined) throw new RangeError(`${JSON.stringify(unsafe)} cannot be an argument of ssh`);
  return words.join(' ');
}

/**
 * A call that writes to the user's own clone: it commits, fetches and pushes with the user's config, hooks and keys. Remotes that name
 * a program (`ext::`) and prompts are disabled.
 * @param environment of the process; its GIT_ALLOW_PROTOCOL is kept
 */
export function writingGit(
  directory: string,
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): GitCall {
  return {
    args: ['--no-pager', '-c', 'core.fsmonitor=false', '-C', directory, ...args],
    env: {
      GIT_ALLOW_PROTOCOL: environment['GIT_ALLOW_PROTOCOL'] ?? 'file:git:http:https:ssh',
      GIT_TERMINAL_PROMPT: '0',
      GIT_EDITOR: 'true',
      LC_ALL: 'C',
    },
    extendEnv: true,
  };
}
