export { columns } from './columns.ts';
export { shellCommands } from './commands.ts';
export { document, errorDocument } from './document.ts';
export { type ExitCode, exitCodes, exitLine } from './exit-codes.ts';
export { requestedFormat, type Format, formats, outputOption, outWords, pathOption, reportOption } from './format.ts';
export { readingGit, writingGit } from './git.ts';
export { type BatchObject, isRegular, objectsIn, readBatch, readTreeLines, type TreeLine } from './git-objects.ts';
export { examples, usageProblem } from './help.ts';
export { type LogFormat, logFormats, type LogLevel, logLevels, type LogSettings, withLog } from './log-options.ts';
export { isJournal, withPriorities } from './journal.ts';
export { escaped, printable } from './printable.ts';
export {
  version,
  versionCommand,
  versionLine,
  versionReport,
  versionWords,
} from './version.ts';
