import { type Command, Option } from 'commander';

/** The values of `--log-level`, the most detailed first. `critical` entries are logged at every level. */
export const logLevels = ['debug', 'info', 'warning', 'error'] as const;
export type LogLevel = (typeof logLevels)[number];

export const logFormats = ['text', 'json'] as const;
export type LogFormat = (typeof logFormats)[number];

export interface LogSettings {
  readonly format: LogFormat;
  readonly level: LogLevel;
}

/**
 * The options of a command that runs unattended.
 * @param defaults undefined if a config has them
 */
export function withLog(command: Command, defaults?: LogSettings): Command {
  const over = defaults === undefined ? '; takes precedence over the config' : '';
  const format = new Option('--log-format <FORMAT>', `the form of the log${over}`).choices(logFormats);
  const level = new Option('--log-level <LEVEL>', `the least severity that is logged${over}`).choices(logLevels);
  if (defaults === undefined) return command.addOption(format).addOption(level);
  return command.addOption(format.default(defaults.format)).addOption(level.default(defaults.level));
}
