import { execa } from 'execa';
import { toolEnvironment } from '../../kernel/command.ts';
import { findTool } from '../../kernel/tools.ts';
import { limits } from '../../limits.ts';

/** Reports the state of the daemon to systemd. */
interface Notifier {
  readonly ready: () => void;
  readonly stop: () => void;
}

/**
 * Starts `systemd-notify` for each message, because Node has no datagram sockets in the file system; the unit has `NotifyAccess=all`.
 * @param environment with `NOTIFY_SOCKET` under systemd
 * @param alive checked before each watchdog message
 */
export function startNotifier(
  environment: Readonly<Record<string, string | undefined>>,
  alive: () => boolean,
): Notifier {
  const socket = environment['NOTIFY_SOCKET'];
  const file = findTool('systemd-notify');
  if (socket === undefined || file === undefined) return { ready: () => undefined, stop: () => undefined };
  const say = (word: string): void => {
    const env = { ...toolEnvironment, NOTIFY_SOCKET: socket };
    void execa(file, [word], { env, extendEnv: false, reject: false, timeout: limits.commandKillDelayMs });
  };
  const watchdogMs = Number(environment['WATCHDOG_USEC'] ?? 0) / 1000;
  const timer = watchdogMs > 0 ? setInterval(() => alive() && say('WATCHDOG=1'), watchdogMs / 2) : undefined;
  return { ready: () => say('READY=1'), stop: () => clearInterval(timer) };
}
