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
