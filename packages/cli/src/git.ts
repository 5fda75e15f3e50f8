/** How git is started: always with the absolute path of the tool, and without a shell. */
export interface GitCall {
  readonly args: readonly string[];
  /** All of its environment where `extendEnv` is false. */
  readonly env: Readonly<Record<string, string>>;
  readonly extendEnv: boolean;
}

/** Wins over what the repository's config says. */
const quiet = ['core.fsmonitor=false', 'safe.bareRepository=explicit'];

/**
 * A call that reads objects of a repository whose config others may have written, so it must start nothing that this config names.
 * `rev-parse`, `ls-tree`, `cat-file` and `blame` of a revision run no hook, no filter, no fsmonitor and no pager. One way is left: an
 * object that a partial clone lacks is fetched, with the remote's `uploadpack` or `core.sshCommand`. git 2.44 knows GIT_NO_LAZY_FETCH;
 * before it, forbidding every protocol stops the fetch before anything is started.
 *
 * No config of the machine or a user is read, so no `safe.directory` there opens a repository of somebody else (git-config(1),
 * `safe.directory`).
 * @param safeDirectories repositories of others that the user's own config trusts
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
 * A call in a clone of the user's own, which commits, fetches and pushes as the user would: with the user's config, hooks and keys. A
 * remote that names a program (`ext::`) is not asked, and nobody is.
 * @param environment that of the process: what it says of protocols is kept
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
